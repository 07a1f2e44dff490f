"""Stacks of matrices in JAX: exponentials, inverses, and matrices made of coordinates."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import expm

from quotax.trees import AnyArray


def spread(coordinates: AnyArray, place: np.ndarray, sign: np.ndarray) -> AnyArray:
    """The matrix of coordinates at given places with given signs: a gather, which JAX can transpose."""
    if not coordinates.shape[-1]:
        return jnp.zeros((*coordinates.shape[:-1], *place.shape), coordinates.dtype)
    return coordinates[..., place] * np.asarray(sign, coordinates.dtype)


def skew(coordinates: AnyArray, n: int) -> AnyArray:
    """The skew matrix with these entries above its diagonal."""
    place, sign = np.zeros((n, n), int), np.zeros((n, n), int)
    rows, columns = np.triu_indices(n, 1)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    sign[rows, columns], sign[columns, rows] = 1, -1
    return spread(coordinates, place, sign)


def above(array: AnyArray) -> AnyArray:
    """The transpose of `skew`: the entries above the diagonal less those below it."""
    rows, columns = np.triu_indices(array.shape[-1], 1)
    return array[..., rows, columns] - array[..., columns, rows]


def log_volume(n: int) -> float:
    r"""The logarithm of the volume of `O(n)` in coordinates of `skew`: twice the product of the spheres' volumes.

    $|O(n)| = 2 \prod_{k=2}^n |S^{k-1}|$ with $|S^{k-1}| = 2 \pi^{k/2} / \Gamma(k/2)$; of no directions one element.
    """
    spheres = sum(math.log(2) + k / 2 * math.log(math.pi) - math.lgamma(k / 2) for k in range(2, n + 1))
    return math.log(2) + spheres if n > 0 else 0.0


def exponential(xi: jax.Array) -> jax.Array:
    """The matrix exponential of every matrix in a stack."""
    return _each(expm, xi)


@jax.custom_jvp
def inverse(stack: jax.Array) -> jax.Array:
    """The inverse of every matrix in a stack."""
    return _each(_inverted, stack)


def _inverted(matrix: jax.Array) -> jax.Array:
    """By Gauss's elimination; NumPy's interface to it brings derivatives of its own, which are not wanted."""
    lu, _, order = jax.lax.linalg.lu(matrix)
    rows = jnp.eye(len(matrix), dtype=matrix.dtype)[order]
    below = jax.lax.linalg.triangular_solve(lu, rows, left_side=True, lower=True, unit_diagonal=True)
    return jax.lax.linalg.triangular_solve(lu, below, left_side=True, lower=False)


@inverse.defjvp
def _derivative_of_inverse(point: tuple[jax.Array], change: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    # As a product: the derivatives of a factorisation make most of the program of a geodesic.
    found = inverse(*point)
    return found, -(found @ change[0] @ found)


@functools.partial(jax.jit, static_argnums=0)  # called eagerly, a loop is compiled anew each time
def _each(function: Callable[[jax.Array], jax.Array], stack: jax.Array) -> jax.Array:
    # One after another: two batches in LAPACK at the same time can wait for each other for ever (jaxlib 0.10.2).
    if stack.ndim == 2:
        return function(stack)
    return jax.lax.map(function, stack.reshape(-1, *stack.shape[-2:])).reshape(stack.shape)

"""Decompositions of matrices, one matrix after another.

jaxlib's LAPACK kernels hand a batch to the CPU's thread pool and wait for it inside a thread of that pool: two batched
decompositions that XLA runs at the same time wait for each other for ever (jaxlib 0.10.2, two cores; seen with
eigenvalues, Cholesky and LU). A loop over single matrices does not, and costs the same.

They stay such a loop under `vmap`; what `each` differentiates does not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from quotax.trees import Tree


def eigh(stack: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eigenvalues and eigenvectors of every matrix in a stack of any number of axes; they have no derivative."""
    return _stacked(_eigh, stack)


def log_determinant(stack: jax.Array) -> jax.Array:
    """The logarithm of the size of every matrix's determinant; without a derivative."""
    return _stacked(_log_determinant, stack)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def each(function: Callable[[jax.Array], Tree], stack: jax.Array) -> Tree:
    """A decomposition of every matrix in a stack, one after another; with the function's derivatives."""
    return _stacked(_alone(function), stack)


@each.defjvp
def _derivative(
    function: Callable[[jax.Array], Tree], point: tuple[jax.Array], change: tuple[jax.Array]
) -> tuple[Tree, Tree]:
    # A rule for `vmap` has no derivative in reverse mode.
    return jax.jvp(functools.partial(_stacked, function), point, change)


@jax.custom_batching.sequential_vmap
def triangle(matrix: jax.Array) -> jax.Array:
    """The upper triangular `R` of `matrix = Q R`; without a derivative."""
    return jnp.linalg.qr(jax.lax.stop_gradient(matrix), mode="r")


@jax.custom_batching.sequential_vmap
def inverse_cholesky(matrix: jax.Array) -> jax.Array:
    """The inverse of Cholesky's factor, from the lower triangle; NaN where there is none, and without a derivative."""
    factor = jnp.linalg.cholesky(jax.lax.stop_gradient(matrix), symmetrize_input=False)
    return jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(matrix), dtype=matrix.dtype), lower=True)


def _stacked(function: Callable[[jax.Array], Tree], stack: jax.Array) -> Tree:
    if stack.ndim == 2:
        return function(stack)
    found = jax.lax.map(function, stack.reshape(-1, *stack.shape[-2:]))
    return jax.tree.map(lambda a: a.reshape(*stack.shape[:-2], *a.shape[1:]), found)


@functools.lru_cache(maxsize=64)
def _alone(function: Callable[[jax.Array], Tree]) -> Callable[[jax.Array], Tree]:
    # Of one argument: it would make arrays of the defaults of others.
    return jax.custom_batching.sequential_vmap(lambda matrix: function(matrix))


@jax.custom_batching.sequential_vmap
def _eigh(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    values, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(matrix))
    return values, vectors


@jax.custom_batching.sequential_vmap
def _log_determinant(matrix: jax.Array) -> jax.Array:
    return jnp.linalg.slogdet(jax.lax.stop_gradient(matrix))[1]

"""One action lowered to JAX: the finite action and its derivative at the identity, as programs of named arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import sympy as sp
from jax.core import Tracer

from quotax.artifacts import ArraySpec
from quotax.symmetry import Action, Arrays, Family, Programs, transformed, velocity
from quotax.symmetry.new_entries.onto_kernels import tolerance
from quotax.trees import AnyArray

Named = dict[str, jax.Array]


def lower_action(action: Action, specs: tuple[ArraySpec, ...], sizes: Mapping[str, int]) -> Family:
    """`action` at these sizes, in JAX: jit, vmap and grad apply; refused when the group cannot act on them."""
    action.group.check_sizes(sizes)
    return Family.of(action, specs, sizes, Programs(_act, _velocity))


@jax.custom_jvp
def _onto_kernel(matrix: jax.Array) -> jax.Array:
    r"""The projector onto the kernel of a matrix, zero where it has none."""
    _, values, right = jnp.linalg.svd(matrix)
    seen = jnp.zeros(len(right), matrix.dtype)
    seen = seen.at[: len(values)].set(values > tolerance(matrix) * jnp.max(values))
    return right.T @ ((1 - seen)[:, None] * right)


@_onto_kernel.defjvp
def _turned(point: tuple[jax.Array], change: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    # at a constant rank: d(A P) = 0 says that dP = -A^+ dA P on the kernel's complement
    onto = _onto_kernel(*point)
    slope = -jnp.linalg.pinv(point[0], rtol=tolerance(point[0])) @ change[0] @ onto
    return onto, slope + slope.T


def _projector(stack: jax.Array) -> jax.Array:
    """The projector onto the kernel of every matrix in a stack."""
    # one after another: LAPACK waits for itself where it is called for several at a time (jaxlib 0.10.2)
    blocks = stack.reshape(-1, *stack.shape[-2:])
    found = jax.lax.map(_onto_kernel, blocks) if len(blocks) > 1 else _onto_kernel(blocks[0])
    return found.reshape(*stack.shape[:-2], *found.shape[-2:])


JAX = Arrays(
    einsum=functools.partial(jnp.einsum, precision="highest"),
    constant=lambda value, like: jnp.asarray(float(value), like.dtype),
    functions={sp.exp: jnp.exp, sp.log: jnp.log},
    power=lambda base, exponent: base ** (int(exponent) if exponent.is_Integer else float(exponent)),
    eye=lambda n, like: jnp.eye(n, dtype=like.dtype),
    projector=lambda maps: _projector(jnp.concatenate(maps, axis=-2)),
    broadcast=jnp.broadcast_to,
    held=lambda values, like: jnp.asarray(values, like.dtype),
)
"""JAX as entries read it; constants take the dtype of the parameter that moves."""


def _program(
    function: Callable[[Family, Named, AnyArray], Named],
) -> Callable[[Family, Mapping[str, AnyArray], AnyArray], Named]:
    """One program for a caller who traces nothing: step by step it would be one for every product."""
    compiled = jax.jit(function, static_argnums=0)

    @functools.wraps(function)
    def run(family: Family, arrays: Mapping[str, AnyArray], element: AnyArray) -> Named:
        traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((arrays, element)))
        return (function if traced else compiled)(family, {n: jnp.asarray(a) for n, a in arrays.items()}, element)

    return run


@_program
def _moved(family: Family, arrays: Named, g: AnyArray) -> Named:
    inverse = family.group.inverse(g) if family.group.layout == "matrix" else None
    return transformed(family.action, family.specs, family.sizes, arrays, g, JAX, inverse)


@_program
def _velocity(family: Family, arrays: Named, xi: AnyArray) -> Named:
    return velocity(family.action, family.specs, family.sizes, arrays, xi, JAX)


def _act(family: Family, arrays: Mapping[str, AnyArray], g: AnyArray) -> Named:
    return {**arrays, **_moved(family, arrays, g)}

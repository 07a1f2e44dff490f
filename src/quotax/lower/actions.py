"""One action lowered to JAX: the finite action and its derivative at the identity, as programs of named arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import sympy as sp
from jax.core import Tracer

from quotax.artifacts import ArraySpec
from quotax.symmetry import Action, Arrays, Family, Programs, transformed, velocity

Named = dict[str, jax.Array]


def lower_action(action: Action, specs: tuple[ArraySpec, ...], sizes: Mapping[str, int]) -> Family:
    """`action` at these sizes, in JAX: jit, vmap and grad apply; refused when the group cannot act on them."""
    action.group.check_sizes(sizes)
    return Family.of(action, specs, sizes, Programs(_act, _velocity))


JAX = Arrays(
    einsum=functools.partial(jnp.einsum, precision="highest"),
    constant=lambda value, like: jnp.asarray(float(value), like.dtype),
    functions={sp.exp: jnp.exp, sp.log: jnp.log},
    power=lambda base, exponent: base ** (int(exponent) if exponent.is_Integer else float(exponent)),
    eye=lambda n, like: jnp.eye(n, dtype=like.dtype),
    broadcast=jnp.broadcast_to,
)
"""JAX as entries read it; constants take the dtype of the parameter that moves."""


def _program(function: Callable[[Family, Named, Any], Named]) -> Callable[[Family, Mapping[str, Any], Any], Named]:
    """One program for a caller who traces nothing: step by step it would be one for every product."""
    compiled = jax.jit(function, static_argnums=0)

    @functools.wraps(function)
    def run(family: Family, arrays: Mapping[str, Any], element: Any) -> Named:
        traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((arrays, element)))
        return (function if traced else compiled)(family, {n: jnp.asarray(a) for n, a in arrays.items()}, element)

    return run


@_program
def _moved(family: Family, arrays: Named, g: Any) -> Named:
    inverse = family.group.inverse(g) if family.group.layout == "matrix" else None
    return transformed(family.action, family.specs, family.sizes, arrays, g, JAX, inverse)


@_program
def _velocity(family: Family, arrays: Named, xi: Any) -> Named:
    return velocity(family.action, family.specs, family.sizes, arrays, xi, JAX)


def _act(family: Family, arrays: Mapping[str, Any], g: Any) -> Named:
    return {**arrays, **_moved(family, arrays, g)}

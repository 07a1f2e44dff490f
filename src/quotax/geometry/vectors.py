"""The vector space of named arrays: tangent vectors by parameter, algebra elements by family."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

Named = dict[str, jax.Array]
"""Arrays by name: of parameters, or, for algebra elements, of families."""


def dot(a: Mapping[str, jax.Array], b: Mapping[str, jax.Array]) -> jax.Array:
    """The sum of the products of all entries."""
    zero = jnp.zeros((), jnp.result_type(*a.values()))
    return sum((jnp.vdot(a[name], b[name], precision="highest") for name in a), start=zero)


def norm(a: Mapping[str, jax.Array]) -> jax.Array:
    """The Euclidean norm, with derivative zero at zero."""
    square = dot(a, a)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def add(a: Mapping[str, jax.Array], factor: jax.Array | float, b: Mapping[str, jax.Array]) -> Named:
    """`a + factor b`."""
    return {name: a[name] + factor * b[name] for name in a}


def ravel(v: Mapping[str, jax.Array]) -> jax.Array:
    """All entries in one vector, the arrays in the order of their names."""
    return jnp.concatenate([jnp.ravel(v[name]) for name in sorted(v)])


def unravel(like: Mapping[str, jax.Array], vector: jax.Array) -> Named:
    """The arrays of a vector that `ravel` made."""
    result, start = {}, 0
    for name in sorted(like):
        result[name] = vector[start : start + like[name].size].reshape(like[name].shape)
        start += like[name].size
    return result

"""The vector space of named arrays: tangent vectors by parameter, algebra elements by family."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping

import jax
import jax.numpy as jnp
from jax.core import Tracer

from quotax.trees import AnyArray, Tree

Named = dict[str, jax.Array]
"""Arrays by name: of parameters, or, for algebra elements, of families."""


def dot(a: Mapping[str, jax.Array], b: Mapping[str, jax.Array]) -> jax.Array:
    """The sum of the products of all entries."""
    return _sum((a[name], b[name]) for name in a)


def norm(a: Tree) -> jax.Array:
    """The Euclidean norm of a tree of arrays, with derivative zero at zero."""
    square = _sum((array, array) for array in jax.tree.leaves(a))
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def length(v: Named) -> jax.Array:
    """The Euclidean norm, of entries of any size; the norm of zero has gradient zero."""
    largest = functools.reduce(jnp.maximum, [jnp.max(jnp.abs(a), initial=0) for a in v.values()])
    scale = jax.lax.stop_gradient(jnp.where(largest > 0, largest, 1))
    scaled = {name: a / scale for name, a in v.items()}
    square = dot(scaled, scaled)
    return jnp.where(largest > 0, scale * jnp.sqrt(jnp.where(largest > 0, square, 1)), 0)


def add(a: Mapping[str, jax.Array], factor: jax.Array | float, b: Mapping[str, jax.Array]) -> Named:
    """`a + factor b`."""
    return {name: a[name] + factor * b[name] for name in a}


def ravel(v: Mapping[str, jax.Array], order: Iterable[str] | None = None) -> jax.Array:
    """All entries in one vector, the arrays in this order, or in that of their names."""
    return jnp.concatenate([jnp.ravel(v[name]) for name in (sorted(v) if order is None else order)])


def unravel(like: Mapping[str, AnyArray], vector: jax.Array, order: Iterable[str] | None = None) -> Named:
    """The arrays of a vector that `ravel` made, of the shapes of `like`, which may hold arrays or shapes."""
    result, start = {}, 0
    for name in sorted(like) if order is None else order:
        shape = getattr(like[name], "shape", like[name])
        stop = start + math.prod(shape)
        result[name], start = vector[start:stop].reshape(shape), stop
    return result


def _sum(pairs: Iterable[tuple[jax.Array, jax.Array]]) -> jax.Array:
    products = [jnp.vdot(x, y, precision="highest") for x, y in pairs]
    return sum(products[1:], start=products[0])


def traced(arrays: Mapping[str, AnyArray]) -> bool:
    """Whether something is traced: an array, or, as under `jit`, whatever is computed here."""
    return any(isinstance(array, Tracer) for array in (*arrays.values(), jnp.zeros(())))

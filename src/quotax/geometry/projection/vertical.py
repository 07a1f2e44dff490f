"""The vertical space: the velocities of all families together, and the orthogonal projection onto it.

With `V(xi)` the field of the algebra elements `xi`, the vertical part of `v` is `V(xi)` with `V^T V xi = V^T v`.
Families that move no common parameter have orthogonal fields, so there is one system for each component of families.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from quotax.geometry.families.component import Component
from quotax.geometry.families.renaming import skeleton
from quotax.geometry.linalg.named import Named, norm
from quotax.geometry.projection import rank, solver
from quotax.geometry.projection.solver import FactoredGram

Factors = tuple[FactoredGram, ...]


def factors_at(parts: tuple[Component, ...], arrays: Mapping[str, jax.Array]) -> Factors:
    """What every projection at these arrays shares."""
    return tuple(solver.factor(bare.part, bare.numbered(arrays)) for bare in map(skeleton, parts))


def vertical(
    parts: tuple[Component, ...], factors: Factors, arrays: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array]
) -> Named:
    """The vertical part of `vectors`; parameters that nothing moves get zeros."""
    result = {name: jnp.zeros_like(vector) for name, vector in vectors.items()}
    for bare, factor in zip(map(skeleton, parts), factors, strict=True):
        along = _vertical(bare.part, factor, bare.numbered(arrays), bare.numbered(vectors))
        result |= bare.named(along, bare.parameters)
    return result


def horizontal(
    parts: tuple[Component, ...], factors: Factors, arrays: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array]
) -> Named:
    """What is left of `vectors` without their vertical part; parameters that nothing moves are handed through."""
    result = dict(vectors)
    for bare, factor in zip(map(skeleton, parts), factors, strict=True):
        rest = _split(bare.part, factor, bare.numbered(arrays), bare.numbered(vectors))[1]
        result |= bare.named(rest, bare.parameters)
    return result


def left_vertical(
    parts: tuple[Component, ...], factors: Factors, arrays: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array]
) -> jax.Array:
    """The pairings of the horizontal part of `vectors` with all generators, relative to those of `vectors`."""
    found = [jnp.zeros((), jnp.result_type(*arrays.values()))]
    for bare, factor in zip(map(skeleton, parts), factors, strict=True):
        here, given = bare.numbered(arrays), bare.numbered(vectors)
        found.append(_left(bare.part, here, given, _split(bare.part, factor, here, given)[1]))
    return functools.reduce(jnp.maximum, found)


def coordinates(
    parts: tuple[Component, ...], factors: Factors, arrays: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array]
) -> Named:
    """The algebra element of every family whose fields add up to the vertical part; the least where several do."""
    result: Named = {}
    for bare, factor in zip(map(skeleton, parts), factors, strict=True):
        elements = _coordinates(bare.part, factor, bare.numbered(arrays), bare.numbered(vectors))
        result |= bare.named(elements, bare.families)
    return result


def dimensions(parts: tuple[Component, ...], arrays: Mapping[str, jax.Array]) -> list[jax.Array]:
    """For each part the dimension of its vertical space: how many directions its Gram operator does not kill."""
    return [rank.rank(bare.part, bare.numbered(arrays)) for bare in map(skeleton, parts)]


# Compiled for each component by itself, in numbered names: equal blocks of a network are compiled once.


_split = jax.jit(solver.split, static_argnums=0)


@functools.partial(jax.jit, static_argnums=0)
def _left(part: Component, arrays: Named, vectors: Named, rest: Named) -> jax.Array:
    whole, left = (norm(part.covelocity(arrays, v)) for v in (vectors, rest))
    return left / jnp.where(whole > 0, whole, 1)


@functools.partial(jax.jit, static_argnums=0)
def _coordinates(part: Component, factor: FactoredGram, arrays: Named, vectors: Named) -> Named:
    return solver.split(part, factor, arrays, vectors)[0]


@functools.partial(jax.jit, static_argnums=0)
def _vertical(part: Component, factor: FactoredGram, arrays: Named, vectors: Named) -> Named:
    rest = solver.split(part, factor, arrays, vectors)[1]
    return {name: vectors[name] - rest[name] for name in rest}

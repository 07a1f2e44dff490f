"""How far the Gram operators along a path are from losing rank: 1 at the start, 0 where another direction stops moving.

A path that crosses such a point leaves the manifold though nothing blows up: `u v` with `u = v` runs straight through
zero. The least eigenvalue vanishes to second order there, its root to first order.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.geometry.families.component import Component
from quotax.geometry.families.renaming import skeleton
from quotax.geometry.linalg import inverse_roots
from quotax.geometry.linalg.one_by_one import eigh
from quotax.geometry.projection import gram, one_family, solver
from quotax.trees import Tree

_WHOLE = 256
"""Components with at most this many coordinates are looked at as a whole, larger ones family by family.

The Gram matrix is singular where the block of a family is; of families that are coupled, the converse may fail.
"""


class Pencil(NamedTuple):
    """`basis^T gram basis = 1` at the start, for the directions that move there; the others come first, as zeros.

    Relative to the start every direction begins with 1, so that one which stops moving early is seen on its whole way.
    """

    basis: jax.Array
    still: jax.Array


class Weights(NamedTuple):
    """The inverse eigenvalues of a family's block, and its rank."""

    weights: jax.Array
    rank: jax.Array


def references(
    parts: tuple[Component, ...], factors: tuple[solver.FactoredGram, ...], arrays: Mapping[str, jax.Array]
) -> tuple[Tree, ...]:
    """What is compared with later, for every component."""
    return tuple(
        _blocks(part, arrays)
        if not _whole(part)
        else _held(factor.inverse)
        if solver.method(skeleton(part).part) == "dense"
        else _pencil(part, arrays)
        for part, factor in zip(parts, factors, strict=True)
    )


def gram_regularity(
    parts: tuple[Component, ...], references: tuple[Tree, ...], arrays: Mapping[str, jax.Array]
) -> jax.Array | None:
    """The root of the least eigenvalue that was not zero at the start, relative to the start; `None` of nothing."""
    found: list[jax.Array] = []
    for part, reference in zip(parts, references, strict=True):
        if _whole(part):
            found.append(_least(reference, _matrix(part, arrays)))
        else:
            found += [_ratio(*pair) for pair in zip(reference, _blocks(part, arrays), strict=True)]
    return functools.reduce(jnp.minimum, found) if found else None


def _whole(part: Component) -> bool:
    return part.dimension <= _WHOLE


def _matrix(part: Component, arrays: Mapping[str, jax.Array]) -> jax.Array:
    return gram.matrix(part, gram.data(part, arrays), arrays)


def _pencil(part: Component, arrays: Mapping[str, jax.Array]) -> Pencil:
    matrix = _matrix(part, arrays)
    diagonal = jnp.diagonal(matrix)
    scale = jax.lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1))
    values, vectors = eigh(matrix * scale[:, None] * scale[None, :])
    threshold = len(matrix) * jnp.finfo(matrix.dtype).eps * jnp.max(values, initial=0)
    weights = inverse_roots.reciprocal(values, threshold)
    return Pencil(scale[:, None] * vectors * jnp.sqrt(weights), jnp.sum(weights == 0))


def _held(root: jax.Array) -> Pencil:
    """From the root of the inverse, which is known; rows of zeros are directions that do not move."""
    return Pencil(root.T, jnp.sum(jnp.all(root == 0, 1)))


def _least(reference: Pencil, matrix: jax.Array) -> jax.Array:
    values, _ = eigh(reference.basis.T @ matrix @ reference.basis)
    place = jnp.minimum(reference.still, len(values) - 1)
    # Where nothing moves at the start there is nothing to lose.
    return jnp.where(reference.still < len(values), jnp.sqrt(jnp.maximum(values[place], 0)), 1)


def _blocks(part: Component, arrays: Mapping[str, jax.Array]) -> list[Weights]:
    held = gram.data(part, arrays)
    found = []
    for i in range(len(part.families)):
        block = one_family.block(part, i)
        inverse = one_family.invert(part, held, arrays, block) if block.kind in _SPECTRAL else None
        if inverse is not None and inverse.weights is not None and inverse.rank is not None:
            # The eigenvalues of numbers have their places; those of matrices are in order, and only the least counts.
            weights = inverse.weights if block.kind != "matrices" else jnp.max(inverse.weights)
            found.append(Weights(weights, inverse.rank))
    return found


_SPECTRAL = ("numbers", "pairs", "matrices")


def _ratio(before: Weights, now: Weights) -> jax.Array:
    alive = before.weights > 0
    worst = jnp.max(jnp.where(alive, now.weights / jnp.where(alive, before.weights, 1), 0), initial=0)
    # A weight is zero where its direction has stopped.
    ratio = jnp.where(worst > 0, jax.lax.rsqrt(jnp.where(worst > 0, worst, 1)), 1)
    return jnp.where(now.rank < before.rank, 0, ratio)

"""Families that share parameters and fit no other solver: half of them are eliminated, the others found by iteration.

Families whose own blocks have a closed form and that move no parameter in common are eliminated, the largest first:
every second layer's scalings, or all heads beside the gains of the norm that they read. What is left is

    S x = b - C A^-1 a,        S = B - C A^-1 C^T,

with `A` the blocks of the eliminated families, `B` the others' and `C` between them; `S` is only ever applied.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.geometry.families.component import Component
from quotax.geometry.linalg import iterative
from quotax.geometry.linalg.named import Named, add, ravel, unravel
from quotax.geometry.projection import gram, one_family

_MOST_DIRECTIONS = 32
_MOST_POLYNOMIAL = 12
"""Beyond so many products, conjugate gradients find out themselves when to stop."""


class Coupled(NamedTuple):
    """The inverses of all families' blocks, the directions in which they are not enough, and the products needed."""

    inverses: tuple[one_family.Inverse, ...]
    subspace: iterative.Subspace
    steps: jax.Array


@functools.lru_cache(maxsize=256)
def eliminated(part: Component) -> tuple[int, ...]:
    """The families that are eliminated."""
    pieces = gram.structure(part)
    if pieces is None:
        return ()
    tied = {(p.row, p.column) for p in pieces} | {(p.column, p.row) for p in pieces}
    chosen: list[int] = []
    for i in sorted(range(len(part.families)), key=lambda i: -part.families[i].dimension):
        if one_family.block(part, i).exact and not any((i, j) in tied for j in chosen):
            chosen.append(i)
    # One family always stays, so that there is something to solve.
    return tuple(sorted(chosen if len(chosen) < len(part.families) else chosen[:-1]))


def factor(part: Component, held: gram.Data, arrays: Mapping[str, jax.Array]) -> Coupled:
    """What all solutions at these arrays share."""
    inverses = tuple(
        one_family.invert(part, held, arrays, one_family.block(part, i)) for i in range(len(part.families))
    )
    system = _System(part, inverses, held, arrays)
    # What projections will ask for: the right-hand sides of tangent vectors.
    starts = jnp.stack([system.reduced(part.covelocity(arrays, _simple(part, arrays, seed)))[1] for seed in (1, 2)])
    moved = sum(array.size for array in arrays.values())
    most = max(2, min(_MOST_DIRECTIONS, system.size, moved // (4 * system.size)))
    subspace = iterative.deflate(system.apply, system.precondition, starts, most)
    goal = float(jnp.finfo(starts.dtype).eps) ** 0.85
    return Coupled(inverses, subspace, iterative.steps_needed(subspace.low, subspace.high, goal, _MOST_POLYNOMIAL))


def solve(part: Component, factored: Coupled, held: gram.Data, arrays: Mapping[str, jax.Array], right: Named) -> Named:
    """Algebra elements with `V^T V xi = right`, where right is in the range of `V^T`."""
    system = _System(part, factored.inverses, held, arrays)
    subspace = factored.subspace
    first, rest = system.reduced(right)
    x, rest = subspace.coarse(rest)
    precondition = lambda r: subspace.outside(system.precondition(r))
    x = x + jax.lax.cond(
        factored.steps <= _MOST_POLYNOMIAL,
        lambda r: iterative.chebyshev(system.apply, precondition, r, subspace.low, subspace.high, factored.steps),
        lambda r: iterative.conjugate_gradients(system.apply, precondition, r),
        rest,
    )
    others = system.named(x)
    return others | add(first, -1, system.invert(system.first, system.between(others, system.first)))


def _simple(part: Component, arrays: Mapping[str, jax.Array], seed: int) -> Named:
    """A random tangent vector, an outer product for every parameter, which costs nothing to draw or to hold."""

    def outer(array: jax.Array, key: jax.Array) -> jax.Array:
        total = jnp.ones((), array.dtype)
        for own, size in zip(jax.random.split(key, max(array.ndim, 1)), array.shape, strict=False):
            total = total[..., None] * jax.random.normal(own, (size,), array.dtype)
        return total

    keys = jax.random.split(jax.random.key(seed), len(part.moved))
    return {name: outer(arrays[name], key) for name, key in zip(part.moved, keys, strict=True)}


class _System:
    """The products with the blocks of the Gram operator: `first` are the families eliminated, `last` the others."""

    def __init__(
        self,
        part: Component,
        inverses: tuple[one_family.Inverse, ...],
        held: gram.Data,
        arrays: Mapping[str, jax.Array],
    ) -> None:
        self.part, self.held, self.arrays = part, held, arrays
        self.first = eliminated(part)
        self.last = tuple(i for i in range(len(part.families)) if i not in self.first)
        self.inverses = inverses
        self.shapes = {part.families[i].name: part.families[i].group.shape(part.families[i].sizes) for i in self.last}
        self.size = sum(math.prod(shape) for shape in self.shapes.values())

    def named(self, x: jax.Array) -> Named:
        """A flat vector as elements of the families that are left."""
        like = {name: jax.ShapeDtypeStruct(shape, x.dtype) for name, shape in self.shapes.items()}
        return unravel(like, x)

    def between(self, elements: Named, rows: tuple[int, ...]) -> Named:
        """The Gram operator's rows of these families, on elements of some families."""
        return gram.apply(self.part, self.held, self.arrays, elements, rows)

    def invert(self, families: tuple[int, ...], right: Named) -> Named:
        """Every family's own block inverted, in the algebras."""
        names = {i: self.part.families[i].name for i in families}
        return self.part.project({name: one_family.solve(self.inverses[i], right[name]) for i, name in names.items()})

    def reduced(self, right: Named) -> tuple[Named, jax.Array]:
        """The eliminated families' own answer, and what it leaves of the others' right-hand side."""
        first = self.invert(self.first, right)
        rest = {self.part.families[i].name: right[self.part.families[i].name] for i in self.last}
        return first, ravel(add(rest, -1, self.between(first, self.last)) if first else rest)

    def apply(self, x: jax.Array) -> jax.Array:
        """`S x`."""
        elements = self.named(x)
        image = self.between(elements, self.last)
        if not self.first:
            return ravel(image)
        back = self.invert(self.first, self.between(elements, self.first))
        return ravel(add(image, -1, self.between(back, self.last)))

    def precondition(self, x: jax.Array) -> jax.Array:
        """The inverses of the remaining families' own blocks."""
        return ravel(self.invert(self.last, self.named(x)))

"""Families that share parameters, as one: their algebras together, and the velocities along them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from quotax.geometry.families.labelled import apart
from quotax.geometry.families.splitting import shared
from quotax.geometry.families.velocities import Family, covelocities, velocities
from quotax.geometry.linalg.named import Named, unravel


@dataclass(frozen=True)
class Component:
    """Families that share parameters, directly or through one another.

    Compared by value, so that what is compiled for a component is found again. `field` uses flat coordinates;
    `velocity` and `covelocity` algebra elements by family, which is what the solvers work with.
    """

    families: tuple[Family, ...]

    @functools.cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The coordinates' shapes by family."""
        return {family.name: family.group.coordinate_shape(family.sizes) for family in self.families}

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return sum(family.dimension for family in self.families)

    @functools.cached_property
    def moved(self) -> tuple[str, ...]:
        """The parameters that any of the families moves."""
        return tuple(dict.fromkeys(name for family in self.families for name in family.moved))

    # --- flat coordinates

    def elements(self, coordinates: jax.Array) -> Named:
        """The algebra elements with these flat coordinates."""
        own = unravel(self.shapes, coordinates, self.shapes)
        return {f.name: f.group.algebra(own[f.name], f.sizes) for f in self.families}

    def flat(self, covectors: Mapping[str, jax.Array]) -> jax.Array:
        """The transpose of `elements`."""
        return jnp.concatenate([f.group.pairing(covectors[f.name]).ravel() for f in self.families])

    def field(self, arrays: Mapping[str, jax.Array], coordinates: jax.Array) -> Named:
        """The velocity of the moved parameters along flat coordinates."""
        return self.velocity(arrays, self.elements(coordinates))

    # --- algebra elements

    def velocity(self, arrays: Mapping[str, jax.Array], elements: Mapping[str, jax.Array]) -> Named:
        """The velocity of the moved parameters along algebra elements."""
        total: Named = {}
        for family in self.families:
            for name, value in velocities(family, arrays, elements[family.name]).items():
                total[name] = total[name] + value if name in total else value
        return total

    def covelocity(self, arrays: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array]) -> Named:
        """The transpose of `velocity`, projected onto the algebras."""
        return self.project(self._covelocities(arrays, vectors))

    def _covelocities(self, arrays: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array]) -> Named:
        total: Named = {}
        read: set[str] = set()
        split = shared(self.families, arrays)
        for family in self.families:
            if not read.isdisjoint(family.moved):
                total, arrays, vectors = apart(total, arrays, vectors)
                read.clear()
            total[family.name] = covelocities(family, arrays, vectors, split)
            read.update(family.moved)
        return total

    def project(self, arrays: Mapping[str, jax.Array]) -> Named:
        """The algebra elements nearest to arrays of their shapes (the skew part of a matrix, for rotations)."""
        return {f.name: f.group.nearest(arrays[f.name], f.sizes) for f in self.families if f.name in arrays}


def components(families: Sequence[Family]) -> tuple[Component, ...]:
    """The continuous families, grouped by the parameters they share."""
    groups: list[list[Family]] = []
    for family in families:
        if family.dimension == 0:
            continue
        touching = [g for g in groups if any(set(family.moved) & set(other.moved) for other in g)]
        groups = [g for g in groups if g not in touching] + [[*(f for g in touching for f in g), family]]
    return tuple(Component(tuple(group)) for group in groups)

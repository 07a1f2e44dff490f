"""Families that share parameters, and the linear map from their algebras to the velocities of the parameters."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from quotax.artifacts import ArraySpec
from quotax.geometry.families.labelled import apart, covelocity, label_sizes, velocity
from quotax.geometry.linalg.named import Named
from quotax.symmetry import Action, Group, Term


class Family(Protocol):
    """A lowered symmetry, as the geometry uses it."""

    @property
    def name(self) -> str:
        """A name unique among the families."""
        ...

    @property
    def action(self) -> Action:
        """The action as the user wrote it, bound to the parameters."""
        ...

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """The parameters' axes."""
        ...

    @property
    def group(self) -> Group:
        """The group."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """The axis sizes."""
        ...

    @property
    def moved(self) -> tuple[str, ...]:
        """The parameters it moves."""
        ...

    @property
    def dimension(self) -> int:
        """The dimension of its algebra."""
        ...

    @property
    def terms(self) -> tuple[Term, ...] | None:
        """The bilinear terms of its field, or nothing when the field has another form."""
        ...

    @property
    def splits(self) -> Mapping[str, tuple[int, ...]]:
        """The parameters' shapes as `terms` index them, fused axes apart."""
        ...

    def act(self, arrays: Mapping[str, Any], g: Any) -> Named:
        """The finite action."""
        ...

    def field(self, arrays: Mapping[str, Any], xi: Any) -> Named:
        """The velocity along an algebra element."""
        ...


def velocities(family: Family, arrays: Mapping[str, jax.Array], xi: jax.Array) -> Named:
    """The field of one family along an algebra element, from its terms where it has them."""
    if family.terms is None:
        return family.field(arrays, xi)
    total: Named = {}
    for term in family.terms:
        sizes = label_sizes(term, xi.shape, family.splits)
        value = velocity(term, split(family, arrays, term.source), xi, sizes)
        total[term.target] = total[term.target] + value if term.target in total else value
    return {name: value.reshape(arrays[name].shape) for name, value in total.items()}


def covelocities(family: Family, arrays: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array]) -> jax.Array:
    """The transpose of `velocities`, as a covector on arrays of the algebra's shape."""
    shape = family.group.shape(family.sizes)
    dtype = jnp.result_type(*arrays.values())
    if family.terms is None:
        transpose = jax.linear_transpose(lambda xi: family.field(arrays, xi), jax.ShapeDtypeStruct(shape, dtype))
        return transpose({name: vectors[name] for name in family.moved})[0]
    total = jnp.zeros(shape, dtype)
    for term in family.terms:
        sizes = label_sizes(term, shape, family.splits)
        vector = vectors[term.target].reshape(family.splits[term.target])
        total = total + covelocity(term, split(family, arrays, term.source), vector, sizes)
    return total


def split(family: Family, arrays: Mapping[str, jax.Array], name: str | None) -> jax.Array | None:
    """A parameter with its fused axes apart."""
    return None if name is None else arrays[name].reshape(family.splits[name])


@dataclass(frozen=True, eq=False)
class Component:
    """Families that share parameters, directly or through one another.

    Compared by identity, so that what is compiled for a component is found again. `field` and `adjoint` use flat
    coordinates; `velocity` and `covelocity` algebra elements by family, which is what the solvers work with.
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
        result: Named = {}
        start = 0
        for family in self.families:
            shape = self.shapes[family.name]
            own = coordinates[start : start + math.prod(shape)].reshape(shape)
            result[family.name] = family.group.algebra(own, family.sizes)
            start += math.prod(shape)
        return result

    def flat(self, covectors: Mapping[str, jax.Array]) -> jax.Array:
        """The transpose of `elements`."""
        return jnp.concatenate([f.group.pairing(covectors[f.name]).ravel() for f in self.families])

    def field(self, arrays: Mapping[str, jax.Array], coordinates: jax.Array) -> Named:
        """The velocity of the moved parameters along flat coordinates."""
        return self.velocity(arrays, self.elements(coordinates))

    def adjoint(self, arrays: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array]) -> jax.Array:
        """The flat coordinates `V^T v`."""
        return self.flat(self._covelocities(arrays, vectors))

    def gram(self, arrays: Mapping[str, jax.Array]) -> jax.Array:
        """The matrix `V^T V` in flat coordinates."""
        from quotax.geometry.projection import gram

        return gram.matrix(self, gram.data(self, arrays), arrays)

    def factor(self, arrays: Mapping[str, jax.Array]) -> Any:
        """What solutions at these arrays share."""
        from quotax.geometry.projection import solver

        return solver.factor(self, arrays)

    def solve(self, arrays: Mapping[str, jax.Array], factor: Any, right: jax.Array) -> jax.Array:
        """Flat coordinates with `V^T V c = right`, of minimum norm where they are not unique."""
        from quotax.geometry.projection import solver

        return solver.solve_flat(self, factor, arrays, right)

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
        for family in self.families:
            if not read.isdisjoint(family.moved):
                total, arrays, vectors = apart(total, arrays, vectors)
                read.clear()
            total[family.name] = covelocities(family, arrays, vectors)
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

"""The vertical space: the velocities of all families together, its Gram operator and the orthogonal projection.

With `V(c)` the field of the algebra coordinates `c`, the vertical part of `v` is `V(c)` with `V^T V c = V^T v`.
Families that move no common parameter have orthogonal fields, so the Gram matrix splits into one block per connected
component of families.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from quotax.symmetry import Group

Named = dict[str, jax.Array]

_DENSE_LIMIT = 1024
"""Components with at most this many coordinates get a factored Gram matrix, larger ones conjugate gradients."""

_PASSES = 3
"""A projection in floating point is repeated on what it left: each pass divides the vertical rest by `eps * cond`."""


class Family(Protocol):
    """A lowered symmetry, as the geometry uses it."""

    @property
    def name(self) -> str:
        """A name unique among the families."""
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

    def act(self, arrays: Mapping[str, Any], g: Any) -> Named:
        """The finite action."""
        ...

    def field(self, arrays: Mapping[str, Any], xi: Any) -> Named:
        """The velocity along an algebra element."""
        ...


class Spectrum(NamedTuple):
    """The eigen-decomposition of a component's Gram matrix, scaled to a unit diagonal.

    `gram = diag(scale) vectors diag(values) vectors^T diag(scale)`.
    """

    gram: jax.Array
    scale: jax.Array
    values: jax.Array
    vectors: jax.Array


@dataclass(frozen=True, eq=False)
class Component:
    """Families that share parameters, directly or through one another.

    Compared by identity, so that what is compiled for a component is found again.
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

    @property
    def moved(self) -> tuple[str, ...]:
        """The parameters that any of the families moves."""
        return tuple(dict.fromkeys(name for family in self.families for name in family.moved))

    @property
    def dense(self) -> bool:
        """Whether the Gram matrix is factored."""
        return self.dimension <= _DENSE_LIMIT

    def field(self, arrays: Mapping[str, jax.Array], coordinates: jax.Array) -> Named:
        """The velocity of the moved parameters along flat coordinates."""
        total: Named = {}
        start = 0
        for family in self.families:
            shape = self.shapes[family.name]
            own = coordinates[start : start + math.prod(shape)].reshape(shape)
            start += math.prod(shape)
            for name, value in family.field(arrays, family.group.algebra(own, family.sizes)).items():
                total[name] = total[name] + value if name in total else value
        return total

    def adjoint(self, arrays: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array]) -> jax.Array:
        """The flat coordinates `V^T v`."""
        like = jax.ShapeDtypeStruct((self.dimension,), jnp.result_type(*arrays.values()))
        transpose = jax.linear_transpose(lambda c: self.field(arrays, c), like)
        return transpose({name: vectors[name] for name in self.moved})[0]

    def gram(self, arrays: Mapping[str, jax.Array]) -> jax.Array:
        """The matrix `V^T V`, a batch of columns at a time."""
        basis = jnp.eye(self.dimension, dtype=jnp.result_type(*arrays.values()))
        size = sum(arrays[name].size for name in self.moved)
        batch = max(1, min(self.dimension, 2**24 // max(size, 1)))
        return jax.lax.map(lambda c: self.adjoint(arrays, self.field(arrays, c)), basis, batch_size=batch)

    def factor(self, arrays: Mapping[str, jax.Array]) -> Spectrum | None:
        """The spectrum of the Gram matrix, or nothing where conjugate gradients serve."""
        if not self.dense:
            return None
        gram = self.gram(arrays)
        diagonal = jax.lax.stop_gradient(jnp.diagonal(gram))
        scale = jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1))
        scaled = gram / (scale[:, None] * scale[None, :])
        # Only the solution of the linear system is differentiated, below, and never the eigenvectors, whose
        # derivative does not exist where eigenvalues meet.
        values, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(scaled))
        return Spectrum(gram, scale, values, vectors)

    def solve(self, arrays: Mapping[str, jax.Array], spectrum: Spectrum | None, right: jax.Array) -> jax.Array:
        """Coordinates with `V^T V c = right`, of minimum norm (in the scaled coordinates) where they are not unique."""
        if spectrum is None:
            matvec = lambda c: self.adjoint(arrays, self.field(arrays, c))  # noqa: E731 - an operator, used once
            return jax.scipy.sparse.linalg.cg(matvec, right, tol=_epsilon(right), maxiter=200)[0]
        # Directions that do not move (stabilisers, dead units) have an eigenvalue at rounding level. A ridge at
        # that level leaves them alone; the passes of the projection remove what it costs the others.
        ridge = 2 * self.dimension * _epsilon(right) * jnp.max(spectrum.values, initial=0)
        weights = 1 / (jnp.maximum(spectrum.values, 0) + jnp.where(ridge > 0, ridge, 1))

        def solve(_: Any, b: jax.Array) -> jax.Array:
            return spectrum.vectors @ (weights * (spectrum.vectors.T @ (b / spectrum.scale))) / spectrum.scale

        return jax.lax.custom_linear_solve(lambda c: spectrum.gram @ c, right, solve, symmetric=True)


def components(families: Sequence[Family]) -> tuple[Component, ...]:
    """The continuous families, grouped by the parameters they share."""
    groups: list[list[Family]] = []
    for family in families:
        if family.dimension == 0:
            continue
        touching = [g for g in groups if any(set(family.moved) & set(other.moved) for other in g)]
        groups = [g for g in groups if g not in touching] + [[*(f for g in touching for f in g), family]]
    return tuple(Component(tuple(group)) for group in groups)


Factors = tuple[Spectrum | None, ...]


@functools.partial(jax.jit, static_argnums=0)
def factors_at(parts: tuple[Component, ...], arrays: Mapping[str, jax.Array]) -> Factors:
    """What every projection at these arrays shares."""
    return tuple(part.factor(arrays) for part in parts)


@functools.partial(jax.jit, static_argnums=0)
def vertical(
    parts: tuple[Component, ...], factors: Factors, arrays: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array]
) -> Named:
    """The vertical part of `vectors`; parameters that nothing moves get zeros."""
    result = {name: jnp.zeros_like(vector) for name, vector in vectors.items()}
    for part, factor in zip(parts, factors, strict=True):
        rest = {name: vectors[name] for name in part.moved}
        coordinates = jnp.zeros(part.dimension, jnp.result_type(*arrays.values()))
        for _ in range(_PASSES):
            step = part.solve(arrays, factor, part.adjoint(arrays, rest))
            coordinates = coordinates + step
            moved = part.field(arrays, step)
            rest = {name: rest[name] - moved[name] for name in rest}
        for name in part.moved:
            result[name] = vectors[name] - rest[name]
    return result


@functools.partial(jax.jit, static_argnums=0)
def rank(parts: tuple[Component, ...], arrays: Mapping[str, jax.Array]) -> jax.Array:
    """The dimension of the vertical space at these (float64) arrays: Gram eigenvalues above rounding."""
    total = jnp.zeros((), int)
    for part in parts:
        gram = part.gram(arrays)
        scale = jnp.sqrt(jnp.where(jnp.diagonal(gram) > 0, jnp.diagonal(gram), 1))
        values = jnp.linalg.eigvalsh(gram / (scale[:, None] * scale[None, :]))
        total += jnp.sum(values > 1e-10 * jnp.max(values, initial=0))
    return total


def _epsilon(array: jax.Array) -> float:
    return float(jnp.finfo(array.dtype).eps)

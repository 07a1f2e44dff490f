r"""Metrics on the parameters, each as a whitening: a linear map `A` at every point with `<u, v> = (A u) . (A v)`.

Everything follows from it: the inverse of the metric is $A^{-1} A^{-T}$, a standard normal vector of the metric is
$A^{-1}$ of an ordinary one, and the projection onto the orbit is the Euclidean one between the images.

- `Euclidean`: `A = 1`. Invariant under orthogonal actions and shifts only.
- `MovingFrame`: `A` is the derivative of the action of `r(theta)`, the element that leads to the canonical
  representative. `r(g . theta) g = k r(theta)` with `k` orthogonal, so every family acts by isometries.
- `Dense`: any inner product, by the Cholesky factor of its matrix.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from quotax.compiling import once
from quotax.geometry.canonical.gauge import Canonical, Gauge, act, inverses, shift_to_slice
from quotax.geometry.canonical.orientation import Orientation, orientation
from quotax.geometry.curvature.riemann import Riemannian, flat_sectional, flat_tensor, from_inner, sectional, tensor
from quotax.geometry.families.component import Component, Family, components
from quotax.geometry.families.renaming import skeleton
from quotax.geometry.families.roles import Restricted, is_linear, is_shift
from quotax.geometry.footing import Leading
from quotax.geometry.linalg.named import Named, dot, length, norm, ravel, unravel
from quotax.geometry.paths.geodesic_equations import hamiltonian, kempf_ness, reach
from quotax.geometry.paths.path import Path, moved, straight
from quotax.geometry.projection.vertical import factors_at, horizontal, left_vertical, vertical
from quotax.trees import nest


class Oriented(NamedTuple):
    """Data whose whitening follows the group, up to rounding over `margin`; `loose` are families it does not follow."""

    data: Any
    margin: jax.Array
    loose: Mapping[str, str]


@functools.partial(jax.jit, static_argnums=(0, 1))
def compiled(metric: Metric, operation: str, data: Any, arrays: Named, *vectors: Named) -> Any:
    """One of a metric's operations as one program."""
    return getattr(metric, operation)(data, arrays, *vectors)


@once
def seldom(operation: tuple[Metric, str], data: Any, arrays: Named, *vectors: Named) -> Any:
    """One of a metric's operations that is asked for once at a point."""
    metric, name = operation
    return getattr(metric, name)(data, arrays, *vectors)


@jax.jit
def _less(v: Named, along: Named) -> Named:
    return {name: v[name] - along[name] for name in v}


class Metric(abc.ABC):
    """A metric; compared by identity, so that what is compiled for it is found again.

    `data` is what `prepare` computes once at a base point.
    """

    name: str
    parts: tuple[Component, ...]
    euclidean: bool = False

    @abc.abstractmethod
    def prepare(self, arrays: Named) -> Any:
        """Everything at a base point that its tangent vectors share."""

    @abc.abstractmethod
    def whiten(self, data: Any, arrays: Named, v: Named) -> Named:
        """`A v`."""

    @abc.abstractmethod
    def unwhiten(self, data: Any, arrays: Named, e: Named) -> Named:
        """`A^-1 e`."""

    @abc.abstractmethod
    def vertical(self, data: Any, arrays: Named, v: Named) -> Named:
        """The part of `v` along the orbit, orthogonal in the metric to the rest."""

    def horizontal(self, data: Any, arrays: Named, v: Named) -> Named:
        """What is left of `v` without its vertical part."""
        return _less(v, self.vertical(data, arrays, v))

    def level(self, data: Any, arrays: Named, e: Named) -> Named:
        """The horizontal part in whitened coordinates: of `unwhiten(e)`, whitened."""
        return self.whiten(data, arrays, self.horizontal(data, arrays, self.unwhiten(data, arrays, e)))

    def oriented(self, data: Any) -> Oriented | None:
        """`data` with a whitening that follows the group: `A` at `g . theta` is `A` at `theta` after `g^-1`."""
        return None

    def leading(self, data: Any) -> Leading | None:
        """The element that leads to a canonical representative, where the metric is made with one."""
        return None

    def verticality(self, data: Any, arrays: Named, v: Named) -> jax.Array:
        """How much of the vertical part of `v` is left in its horizontal one: what a second projection still finds."""
        one = self.vertical(data, arrays, v)
        two = self.vertical(data, arrays, {name: v[name] - one[name] for name in v})
        first, second = (norm(self.whiten(data, arrays, w)) for w in (one, two))
        return jnp.where(first > 0, second / jnp.where(first > 0, first, 1), 0)

    def path(self, data: Any, arrays: Named, v: Named, *, forward: bool = False) -> Path:
        """The geodesic from `arrays` along `v`; by Hamilton's equations where nothing better is known.

        The solution of an equation has derivatives in reverse mode, or `forward` ones.
        """
        return hamiltonian(self._sharp_at, arrays, v, self.flat(data, arrays, v), forward=forward)

    def ray(self, data: Any, arrays: Named, e: Named) -> Path:
        """The geodesic of the horizontal vector `A^-1 e`."""
        return self.path(data, arrays, self.unwhiten(data, arrays, e))

    def reach(self, data: Any, arrays: Named) -> jax.Array:
        """A length within which no horizontal geodesic leaves its domain; zero where nothing is known."""
        return jnp.zeros((), jnp.result_type(*arrays.values()))

    @property
    def bends_along_orbits(self) -> bool:
        """Whether the acceleration of every horizontal geodesic is known to be vertical."""
        return False

    def share_along(self, data: Any, arrays: Named, covector: Named) -> jax.Array:
        """How much of a covector lies along the orbit."""
        lifted = jax.linear_transpose(lambda e: self.unwhiten(data, arrays, e), covector)(covector)[0]
        whole, left = norm(lifted), norm(_less(lifted, self.level(data, arrays, lifted)))
        return left / jnp.where(whole > 0, whole, 1)

    def _sharp_at(self, arrays: Named, covector: Named) -> Named:
        return self.sharp(self.prepare(arrays), arrays, covector)

    @functools.cached_property
    def _riemannian(self) -> Riemannian:
        return from_inner(lambda arrays, u, v: self.inner(self.prepare(arrays), arrays, u, v), self.parts)

    def curvature(self, data: Any, arrays: Named, x: Named, y: Named, z: Named) -> Named:
        """`R(x, y) z` of the quotient, by derivatives of the metric."""
        return tensor(self._riemannian, arrays, x, y, z)

    def sectional(self, data: Any, arrays: Named, x: Named, y: Named) -> jax.Array:
        """The sectional curvature of the quotient, by derivatives of the metric."""
        return sectional(self._riemannian, arrays, x, y)

    def inner(self, data: Any, arrays: Named, u: Named, v: Named) -> jax.Array:
        """The inner product of two tangent vectors."""
        return dot(self.whiten(data, arrays, u), self.whiten(data, arrays, v))

    def norm(self, data: Any, arrays: Named, v: Named) -> jax.Array:
        """The length of a tangent vector."""
        return length(self.whiten(data, arrays, v))

    def geodesic(self, data: Any, arrays: Named, v: Named) -> Path:
        """The geodesic along the horizontal part of `v`."""
        return self.path(data, arrays, self.horizontal(data, arrays, v))

    @functools.cached_property
    def alike(self) -> bool:
        """Whether blocks of the network are alike, so that a program for one of them serves others."""
        return len({skeleton(part).part for part in self.parts}) < len(self.parts)

    def flat(self, data: Any, arrays: Named, v: Named) -> Named:
        """The covector of a tangent vector, `A^T A v`."""
        apply = lambda w: self.whiten(data, arrays, w)
        return jax.linear_transpose(apply, v)(apply(v))[0]

    def sharp(self, data: Any, arrays: Named, covector: Named) -> Named:
        """The tangent vector of a covector, `A^-1 A^-T c`: the gradient of what has the derivative `c`."""
        apply = lambda e: self.unwhiten(data, arrays, e)
        return apply(jax.linear_transpose(apply, covector)(covector)[0])


class Euclidean(Metric):
    """The sum of the products of all entries."""

    name = "euclidean"
    euclidean = True

    def __init__(self, families: Sequence[Family]) -> None:
        """Group the families by the parameters they share."""
        self.parts = components(families)
        self.families = tuple(families)

    def oriented(self, data: Any) -> Oriented:
        """The parameters' own coordinates follow what shifts them; they stay where others turn the parameters."""
        turning = orientation(self.families)
        why = "it turns the parameters' own coordinates, which those of metric='invariant' would follow"
        blocks = (*turning.permutations, *(stage.block for stage in turning.stages))
        loose = {block.name: why for block in blocks}
        return Oriented(data, jnp.ones(()), {**loose, **turning.loose})

    def prepare(self, arrays: Named) -> Any:
        """The factored Gram operators."""
        return factors_at(self.parts, arrays)

    def whiten(self, data: Any, arrays: Named, v: Named) -> Named:
        """Nothing to do."""
        return v

    def unwhiten(self, data: Any, arrays: Named, e: Named) -> Named:
        """Nothing to do."""
        return e

    def vertical(self, data: Any, arrays: Named, v: Named) -> Named:
        """By the factored Gram operators."""
        return vertical(self.parts, data, arrays, v)

    def horizontal(self, data: Any, arrays: Named, v: Named) -> Named:
        """Without touching the parameters that nothing moves."""
        return horizontal(self.parts, data, arrays, v)

    def verticality(self, data: Any, arrays: Named, v: Named) -> jax.Array:
        """From the pairings with all generators."""
        return left_vertical(self.parts, data, arrays, v)

    def sharp(self, data: Any, arrays: Named, covector: Named) -> Named:
        """Nothing to do."""
        return covector

    def path(self, data: Any, arrays: Named, v: Named, *, forward: bool = False) -> Path:
        """A straight line."""
        return straight(arrays, v)

    def reach(self, data: Any, arrays: Named) -> jax.Array:
        """It never leaves."""
        return jnp.full((), jnp.inf, jnp.result_type(*arrays.values()))

    def curvature(self, data: Any, arrays: Named, x: Named, y: Named, z: Named) -> Named:
        """By O'Neill's formula."""
        return flat_tensor(self.parts, arrays, x, y, z)

    def sectional(self, data: Any, arrays: Named, x: Named, y: Named) -> jax.Array:
        """By O'Neill's formula."""
        return flat_sectional(self.parts, arrays, x, y)


class Frame(NamedTuple):
    """The canonical representative of a base point, and the factored Gram operators there.

    `turns` are elements of families that canonical representatives leave alone, and act next; then axes are put in
    `orders`.
    """

    canonical: Canonical
    factors: Any
    turns: Mapping[str, jax.Array]
    orders: Mapping[str, jax.Array]


class MovingFrame(Metric):
    """The Euclidean metric at the canonical representative, carried to every point of the orbit.

    With `pullback`, the Euclidean metric of the canonical representatives themselves: a shift's own direction is
    measured by what it shifts only, and so the canonical representatives' own directions are orthogonal to it.
    """

    def __init__(self, families: Sequence[Family], gauge: Gauge, *, pullback: bool = False) -> None:
        """Keep what is static."""
        self.name = "pullback" if pullback else "invariant"
        self.gauge = gauge
        self.pullback = pullback
        self.families = tuple(families)
        seen = [_bare(family) if pullback and is_shift(family) else family for family in families]
        self.parts = components(seen)

    def prepare(self, arrays: Named) -> Frame:
        """The canonical representative, factored."""
        return self.frame(self.gauge.canonical(arrays))

    def frame(self, found: Canonical) -> Frame:
        """The frame at a point whose canonical representative is known."""
        return Frame(found, factors_at(self.parts, found.arrays), {}, {})

    def whiten(self, data: Frame, arrays: Named, v: Named) -> Named:
        """The derivative of the action of `r`, which does not move with the point."""
        found = data.canonical
        _, v = jax.jvp(lambda a: act(self.gauge.shifts, a, found.shifts), (arrays,), (v,))
        v = act(self.gauge.linear, v, found.scalings)
        if data.turns or data.orders:
            v = self.orientation.reorder(act(self.families, v, data.turns), data.orders)
        return self._sheared(found, v, -1.0)

    def unwhiten(self, data: Frame, arrays: Named, e: Named) -> Named:
        """The derivative of the action of the inverse of `r`."""
        found = data.canonical
        e = self._turned_back(data, self._sheared(found, e, 1.0))
        e = act(self.gauge.linear, e, inverses(self.gauge.linear, found.scalings))
        shifted = act(self.gauge.shifts, arrays, found.shifts)
        back = inverses(self.gauge.shifts, found.shifts)
        return jax.jvp(lambda a: act(self.gauge.shifts[::-1], a, back), (shifted,), (e,))[1]

    def vertical(self, data: Frame, arrays: Named, v: Named) -> Named:
        """The projection at the canonical representative, carried back: the action maps orbits to orbits."""
        there = vertical(self.parts, data.factors, data.canonical.arrays, compiled(self, "whiten", data, arrays, v))
        return compiled(self, "unwhiten", data, arrays, there)

    def level(self, data: Frame, arrays: Named, e: Named) -> Named:
        """The projection at the canonical representative alone."""
        return horizontal(self.parts, data.factors, data.canonical.arrays, e)

    def verticality(self, data: Frame, arrays: Named, v: Named) -> jax.Array:
        """That of the projection at the canonical representative, from the pairings with all generators."""
        return left_vertical(self.parts, data.factors, data.canonical.arrays, v)

    @property
    def bends_along_orbits(self) -> bool:
        """Where geodesics stay among the canonical representatives."""
        return self.tangent

    @functools.cached_property
    def tangent(self) -> bool:
        """Whether horizontal vectors at a canonical representative are tangent to the canonical representatives.

        They are where every generator is self-adjoint, skew or constant. Horizontal geodesics then stay among them.
        """
        if self.gauge.unsettled or self.gauge.excluded:
            return False
        families = [family for part in self.parts for family in part.families]
        return all(is_linear(f) or all(t.kind == "shift" for t in f.terms or ()) for f in families)

    def path(self, data: Frame, arrays: Named, v: Named, *, forward: bool = False) -> Path:
        """Of a horizontal vector: among the canonical representatives where that is possible, carried back."""
        if not self.tangent:
            return super().path(data, arrays, v, forward=forward)
        return self._among_canonical(data, self.whiten(data, arrays, v), forward=forward)

    def ray(self, data: Frame, arrays: Named, e: Named) -> Path:
        """Among the canonical representatives, where that is possible."""
        return self._among_canonical(data, e) if self.tangent else super().ray(data, arrays, e)

    def _among_canonical(self, data: Frame, e: Named, *, forward: bool = False) -> Path:
        inner = kempf_ness(self.parts, data.canonical.arrays, e, factors=data.factors, forward=forward)
        return moved(inner, self.back, data)

    def reach(self, data: Frame, arrays: Named) -> jax.Array:
        """That among the canonical representatives."""
        if not self.tangent:
            return super().reach(data, arrays)
        return reach(self.parts, data.factors, data.canonical.arrays)

    def curvature(self, data: Frame, arrays: Named, x: Named, y: Named, z: Named) -> Named:
        """At the canonical representative, by O'Neill's and Gauss's formulas where they hold."""
        if not self.tangent:
            return super().curvature(data, arrays, x, y, z)
        there = [self.whiten(data, arrays, v) for v in (x, y, z)]
        return self.unwhiten(data, arrays, flat_tensor(self.parts, data.canonical.arrays, *there))

    def sectional(self, data: Frame, arrays: Named, x: Named, y: Named) -> jax.Array:
        """At the canonical representative."""
        if not self.tangent:
            return super().sectional(data, arrays, x, y)
        there = [self.whiten(data, arrays, v) for v in (x, y)]
        return flat_sectional(self.parts, data.canonical.arrays, *there)

    def back(self, data: Frame, point: Named) -> Named:
        """A point near the canonical representative, moved by the inverse of `r`."""
        return self.gauge.back(data.canonical, self._turned_back(data, point))

    def _turned_back(self, data: Frame, e: Named) -> Named:
        if not (data.turns or data.orders):
            return e
        e = self.orientation.reorder(e, data.orders, back=True)
        return act(self.families[::-1], e, inverses(self.families, data.turns))

    @functools.cached_property
    def orientation(self) -> Orientation:
        """How the compact freedom of canonical representatives is taken away."""
        return orientation(self.families)

    def oriented(self, data: Frame) -> Oriented:
        """At the canonical representative in its orientation; the same metric, in other coordinates."""
        loose = {**self.orientation.loose, **self.gauge.unsettled}
        if self.orientation.trivial:
            return Oriented(data, jnp.ones(()), loose)
        found, turns, orders, margin = _turned(self, data.canonical)
        return Oriented(self.frame(found)._replace(turns=turns, orders=orders), margin, loose)

    def leading(self, data: Frame) -> Leading:
        """That of the frame."""
        return Leading(self.gauge, data.canonical)

    def _sheared(self, found: Canonical, v: Named, sign: float) -> Named:
        """What a shift does to parameters that it does not only shift, taken out of the frame (or put back)."""
        if not self.pullback:
            return v
        total = v
        for family in self.gauge.shifts:
            rest = Restricted(family, tuple(term for term in family.terms or () if term.kind != "shift"))
            if rest.kept:
                amount = -shift_to_slice(family, v)
                for name, value in rest.field(found.arrays, amount).items():
                    total = {**total, name: total[name] + sign * value}
        return total


@once
def _turned(metric: MovingFrame, found: Canonical) -> tuple[Canonical, Named, Named, jax.Array]:
    """A canonical representative in its orientation, the elements and orders that lead there, and the margin."""
    turned = metric.orientation(found.arrays)
    scalings, turns = dict(found.scalings), {}
    for family in metric.families:
        if family.name in scalings and family.name in turned.elements:
            scalings[family.name] = family.group.compose(turned.elements[family.name], scalings[family.name])
        elif family.name in turned.elements:
            turns[family.name] = turned.elements[family.name]
    margin = jnp.where(metric.gauge.settled(found.arrays), turned.margin, 0)
    return found._replace(arrays=turned.arrays, scalings=scalings), turns, turned.orders, margin


class Dense(Metric):
    """An inner product given as a function, by the Cholesky factor of its matrix."""

    def __init__(self, families: Sequence[Family], function: Callable[[Any, Any, Any], Any]) -> None:
        """Keep the function `(params, tangent, tangent) -> number`."""
        self.name = getattr(function, "__name__", "metric")
        self.function = function
        self.parts = components(families)

    def prepare(self, arrays: Named) -> jax.Array:
        """The upper Cholesky factor of the metric's matrix."""
        return _prepare_dense(self, arrays)

    def whiten(self, data: jax.Array, arrays: Named, v: Named) -> Named:
        """`L^T v` with `G = L L^T`."""
        return unravel(arrays, data @ ravel(v))

    def unwhiten(self, data: jax.Array, arrays: Named, e: Named) -> Named:
        """`L^-T e`."""
        return unravel(arrays, jax.scipy.linalg.solve_triangular(data, ravel(e)))

    def vertical(self, data: jax.Array, arrays: Named, v: Named) -> Named:
        """By the fields' own matrix."""
        return vertical_by_matrix(self.parts, lambda w: self.whiten(data, arrays, w), arrays, v)


@functools.partial(jax.jit, static_argnums=0)
def _prepare_dense(metric: Dense, arrays: Named) -> jax.Array:
    basis = jnp.eye(sum(array.size for array in arrays.values()), dtype=jnp.result_type(*arrays.values()))
    pair = lambda a, b: metric.function(nest(arrays), nest(unravel(arrays, a)), nest(unravel(arrays, b)))
    matrix = jax.vmap(lambda a: jax.vmap(lambda b: pair(a, b))(basis))(basis)
    return jnp.linalg.cholesky(0.5 * (matrix + matrix.T)).T


def vertical_by_matrix(
    parts: tuple[Component, ...], whiten: Callable[[Named], Named], arrays: Named, v: Named
) -> Named:
    """The vertical part in any metric, from the matrix of all fields: for few coordinates.

    The pseudo-inverse of the whitened fields' Gram matrix; directions that do not move have an eigenvalue at rounding.
    """
    total = {name: jnp.zeros_like(array) for name, array in v.items()}
    if not parts:
        return total

    def field(part: Component, coordinates: jax.Array) -> Named:
        return {**{n: jnp.zeros_like(a) for n, a in arrays.items()}, **part.field(arrays, coordinates)}

    dtype = jnp.result_type(*arrays.values())
    bases = [jax.vmap(functools.partial(field, part))(jnp.eye(part.dimension, dtype=dtype)) for part in parts]
    fields = {name: jnp.concatenate([basis[name] for basis in bases]) for name in arrays}
    rows = jax.vmap(lambda w: ravel(whiten(w)))(fields)
    scale = jnp.linalg.norm(rows, axis=1)
    rows = rows / jnp.where(scale > 0, scale, 1)[:, None]
    gram = rows @ rows.T
    values, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(gram))
    ridge = 2 * len(gram) * jnp.finfo(dtype).eps * jnp.max(values, initial=0)
    weights = 1 / (jnp.maximum(values, 0) + jnp.where(ridge > 0, ridge, 1))
    solve = lambda _, b: vectors @ (weights * (vectors.T @ b))
    rest, coordinates = ravel(whiten(v)), jnp.zeros(len(gram), dtype)
    for _ in range(3):
        step = jax.lax.custom_linear_solve(lambda c: gram @ c, rows @ rest, solve, symmetric=True)
        rest, coordinates = rest - step @ rows, coordinates + step
    coordinates = coordinates / jnp.where(scale > 0, scale, 1)
    return {name: jnp.tensordot(coordinates, fields[name], 1) for name in arrays}


def _bare(family: Family) -> Restricted:
    """A shift without what it does to parameters that it does not only shift."""
    return Restricted(family, tuple(term for term in family.terms or () if term.kind == "shift"))

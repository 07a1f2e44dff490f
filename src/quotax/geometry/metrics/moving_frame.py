r"""Moving frames: `A` is the derivative of the action of `r(theta)`, which leads to the canonical representative.

`r(g . theta) g = k r(theta)` with `k` orthogonal, so every family acts by isometries.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.geometry.canonical.acting import act, inverses, shift_to_slice
from quotax.geometry.canonical.gauge import Gauge
from quotax.geometry.canonical.leading import Leading
from quotax.geometry.canonical.norm_on_orbit import settled
from quotax.geometry.canonical.orientation import Orientation, orientation
from quotax.geometry.canonical.representative import Canonical, canonical_of, carried_back
from quotax.geometry.curvature.riemann import flat_sectional, flat_tensor
from quotax.geometry.curvature.transport import flat_derivative, flat_drift, transported
from quotax.geometry.families.component import components
from quotax.geometry.families.roles import is_linear, is_shift
from quotax.geometry.families.velocities import Family, velocities
from quotax.geometry.linalg.named import Named, norm
from quotax.geometry.metrics.metric import Aim, Metric, Oriented, compiled, less
from quotax.geometry.paths.geodesic_equations import kempf_ness, reach
from quotax.geometry.paths.path import Path, moved
from quotax.geometry.projection.vertical import Factors, factors_at, horizontal, left_vertical, vertical
from quotax.programs.compiling import once
from quotax.symmetry import Group


class CanonicalFrame(NamedTuple):
    """The canonical representative of a base point, and the factored Gram operators there.

    `turns` are elements of families that canonical representatives leave alone, and act next; then axes are put in
    `orders`.
    """

    canonical: Canonical
    factors: Factors
    turns: Mapping[str, jax.Array]
    orders: Mapping[str, jax.Array]


class MovingFrame(Metric[CanonicalFrame]):
    """The Euclidean metric at the canonical representative, carried to every point of the orbit.

    With `pullback`, the Euclidean metric of the canonical representatives themselves: a shift's own direction is
    measured by what it shifts only, and so the canonical representatives' own directions are orthogonal to it.
    """

    gauge: Gauge
    lemma = (
        "lemma (moving frame): r(theta) leads to the canonical representative (shifts removed, then least norm, which "
        "is convex along the group), so r(g theta) g = k r(theta) with k orthogonal; |r_* a| is the same at g theta"
    )

    def __init__(self, families: Sequence[Family], gauge: Gauge, *, pullback: bool = False) -> None:
        """Keep what is static."""
        self.name = "pullback" if pullback else "invariant"
        self.gauge = gauge
        self.pullback = pullback
        self.families = tuple(families)
        # A shift without what it does to parameters that it does not only shift.
        bare = lambda family: family.restricted(lambda term: term.kind == "shift")
        seen = [bare(family) if pullback and is_shift(family) else family for family in families]
        self.parts = components(seen)

    def prepare(self, arrays: Named) -> CanonicalFrame:
        """The canonical representative, factored."""
        return self.frame(canonical_of(self.gauge, arrays))

    def frame(self, found: Canonical) -> CanonicalFrame:
        """The frame at a point whose canonical representative is known."""
        return CanonicalFrame(found, factors_at(self.parts, found.arrays), {}, {})

    def whiten(self, data: CanonicalFrame, arrays: Named, v: Named) -> Named:
        """The derivative of the action of `r`, which does not move with the point."""
        found = data.canonical
        _, v = jax.jvp(lambda a: act(self.gauge.shifts, a, found.shifts), (arrays,), (v,))
        v = act(self.gauge.linear, v, found.scalings)
        if data.turns or data.orders:
            v = self.orientation.reorder(act(self.families, v, data.turns), data.orders)
        return self._sheared(found, v, -1.0)

    def unwhiten(self, data: CanonicalFrame, arrays: Named, e: Named) -> Named:
        """The derivative of the action of the inverse of `r`."""
        found = data.canonical
        e = self._turned_back(data, self._sheared(found, e, 1.0))
        e = act(self.gauge.linear, e, inverses(self.gauge.linear, found.scalings))
        shifted = act(self.gauge.shifts, arrays, found.shifts)
        back = inverses(self.gauge.shifts, found.shifts)
        return jax.jvp(lambda a: act(self.gauge.shifts[::-1], a, back), (shifted,), (e,))[1]

    def vertical(self, data: CanonicalFrame, arrays: Named, v: Named) -> Named:
        """The projection at the canonical representative, carried back: the action maps orbits to orbits."""
        there = vertical(self.parts, data.factors, data.canonical.arrays, compiled(self, "whiten", data, arrays, v))
        return compiled(self, "unwhiten", data, arrays, there)

    def level(self, data: CanonicalFrame, arrays: Named, e: Named) -> Named:
        """The projection at the canonical representative alone."""
        return horizontal(self.parts, data.factors, data.canonical.arrays, e)

    def verticality(self, data: CanonicalFrame, arrays: Named, v: Named) -> jax.Array:
        """That of the projection at the canonical representative, from the pairings with all generators."""
        return left_vertical(self.parts, data.factors, data.canonical.arrays, v)

    @functools.cached_property
    def tangent(self) -> bool:
        """Whether horizontal vectors at a canonical representative are tangent to the canonical representatives.

        They are where every generator is self-adjoint, skew or constant. Horizontal geodesics then stay among them.
        """
        if self.gauge.unsettled or self.gauge.excluded:
            return False
        families = [family for part in self.parts for family in part.families]
        return all(is_linear(f) or all(t.kind == "shift" for t in f.terms or ()) for f in families)

    def path(self, data: CanonicalFrame, arrays: Named, v: Named, *, forward: bool = False) -> Path:
        """Of a horizontal vector: among the canonical representatives where that is possible, carried back."""
        if not self.tangent:
            return super().path(data, arrays, v, forward=forward)
        return self._among_canonical(data, self.whiten(data, arrays, v), forward=forward)

    def ray(self, data: CanonicalFrame, arrays: Named, e: Named) -> Path:
        """Among the canonical representatives, where that is possible."""
        return self._among_canonical(data, e) if self.tangent else super().ray(data, arrays, e)

    def _among_canonical(self, data: CanonicalFrame, e: Named, *, forward: bool = False) -> Path:
        inner = kempf_ness(self.parts, data.canonical.arrays, e, factors=data.factors, forward=forward)
        return moved(inner, self.back, data)

    def reach(self, data: CanonicalFrame, arrays: Named) -> jax.Array:
        """That among the canonical representatives."""
        if not self.tangent:
            return super().reach(data, arrays)
        return reach(self.parts, data.factors, data.canonical.arrays)

    def curvature(self, data: CanonicalFrame, arrays: Named, x: Named, y: Named, z: Named) -> Named:
        """At the canonical representative, by O'Neill's and Gauss's formulas where they hold."""
        if not self.tangent:
            return super().curvature(data, arrays, x, y, z)
        there = [self.whiten(data, arrays, v) for v in (x, y, z)]
        return self.unwhiten(data, arrays, flat_tensor(self.parts, data.canonical.arrays, *there))

    def sectional(self, data: CanonicalFrame, arrays: Named, x: Named, y: Named) -> jax.Array:
        """At the canonical representative."""
        if not self.tangent:
            return super().sectional(data, arrays, x, y)
        there = [self.whiten(data, arrays, v) for v in (x, y)]
        return flat_sectional(self.parts, data.canonical.arrays, *there)

    def _curvature_change(self, data: CanonicalFrame, arrays: Named, h: Named, x: Named, y: Named, z: Named) -> Named:
        if not self.tangent:
            return super()._curvature_change(data, arrays, h, x, y, z)
        there = [self.whiten(data, arrays, v) for v in (h, x, y, z)]
        change = self.unwhiten(data, arrays, flat_derivative(self.parts, data.canonical.arrays, *there))
        return less(change, self.vertical(data, arrays, change))

    def _transported(self, data: CanonicalFrame, arrays: Named, direction: Named, v: Named) -> Named:
        if not self.tangent:
            return super()._transported(data, arrays, direction, v)
        along, vector = (self.whiten(data, arrays, w) for w in (direction, v))
        path = kempf_ness(self.parts, data.canonical.arrays, along, factors=data.factors, watch=False)
        law = functools.partial(flat_drift, self.parts)
        z = transported(path.system, path.origin, vector, law, path.duration)
        # The frame of the end is that of the start: the canonical path is moved by the inverse of one element.
        there = data._replace(canonical=data.canonical._replace(arrays=path.end))
        return self.unwhiten(there, self.back(data, path.end), z)

    def speed(self, arrays: Named, v: Named) -> tuple[jax.Array, jax.Array]:
        """At the canonical representative, which the host finds; to be trusted where it was reached."""
        found = canonical_of(self.gauge, arrays)
        return compiled(self, "_speed_from", found, arrays, v), found.reached

    def _speed_from(self, data: Canonical, arrays: Named, v: Named) -> jax.Array:
        frame = self.frame(data)
        return norm(horizontal(self.parts, frame.factors, data.arrays, self.whiten(frame, arrays, v)))

    def aim(self, arrays: Named, here: Canonical) -> Aim:
        """From the canonical representative, where geodesics stay among these."""
        if not self.tangent:
            return super().aim(arrays, here)
        frame = self.frame(here)
        return Aim(
            True,
            here.arrays,
            functools.partial(kempf_ness, self.parts, here.arrays, watch=False),
            functools.partial(horizontal, self.parts, frame.factors, here.arrays),
            lambda point, v: horizontal(self.parts, factors_at(self.parts, point), point, v),
            functools.partial(self.unwhiten, frame, arrays),
        )

    @property
    def unsettled(self) -> Mapping[str, str]:
        """Those without a canonical representative."""
        return self.gauge.unsettled

    def _loose(self, families: Sequence[Family]) -> list[str]:
        return [*self.unsettled]

    def asked(self, family: Family) -> Group | None:
        """What canonical representatives leave: nothing of a shift, the compact part of a linear family."""
        return None if is_shift(family) else family.group.compact if is_linear(family) else family.group

    def back(self, data: CanonicalFrame, point: Named) -> Named:
        """A point near the canonical representative, moved by the inverse of `r`."""
        return carried_back(self.gauge, data.canonical, self._turned_back(data, point))

    def _turned_back(self, data: CanonicalFrame, e: Named) -> Named:
        if not (data.turns or data.orders):
            return e
        e = self.orientation.reorder(e, data.orders, back=True)
        return act(self.families[::-1], e, inverses(self.families, data.turns))

    @functools.cached_property
    def orientation(self) -> Orientation:
        """How the compact freedom of canonical representatives is taken away."""
        return orientation(self.families)

    def oriented(self, data: CanonicalFrame) -> Oriented:
        """At the canonical representative in its orientation; the same metric, in other coordinates."""
        loose = {**self.orientation.loose, **self.gauge.unsettled}
        if self.orientation.trivial:
            return Oriented(data, jnp.ones(()), loose)
        found, turns, orders, margin = _turned(self, data.canonical)
        return Oriented(self.frame(found)._replace(turns=turns, orders=orders), margin, loose)

    def leading(self, data: CanonicalFrame) -> Leading:
        """That of the frame."""
        return Leading(self.gauge, data.canonical)

    def _sheared(self, found: Canonical, v: Named, sign: float) -> Named:
        """What a shift does to parameters that it does not only shift, taken out of the frame (or put back)."""
        if not self.pullback:
            return v
        total = v
        for family in self.gauge.shifts:
            rest = family.restricted(lambda term: term.kind != "shift")
            if rest.terms:
                amount = -shift_to_slice(family, v)
                for name, value in velocities(rest, found.arrays, amount).items():
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
    margin = jnp.where(settled(metric.gauge, found.arrays), turned.margin, 0)
    return found._replace(arrays=turned.arrays, scalings=scalings), turns, turned.orders, margin

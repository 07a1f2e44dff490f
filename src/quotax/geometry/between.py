"""What lies between two points of a quotient: alignment, logarithm and distance.

Both points are brought to their canonical representatives, which differ by an orthogonal element and a discrete one;
those are searched together. Above a flat space the chord between aligned representatives is the geodesic. Among the
canonical representatives of scalings and GL, which form a curved set, and in other metrics, it is found by shooting.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from quotax.geometry.absorption import Absorbed
from quotax.geometry.alignment import Match, Plan, match
from quotax.geometry.canonical import Canonical, act, gauge
from quotax.geometry.geodesics import kempf_ness
from quotax.geometry.logarithm import Log, chord, shoot
from quotax.geometry.metrics import Metric, MovingFrame
from quotax.geometry.vertical import Family, Named, factors_at, horizontal


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["params", "element", "distance", "lower_bound", "starts", "attained"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Alignment:
    """The representative of an orbit that is closest to a reference.

    `element` is the orthogonal and discrete element between the canonical representatives, `distance` their distance
    after it, `lower_bound` what no element can go below, `starts` the distances that the searches ended with, and
    `attained` whether both canonical representatives exist and were reached: without them the distance means little.
    """

    params: Any
    element: dict[str, jax.Array]
    distance: jax.Array
    lower_bound: jax.Array
    starts: jax.Array
    attained: jax.Array


class Between:
    """Alignment, logarithm and distance in one metric; compared by identity."""

    def __init__(self, families: tuple[Family, ...], metric: Metric) -> None:
        """Plan the search once."""
        self.metric = metric
        self.gauge = metric.gauge if isinstance(metric, MovingFrame) else gauge(families, unique=True)
        self.plan = Plan(families)
        turning = tuple(f for f in families if f.group.continuous)
        self.turning = Plan(turning) if any(block for block in Plan(turning).blocks) else None

    def aligned(self, arrays: Named, reference: Named, starts: int = 8) -> tuple[Named, Match, jax.Array]:
        """`arrays` moved close to `reference`, the search between canonical representatives, and whether these are."""
        there, here = self.gauge.canonical(arrays), self.gauge.canonical(reference)
        found = match(self.plan, there.arrays, here.arrays, starts=starts)
        return self._back(here, found.arrays), found, there.reached & here.reached

    @functools.partial(jax.jit, static_argnums=0)
    def _back(self, here: Canonical, arrays: Named) -> Named:
        return self.gauge.back(here, arrays)

    @functools.partial(jax.jit, static_argnums=0)
    def logarithm(self, arrays: Named, other: Named) -> Log:
        """The horizontal vector whose geodesic leads from `arrays` into the orbit of `other`."""
        here, there = self.gauge.canonical(arrays), self.gauge.canonical(other)
        closest = match(self.plan, there.arrays, here.arrays).arrays
        if self.metric.euclidean:
            found = chord(here.arrays, closest, self._horizontal)
        elif isinstance(self.metric, MovingFrame) and self.metric.tangent:
            found = self._among_canonical(arrays, here, closest)
        else:
            found = self._anywhere(arrays, here, closest)
        return found._replace(attained=here.reached & there.reached)

    def mover(self, arrays: Named, reference: Named) -> Callable[[Named], Named]:
        """The action of the element that brings `arrays` closest to `reference`."""
        there, here = self.gauge.canonical(arrays), self.gauge.canonical(reference)
        elements = match(self.plan, there.arrays, here.arrays).elements

        def move(a: Named) -> Named:
            canonical = act(self.gauge.linear, act(self.gauge.shifts, a, there.shifts), there.scalings)
            return self.gauge.back(here, self.plan.act(canonical, elements))

        return move

    def _among_canonical(self, arrays: Named, here: Canonical, closest: Named) -> Log:
        metric = self.metric
        assert isinstance(metric, MovingFrame)
        start = {name: closest[name] - a for name, a in here.arrays.items()}

        def end(w: Named, *, forward: bool = False) -> Named:
            return _inside(kempf_ness(metric.parts, here.arrays, w, watch=False, forward=forward))

        near = lambda e: self._near(closest, e)
        ahead = functools.partial(end, forward=True)
        frame = metric.frame(here)
        level = functools.partial(horizontal, metric.parts, frame.factors, here.arrays)
        found = shoot(end, near, self._horizontal, here.arrays, start, forward=ahead, at_base=level)
        return found._replace(vector=metric.unwhiten(frame, arrays, found.vector))

    def _anywhere(self, arrays: Named, here: Canonical, closest: Named) -> Log:
        metric = self.metric
        data = metric.prepare(arrays)
        level = functools.partial(metric.horizontal, data, arrays)
        project = lambda point, v: metric.horizontal(metric.prepare(point), point, v)

        def near(e: Named) -> Named:
            there = self.gauge.canonical(e)
            return self.gauge.back(there, self._near(closest, there.arrays))

        end = lambda w, forward=False: _inside(metric.path(data, arrays, w, forward=forward))
        target = self.gauge.back(here, closest)
        start = {name: target[name] - a for name, a in arrays.items()}
        ahead = functools.partial(end, forward=True)
        return shoot(end, near, project, arrays, level(start), forward=ahead, at_base=level)

    def _near(self, closest: Named, e: Named) -> Named:
        """The target's representative next to `e`: the discrete element stays what it is."""
        if self.turning is None:
            return closest
        return match(self.turning, closest, e, starts=2, sweeps=20).arrays

    def _horizontal(self, point: Named, v: Named) -> Named:
        parts = self.metric.parts
        return horizontal(parts, factors_at(parts, point), point, v)


class BetweenAbsorbed:
    """The same where gains are absorbed: between the other parameters, at the gains of one of the points."""

    def __init__(self, metric: Absorbed) -> None:
        """Plan the search among the other parameters once."""
        self.absorbed = metric.absorbed
        self.others = Between(metric.absorbed.families, metric.frame)

    def aligned(self, arrays: Named, reference: Named, starts: int = 8) -> tuple[Named, Match, jax.Array]:
        """As `Between.aligned`."""
        moved, found, attained = self.others.aligned(*self._rests(arrays, reference), starts)
        return self.absorbed.together(self.absorbed.held(reference), moved), found, attained

    def logarithm(self, arrays: Named, other: Named) -> Log:
        """As `Between.logarithm`."""
        rest, goal = self._rests(arrays, other)
        found = self.others.logarithm(rest, goal)
        back = functools.partial(self.absorbed.together, self.absorbed.held(arrays))
        return found._replace(vector=jax.jvp(back, (rest,), (found.vector,))[1])

    def mover(self, arrays: Named, reference: Named) -> Callable[[Named], Named]:
        """As `Between.mover`."""
        move = self.others.mover(*self._rests(arrays, reference))
        here, there = self.absorbed.held(arrays), self.absorbed.held(reference)
        stretched = lambda a: {name: a[name] * there[name] / here[name] for name in here}
        return lambda a: self.absorbed.together(stretched(a), move(self.absorbed.apart(a)[0]))

    def _rests(self, *points: Named) -> tuple[Named, ...]:
        return tuple(self.absorbed.apart(point)[0] for point in points)


def between(families: tuple[Family, ...], metric: Metric) -> Between | BetweenAbsorbed:
    """Alignment, logarithm and distance of these families in one metric."""
    return BetweenAbsorbed(metric) if isinstance(metric, Absorbed) else Between(families, metric)


def _inside(path: Any) -> Named:
    return {name: jnp.where(path.ok, a, jnp.nan) for name, a in path.end.items()}

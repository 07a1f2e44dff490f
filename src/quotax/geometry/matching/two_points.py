"""What lies between two points of a quotient: alignment, logarithm and distance.

Both points are brought to their canonical representatives, which differ by an orthogonal element and a discrete one;
those are searched together. Above a flat space the chord between aligned representatives is the geodesic. Among the
canonical representatives of scalings and GL, which form a curved set, and in other metrics, it is found by shooting.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from quotax.geometry.canonical.absorption import Absorption
from quotax.geometry.canonical.acting import act
from quotax.geometry.canonical.gauge import gauge
from quotax.geometry.canonical.representative import Canonical, canonical_of, carried_back
from quotax.geometry.linalg.named import Named, norm
from quotax.geometry.matching.alignment import Match, Plan, match
from quotax.geometry.matching.distance import MISSED, TIMES, Distance, exactly, integrated
from quotax.geometry.matching.logarithm import DENSE, Log, chord, seek, shoot
from quotax.geometry.matching.patience import Patience
from quotax.geometry.metrics.metric import Aim, Metric
from quotax.geometry.projection.vertical import factors_at, horizontal
from quotax.presenting import Result, shown
from quotax.trees import AnyArray, Tree


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["params", "element", "distance", "lower_bound", "starts", "attained"],
    meta_fields=[],
)
@dataclass(frozen=True, repr=False)
class Alignment(Result):
    """The representative of an orbit that is closest to a reference.

    `element` is the orthogonal and discrete element between the canonical representatives, `distance` their distance
    after it, `lower_bound` what no element can go below, `starts` the distances that the searches ended with, and
    `attained` whether both canonical representatives exist and were reached: without them the distance means little.
    """

    params: Tree
    element: dict[str, jax.Array]
    distance: jax.Array
    lower_bound: jax.Array
    starts: jax.Array
    attained: jax.Array

    def __str__(self) -> str:
        """One readable line."""
        least = shown(self.lower_bound)
        text = f"aligned to a distance of {shown(self.distance)}, and no element comes closer than {least}"
        return text if shown(self.attained) != "False" else f"{text}; {MISSED}"


class Between:
    """Alignment, logarithm and distance in one metric; compared by identity."""

    def __init__(self, metric: Metric) -> None:
        """Plan the search once."""
        self.metric, families = metric, metric.families
        self.gauge = metric.gauge or gauge(families, unique=True)
        self.plan = Plan(families)
        turning = tuple(f for f in families if f.group.continuous)
        self.turning = Plan(turning) if any(block for block in Plan(turning).blocks) else None

    def aligned(self, arrays: Named, reference: Named, starts: int = 8) -> tuple[Named, Match, jax.Array]:
        """`arrays` moved close to `reference`, the search between canonical representatives, and whether these are."""
        there, here = canonical_of(self.gauge, arrays), canonical_of(self.gauge, reference)
        found = match(self.plan, there.arrays, here.arrays, starts=starts)
        if self._unmatched:
            found = found._replace(lower_bound=0 * found.lower_bound)
        reached = there.reached & here.reached & (not self.gauge.unsettled)
        return self._back(here, found.arrays), found, reached

    @functools.partial(jax.jit, static_argnums=0)
    def _back(self, here: Canonical, arrays: Named) -> Named:
        return carried_back(self.gauge, here, arrays)

    def logarithm(self, arrays: Named, other: Named, patience: Patience | None = None) -> Log:
        """The horizontal vector whose geodesic leads from `arrays` into the orbit of `other`.

        The host searches while there is `patience`. Where there is none, or the arrays are traced, one program does it
        all, which has derivatives and takes long to compile.
        """
        if patience is None or any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((arrays, other))):
            return self._whole_logarithm(arrays, other)
        found = self._logarithm(arrays, other, patience)
        size = sum(array.size for array in arrays.values())
        # Newton's method reaches what the host's does not, where its matrix is small.
        return self._whole_logarithm(arrays, other) if not (found.ok or patience.over or size > DENSE) else found

    @functools.partial(jax.jit, static_argnums=0)
    def _whole_logarithm(self, arrays: Named, other: Named) -> Log:
        return self._logarithm(arrays, other, None)

    def _logarithm(self, arrays: Named, other: Named, patience: Patience | None) -> Log:
        here, there = canonical_of(self.gauge, arrays), canonical_of(self.gauge, other)
        closest = match(self.plan, there.arrays, here.arrays).arrays
        if self.flat:
            parts = self.metric.parts
            found = chord(here.arrays, closest, lambda point, v: horizontal(parts, factors_at(parts, point), point, v))
        else:
            found = self._shot(self.metric.aim(arrays, here), here, closest, patience)
        return found._replace(attained=here.reached & there.reached)

    # --- how far it is

    @functools.cached_property
    def flat(self) -> bool:
        """Whether the metric is the Euclidean one of what is left without the shifts."""
        return self.metric.euclidean or (self.metric.tangent and not self.gauge.parts)

    @functools.cached_property
    def unbounded(self) -> str:
        """Why no bound below a distance is known, where that is so."""
        if not self.flat and not self.metric.tangent:
            return f"chords say nothing about the {self.metric.name} metric of these families"
        return f"no element of {', '.join(self._unmatched)} was searched" if self._unmatched else ""

    @property
    def _unmatched(self) -> tuple[str, ...]:
        """The families that may bring points closer: without a canonical representative, or not searched."""
        return tuple(dict.fromkeys((*self.gauge.unsettled, *self.plan.unsearched)))

    def bracket(self, arrays: Named, other: Named) -> Distance:
        """The distance between a bound that no element goes below and the length of a path; see `distance`."""
        one, two = canonical_of(self.gauge, arrays), canonical_of(self.gauge, other)
        start, goal = _ordered(one.arrays, two.arrays)
        found = match(self.plan, goal, start)
        speeds = sound = None
        if not self.flat:
            times, traced = TIMES.astype(found.distance.dtype), isinstance(found.distance, Tracer)
            # NumPy's arithmetic needs no program.
            start, goal = (tree if traced else jax.tree.map(np.asarray, tree) for tree in (start, found.arrays))
            along = {name: goal[name] - a for name, a in start.items()}
            speed = lambda t: self.metric.speed({name: a + t * along[name] for name, a in start.items()}, along)
            if traced:
                speeds, sound = jax.lax.map(speed, jnp.asarray(times))
            else:
                speeds, sound = (np.stack(column) for column in zip(*map(speed, times), strict=True))
        return self._bracket(found.distance, found.lower_bound, speeds, sound, (one.reached, two.reached))

    @functools.partial(jax.jit, static_argnums=0)
    def _bracket(
        self, chord: jax.Array, bound: jax.Array, speeds: AnyArray, sound: AnyArray, reached: AnyArray
    ) -> Distance:
        length = exactly(chord) if self.flat else integrated(speeds, sound)
        upper = length.value + length.margin
        lower = 0 * bound if self.unbounded else jnp.clip(bound - length.rounding, 0, upper)
        above = "value is the length of a path between aligned representatives"
        reason = f"{above}; {self.unbounded or 'no element aligns them better than lower'}"
        return Distance(lower, upper, length.value, chord, jnp.asarray(self.flat), reached[0] & reached[1], reason)

    def mover(self, arrays: Named, reference: Named) -> Callable[[Named], Named]:
        """The action of the element that brings `arrays` closest to `reference`."""
        there, here = canonical_of(self.gauge, arrays), canonical_of(self.gauge, reference)
        elements = match(self.plan, there.arrays, here.arrays).elements

        def move(a: Named) -> Named:
            canonical = act(self.gauge.linear, act(self.gauge.shifts, a, there.shifts), there.scalings)
            return carried_back(self.gauge, here, self.plan.act(canonical, elements))

        return move

    def _shot(self, aim: Aim, here: Canonical, closest: Named, patience: Patience | None) -> Log:
        """By the host while there is patience, or in one program."""

        def near(e: Named) -> Named:
            if aim.canonical:
                return self._near(closest, e)
            there = canonical_of(self.gauge, e)
            return self._back(there, self._near(closest, there.arrays))

        def end(w: Named, *, forward: bool = False) -> Named:
            path = aim.path(w, forward=forward)
            return {name: jnp.where(path.ok, a, jnp.nan) for name, a in path.end.items()}

        goal = closest if aim.canonical else self._back(here, closest)
        start = {name: goal[name] - a for name, a in aim.base.items()}
        start, ahead = start if aim.canonical else aim.level(start), functools.partial(end, forward=True)
        if patience is None:
            found = shoot(end, near, aim.project, aim.base, start, forward=ahead, at_base=aim.level, dense=DENSE)
        else:
            found = seek(ahead, near, aim.project, aim.base, start, aim.level, patience=patience)
        return found._replace(vector=aim.back(found.vector))

    def _near(self, closest: Named, e: Named) -> Named:
        """The target's representative next to `e`: the discrete element stays what it is."""
        if self.turning is None:
            return closest
        return match(self.turning, closest, e, starts=2, sweeps=20).arrays


class BetweenAbsorbed:
    """The same where gains are absorbed: between the other parameters, at the gains of one of the points."""

    def __init__(self, absorbed: Absorption, others: Between) -> None:
        """Of what is left without the gains."""
        self.absorbed, self.others = absorbed, others

    def aligned(self, arrays: Named, reference: Named, starts: int = 8) -> tuple[Named, Match, jax.Array]:
        """As `Between.aligned`."""
        rest, goal = self._rests(arrays, reference)
        moved, found, attained = self.others.aligned(rest, goal, starts)
        return self.absorbed.together(self.absorbed.held(reference), moved), found, attained

    def bracket(self, arrays: Named, other: Named) -> Distance:
        """As `Between.bracket`: the gains are vertical."""
        rest, goal = self._rests(arrays, other)
        return self.others.bracket(rest, goal)

    def logarithm(self, arrays: Named, other: Named, patience: Patience | None = None) -> Log:
        """As `Between.logarithm`."""
        rest, goal = self._rests(arrays, other)
        found = self.others.logarithm(rest, goal, patience)
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


def between(metric: Metric) -> Between | BetweenAbsorbed:
    """Alignment, logarithm and distance in a metric."""
    others = Between(metric.core)
    return others if metric.absorbed is None else BetweenAbsorbed(metric.absorbed, others)


def _ordered(one: Named, two: Named) -> tuple[Named, Named]:
    """The smaller first, whose norm no element changes: what is found from there is the same both ways."""
    if isinstance(next(iter(one.values())), Tracer):
        swap = norm(one) > norm(two)
        one, two = ({n: jnp.where(swap, a[n], b[n]) for n in one} for a, b in ((two, one), (one, two)))
        return one, two
    squares = [sum(float(np.sum(np.square(a, dtype=float))) for a in arrays.values()) for arrays in (one, two)]
    return (two, one) if squares[0] > squares[1] else (one, two)

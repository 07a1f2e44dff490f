"""The search for the largest rise in a ball, spending a given number of gradients.

A host that decides, over the programs of a problem: begin, step until it is over, tell where it is, report. There are
three kinds of steps: many short ascents of which a few become climbs, one ascent where memory is short, and lanes in a
product of balls. A search is a record of arrays and numbers, and a step depends on that alone: cut anywhere, it ends
where it would have ended. Several processes take the same steps, because all see the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import numpy as np

from quotax.errors import SharpnessError
from quotax.sharpness.problem.ball import Ball
from quotax.sharpness.problem.setting import Problem
from quotax.sharpness.problem.vectors import Vector, copied, finite, stacked
from quotax.sharpness.search import boxes, climbing, exploring, one
from quotax.sharpness.search.boxes import Boxes, Lane
from quotax.sharpness.search.climbing import RUNNING, STATIONARY, Climber, climbers
from quotax.sharpness.search.effort import PRODUCT, Effort
from quotax.sharpness.search.exploring import GROWN, Explorer, distinct, following, joined, plant
from quotax.sharpness.search.hessian_memory import HessianMemory, lanczos
from quotax.sharpness.search.one import Ascent
from quotax.sharpness.search.places import Centre, Look, Visited
from quotax.sharpness.search.watching import Interrupts
from quotax.trees import Tree


@jax.tree_util.register_dataclass
@dataclass
class Search:
    """Everything a search knows, as a pytree of arrays and numbers: to be saved, and taken up again.

    `history[i]` is the best rise after i + 1 gradients, of which `spent` were; `planted` counts the starts of short
    ascents. Of `pool` and `climbs`, `ascent`, and `lanes` it has those that its kind of step works on.
    """

    radius: float
    centre: Centre
    known: HessianMemory | None
    history: np.ndarray
    spent: int
    steepest: float
    nonfinite: int = 0
    planted: int = 0
    pool: list[Explorer] | None = None
    climbs: list[Climber] | None = None
    ascent: Ascent | None = None
    lanes: list[Lane] | None = None

    @property
    def best(self) -> float:
        """The largest rise so far."""
        return float(self.history[self.spent - 1])

    def spend(self, rise: float, count: int = 1, bad: int = 0, steepest: float = 0.0) -> None:
        """Take note of `count` gradients, `bad` of which were none, of the best rise and of the steepest."""
        while self.spent + count > len(self.history):
            self.history = np.concatenate([self.history, np.zeros_like(self.history)])
        best = self.best if self.spent else 0.0
        self.history[self.spent : self.spent + count] = max(best, rise)
        self.spent += count
        self.nonfinite += bad
        self.steepest = max(self.steepest, steepest)


class Found(NamedTuple):
    """The outcome of a search: the best place, the rises its restarts ended with, and how the best of them ended."""

    delta: Vector
    rise: float
    rises: np.ndarray
    done: int


class Job(NamedTuple):
    """What a search is to do: in which ball of which problem, at what effort, from which seed.

    `direction` is a displacement that is one more start, in coordinates; `product` is the product of balls, if that is
    what is searched.
    """

    problem: Problem
    radius: float
    effort: Effort
    seed: tuple[int, ...]
    tolerance: float
    direction: Vector | None = None
    product: Callable[[Vector], Vector] | None = None

    @property
    def ball(self) -> Ball:
        """The ball."""
        return self.problem.ball(self.radius)

    @property
    def most(self) -> int:
        """Gradients that the search may spend in all."""
        return self.effort.budget if self.product else self.effort.most


def maximise(
    job: Job, report: Callable[[Search], object], given: Search | None = None, *, mine: bool = False
) -> tuple[Search, bool]:
    """The search after its budget is spent or its certificate found, and whether it was interrupted before that.

    `report` is called after every step; one `given` is taken up again, and is left as it is unless it is `mine`.
    """
    search: Search = begin(job) if given is None else given if mine else copied(given)
    look = Look(job.problem, job.ball, search.centre)
    if not math.isfinite(search.centre.base):
        return search, False
    with Interrupts() as interrupts:
        try:
            while search.spent < job.most and _step(job, look, search):
                report(search)
                if interrupts.asked:
                    return search, True
        except KeyboardInterrupt:
            return search, True
    return search, False


def begin(job: Job) -> Search:
    """A search that knows the centre: the loss, its gradient, and the products with its Hessian there."""
    problem, ball, effort = job.problem, job.ball, job.effort
    single = effort.single and job.product is None
    origin = problem.origin
    base, gradient = problem.look_along(origin, origin, 0.0, 1.0) if single else problem.look(origin)
    if not finite(gradient):
        gradient = origin
    probe = known = None
    search = Search(job.radius, Centre(base, gradient, None), None, np.zeros(256), 1, ball.norm(gradient))
    if single:
        search.ascent = one.at_centre(Look(problem, ball, search.centre))
        search.centre = Centre(base, problem.origin[:0], None)
        return search
    if effort.curvature or problem.projected:
        noise = problem.normal((*job.seed, 1))
        flat = ball.horizontal(noise)
        if problem.projected:
            probe = ball.frame.lower(noise - flat)
        if effort.curvature and math.isfinite(base) and job.product is None:
            known, products = lanczos(ball, problem.hessian_vector, gradient, flat, effort.curvature, effort.memory)
            search.spend(0.0, PRODUCT * products)
    search.centre, search.known = Centre(base, gradient, probe), known
    return search


def _step(job: Job, look: Look, search: Search) -> bool:
    """One step; whether there was one to make."""
    if job.product is not None:
        return _lanes(job, look, Boxes(job.product, job.radius), search)
    if search.ascent is not None:
        return _ascent(job, look, search.ascent, search)
    return (search.climbs is None and _explorers(job, look, search)) or _climbs(job, look, search)


def _explorers(job: Job, look: Look, search: Search) -> bool:
    effort, left = job.effort, job.effort.budget - search.spent
    search.pool = pool = search.pool or []
    young = any(explorer.age < effort.visits for explorer in pool)
    if not young and left >= effort.width and _wanted(job, search):
        pool, young = _planted(job, look, search, pool), True
        search.pool = pool
    if left < effort.width or not (young or left - effort.reserve >= effort.width):
        return False
    turn = following(pool, effort.visits, effort.visits if _wanted(job, search) else GROWN, effort.width)
    if not turn:
        return False
    search.pool, bad = exploring.advance(look, pool, turn, effort.visits)
    best = max((explorer.here.rise for explorer in search.pool), default=0.0)
    search.spend(best, len(turn), bad, _steepest(look.ball, [explorer.here for explorer in search.pool]))
    return True


def _wanted(job: Job, search: Search) -> bool:
    """Whether there are more starts to come: those of the search, and the one that was asked for."""
    return search.planted < job.effort.starts + (job.direction is not None)


def _planted(job: Job, look: Look, search: Search, pool: list[Explorer]) -> list[Explorer]:
    """The pool with the next starts: the one that was asked for last, unless there may be no room for it then."""
    effort, first = job.effort, search.planted
    slots = effort.kept + effort.width
    asked = job.direction is not None
    ahead = int(asked and not effort.turning)  # starts before those of the search
    if asked and first == (0 if ahead else effort.starts):
        search.planted += 1
        return joined(pool, [exploring.start(look.ball.horizontal(job.direction), 0.0)], slots)
    own = first - ahead
    count = min(effort.width, effort.starts - own)
    noise = job.problem.normal((*job.seed, 2, own), count)
    search.planted += count
    return plant(look.ball, pool, look.gradient, noise, own, effort.turning, slots)


def _climbs(job: Job, look: Look, search: Search) -> bool:
    effort = job.effort
    if search.climbs is None:
        if search.spent >= effort.budget:
            return False
        pool = sorted(distinct(look.ball, search.pool or []), key=lambda explorer: -explorer.here.rise)
        search.climbs = climbers(look.gradient, pool[: effort.climbs], copied(search.known), effort.memory)
        search.pool = pool[effort.climbs :]
    while search.climbs:
        leader = max(search.climbs, key=lambda climber: climber.outlook)
        if leader.done != RUNNING:
            # Of a quadratic the sphere may hold a second, lower maximum: where gradients cost next to nothing, the
            # others have what is left of the budget to overtake.
            others = [climber for climber in search.climbs if climber.done == RUNNING]
            if not (effort.patience and others and search.spent < effort.budget):
                return False
            leader = max(others, key=lambda climber: climber.outlook)
        proposal = climbing.certified(look, leader, job.tolerance)
        # A step that only finds its certificate costs no gradient.
        if proposal is not None:
            good = climbing.advance(look, leader, proposal)
            search.spend(leader.here.rise, 1, not good, _steepest(look.ball, [leader.here]))
            return True
    return False


def _ascent(job: Job, look: Look, ascent: Ascent, search: Search) -> bool:
    if ascent.arrived:
        return False
    good, steepness = one.ascend(look, ascent, search.steepest, job.tolerance)
    search.spend(ascent.rise, 1, not good, steepness)
    return True


def _lanes(job: Job, look: Look, product: Boxes, search: Search) -> bool:
    if search.lanes is None:
        # At least twenty gradients each: a corner is found in few.
        restarts = min(job.effort.starts, max(4, job.effort.budget // 20))
        noise = job.problem.normal((*job.seed, 2), restarts)
        if job.direction is not None:
            noise = stacked([*noise, job.direction])
        search.lanes = boxes.lanes(look, product, noise)
    live = sum(lane.done == RUNNING for lane in search.lanes)
    if not live or live > job.most - search.spent:
        return False
    count, bad = boxes.advance(look, product, search.lanes, job.tolerance)
    places = [lane.here for lane in search.lanes]
    search.spend(max(place.rise for place in places), count, bad, _steepest(look.ball, places))
    return True


def _steepest(ball: Ball, places: list[Visited]) -> float:
    return max((ball.norm(place.gradient) for place in places), default=0.0)


def outcome(search: Search) -> Found:
    """The best place of all, and how its search ended; the centre if nothing lies above it."""
    ends: list[tuple[float, Vector, int]] = []
    if search.ascent is not None:
        arrived = STATIONARY if search.ascent.reach >= one.SHORTEST else climbing.ROUNDING
        ends.append((search.ascent.rise, search.ascent.x, arrived if search.ascent.arrived else RUNNING))
    ends += [(climber.here.rise, climber.here.x, climber.done) for climber in search.climbs or []]
    ends += [(lane.here.rise, lane.here.x, lane.done) for lane in search.lanes or []]
    ends += [(each.here.rise, each.here.x, RUNNING) for each in search.pool or [] if each.age > 0]
    ends = [end for end in ends if math.isfinite(end[0])]
    if not ends:
        return Found(0.0 * search.centre.gradient, 0.0, np.zeros(1), RUNNING)
    rises = np.asarray([rise for rise, *_ in ends])
    rise, x, done = ends[int(np.argmax(rises))]
    if not rise > 0:
        return Found(0.0 * x, 0.0, rises, max(done for *_, done in ends))
    return Found(x, rise, rises, done)


def at_radius(search: Search, radius: float) -> Search:
    """A search at another radius around the same centre, of which all is known already."""
    gradients = replace(search, radius=radius, history=np.zeros(256), spent=0, nonfinite=0, planted=0)
    return replace(gradients, pool=None, climbs=None, ascent=None, lanes=None)


def check_state(call: str, state: Tree, radius: float, size: int) -> None:
    """A state that belongs to this measurement, as far as can be seen."""
    if state is None:
        return
    if not isinstance(state, Search):
        raise SharpnessError(f"`{call}` needs state= the `.state` of an earlier result, got {type(state).__name__}.")
    held = (state.ascent.x if state.ascent is not None else state.centre.gradient).shape[-1]
    if held != size or not np.isclose(float(state.radius), radius):
        raise SharpnessError(
            f"`{call}` got the state= of another measurement: {held} parameters and radius "
            f"{float(state.radius):g}, and here are {size} and {radius:g}."
        )

"""The search for the largest rise in a ball, spending a given number of gradients.

Three compiled stages run from the host: a model of the Hessian at the centre, many short ascents, and a few climbs to a
certificate. Each is a bounded number of rounds, so that between two calls progress can be shown, a keyboard interrupt
keeps what was found, and the state can be saved. A round is a function of the state alone: cut anywhere, the search
ends where it would have ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.sharpness.climbing import Climber, climb, climbers
from quotax.sharpness.curvature import Curvature, lanczos
from quotax.sharpness.devices import batched, replicated
from quotax.sharpness.effort import PRODUCT, Effort
from quotax.sharpness.exploring import GROWN, Explorer, distinct, explore, nobody, plant
from quotax.sharpness.places import ROOM, Centre, Look, Visit
from quotax.sharpness.search import Search
from quotax.sharpness.setting import Problem, Setting
from quotax.sharpness.single import ascend, at_centre
from quotax.sharpness.vectors import finite
from quotax.sharpness.watching import Interrupts

TOGETHER = 8
"""Rounds in one call when several processes take part."""


class Pace:
    """Rounds in one call of a stage: as many as take about a second, so that there is something to show."""

    def __init__(self) -> None:
        """One round first: nothing is known of its duration, and it compiles.

        Several processes must all run the same rounds, whatever their clocks say.
        """
        self.rounds = 1 if jax.process_count() == 1 else TOGETHER
        self._compiled: set[Any] = set()

    def run(self, program: Callable[..., Any], *arguments: Any, limit: int) -> tuple[Any, Visit]:
        """The stage after at most `limit` rounds; the one before is used up."""
        start = time.perf_counter()
        stack, visit = program(*arguments, jnp.asarray(limit, jnp.int32))
        visit = jax.device_get(visit)
        if jax.process_count() == 1 and program in self._compiled and visit.rounds:
            each = (time.perf_counter() - start) / int(visit.rounds)
            self.rounds = max(1, min(ROOM, int(1.0 / max(each, 1e-9))))
        self._compiled.add(program)
        return stack, visit


def maximise(
    setting: Setting,
    radius: jax.Array,
    tolerance: jax.Array,
    effort: Effort,
    key: jax.Array,
    direction: jax.Array | None,
    report: Callable[[Search], None],
    search: Search | None = None,
) -> tuple[Search, bool]:
    """The search after its budget is spent or its certificate found, and whether it was interrupted before that.

    `report` is called after every call of a compiled stage; `search` is one to be taken up again.
    """
    if search is None:
        search = _begin(setting, radius, effort, key)
    else:
        # Stages use up what they are given, and the caller keeps the state.
        mine = lambda stack: jnp.array(stack, copy=True)
        search = replace(search, pool=jax.tree.map(mine, search.pool), climbs=jax.tree.map(mine, search.climbs))
    if not np.isfinite(search.centre.base):
        return search, False
    with Interrupts() as interrupts:
        try:
            for following in _stages(setting, radius, tolerance, effort, direction, search):
                search = following
                report(search)
                if interrupts.asked:
                    return search, True
        except KeyboardInterrupt:
            # Of a state that a program was using there is nothing left to return.
            if search.pool.here.x.is_deleted():
                raise
            return search, True
    return search, False


def _noise(seed: Any, number: int, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    return draw(jax.random.fold_in(jax.random.key(int(seed)), number), shape, dtype)


def _begin(setting: Setting, radius: jax.Array, effort: Effort, key: jax.Array) -> Search:
    size, dtype = setting.layout.size, setting.layout.dtype
    if effort.single:
        base, steepness, pool = setting.program(_single_centre, None)(radius)
        centre, seed = Centre(base, jnp.zeros(0, dtype), None), np.uint32(0)
        return Search(seed, np.asarray(radius), centre, None, pool, None, np.zeros(1), 1, 0, float(steepness))
    seed = np.asarray(jax.random.bits(key, (), jnp.uint32))
    noise = replicated(setting.mesh, _noise(seed, 2**31, (size,), dtype))
    count = jnp.asarray(effort.curvature, jnp.int32) if effort.curvature else None
    centre, steepness, known = setting.program(at_origin, effort.memory)(radius, noise, count)
    pool = _nobody(effort.kept + effort.width, centre.gradient)
    history = np.zeros(1 + PRODUCT * effort.curvature)
    return Search(seed, np.asarray(radius), centre, known, pool, None, history, 0, 0, float(steepness))


def _stages(
    setting: Setting, radius: jax.Array, tolerance: jax.Array, effort: Effort, direction: Any, search: Search
) -> Iterator[Search]:
    """The states that follow, one after each call of a compiled stage."""
    pace = Pace()
    if effort.single:
        yield from _single_stages(setting, radius, tolerance, effort, search, pace)
        return
    centre = (radius, search.centre)
    planting = setting.program(_planted, None, donated=0)
    exploring = setting.program(_explore, effort.width, donated=2)
    while search.climbs is None:
        left = effort.budget - search.spent
        ages = np.asarray(search.pool.age)
        young = ages[(ages >= 0) & (ages < effort.visits)]
        if not young.size and search.planted < effort.starts and left >= effort.width:
            count = min(effort.width, effort.starts - search.planted)
            shape = (count, setting.layout.size)
            noise = replicated(setting.mesh, _noise(search.seed, search.planted, shape, radius.dtype))
            first, turning = jnp.asarray(search.planted, jnp.int32), jnp.asarray(effort.turning)
            pool = planting(search.pool, search.centre.gradient, direction, noise, first, turning)
            search = replace(search, pool=pool, planted=search.planted + count)
            continue
        rounds = int(effort.visits - young.min()) if young.size else (left - effort.reserve) // effort.width
        limit = min(rounds, left // effort.width, pace.rounds)
        if limit <= 0:
            break
        grown = effort.visits if search.planted < effort.starts else GROWN
        ages = (jnp.asarray(age, jnp.int32) for age in (effort.visits, grown))
        pool, visit = pace.run(exploring, *centre, search.pool, *ages, limit=limit)
        search = _after(replace(search, pool=pool), visit, effort.width)
        yield search
        if not young.size and int(visit.rounds) < limit:
            break
    if search.climbs is None and search.spent < effort.budget:
        starting = setting.program(_climbers, (effort.climbs, effort.memory))
        climbs = starting(search.centre.gradient, search.pool, search.known)
        search = replace(search, climbs=climbs)
    climbing = setting.program(_climb, None, donated=2)
    while search.climbs is not None and search.spent < effort.most:
        limit = min(effort.most - search.spent, pace.rounds)
        climbs, visit = pace.run(climbing, *centre, search.climbs, tolerance, limit=limit)
        search = _after(replace(search, climbs=climbs), visit, 1)
        yield search
        if int(visit.rounds) < limit:
            break


def _single_stages(
    setting: Setting, radius: jax.Array, tolerance: jax.Array, effort: Effort, search: Search, pace: Pace
) -> Iterator[Search]:
    """The states of a single ascent; each is used up by the next."""
    ascending = setting.program(_single, None, donated=2)
    while search.spent < effort.budget:
        limit = min(effort.budget - search.spent, pace.rounds)
        pool, visit = pace.run(ascending, radius, search.centre.base, search.pool, tolerance, limit=limit)
        search = _after(replace(search, pool=pool), visit, 1)
        yield search
        if int(visit.rounds) < limit or float(pool.side[0]):
            break


def _after(search: Search, visit: Visit, width: int) -> Search:
    """The search with what a stage reports; every round spends `width` gradients."""
    seen = np.repeat(np.asarray(visit.history[: int(visit.rounds)], float), width)
    history = np.maximum.accumulate(np.concatenate([search.history, seen]))
    nonfinite = int(search.nonfinite) + int(visit.nonfinite)
    steepest = max(float(search.steepest), float(visit.steepest))
    return replace(search, history=history, nonfinite=nonfinite, steepest=steepest)


def at_origin(
    problem: Problem, memory: int, radius: jax.Array, noise: jax.Array, count: jax.Array | None
) -> tuple[Centre, jax.Array, Curvature | None]:
    """What is known at the centre, its gradient's norm, and what `count` Hessian-vector products there tell."""
    origin = jnp.zeros(problem.layout.size, problem.layout.dtype)
    look = look_in(problem, radius, Centre(origin[0], origin, None))
    base, gradient = look.at(origin)
    gradient = jnp.where(finite(gradient), gradient, 0.0)
    flat = look.ball.horizontal(noise)
    probe = None if problem.point is None else noise - flat
    known = None if count is None else lanczos(look.ball, problem.hessian_vector, gradient, flat, count, memory)
    return Centre(base, gradient, probe), look.ball.norm(gradient), known


def _explore(
    problem: Problem, width: int, radius: Any, centre: Centre, pool: Explorer, young: Any, grown: Any, limit: Any
) -> tuple:
    return explore(look_in(problem, radius, centre), pool, width, young, grown, limit)


def _planted(problem: Problem, _: None, pool: Explorer, *arguments: Any) -> Explorer:
    return plant(problem.ball, pool, *arguments)


def _climbers(problem: Problem, sizes: tuple[int, int], gradient: Any, pool: Explorer, known: Any) -> Climber:
    count, memory = sizes
    return climbers(gradient, distinct(problem.ball, pool), count, known, memory)


def _climb(problem: Problem, _: None, radius: Any, centre: Centre, stack: Climber, tolerance: Any, limit: Any) -> tuple:
    return climb(look_in(problem, radius, centre), stack, tolerance, limit)


def _single_centre(problem: Problem, _: None, radius: Any) -> tuple:
    origin = jnp.zeros(problem.layout.size, problem.layout.dtype)
    return at_centre(look_in(problem, radius, Centre(origin[0], origin, None)), origin)


def _single(
    problem: Problem, _: None, radius: Any, base: Any, pool: Explorer, tolerance: Any, limit: Any
) -> tuple[Explorer, Visit]:
    return ascend(look_in(problem, radius, Centre(base, pool.here.gradient, None)), pool, tolerance, limit)


def look_in(problem: Problem, radius: Any, centre: Centre) -> Look:
    """What the stages need, in the ball of a radius."""
    ball = problem.ball._replace(radius=radius)

    def at(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        params, pull_back = jax.vjp(ball.embed, x)
        value, covector = problem.value_and_gradient(params)
        return jnp.asarray(value).astype(x.dtype), ball.gradient(pull_back(covector)[0])

    return Look(ball, at, centre, batched(problem.mesh, problem.layout.size))


# Programs of their own: they depend on sizes only, and are compiled once for all losses.
draw = jax.jit(jax.random.normal, static_argnums=(1, 2))
_nobody = jax.jit(nobody, static_argnums=0)

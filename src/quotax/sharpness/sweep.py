"""The search at many radii in one compiled program, each warm-started where the smaller ball's ended."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from quotax.sharpness.climbing import RUNNING, climb, climbers
from quotax.sharpness.effort import PRODUCT, Effort
from quotax.sharpness.exploring import GROWN, distinct, explore, nobody, plant
from quotax.sharpness.maximiser import at_origin, look_in
from quotax.sharpness.places import Visit
from quotax.sharpness.search import Found
from quotax.sharpness.setting import Problem, Setting


class Leg(NamedTuple):
    """What the search in one ball found, and the reports of its stages."""

    delta: jax.Array
    rise: jax.Array
    done: jax.Array
    rises: jax.Array
    visits: tuple[Visit, Visit, Visit]


def sweep(setting: Setting, radii: jax.Array, tolerance: jax.Array, effort: Effort, key: jax.Array) -> list[Found]:
    """What `maximise` does at every radius, on the device from the first to the last.

    The loss, its gradient and the products with the Hessian at the centre are those of all radii: spent once. Between
    two radii nothing comes back to the host, so there is no progress to show and nothing to interrupt.
    """
    seed = jax.random.bits(key, (), jnp.uint32)
    base, steepness, legs = setting.run(_sweep, effort, radii, seed, tolerance)
    reports = jax.device_get(legs._replace(delta=None))
    found, centre = [], 1 + PRODUCT * effort.curvature
    for i in range(len(radii)):
        leg = jax.tree.map(lambda stack, i=i: stack[i], reports)
        seen = [np.zeros(0 if i else centre)]
        for visit, width in zip(leg.visits, (effort.width, effort.width, 1), strict=True):
            for rounds, history in zip(np.atleast_1d(visit.rounds), np.atleast_2d(visit.history), strict=True):
                seen.append(np.repeat(np.asarray(history[:rounds], float), width))
        history = np.concatenate(seen)
        rises = leg.rises[np.isfinite(leg.rises)]
        found.append(
            Found(
                delta=legs.delta[i],
                rise=leg.rise,
                base=base,
                spent=len(history),
                history=np.maximum.accumulate(np.maximum(history, 0.0)),
                rises=rises if rises.size else np.zeros(1),
                done=leg.done,
                nonfinite=sum(int(np.sum(visit.nonfinite)) for visit in leg.visits),
                steepest=max(float(steepness), *(float(np.max(visit.steepest)) for visit in leg.visits)),
            )
        )
    return found


def _sweep(problem: Problem, effort: Effort, radii: jax.Array, seed: jax.Array, tolerance: jax.Array) -> tuple:
    size, dtype = problem.layout.size, problem.layout.dtype
    key = jax.random.key(seed)
    noise = lambda number, *shape: jax.random.normal(jax.random.fold_in(key, number), (*shape, size), dtype)
    products = jnp.asarray(effort.curvature, jnp.int32) if effort.curvature else None
    there, steepness, known = at_origin(problem, effort.memory, jnp.ones((), dtype), noise(2**31), products)
    gradient = there.gradient
    centre, width, visits = 1 + PRODUCT * effort.curvature, effort.width, effort.visits
    batches = min(-(-effort.starts // width), max(effort.budget - centre - visits, 0) // (width * visits))

    def leg(direction: jax.Array, given: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, Leg]:
        radius, left = given
        look = look_in(problem, radius, there)

        def begin(pool: Any, number: jax.Array) -> tuple[Any, Visit]:
            pool = plant(look.ball, pool, gradient, None, noise(number, width), number, effort.turning)
            return explore(look, pool, width, visits, visits, visits, visits)

        pool = nobody(effort.kept + width, gradient)
        pool, begun = lax.scan(begin, pool, width * jnp.arange(batches, dtype=jnp.int32))
        # The starts are those of a search at this radius alone, and where the smaller ball's ended is one more.
        pool = plant(look.ball, pool, gradient, direction, direction[None], 0, effort.turning)
        left = left - batches * width * visits
        most = jnp.minimum(jnp.maximum(left - effort.reserve, width * visits), left) // width
        pool, grown = explore(look, pool, width, visits, GROWN, most, effort.budget)
        stack = climbers(gradient, distinct(look.ball, pool), effort.climbs, known, effort.memory)
        stack, climbed = climb(look, stack, tolerance, left - width * grown.rounds + effort.patience, effort.most)
        rises = jnp.concatenate([stack.here.rise, pool.here.rise])
        ends = jnp.concatenate([stack.done, jnp.full(pool.age.size, RUNNING, stack.done.dtype)])
        best = jnp.argmax(rises)
        climber, explorer = stack.here.x[jnp.argmax(stack.here.rise)], pool.here.x[jnp.argmax(pool.here.rise)]
        above = rises[best] > 0
        x = jnp.where(above, jnp.where(best < stack.done.size, climber, explorer), 0.0)
        done = jnp.where(above, ends[best], jnp.max(stack.done))
        found = Leg(x, jnp.where(above, rises[best], 0.0), done, rises, (begun, grown, climbed))
        return jnp.where(above, x, direction), found

    # The first ball has no smaller one: any direction.
    allowed = jnp.full(radii.shape, effort.budget, jnp.int32).at[0].add(-centre)
    _, legs = lax.scan(leg, noise(2**31 - 1), (radii, allowed))
    return there.base, steepness, legs

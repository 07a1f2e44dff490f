"""Many short ascents: which of the loss's local maxima in the ball is worth climbing.

The landscape inside the ball has many local maxima, and most of what separates two searches is which of them they end
at. A few projected gradient steps tell the promising starts from the others; only those go on.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.sharpness.ball import Ball
from quotax.sharpness.places import Look, Place, Visit, bend, bent, outlook, run_rounds, with_rows
from quotax.sharpness.vectors import select

YOUNG = 4
"""Visits that every start is given before it is compared with the others."""

GROWN = 7
"""Visits, once all starts are made, of those that may still overtake: their outlook is this share of the best."""
PROMISING = 0.85

# An explorer that gains less than this share of its rise a step has arrived: the rest is for the climbers.
ARRIVED = 0.01

MIRRORED = 8
"""One start in so many is the best place so far, mirrored."""

REACH = 2.0
"""Of the first step, in radii: that of projected gradient ascent as published for sharpness studies."""


class Explorer(NamedTuple):
    """A short ascent. `age` counts its visits: -1 is an empty slot; at 0 `here.x` is a direction to start in.

    With a `side`, the second visit is where the gradient has changed to, `side (g(start) - g(0))`: a random start
    multiplied by the Hessian, without the gradient's own pull, which draws nearby starts to one and the same maximum.
    """

    here: Place
    gain: jax.Array
    reach: jax.Array
    age: jax.Array
    side: jax.Array


def nobody(slots: int, like: jax.Array) -> Explorer:
    """Empty slots."""
    stack, one = jnp.zeros((slots, like.size), like.dtype), jnp.zeros(slots, like.dtype)
    age = jnp.full(slots, -1, jnp.int32)
    return Explorer(Place(stack, one - jnp.inf, stack), one, one + REACH, age, one)


def plant(
    pool: Explorer, gradient: jax.Array, direction: jax.Array | None, noise: jax.Array, first: jax.Array
) -> Explorer:
    """New starts in the lowest slots: the one asked for, uphill, the best so far mirrored, and noise.

    The mirror image of a maximum is nearly one where the loss is nearly quadratic. Random starts turn to either side.
    `first` starts were planted before.
    """
    count = noise.shape[0]
    # They have all made the same number of visits.
    _, slots = jax.lax.top_k(jnp.where(pool.age < 0, jnp.inf, -pool.here.rise), count)
    mirror = -pool.here.x[jnp.argmax(pool.here.rise)]
    number = first + jnp.arange(count)
    sides = jnp.where(number % 2 == 0, 1.0, -1.0).astype(noise.dtype)
    special = (gradient, None, mirror) if direction is None else (direction, gradient, mirror)
    for i, start in enumerate(special):
        if start is not None:
            # Without a gradient there is no uphill, without a climb no mirror image: there the noise stays.
            again = (i == 2) & (number % MIRRORED == 2)
            here = ((number == i) | again) & jnp.any(start != 0)
            noise, sides = jnp.where(here[:, None], start, noise), jnp.where(here, 0.0, sides)
    fresh = jax.tree.map(lambda stack: stack[:count], nobody(count, gradient))
    place = fresh.here._replace(x=noise)
    return with_rows(pool, slots, fresh._replace(here=place, age=jnp.zeros(count, jnp.int32), side=sides))


def explore(look: Look, pool: Explorer, width: int, grown: jax.Array, limit: jax.Array) -> tuple[Explorer, Visit]:
    """Rounds of the explorers: the young, then promising ones of less than `grown` visits, then those that lead.

    It is over when the one of the best outlook has arrived.
    """
    ball = look.ball

    def priority(pool: Explorer) -> tuple[jax.Array, jax.Array]:
        seen = pool.age >= 0
        young = seen & (pool.age < YOUNG)
        standing = jnp.where(seen, outlook(pool.here.rise, pool.gain), -jnp.inf)
        promising = seen & (pool.age < grown) & (standing >= PROMISING * jnp.max(pool.here.rise))
        leader = jnp.argmax(standing)
        arrived = pool.gain[leader] <= ARRIVED * jnp.abs(pool.here.rise[leader])
        first = jnp.where(young, 2.0, jnp.where(promising, 1.0, 0.0))
        # By these classes, and by outlook within a class: the ranks are exact whatever the scale of the loss.
        rank = jnp.argsort(jnp.argsort(standing)).astype(standing.dtype)
        order = rank + standing.size * first.astype(standing.dtype)
        return jnp.where(seen, order, -jnp.inf), ~jnp.any(young | promising) & (arrived | ~jnp.any(seen))

    def step(some: Explorer) -> tuple[Explorer, jax.Array, jax.Array, jax.Array]:
        moved, good = jax.vmap(lambda one: _advance(ball, look, one))(look.spread(some))
        return moved, jnp.max(moved.here.rise), jnp.sum(~good, dtype=jnp.int32), jnp.asarray(True)

    def steepness(some: Explorer) -> jax.Array:
        return jnp.max(jax.vmap(ball.norm)(some.here.gradient))

    return run_rounds(pool, step, priority, width, limit, steepness)


def _advance(ball: Ball, look: Look, one: Explorer) -> tuple[Explorer, jax.Array]:
    here = one.here
    start = ball.radius * ball.unit(ball.horizontal(here.x))[0]
    turned = ball.radius * one.side * ball.unit(here.gradient - look.gradient)[0]
    turning = (one.age == 1) & (one.side != 0)
    x = jnp.where(one.age == 0, start, jnp.where(turning, turned, bend(ball, here, one.reach)))
    there, good = look.visit(x)
    begun = (one.age == 0) | turning
    climbed = good & (begun | (there.rise > here.rise))
    reach = jnp.where(begun, one.reach, bent(ball, here, there, climbed, one.reach))
    gain = jnp.where(climbed, jnp.abs(there.rise - here.rise), 0.5 * one.gain)
    gain = jnp.where(jnp.isfinite(gain), gain, jnp.abs(there.rise))
    # A start without a number leaves its slot empty.
    age = jnp.where(good | (one.age > 0), one.age + 1, -1).astype(jnp.int32)
    return Explorer(select(climbed, there, here), gain, reach, age, one.side), good

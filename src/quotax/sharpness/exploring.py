"""Many short ascents: which of the loss's local maxima in the ball is worth climbing.

The landscape inside the ball has many local maxima, and most of what separates two searches is which of them they end
at. A few projected gradient steps tell the promising starts from the others; only those go on. Maxima that differ are
nearly orthogonal, or opposite (a classifier that calls everything a 3 is one of them, one that calls it a 7 another),
and random starts would find the widest of them again and again: so new starts are made orthogonal to what is known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from quotax.sharpness.ball import Ball
from quotax.sharpness.places import ROOM, Look, Place, Visit, bend, bent, outlook, run_rounds, with_rows
from quotax.sharpness.vectors import select

GROWN = 7
"""Visits, once all starts are made, of those that may still overtake: their outlook is this share of the best."""
PROMISING = 0.85

# An explorer that gains less than this share of its rise a step has arrived: the rest is for the climbers.
ARRIVED = 0.01

MIRRORED = 8
"""One start in so many is the best place so far, mirrored."""

ECHO = 0.9
"""Two places of a larger cosine are on their way to one maximum."""

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
    ball: Ball,
    pool: Explorer,
    gradient: jax.Array,
    direction: jax.Array | None,
    noise: jax.Array,
    first: Any,
    turning: Any,
) -> Explorer:
    """New starts in the lowest slots: the one asked for, uphill, the best so far mirrored, and noise.

    The mirror image of a maximum is nearly one where the loss is nearly quadratic. Random starts are orthogonal to the
    places of the pool, and turn to either side if there is `turning`. `first` starts were planted before.
    """
    count = noise.shape[0]
    pool = distinct(ball, pool)
    noise = unexplored(ball, pool, jnp.zeros((), jnp.int32), jax.vmap(ball.horizontal)(noise))
    # They have all made the same number of visits.
    _, slots = jax.lax.top_k(jnp.where(pool.age < 0, jnp.inf, -pool.here.rise), count)
    mirror = -pool.here.x[jnp.argmax(pool.here.rise)]
    number = first + jnp.arange(count, dtype=jnp.int32)
    sides = jnp.where(turning, jnp.where(number % 2 == 0, 1.0, -1.0), 0.0).astype(noise.dtype)
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


def distinct(ball: Ball, pool: Explorer) -> Explorer:
    """The pool without echoes: places that point where a higher one points leave their slots."""
    units = jax.vmap(lambda x: ball.unit(x)[0])(pool.here.x)
    cosines = jax.vmap(lambda u: ball.inners(units, u))(units)
    rise, number = pool.here.rise, jnp.arange(pool.age.size, dtype=jnp.int32)
    first = number[:, None] < number[None, :]
    higher = (rise[:, None] > rise[None, :]) | ((rise[:, None] == rise[None, :]) & first)
    echo = jnp.any((cosines > ECHO) & higher, axis=0)
    empty = nobody(pool.age.size, pool.here.x[0])
    return jax.tree.map(lambda none, some: jnp.where(echo.reshape(-1, *[1] * (some.ndim - 1)), none, some), empty, pool)


def unexplored(ball: Ball, pool: Explorer, young: Any, stack: jax.Array) -> jax.Array:
    """What of some vectors is orthogonal to the places of the pool that have more than `young` visits behind them."""
    known = (pool.age >= young)[:, None]
    places = jax.vmap(lambda x: ball.unit(x)[0])(jnp.where(known, pool.here.x, 0.0))
    values, W = jnp.linalg.eigh(jax.vmap(lambda u: ball.inners(places, u))(places))
    kept = values > 1e-3
    basis = jnp.dot((W * jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, values, 1.0)), 0.0)).T, places)
    for _ in range(2):
        stack = stack - jnp.dot(jax.vmap(lambda v: ball.inners(basis, v))(stack), basis, precision="highest")
    return stack


def explore(
    look: Look, pool: Explorer, width: int, young_age: Any, grown: Any, limit: Any, room: int = ROOM
) -> tuple[Explorer, Visit]:
    """Rounds of the explorers: the young, then promising ones of less than `grown` visits, then those that lead.

    Every start has `young_age` visits before it is compared. It is over when the one of the best outlook has arrived.
    """
    ball = look.ball

    def priority(pool: Explorer) -> tuple[jax.Array, jax.Array]:
        seen = pool.age >= 0
        young = seen & (pool.age < young_age)
        standing = jnp.where(seen, outlook(pool.here.rise, pool.gain), -jnp.inf)
        promising = seen & (pool.age < grown) & (standing >= PROMISING * jnp.max(pool.here.rise))
        leader = jnp.argmax(standing)
        arrived = pool.gain[leader] <= ARRIVED * jnp.abs(pool.here.rise[leader])
        first = jnp.where(young, 2.0, jnp.where(promising, 1.0, 0.0))
        # By these classes, and by outlook within a class: the ranks are exact whatever the scale of the loss.
        rank = jnp.argsort(jnp.argsort(standing)).astype(standing.dtype)
        order = rank + standing.size * first.astype(standing.dtype)
        return jnp.where(seen, order, -jnp.inf), ~jnp.any(young | promising) & (arrived | ~jnp.any(seen))

    def step(some: Explorer, pool: Explorer) -> tuple[Explorer, jax.Array, jax.Array, jax.Array]:
        # Most of what the Hessian makes of noise lies along the maxima that are known.
        turned = jax.vmap(lambda one: one.side * (one.here.gradient - look.gradient))(some)
        turns = jnp.any(jax.vmap(_turns)(some))
        turned = jax.lax.cond(turns, lambda: unexplored(ball, pool, young_age, turned), lambda: turned)
        moved, good = look.each(lambda one, turned: _advance(look, one, turned))(some, turned)
        return moved, jnp.max(moved.here.rise), jnp.sum(~good, dtype=jnp.int32), jnp.asarray(True)

    def steepness(some: Explorer) -> jax.Array:
        return jnp.max(jax.vmap(ball.norm)(some.here.gradient))

    return run_rounds(pool, step, priority, width, limit, steepness, room)


def _turns(one: Explorer) -> jax.Array:
    return (one.age == 1) & (one.side != 0)


def _advance(look: Look, one: Explorer, turned: jax.Array) -> tuple[Explorer, jax.Array]:
    ball, here = look.ball, one.here
    starts, turns = one.age == 0, _turns(one)
    begun = starts | turns
    aim = jnp.where(starts, ball.horizontal(here.x), turned)
    x = jnp.where(begun, ball.radius * ball.unit(aim)[0], look.feasible(bend(ball, here.x, here.gradient, one.reach)))
    there, good = look.visit(x)
    climbed = good & (begun | (there.rise > here.rise))
    reach = jnp.where(begun, one.reach, bent(ball, here, there, climbed, one.reach))
    gain = jnp.where(climbed, jnp.abs(there.rise - here.rise), 0.5 * one.gain)
    gain = jnp.where(jnp.isfinite(gain), gain, jnp.abs(there.rise))
    # A start without a number leaves its slot empty.
    age = jnp.where(good | (one.age > 0), one.age + 1, -1).astype(jnp.int32)
    return Explorer(select(climbed, there, here), gain, reach, age, one.side), good

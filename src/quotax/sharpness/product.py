"""The search in a product of balls: a box (every parameter has its own interval), or one ball for every array.

Projected gradient ascent with one step length t per restart. As t grows, the projection of `x + t g` tends to the
linear model's maximiser (`radius sign(g)` in a box), so one parameter leads from a full sign step to an infinitesimal
one. A full step never lowers a convex loss; where one fails, the curvature it has met says how long the next may be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from quotax.sharpness.ball import Ball
from quotax.sharpness.search import RUNNING, STATIONARY, Found
from quotax.sharpness.vectors import Tree, dot, finite, select

ROUNDING = 2

# A step longer than this many times radius / |g| is the linear model's maximiser, to the precision of float32.
FULL = 1e12


class Lane(NamedTuple):
    """One restart: the best point, its rise and gradient, and the next step length."""

    x: jax.Array
    rise: jax.Array
    gradient: jax.Array
    step: jax.Array
    done: jax.Array


def maximise_product(
    ball: Ball,
    norms: Callable[[jax.Array], jax.Array],
    value_and_gradient: Callable[[Tree], tuple[jax.Array, Tree]],
    noise: jax.Array,
    steps: jax.Array,
    tolerance: jax.Array,
    longest: int,
) -> Found:
    """The best rise of the loss over `norms(x) <= radius`, from the linear model's maximiser and random corners.

    `norms(x)` holds, for every entry, the norm of the block that it belongs to. Restarts are the rows of `noise`.
    """
    dtype = noise.dtype
    eps = jnp.finfo(dtype).eps
    restarts = noise.shape[0]
    radius = ball.radius

    def gradient_at(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        params, pull_back = jax.vjp(ball.embed, x)
        value, covector = value_and_gradient(params)
        return jnp.asarray(value).astype(dtype), ball.horizontal(pull_back(covector)[0])

    def corner(g: jax.Array) -> jax.Array:
        """The maximiser of `g . x`."""
        size = norms(g)
        return radius * jnp.where(size > 0, g / jnp.where(size > 0, size, 1.0), 0.0)

    def project(x: jax.Array) -> jax.Array:
        size = norms(x)
        return x * jnp.where(size > radius, radius / jnp.where(size > 0, size, 1.0), 1.0)

    def candidate(lane: Lane) -> jax.Array:
        g, full = lane.gradient, corner(lane.gradient)
        long = lane.step >= FULL
        short = project(lane.x + jnp.where(long, 0.0, lane.step) * radius * g / (jnp.max(jnp.abs(g)) + _tiny(dtype)))
        # Entries without a gradient stay where they are.
        return jnp.where(long, jnp.where(norms(g) > 0, full, lane.x), short)

    origin = jnp.zeros_like(noise[0])
    base, g0 = gradient_at(origin)
    g0 = jnp.where(finite(g0), g0, 0.0)

    def digest(lane: Lane, there: jax.Array, value: jax.Array, gradient: jax.Array) -> Lane:
        move, gain = there - lane.x, value - base - lane.rise
        good = jnp.isfinite(value) & finite(gradient)
        better = good & (gain > 0)
        # The curvature that would explain the disappointment gives the longest step that could still climb.
        length = dot(move, move)
        missing = 2 * (dot(lane.gradient, move) - gain) / jnp.where(length > 0, length, 1.0)
        scale = radius / (jnp.max(jnp.abs(lane.gradient)) + _tiny(dtype))
        fitted = 1.0 / (scale * jnp.where(good & (missing > 0), missing, jnp.inf) + _tiny(dtype))
        shorter = jnp.minimum(jnp.minimum(0.25 * lane.step, 1.0), jnp.where(fitted > 0, fitted, jnp.inf))
        longer = jnp.minimum(4 * lane.step, FULL)
        resolution = 4 * eps * (jnp.abs(base) + jnp.abs(lane.rise))
        promise = dot(lane.gradient, move)
        done = jnp.where(~better & (promise <= resolution), ROUNDING, RUNNING).astype(jnp.int32)
        here = Lane(there, value - base, gradient, longer, done)
        return select(better, here, lane._replace(step=shorter, done=done))

    def certify(lane: Lane) -> Lane:
        """Stopped where no point of the linear model over the ball is higher: the first-order condition."""
        gap = dot(lane.gradient, corner(lane.gradient) - lane.x)
        reach = dot(lane.gradient, corner(lane.gradient))
        reach = jnp.maximum(reach, dot(g0, corner(g0)))
        met = gap <= tolerance * reach
        return lane._replace(done=jnp.where((lane.done == RUNNING) & met, STATIONARY, lane.done).astype(jnp.int32))

    def unfinished(state: tuple) -> jax.Array:
        i, lanes, *_ = state
        return (i < steps) & jnp.any(lanes.done == RUNNING) & jnp.isfinite(base)

    def advance(state: tuple) -> tuple:
        i, lanes, history, nonfinite, steepest = state
        candidates = jnp.where(i == 0, starts, jax.vmap(candidate)(lanes))
        values, gradients = jax.vmap(gradient_at)(candidates)
        live = lanes.done == RUNNING
        moved = jax.vmap(digest)(lanes, candidates, values, gradients)
        good = jnp.isfinite(values) & jax.vmap(finite)(gradients)
        # A start replaces the centre even if it lies lower: restarts stay different.
        begun = Lane(starts, values - base, gradients, lanes.step, lanes.done)
        moved = jax.vmap(select)((i == 0) & good, begun, moved)
        lanes = jax.vmap(certify)(jax.vmap(select)(live, moved, lanes))
        history = history.at[i + 1].set(jnp.maximum(history[i], jnp.max(lanes.rise)))
        steepest = jnp.maximum(steepest, jnp.max(jnp.linalg.norm(lanes.gradient, axis=1)))
        return i + 1, lanes, history, nonfinite + jnp.sum(~good & live, dtype=jnp.int32), steepest

    starts = jax.vmap(lambda v: corner(ball.horizontal(v)))(noise)
    starts = starts.at[0].set(jnp.where(jnp.any(g0 != 0), corner(g0), starts[0]))
    zero, integer = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
    centre = Lane(origin, zero, g0, jnp.asarray(FULL, dtype), integer)
    lanes = jax.tree.map(lambda a: jnp.broadcast_to(a, (restarts, *a.shape)), centre)
    history = jnp.zeros(longest + 1, dtype)
    steepness = jnp.linalg.norm(g0)
    spent, lanes, history, nonfinite, steepest = lax.while_loop(
        unfinished, advance, (integer, lanes, history, integer, steepness)
    )
    winner = jnp.argmax(lanes.rise)
    above = lanes.rise[winner] > 0
    delta, rise = jnp.where(above, lanes.x[winner], 0.0), jnp.where(above, lanes.rise[winner], 0.0)
    return Found(delta, rise, base, spent, history, lanes.rise, lanes.done[winner], nonfinite, steepest)


def _tiny(dtype: jnp.dtype) -> float:
    return float(jnp.finfo(dtype).tiny) ** 0.5

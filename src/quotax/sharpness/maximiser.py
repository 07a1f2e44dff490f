"""Monotone, curvature-aware ascent on a ball: several restarts as one batch in one compiled loop.

Each step spends one gradient per restart, at the point the model proposes. Whether the point is taken or not, the
gradient there is a secant that improves the model, so nothing that was paid for is thrown away. A point is taken only
if the loss is higher; a disappointing ratio of rise to promise raises the damping, a good one lowers it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from quotax.sharpness import vectors
from quotax.sharpness.ball import Ball
from quotax.sharpness.curvature import Curvature, lanczos, learn
from quotax.sharpness.model import mirror, propose
from quotax.sharpness.vectors import Stack, Vector

RUNNING, STATIONARY, ROUNDING = 0, 1, 2


@dataclass(frozen=True)
class Effort:
    """How hard to search: what fixes the compiled program, hence hashable."""

    steps: int
    restarts: int
    curvature: int
    memory: int
    tolerance: float


class Lane(NamedTuple):
    """One restart: where it is, what it knows, and what it will try next."""

    x: Vector
    rise: jax.Array
    gradient: Vector
    damping: jax.Array
    known: Curvature
    candidate: Vector
    promise: jax.Array
    top: jax.Array
    done: jax.Array


class Found(NamedTuple):
    """The outcome of a search; `history[i]` is the best rise after i steps."""

    delta: Vector
    rise: jax.Array
    base: jax.Array
    steps: jax.Array
    history: jax.Array
    rises: jax.Array
    done: jax.Array
    nonfinite: jax.Array
    gradient_at_centre: jax.Array
    steepest: jax.Array


def maximise(
    ball: Ball,
    value_and_gradient: Callable[[Vector], tuple[jax.Array, Vector]],
    like: Vector,
    key: jax.Array,
    effort: Effort,
) -> Found:
    """The best rise of the loss over the ball, from `effort.restarts` starts.

    The first start is the trust-region maximiser of the quadratic model at the centre, the second the gradient
    direction, the third mirrors the first in the top eigenvector, the others are uniform on the horizontal sphere.
    """
    dtype = vectors.scalar_dtype(like)
    eps = jnp.finfo(dtype).eps

    def metric_gradient(delta: Vector) -> tuple[jax.Array, Vector]:
        params, pull_back = jax.vjp(ball.embed, delta)
        value, covector = value_and_gradient(params)
        return jnp.asarray(value).astype(dtype), ball.gradient(pull_back(covector)[0])

    origin = vectors.zeros(like)
    base, g0 = metric_gradient(origin)
    g0 = vectors.where(vectors.finite(g0), g0, origin)

    def hessian_vector(v: Vector) -> Vector:
        return jax.jvp(lambda delta: metric_gradient(delta)[1], (origin,), (v,))[1]

    def resolution(rise: jax.Array) -> jax.Array:
        """What rounding of the loss hides."""
        return 4 * eps * (jnp.abs(base) + jnp.abs(rise))

    def plan(lane: Lane) -> Lane:
        """The lane with its next candidate, stopped if there is a certificate that none is needed."""
        step = propose(ball, lane.known, lane.x, lane.gradient, g0, lane.damping)
        # First-order conditions: zero gradient inside; on the sphere, gradient = multiplier * x with multiplier >= 0.
        normal, size = ball.unit(lane.x)
        pressure = ball.inner(normal, lane.gradient)
        on_sphere = (size >= ball.radius * (1 - 1e-5)) & (pressure > 0)
        tangent = vectors.subtract(lane.gradient, vectors.scale(jnp.where(on_sphere, pressure, 0.0), normal))
        scale = jnp.maximum(ball.norm(lane.gradient), ball.norm(g0))
        stationary = ball.norm(tangent) <= effort.tolerance * scale
        # A saddle satisfies them too; the model must not see a way up either.
        settled = step.promise <= effort.tolerance * jnp.maximum(jnp.abs(lane.rise), resolution(lane.rise))
        hidden = step.damped_promise <= 0.25 * resolution(lane.rise)
        done = jnp.where(stationary & (settled | hidden), STATIONARY, jnp.where(hidden, ROUNDING, RUNNING))
        return lane._replace(candidate=step.candidate, promise=step.promise, top=step.top, done=done.astype(jnp.int32))

    def digest(lane: Lane, value: jax.Array, gradient: Vector, forced: jax.Array) -> Lane:
        """The lane after the loss and its gradient at its candidate are known."""
        rise = value - base
        good = jnp.isfinite(value) & vectors.finite(gradient)
        taken = good & (forced | (rise > lane.rise))
        step = vectors.subtract(lane.candidate, lane.x)
        length = ball.norm(step)
        known = learn(ball, lane.known, step, vectors.subtract(gradient, lane.gradient))
        known = vectors.where(good, known, lane.known)

        safe_length = jnp.where(length > 0, length, 1.0)
        gain = rise - lane.rise
        # The curvature the model would have needed along the step to be right: half of it is added as damping.
        missing = jnp.maximum(2 * (lane.promise - gain) / safe_length**2, 0.0)
        steepness = ball.norm(lane.gradient) / safe_length
        raised = jnp.maximum(4 * lane.damping, lane.damping + 0.5 * missing)
        lowered = jnp.where(lane.damping < 1e-3 * steepness, 0.0, 0.25 * lane.damping)
        ratio = gain / jnp.where(lane.promise > 0, lane.promise, 1.0)
        damping = jnp.where(ratio < 0.25, raised, jnp.where(ratio > 0.75, lowered, lane.damping))
        # No value to compare with: a step at most a quarter as long, whatever the model believes.
        damping = jnp.where(good, damping, 4 * (lane.damping + steepness) + lane.top)
        damping = jnp.where(forced & good, 0.0, damping)
        x, rise, gradient = vectors.where(taken, (lane.candidate, rise, gradient), (lane.x, lane.rise, lane.gradient))
        return lane._replace(x=x, rise=rise, gradient=gradient, damping=damping, known=known)

    lanczos_key, starts_key = jax.random.split(key)
    known = lanczos(
        ball,
        hessian_vector,
        vectors.where(ball.norm(g0) > 0, g0, ball.random(lanczos_key, like)),
        effort.curvature,
        effort.memory,
        lanczos_key,
    )
    zero = jnp.zeros((), dtype)
    lanes = _starts(ball, known, origin, g0, effort, starts_key)
    lanes = jax.vmap(lambda start: Lane(origin, zero, g0, zero, known, start, zero, zero, jnp.zeros((), jnp.int32)))(
        lanes
    )

    State = tuple[jax.Array, Lane, jax.Array, jax.Array, jax.Array]

    def unfinished(state: State) -> jax.Array:
        i, lanes, *_ = state
        return (i < effort.steps) & jnp.any(lanes.done == RUNNING) & jnp.isfinite(base)

    def advance(state: State) -> State:
        i, lanes, history, nonfinite, steepest = state
        values, gradients = jax.vmap(metric_gradient)(lanes.candidate)
        live = lanes.done == RUNNING
        bad = ~(jnp.isfinite(values) & jax.vmap(vectors.finite)(gradients))
        digested = jax.vmap(digest, in_axes=(0, 0, 0, None))(lanes, values, gradients, i == 0)
        lanes = jax.vmap(vectors.where)(live, jax.vmap(plan)(digested), lanes)
        history = history.at[i + 1].set(jnp.maximum(history[i], jnp.max(lanes.rise)))
        steepest = jnp.maximum(steepest, jnp.max(jax.vmap(ball.norm)(lanes.gradient)))
        return i + 1, lanes, history, nonfinite + jnp.sum(bad & live, dtype=jnp.int32), steepest

    history = jnp.zeros(effort.steps + 1, dtype)
    counter = jnp.zeros((), jnp.int32)
    size_g0 = ball.norm(g0)
    steps, lanes, history, nonfinite, steepest = lax.while_loop(
        unfinished, advance, (counter, lanes, history, jnp.zeros((), jnp.int32), size_g0)
    )
    best = jnp.argmax(lanes.rise)
    above = lanes.rise[best] > 0
    delta = jax.tree.map(lambda leaf: jnp.where(above, leaf[best], 0.0), lanes.x)
    rise = jnp.where(above, lanes.rise[best], 0.0)
    return Found(delta, rise, base, steps, history, lanes.rise, lanes.done[best], nonfinite, size_g0, steepest)


def _starts(ball: Ball, known: Curvature, origin: Vector, g0: Vector, effort: Effort, key: jax.Array) -> Stack:
    """The first candidates of all restarts, stacked."""
    dtype: Any = vectors.scalar_dtype(origin)
    noise = jax.vmap(lambda k: ball.random(k, origin))(jax.random.split(key, effort.restarts))

    def at(stack: Stack, i: int) -> Vector:
        return jax.tree.map(lambda leaf: leaf[i], stack)

    direction, _ = ball.unit(g0)
    uphill = vectors.scale(ball.radius, direction)
    named = [uphill]
    if effort.curvature:
        model = propose(ball, known, origin, g0, g0, jnp.zeros((), dtype)).candidate
        named = [model, uphill, ball.feasible(mirror(ball, known, model))]
    starts = []
    for i in range(effort.restarts):
        # Without a gradient there is no uphill: noise instead of the centre.
        start = named[i] if i < len(named) else at(noise, i)
        starts.append(vectors.where(ball.norm(start) > 1e-3 * ball.radius, start, at(noise, i)))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)

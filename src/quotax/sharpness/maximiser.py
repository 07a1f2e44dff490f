"""Monotone, curvature-aware ascent on a ball: several restarts as one batch in one compiled loop.

Each step spends one gradient per restart, at the point the model proposes. Whether the point is taken or not, the
gradient there is a secant that improves the model, so nothing that was paid for is thrown away. A point is taken only
if the loss is higher; a disappointing ratio of rise to promise raises the damping, a good one lowers it. Restarts that
do not begin at the model's maximiser first look around with long steps, and settle at the best point those have seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from quotax.sharpness.ball import Ball
from quotax.sharpness.curvature import Curvature, lanczos, learn, nothing_known
from quotax.sharpness.model import propose, top_direction
from quotax.sharpness.vectors import Tree, finite, select

RUNNING, STATIONARY, ROUNDING = 0, 1, 2

State: TypeAlias = "tuple[jax.Array, jax.Array, Lane, jax.Array, jax.Array, jax.Array]"
"""Of the loop: steps taken, batches of gradients, lanes, history, points that were not finite, steepest gradient."""

# Looking around goes on while a step finds a rise higher by this share, or did so within the last PATIENCE steps.
PAYS = 0.02
PATIENCE = 2


@dataclass(frozen=True)
class Effort:
    """How hard to search: what fixes the compiled program, hence hashable; `longest` is the room for the history."""

    longest: int
    restarts: int
    curvature: int
    memory: int


class Place(NamedTuple):
    """A visited point: the displacement, the rise of the loss and its horizontal metric gradient there."""

    x: jax.Array
    rise: jax.Array
    gradient: jax.Array


class Lane(NamedTuple):
    """One restart: where it is, the best it has seen, what it knows, and what it will try next.

    `look` counts down while the lane looks around; at zero it climbs, and `here` is `best`.
    """

    here: Place
    best: Place
    look: jax.Array
    damping: jax.Array
    known: Curvature
    candidate: jax.Array
    promise: jax.Array
    top: jax.Array
    done: jax.Array


class Found(NamedTuple):
    """The outcome of a search; `history[i]` is the best rise after i steps, `spent` the batches of gradients."""

    delta: jax.Array
    rise: jax.Array
    base: jax.Array
    spent: jax.Array
    history: jax.Array
    rises: jax.Array
    done: jax.Array
    nonfinite: jax.Array
    steepest: jax.Array


def maximise(
    ball: Ball,
    value_and_gradient: Callable[[Tree], tuple[jax.Array, Tree]],
    noise: jax.Array,
    steps: jax.Array,
    tolerance: jax.Array,
    effort: Effort,
) -> Found:
    """The best rise of the loss over the ball in at most `steps` steps, from `effort.restarts` starts.

    The first start is the trust-region maximiser of the quadratic model at the centre, the second the gradient
    direction, the third the model's top eigenvector on the side that the first is not on, the others are uniform on the
    horizontal sphere. `noise` holds `restarts + 1` Gaussian vectors.
    """
    dtype = noise.dtype
    eps = jnp.finfo(dtype).eps
    origin = jnp.zeros_like(noise[0])

    def metric_gradient(delta: jax.Array) -> tuple[jax.Array, jax.Array]:
        params, pull_back = jax.vjp(ball.embed, delta)
        value, covector = value_and_gradient(params)
        return jnp.asarray(value).astype(dtype), ball.gradient(pull_back(covector)[0])

    def hessian_vector(v: jax.Array) -> jax.Array:
        return jax.jvp(lambda delta: metric_gradient(delta)[1], (origin,), (v,))[1]

    base, g0 = metric_gradient(origin)
    g0 = jnp.where(finite(g0), g0, 0.0)
    steepness_at_centre = ball.norm(g0)

    def resolution(rise: jax.Array) -> jax.Array:
        """What rounding of the loss hides."""
        return 4 * eps * (jnp.abs(base) + jnp.abs(rise))

    def plan(lane: Lane, start: jax.Array, given: jax.Array) -> Lane:
        """The lane with its next candidate, stopped if there is a certificate that none is needed."""
        here = lane.here
        step = propose(ball, lane.known, here.x, here.gradient, g0, lane.damping)
        # First-order conditions: zero gradient inside; on the sphere, gradient = multiplier * x with multiplier >= 0.
        normal, size = ball.unit(here.x)
        pressure = ball.inner(normal, here.gradient)
        on_sphere = (size >= ball.radius * (1 - 1e-5)) & (pressure > 0)
        tangent = here.gradient - jnp.where(on_sphere, pressure, 0.0) * normal
        steepness = ball.norm(here.gradient)
        stationary = ball.norm(tangent) <= tolerance * jnp.maximum(steepness, steepness_at_centre)
        # A saddle satisfies them too; the model must not see a way up either.
        settled = step.promise <= tolerance * jnp.maximum(jnp.abs(here.rise), resolution(here.rise))
        hidden = step.damped_promise <= 0.25 * resolution(here.rise)
        done = jnp.where(stationary & (settled | hidden), STATIONARY, jnp.where(hidden, ROUNDING, RUNNING))
        # Looking around: the linear-maximisation step, from wherever the last one led.
        direction, _ = ball.unit(here.gradient)
        long = ball.radius * direction
        looking = lane.look > 0
        candidate = jnp.where(looking, long, step.candidate)
        return lane._replace(
            candidate=jnp.where(given, start, candidate),
            promise=step.promise,
            top=step.top,
            done=jnp.where(given | (looking & ~stationary), RUNNING, done).astype(jnp.int32),
        )

    def digest(lane: Lane, value: jax.Array, gradient: jax.Array, forced: jax.Array) -> Lane:
        """The lane after the loss and its gradient at its candidate are known."""
        here, best = lane.here, lane.best
        there = Place(lane.candidate, value - base, gradient)
        good = jnp.isfinite(value) & finite(gradient)
        looking = (lane.look > 0) | forced
        step = there.x - here.x
        length = ball.norm(step)
        known = learn(ball, lane.known, step, gradient - here.gradient)
        known = select(good, known, lane.known)

        safe_length = jnp.where(length > 0, length, 1.0)
        gain = there.rise - here.rise
        # The curvature the model would have needed along the step to be right: half of it is added as damping.
        missing = jnp.maximum(2 * (lane.promise - gain) / safe_length**2, 0.0)
        steepness = ball.norm(here.gradient) / safe_length
        raised = jnp.maximum(4 * lane.damping, lane.damping + 0.5 * missing)
        lowered = jnp.where(lane.damping < 1e-3 * steepness, 0.0, 0.25 * lane.damping)
        ratio = gain / jnp.where(lane.promise > 0, lane.promise, 1.0)
        damping = jnp.where(ratio < 0.25, raised, jnp.where(ratio > 0.75, lowered, lane.damping))
        # No value to compare with: a step at most a quarter as long, whatever the model believes.
        damping = jnp.where(good, damping, 4 * (lane.damping + steepness) + lane.top)
        damping = jnp.where(looking & good, 0.0, damping)

        # The start replaces the centre as the best place of its lane, even if it lies lower: lanes stay different.
        higher = good & (forced | (there.rise > best.rise))
        pays = good & (forced | (there.rise > best.rise + PAYS * jnp.abs(best.rise)))
        look = jnp.where(lane.look > 0, jnp.where(pays, PATIENCE, jnp.where(good, lane.look - 1, 0)), 0)
        best = select(higher, there, best)
        here = select(good & (look > 0), there, best)
        return lane._replace(here=here, best=best, look=look.astype(jnp.int32), damping=damping, known=known)

    known = lanczos(ball, hessian_vector, g0, ball.horizontal(noise[0]), effort.curvature, effort.memory)
    starts, given = _starts(ball, known, g0, noise[1:], effort)
    # Only the starts that come from the model at the centre trust it: the others would be led back to its maximiser.
    modelled = jnp.isin(jnp.arange(effort.restarts), jnp.asarray([0, 2])) & bool(effort.curvature)
    nothing = nothing_known(effort.memory, origin)
    zero, integer = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
    centre = Place(origin, zero, g0)

    def lane_at_centre(own: jax.Array) -> Lane:
        look = jnp.where(own, 0, PATIENCE).astype(jnp.int32)
        return Lane(centre, centre, look, zero, select(own, known, nothing), origin, zero, zero, integer)

    def unfinished(state: State) -> jax.Array:
        i, _, lanes, *_ = state
        return (i < steps) & jnp.any(lanes.done == RUNNING) & jnp.isfinite(base)

    def advance(state: State) -> State:
        i, spent, lanes, history, nonfinite, steepest = state
        planned = jax.vmap(plan)(lanes, starts, given & (i == 0))
        lanes = jax.vmap(select)(lanes.done == RUNNING, planned, lanes)
        live = lanes.done == RUNNING

        def look(lanes: Lane) -> tuple[Lane, jax.Array]:
            values, gradients = jax.vmap(metric_gradient)(lanes.candidate)
            bad = ~(jnp.isfinite(values) & jax.vmap(finite)(gradients))
            digested = jax.vmap(digest, in_axes=(0, 0, 0, None))(lanes, values, gradients, i == 0)
            return jax.vmap(select)(live, digested, lanes), jnp.sum(bad & live, dtype=jnp.int32)

        # A step that only finds out that every lane is done costs no gradient.
        any_live = jnp.any(live)
        lanes, bad = lax.cond(any_live, look, lambda lanes: (lanes, integer), lanes)
        history = history.at[i + 1].set(jnp.maximum(history[i], jnp.max(lanes.best.rise)))
        steepest = jnp.maximum(steepest, jnp.max(jax.vmap(ball.norm)(lanes.best.gradient)))
        return i + 1, spent + any_live.astype(jnp.int32), lanes, history, nonfinite + bad, steepest

    lanes = jax.vmap(lane_at_centre)(modelled)
    history = jnp.zeros(effort.longest + 1, dtype)
    _, spent, lanes, history, nonfinite, steepest = lax.while_loop(
        unfinished, advance, (integer, integer, lanes, history, integer, steepness_at_centre)
    )
    rises = lanes.best.rise
    winner = jnp.argmax(rises)
    above = rises[winner] > 0
    delta = jnp.where(above, lanes.best.x[winner], 0.0)
    rise = jnp.where(above, rises[winner], 0.0)
    return Found(delta, rise, base, spent, history, rises, lanes.done[winner], nonfinite, steepest)


def _starts(
    ball: Ball, known: Curvature, g0: jax.Array, noise: jax.Array, effort: Effort
) -> tuple[jax.Array, jax.Array]:
    """The first candidates of all restarts, and which lanes have one: the others begin at their model's maximiser."""

    def on_sphere(v: jax.Array) -> jax.Array:
        return ball.radius * ball.unit(v)[0]

    starts = jax.vmap(lambda v: on_sphere(ball.horizontal(v)))(noise)
    given = [True] * effort.restarts

    def replace(i: int, direction: jax.Array) -> None:
        # Without a gradient there is no uphill, without curvature no eigenvector: there the noise stays.
        nonlocal starts
        start = on_sphere(direction)
        starts = starts.at[i].set(jnp.where(ball.norm(start) > 0.5 * ball.radius, start, starts[i]))

    uphill = 1 if effort.curvature else 0
    if uphill < effort.restarts:
        replace(uphill, g0)
    if effort.curvature:
        given[0] = False
        if effort.restarts > 2:
            top = top_direction(ball, known)
            replace(2, jnp.where(ball.inner(top, g0) > 0, -1.0, 1.0) * top)
    return starts, jnp.asarray(given)

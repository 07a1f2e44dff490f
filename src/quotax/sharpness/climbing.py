"""Monotone, curvature-aware ascent to a certificate of stationarity.

Each step spends one gradient, at the point the model proposes. Whether the point is taken or not, the gradient there
is a secant that improves the model, so nothing that was paid for is thrown away. A point is taken only if the loss is
higher; a disappointing ratio of rise to promise raises the damping, a good one lowers it. Where the model keeps
failing, the loss is not quadratic at this scale, and gradient steps take over for a while. Where these keep falling
over a crease, they turn along it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from quotax.sharpness.ball import Ball
from quotax.sharpness.curvature import Curvature, learn, nothing_known
from quotax.sharpness.exploring import REACH, Explorer
from quotax.sharpness.model import Proposal, propose
from quotax.sharpness.places import ROOM, Look, Place, Visit, bend, bent, outlook, run_rounds, tangent
from quotax.sharpness.vectors import select

RUNNING, STATIONARY, ROUNDING = 0, 1, 2

UNKNOWN = 1e18
"""The gain of a climb that has made no step yet: it goes first."""

LONGEST_BEND = 7
"""Gradient steps between two steps of a model that has failed repeatedly: 1, then 3, then 7."""

CREASE = (1e-3, 0.95)
"""Shares of a slope between which the least combination with a gradient behind a crease is another way up."""


class Climber(NamedTuple):
    """Where a climb is, what it knows, and what it will try: the next `bends` steps follow the slope.

    That is the gradient, or, at a crease of the loss (the edge of a domain, where pieces of a network meet), the least
    combination of the gradients on either side: it leads along the crease, where both would cross it and fall.
    """

    here: Place
    slope: jax.Array
    creased: jax.Array
    gain: jax.Array
    damping: jax.Array
    reach: jax.Array
    bends: jax.Array
    failures: jax.Array
    known: Curvature
    done: jax.Array


def climbers(gradient: jax.Array, pool: Explorer, count: int, known: Curvature | None, memory: int) -> Climber:
    """Climbs from the best explorers and, if the Hessian at the centre is known, one from its model's maximiser.

    The others know nothing of the centre: its model would lead them back to its own maximiser.
    """
    zero, integer, smooth = jnp.zeros((), gradient.dtype), jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    nothing = nothing_known(memory, gradient)

    def from_explorer(i: jax.Array) -> Climber:
        one = jax.tree.map(lambda stack: stack[i], pool)
        slope = one.here.gradient
        return Climber(
            one.here, slope, smooth, one.gain, zero, one.reach, integer + 1, integer, nothing, integer
        )  # fmt: skip

    _, best = lax.top_k(pool.here.rise, count)
    stack = jax.vmap(from_explorer)(best)
    if known is None:
        return stack
    centre = Place(jnp.zeros_like(gradient), zero, gradient)
    own = Climber(
        centre, gradient, smooth, UNKNOWN + zero, zero, REACH + zero, integer, integer, known, integer
    )  # fmt: skip
    return jax.tree.map(lambda one, others: jnp.concatenate([one[None], others]), own, stack)


def climb(
    look: Look, stack: Climber, tolerance: jax.Array, limit: jax.Array, room: int = ROOM
) -> tuple[Climber, Visit]:
    """Steps of the climber of the best outlook, until that one has a certificate."""
    ball = look.ball

    def priority(stack: Climber) -> tuple[jax.Array, jax.Array]:
        running = stack.done == RUNNING
        standing = outlook(stack.here.rise, jnp.where(running, stack.gain, 0.0))
        over = ~running[jnp.argmax(standing)]
        return jnp.where(running, standing, -jnp.inf), over

    def step(some: Climber, _: Climber) -> tuple[Climber, jax.Array, jax.Array, jax.Array]:
        one = jax.tree.map(lambda row: row[0], some)
        here = one.here
        proposal = propose(ball, one.known, here.x, here.gradient, look.gradient, one.damping)
        done = _certified(look, here, proposal, one.reach, tolerance)
        running = done == RUNNING
        # A step that only finds its certificate costs no gradient.
        moved, good = lax.cond(
            running, lambda: _advance(look, one, proposal), lambda: (one._replace(done=done), jnp.asarray(True))
        )
        return jax.tree.map(lambda row: row[None], moved), moved.here.rise, (~good).astype(jnp.int32), running

    def steepness(some: Climber) -> jax.Array:
        return ball.norm(some.here.gradient[0])

    return run_rounds(stack, step, priority, 1, limit, steepness, room)


def _advance(look: Look, one: Climber, proposed: Proposal) -> tuple[Climber, jax.Array]:
    ball, here = look.ball, one.here
    bending = one.bends > 0
    ahead = bend(ball, here.x, one.slope, one.reach)
    there, good = look.visit(look.feasible(jnp.where(bending, ahead, proposed.candidate)))

    step = there.x - here.x
    length = ball.norm(step)
    known = learn(ball, one.known, step, there.gradient - here.gradient, good)
    safe_length = jnp.where(length > 0, length, 1.0)
    gain = there.rise - here.rise
    climbed = good & (gain > 0)

    # The curvature the model would have needed along the step to be right: half of it is added as damping.
    missing = jnp.maximum(2 * (proposed.promise - gain) / safe_length**2, 0.0)
    steepness = ball.norm(here.gradient) / safe_length
    raised = jnp.maximum(4 * one.damping, one.damping + 0.5 * missing)
    lowered = jnp.where(one.damping < 1e-3 * steepness, 0.0, 0.25 * one.damping)
    ratio = gain / jnp.where(proposed.promise > 0, proposed.promise, 1.0)
    damping = jnp.where(ratio < 0.25, raised, jnp.where(ratio > 0.75, lowered, one.damping))
    # No value to compare with: a step at most a quarter as long, whatever the model believes.
    damping = jnp.where(good, damping, 4 * (one.damping + steepness) + proposed.top)
    damping = jnp.where(bending, jnp.where(climbed, 0.25 * one.damping, one.damping), damping)
    slope, creased, reach = lax.cond(
        bending,
        lambda: _bent(ball, one, there, good, climbed),
        lambda: (select(climbed, there.gradient, one.slope), one.creased & ~climbed, one.reach),
    )

    failed = ~bending & ~(good & (ratio > 0.1))
    failures = jnp.where(bending, one.failures, jnp.where(failed, one.failures + 1, 0))
    pause = jnp.minimum(2 ** jnp.minimum(failures, 8) - 1, LONGEST_BEND)
    bends = jnp.where(bending, one.bends - 1, jnp.where(failed, pause, 0))

    here = select(climbed, there, here)
    gain = jnp.where(climbed, gain, 0.5 * jnp.minimum(one.gain, jnp.abs(here.rise)))
    bends, failures = bends.astype(jnp.int32), failures.astype(jnp.int32)
    return Climber(here, slope, creased, gain, damping, reach, bends, failures, known, one.done), good


def _bent(
    ball: Ball, one: Climber, there: Place, good: jax.Array, climbed: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The slope after a bend, whether it is that of a crease, and the next reach.

    The least element of the segment between the last slope and the new gradient (Wolfe's conjugate subgradient): after
    a fall the gradient behind the crease turns the slope along it, and a climb along a crease keeps to it.
    """
    here = one.here
    at = Place(jnp.where(climbed, there.x, here.x), there.rise, there.gradient)
    pressed = (ball.norm(at.x) >= ball.radius * (1 - 1e-5)) & (ball.inner(here.x, here.gradient) > 0)
    flat = lambda v: jnp.where(pressed, tangent(ball, at._replace(gradient=v)), v)
    old, new = flat(one.slope), flat(there.gradient)
    change = new - old
    square = ball.inner(change, change)
    share = jnp.clip(-ball.inner(old, change) / jnp.where(square > 0, square, 1.0), 0.0, 1.0)
    least = old + share * change
    left = ball.norm(least) / jnp.maximum(ball.norm(old), jnp.finfo(old.dtype).tiny)
    turned = good & (share > 0) & (left > CREASE[0]) & (left < CREASE[1])
    creased = jnp.where(climbed, one.creased & (share < 1), turned)
    slope = jnp.where(creased, least, jnp.where(climbed, there.gradient, here.gradient))
    reach = bent(ball, here, there, climbed, one.reach)
    along = jnp.where(climbed, 2.0, 0.5) * one.reach
    return slope, creased, jnp.where(creased, along, reach)


def _certified(look: Look, here: Place, proposal: Proposal, reach: jax.Array, tolerance: jax.Array) -> jax.Array:
    """Whether no further step is needed, and why."""
    ball = look.ball
    resolution = 4 * jnp.finfo(here.x.dtype).eps * (jnp.abs(look.base) + jnp.abs(here.rise))
    # First-order conditions: zero gradient inside; on the sphere, gradient = multiplier * x with multiplier >= 0.
    slope = ball.norm(here.gradient)
    on_sphere = (ball.norm(here.x) >= ball.radius * (1 - 1e-5)) & (ball.inner(here.x, here.gradient) > 0)
    left = jnp.where(on_sphere, ball.norm(tangent(ball, here)), slope)
    stationary = left <= tolerance * jnp.maximum(slope, ball.norm(look.gradient))
    # A saddle satisfies them too; the model must not see a way up either.
    settled = proposal.promise <= tolerance * jnp.maximum(jnp.abs(here.rise), resolution)
    # What the loss cannot resolve, neither along the model's step nor along the gradient.
    hidden = proposal.damped_promise <= 0.25 * resolution
    invisible = hidden & (jnp.minimum(reach, 1.0) * ball.radius * left <= resolution)
    done = jnp.where(stationary & (settled | hidden), STATIONARY, jnp.where(invisible, ROUNDING, RUNNING))
    return done.astype(jnp.int32)

"""Monotone, curvature-aware ascent to a certificate of stationarity.

Each step spends one gradient, at the point the model proposes. Whether the point is taken or not, the gradient there
is a secant that improves the model, so nothing that was paid for is thrown away. A point is taken only if the loss is
higher; a disappointing ratio of rise to promise raises the damping, a good one lowers it. Where the model keeps
failing, the loss is not quadratic at this scale, and gradient steps take over for a while. Where these keep falling
over a crease, they turn along it.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from quotax.sharpness.problem.vectors import Vector
from quotax.sharpness.search.exploring import REACH, Explorer
from quotax.sharpness.search.hessian_memory import HessianMemory, learn, nothing_known
from quotax.sharpness.search.places import Look, Visited, bend, bent, outlook, tangent
from quotax.sharpness.search.proposal import Proposal, propose

RUNNING, STATIONARY, ROUNDING = 0, 1, 2

UNKNOWN = 1e18
"""The gain of a climb that has made no step yet: it goes first."""

LONGEST_BEND = 7
"""Gradient steps between two steps of a model that has failed repeatedly: 1, then 3, then 7."""

CREASE = (1e-3, 0.95)
"""Shares of a slope between which the least combination with a gradient behind a crease is another way up."""


@jax.tree_util.register_dataclass
@dataclass
class Climber:
    """Where a climb is, what it knows, and what it will try: the next `bends` steps follow the slope.

    That is the gradient, or, at a crease of the loss (the edge of a domain, where pieces of a network meet), the least
    combination of the gradients on either side: it leads along the crease, where both would cross it and fall.
    """

    here: Visited
    slope: Vector
    creased: bool
    gain: float
    damping: float
    reach: float
    bends: int
    failures: int
    known: HessianMemory
    done: int

    @property
    def outlook(self) -> float:
        """What it may come to."""
        return outlook(self.here.rise, self.gain if self.done == RUNNING else 0.0)


def climbers(gradient: Vector, pool: list[Explorer], known: HessianMemory | None, memory: int) -> list[Climber]:
    """Climbs from explorers and, if the Hessian at the centre is known, one from its model's maximiser.

    The others know nothing of the centre: its model would lead them back to its own maximiser.
    """
    climbs = []
    if known is not None:
        centre = Visited(0.0 * gradient, 0.0, gradient)
        climbs.append(Climber(centre, gradient, False, UNKNOWN, 0.0, REACH, 0, 0, known, RUNNING))
    for one in pool:
        nothing = nothing_known(memory, gradient)
        climbs.append(Climber(one.here, one.here.gradient, False, one.gain, 0.0, one.reach, 1, 0, nothing, RUNNING))
    return climbs


def certified(look: Look, one: Climber, tolerance: float) -> Proposal | None:
    """The next step of a climb; nothing if none is needed, and then the climb says why."""
    ball, here = look.ball, one.here
    proposal = propose(ball, one.known, here.x, here.gradient, look.gradient, one.damping, look.eps)
    resolution = 4 * look.eps * (abs(look.base) + abs(here.rise))
    # First-order conditions: zero gradient inside; on the sphere, gradient = multiplier * x with multiplier >= 0.
    slope = left = ball.norm(here.gradient)
    if ball.norm(here.x) >= ball.radius * (1 - 1e-5) and ball.inner(here.x, here.gradient) > 0:
        left = ball.norm(tangent(ball, here.x, here.gradient))
    stationary = left <= tolerance * max(slope, ball.norm(look.gradient))
    # A saddle satisfies them too; the model must not see a way up either.
    settled = proposal.promise <= tolerance * max(abs(here.rise), resolution)
    # What the loss cannot resolve, neither along the model's step nor along the gradient.
    hidden = proposal.damped_promise <= 0.25 * resolution
    if stationary and (settled or hidden):
        one.done = STATIONARY
    elif hidden and min(one.reach, 1.0) * ball.radius * left <= resolution:
        one.done = ROUNDING
    return proposal if one.done == RUNNING else None


def advance(look: Look, one: Climber, proposed: Proposal) -> bool:
    """One step, at the cost of one gradient; whether there were numbers where it led."""
    ball, here, bending = look.ball, one.here, one.bends > 0
    candidate = bend(ball, here.x, one.slope, one.reach) if bending else proposed.candidate
    there, good = look.visit(look.feasible(candidate))
    step = there.x - here.x
    length = ball.norm(step)
    gain = there.rise - here.rise
    climbed = good and gain > 0
    safe_length = length if length > 0 else 1.0
    steepness = ball.norm(here.gradient) / safe_length
    if good:
        learn(ball, one.known, step, length, there.gradient - here.gradient, look.eps)
    ratio = gain / (proposed.promise if proposed.promise > 0 else 1.0)
    if bending:
        one.damping *= 0.25 if climbed else 1.0
        one.bends -= 1
        _turn(look, one, there, good, climbed)
    else:
        if not good:
            # No value to compare with: a step at most a quarter as long, whatever the model believes.
            one.damping = 4 * (one.damping + steepness) + proposed.top
        elif ratio < 0.25:
            # The curvature the model would have needed along the step to be right: half of it is added as damping.
            missing = max(2 * (proposed.promise - gain) / safe_length**2, 0.0)
            one.damping = max(4 * one.damping, one.damping + 0.5 * missing)
        elif ratio > 0.75:
            one.damping = 0.0 if one.damping < 1e-3 * steepness else 0.25 * one.damping
        failed = not (good and ratio > 0.1)
        one.failures = one.failures + 1 if failed else 0
        one.bends = min(2 ** min(one.failures, 8) - 1, LONGEST_BEND) if failed else 0
        if climbed:
            one.slope, one.creased = there.gradient, False
    one.gain = gain if climbed else 0.5 * min(one.gain, abs(here.rise))
    if climbed:
        one.here = there
    return good


def _turn(look: Look, one: Climber, there: Visited, good: bool, climbed: bool) -> None:
    """The slope after a bend, whether it is that of a crease, and the next reach.

    The least element of the segment between the last slope and the new gradient (Wolfe's conjugate subgradient): after
    a fall the gradient behind the crease turns the slope along it, and a climb along a crease keeps to it.
    """
    ball, here = look.ball, one.here
    x = there.x if climbed else here.x
    pressed = ball.norm(x) >= ball.radius * (1 - 1e-5) and ball.inner(here.x, here.gradient) > 0
    along = lambda v: tangent(ball, x, v) if pressed else v
    old = least = along(one.slope)
    creased = False
    if good:
        change = along(there.gradient) - old
        square = ball.inner(change, change)
        share = float(np.clip(-ball.inner(old, change) / (square if square > 0 else 1.0), 0.0, 1.0))
        least = old + share * change
        left = ball.norm(least) / max(ball.norm(old), np.finfo(float).tiny)
        turned = share > 0 and CREASE[0] < left < CREASE[1]
        creased = one.creased and share < 1 if climbed else turned
    reach = bent(ball, here, there, climbed, one.reach)
    one.slope = least if creased else there.gradient if climbed else here.gradient
    one.reach = (2.0 if climbed else 0.5) * one.reach if creased else reach
    one.creased = creased

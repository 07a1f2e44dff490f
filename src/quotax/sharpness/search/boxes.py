"""The search in a product of balls: a box (every parameter has its own interval), or one ball for every array.

Projected gradient ascent with one step length t per restart. As t grows, the projection of `x + t g` tends to the
linear model's maximiser (`radius sign(g)` in a box), so one parameter leads from a full sign step to an infinitesimal
one. A full step never lowers a convex loss; where one fails, the curvature it has met says how long the next may be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import jax
import numpy as np

from quotax.sharpness.problem.vectors import Vector, dot
from quotax.sharpness.search.climbing import ROUNDING, RUNNING, STATIONARY
from quotax.sharpness.search.places import Look, Visited
from quotax.trees import AnyArray

# A step longer than this many times radius / |g| is the linear model's maximiser, to the precision of float32.
FULL = 1e12


@jax.tree_util.register_dataclass
@dataclass
class Lane:
    """One restart: the best point with its rise and gradient, the next step length, and where it starts."""

    here: Visited
    step: float
    done: int
    start: Vector | None


@dataclass(frozen=True)
class Boxes:
    """`norms(x) <= radius`, where `norms(x)` holds for every entry the norm of the block that it belongs to."""

    norms: Callable[[Vector], Vector]
    radius: float

    def corner(self, g: Vector) -> Vector:
        """The maximiser of `g . x`."""
        size = self.norms(g)
        with np.errstate(divide="ignore", invalid="ignore"):
            return _where(size > 0, (g / size) * self.radius, g)

    def project(self, x: Vector) -> Vector:
        """The nearest point."""
        size = self.norms(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            return _where(size > self.radius, x * (self.radius / size), x)

    def candidate(self, lane: Lane) -> Vector:
        """The next point of a restart."""
        x, g = lane.here.x, lane.here.gradient
        if lane.start is not None:
            return lane.start
        if lane.step >= FULL:
            # Entries without a gradient stay where they are.
            return _where(self.norms(g) > 0, self.corner(g), x)
        return self.project(x + (lane.step * self.radius / (_largest(g) + _tiny(g))) * g)


def lanes(look: Look, boxes: Boxes, noise: Vector) -> list[Lane]:
    """One for each row of noise: from the linear model's maximiser, and from random corners."""
    starts = [boxes.corner(look.ball.horizontal(row)) for row in noise]
    if bool((look.gradient != 0).any()):
        starts[0] = boxes.corner(look.gradient)
    centre = Visited(0.0 * look.gradient, 0.0, look.gradient)
    return [Lane(centre, FULL, RUNNING, start) for start in starts]


def advance(look: Look, boxes: Boxes, stack: list[Lane], tolerance: float) -> tuple[int, int]:
    """A visit of every restart that is not over; how many there were, and how many of them met no number."""
    live = [lane for lane in stack if lane.done == RUNNING]
    bad = 0
    for lane, (there, good) in zip(live, look.visits([boxes.candidate(lane) for lane in live]), strict=True):
        bad += not good
        _digest(look, boxes, lane, there, good)
        if lane.done == RUNNING:
            _certify(look, boxes, lane, tolerance)
    return len(live), bad


def _digest(look: Look, boxes: Boxes, lane: Lane, there: Visited, good: bool) -> None:
    if lane.start is not None and good:
        # A start replaces the centre even if it lies lower: restarts stay different.
        lane.here, lane.start = there, None
        return
    lane.start = None
    move, gain = there.x - lane.here.x, there.rise - lane.here.rise
    promise = dot(lane.here.gradient, move)
    if good and gain > 0:
        lane.here, lane.step = there, min(4 * lane.step, FULL)
        return
    resolution = 4 * look.eps * (abs(look.base) + abs(lane.here.rise))
    if promise <= resolution:
        lane.done = ROUNDING
    # The curvature that would explain the disappointment gives the longest step that could still climb.
    length = dot(move, move)
    missing = 2 * (promise - gain) / (length if length > 0 else 1.0) if good else math.nan
    scale = boxes.radius / (_largest(lane.here.gradient) + _tiny(move))
    fitted = 1.0 / (scale * missing) if missing > 0 and scale * missing > 0 else math.inf
    lane.step = min(0.25 * lane.step, 1.0, fitted)


def _certify(look: Look, boxes: Boxes, lane: Lane, tolerance: float) -> None:
    """Stopped where no point of the linear model over the ball is higher: the first-order condition."""
    g, g0 = lane.here.gradient, look.gradient
    corner = boxes.corner(g)
    reach = max(dot(g, corner), dot(g0, boxes.corner(g0)))
    if dot(g, corner - lane.here.x) <= tolerance * reach:
        lane.done = STATIONARY


def _where(condition: AnyArray, one: Vector, other: Vector) -> Vector:
    xp: ModuleType = np if isinstance(other, np.ndarray) else jax.numpy
    return xp.where(condition, one, other)


def _largest(v: Vector) -> float:
    return float(abs(v).max())


def _tiny(v: Vector) -> float:
    return float(jax.numpy.finfo(v.dtype).tiny) ** 0.5

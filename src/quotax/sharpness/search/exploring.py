"""Many short ascents: which of the loss's local maxima in the ball is worth climbing.

The landscape inside the ball has many local maxima, and most of what separates two searches is which of them they end
at. A few projected gradient steps tell the promising starts from the others; only those go on. Maxima that differ are
nearly orthogonal, or opposite (a classifier that calls everything a 3 is one of them, one that calls it a 7 another),
and random starts would find the widest of them again and again: so new starts are made orthogonal to what is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import numpy as np

from quotax.sharpness.problem.ball import Ball
from quotax.sharpness.problem.vectors import Vector, combine, stacked
from quotax.sharpness.search.places import Look, Visited, bend, bent, outlook

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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Explorer:
    """A short ascent. `age` counts its visits: before the first, `here.x` is a direction to start in.

    With a `side`, the second visit is where the gradient has changed to, `side (g(start) - g(0))`: a random start
    multiplied by the Hessian, without the gradient's own pull, which draws nearby starts to one and the same maximum.
    """

    here: Visited
    gain: float
    reach: float
    age: int
    side: float

    @property
    def outlook(self) -> float:
        """What it may come to."""
        return outlook(self.here.rise, self.gain)

    @property
    def turns(self) -> bool:
        """Whether its next visit is where the Hessian sends it."""
        return self.age == 1 and self.side != 0


def start(direction: Vector, side: float) -> Explorer:
    """An explorer that has visited nothing yet."""
    return Explorer(Visited(direction, -math.inf, direction), 0.0, REACH, 0, side)


def plant(
    ball: Ball,
    pool: list[Explorer],
    gradient: Vector,
    noise: Vector,
    first: int,
    turning: bool,
    slots: int,
) -> list[Explorer]:
    """The pool with new starts: uphill, the best so far mirrored, and the rows of `noise`.

    The mirror image of a maximum is nearly one where the loss is nearly quadratic. Random starts are orthogonal to the
    places of the pool, and turn to either side if there is `turning`. `first` starts were planted before; of more than
    `slots` in all the lowest go.
    """
    pool = distinct(ball, pool)
    fresh = []
    for number, row in enumerate(noise, start=first):
        aim = None
        if number == 0:
            aim = gradient
        elif number % MIRRORED == 2 and pool:
            aim = -max(pool, key=lambda one: one.here.rise).here.x
        # Without a gradient there is no uphill, without a climb no mirror image: there the noise stays.
        if aim is not None and ball.norm(aim) > 0:
            fresh.append(start(aim, 0.0))
            continue
        side = (1.0 if number % 2 == 0 else -1.0) if turning else 0.0
        fresh.append(start(unexplored(ball, pool, ball.horizontal(row)), side))
    return joined(pool, fresh, slots)


def joined(pool: list[Explorer], fresh: list[Explorer], slots: int) -> list[Explorer]:
    """The best of a pool, and fresh starts: at most `slots` in all."""
    return sorted(pool, key=lambda one: -one.here.rise)[: slots - len(fresh)] + fresh


def distinct(ball: Ball, pool: list[Explorer]) -> list[Explorer]:
    """The pool without echoes: places that point where a higher one points go."""
    if len(pool) < 2:
        return pool
    units = stacked([ball.unit(one.here.x)[0] for one in pool])
    cosines = ball.products(units, units)
    rises = [one.here.rise for one in pool]

    def echoes(j: int) -> bool:
        higher = (rises[i] > rises[j] or (rises[i] == rises[j] and i < j) for i in range(len(pool)))
        return any(above and cosines[i, j] > ECHO for i, above in enumerate(higher))

    return [one for j, one in enumerate(pool) if not echoes(j)]


def unexplored(ball: Ball, known: list[Explorer], v: Vector) -> Vector:
    """What of a vector is orthogonal to the places of some explorers."""
    if not known:
        return v
    places = stacked([ball.unit(one.here.x)[0] for one in known])
    values, W = np.linalg.eigh(ball.products(places, places))
    kept = values > 1e-3
    basis = combine((W[:, kept] / np.sqrt(values[kept])).T, places)
    for _ in range(2):
        v = v - combine(ball.inners(basis, v), basis)
    return v


def following(pool: list[Explorer], young: int, grown: int, width: int) -> list[int]:
    """Whose turn it is: the young, then promising ones of less than `grown` visits, then those that lead.

    Every start has `young` visits before it is compared. Nobody's, when the one of the best outlook has arrived.
    """
    if not pool:
        return []
    standing = [one.outlook for one in pool]
    best = max(one.here.rise for one in pool)

    def rank(i: int) -> int:
        if pool[i].age < young:
            return 2
        return int(pool[i].age < grown and standing[i] >= PROMISING * best)

    ranks = [rank(i) for i in range(len(pool))]
    leader = pool[int(np.argmax(standing))]
    if not any(ranks) and leader.gain <= ARRIVED * abs(leader.here.rise):
        return []
    return sorted(range(len(pool)), key=lambda i: (-ranks[i], -standing[i]))[:width]


def advance(look: Look, pool: list[Explorer], turn: list[int], young: int) -> tuple[list[Explorer], int]:
    """The pool after a visit of each explorer whose turn it is, and how many of them met no number."""
    ball = look.ball
    known = [one for one in pool if one.age >= young]

    def aim(one: Explorer) -> Vector:
        if one.age and not one.turns:
            return look.feasible(bend(ball, one.here.x, one.here.gradient, one.reach))
        # Most of what the Hessian makes of noise lies along the maxima that are known.
        turned = unexplored(ball, known, one.side * (one.here.gradient - look.gradient)) if one.age else one.here.x
        return ball.unit(turned)[0] * ball.radius

    moved, bad = list(pool), 0
    for i, (there, good) in zip(turn, look.visits([aim(pool[i]) for i in turn]), strict=True):
        bad += not good
        moved[i] = _after(ball, pool[i], there, good)
    # A start without a number leaves the pool.
    return [one for one in moved if one.age >= 0], bad


def _after(ball: Ball, one: Explorer, there: Visited, good: bool) -> Explorer:
    here, begun = one.here, one.age == 0 or one.turns
    climbed = good and (begun or there.rise > here.rise)
    reach = one.reach if begun else bent(ball, here, there, climbed, one.reach)
    gain = abs(there.rise - here.rise) if climbed else 0.5 * one.gain
    gain = gain if math.isfinite(gain) else abs(there.rise)
    return Explorer(there if climbed else here, gain, reach, one.age + 1 if good or one.age else -1, one.side)

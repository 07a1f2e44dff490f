"""Visited points of a ball, and which of several searches deserves the next gradient."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from quotax.sharpness.problem.ball import Ball
from quotax.sharpness.problem.setting import Problem
from quotax.sharpness.problem.vectors import Vector, dot, finite

# How many steps like its last one a search is trusted to make.
AHEAD = 2.0

# Units of rounding of the radius that a point may be away from horizontal.
STRAYED = 8


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Visited:
    """A visited point: the displacement, the rise of the loss and its horizontal metric gradient there."""

    x: Vector
    rise: float
    gradient: Vector


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Centre:
    """What is known where a search begins: the loss, its horizontal metric gradient, and a random vertical covector.

    The covector `probe` vanishes on horizontal vectors and is standard normal besides; there is none where nothing is
    projected.
    """

    base: float
    gradient: Vector
    probe: Vector | None


@dataclass(frozen=True)
class Look:
    """What a search needs to look at points: the problem, the ball, and what is known at the centre."""

    problem: Problem
    ball: Ball
    centre: Centre

    @property
    def base(self) -> float:
        """The loss at the centre."""
        return self.centre.base

    @property
    def gradient(self) -> Vector:
        """The horizontal metric gradient at the centre."""
        return self.centre.gradient

    @property
    def eps(self) -> float:
        """The rounding unit."""
        return self.problem.layout.eps

    def visit(self, x: Vector) -> tuple[Visited, bool]:
        """The place at x, and whether loss and gradient are finite there."""
        return self._seen(x, *self.problem.look(x))

    def visits(self, points: list[Vector]) -> list[tuple[Visited, bool]]:
        """Several places, at once where there are devices for each."""
        return [self._seen(x, *seen) for x, seen in zip(points, self.problem.looks(points), strict=True)]

    def _seen(self, x: Vector, value: float, gradient: Vector) -> tuple[Visited, bool]:
        return Visited(x, value - self.base, gradient), bool(np.isfinite(value)) and finite(gradient)

    def feasible(self, x: Vector) -> Vector:
        """A combination of horizontal vectors, pulled back to the sphere if it is outside.

        Rounding may have left some of it vertical: the product with a random vertical vector is as large as that part,
        and costs a fraction of the projection that takes it away.
        """
        probe = self.centre.probe
        if probe is not None and abs(dot(probe, x)) > STRAYED * self.eps * self.ball.radius:
            x = self.ball.horizontal(x)
        return self.ball.inside(x)


def outlook(rise: float, gain: float) -> float:
    """Where a search would be after a few more steps as good as its last: the one with the best outlook goes on."""
    return rise + AHEAD * gain


def bend(ball: Ball, x: Vector, slope: Vector, reach: float) -> Vector:
    """The step `x + reach radius g/|g|` along a slope g, which is to be projected to the ball.

    On the sphere a long reach is the linear-maximisation step `radius g/|g|`, which never lowers a convex loss; a short
    one follows the gradient along the sphere. A gradient that points inwards leads inside.
    """
    size = ball.norm(slope)
    return x + (reach * ball.radius / size) * slope if size > 0 else x


def tangent(ball: Ball, x: Vector, v: Vector) -> Vector:
    """A vector without its part along x."""
    square = ball.inner(x, x)
    return v - (ball.inner(x, v) / square) * x if square > 0 else v


def bent(ball: Ball, here: Visited, there: Visited, climbed: bool, reach: float) -> float:
    """The next reach: shorter after a fall or where the tangential gradient has turned round, longer otherwise."""
    if not climbed:
        return 0.25 * reach
    onward = ball.inner(tangent(ball, here.x, here.gradient), tangent(ball, there.x, there.gradient)) > 0
    return (2.0 if onward else 0.7) * reach

"""The next point to try: the quadratic model's exact maximiser over the ball, in the subspace that is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quotax.sharpness.linalg.trust_region import maximise_quadratic
from quotax.sharpness.problem.ball import Ball
from quotax.sharpness.problem.vectors import Vector, combine
from quotax.sharpness.search.hessian_memory import HessianMemory


class Proposal(NamedTuple):
    """A candidate, the rise the model promises there (undamped and damped), and the model's top curvature."""

    candidate: Vector
    promise: float
    damped_promise: float
    top: float


class NewDirection(NamedTuple):
    """The unit vector `scale * vector` along a new direction; nothing, with size and scale zero, if that is rounding.

    Products with the unit vector are products with the vector, scaled: it is not written down.
    """

    vector: Vector
    size: float
    scale: float

    @classmethod
    def above(cls, floor: float, vector: Vector, size: float) -> NewDirection:
        """Of a vector and its norm, which is rounding up to `floor`."""
        return cls(vector, size, 1.0 / size) if size > floor else cls(vector, 0.0, 0.0)


def propose(
    ball: Ball, known: HessianMemory, x: Vector, gradient: Vector, centre_gradient: Vector, damping: float, eps: float
) -> Proposal:
    """Maximise `<g, z-x> + <z-x, (B - damping)(z-x)> / 2` over the ball, for z in span(memory, x, new).

    One problem holds every classical step as a limit. B = 0 and no damping: the linear-maximisation step
    `radius g / |g|`. Large damping: projected gradient ascent with step 1/damping, so that enough damping always
    climbs where the loss is smooth. Full memory on a quadratic: a Krylov (sequential subspace) method at one gradient a
    step.

    The new direction is the model's gradient at its maximiser over span(memory, x), where B is known: in a quadratic
    that is the true gradient there, without paying for it. Along x the curvature comes from the secant to the centre,
    `H x = g - g(0)`. Along the new direction only the products with the memory are known; its own curvature is taken
    to be that of the most recent direction, as Lanczos coefficients settle down.
    """
    n = known.used
    size_x = ball.norm(x)
    new, x_q, size = known.reject(ball, x, size_x)
    u_x = NewDirection.above(10 * eps**0.5 * size_x, new, size)
    # The secant `H u_x = over (g - g(0) - HQ x_q)`; divided by a small new part of x it would be noise.
    over = u_x.scale if u_x.size > 0.1 * size_x else 0.0

    def secant(u: NewDirection, u_q: np.ndarray, slope: float) -> float:
        """The product `<u, H u_x>`, where `u_q = <HQ, u>` and `slope = <u, g>`."""
        return over * (slope - u.scale * ball.inner(u.vector, centre_gradient) - float(u_q @ x_q))

    q_x = u_x.scale * ball.inners(known.hq, new) if n else x_q
    slope_x = u_x.scale * ball.inner(new, gradient)
    x_x = secant(u_x, q_x, slope_x)
    B = np.zeros((n + 2, n + 2))
    B[:n, :n] = known.hessian
    B[:n, n] = B[n, :n] = q_x
    B[n, n] = x_x if over else known.latest
    slope = np.zeros(n + 2)
    slope[:n] = ball.inners(known.q, gradient) if n else 0.0
    slope[n] = slope_x
    here = np.zeros(n + 2)
    here[:n], here[n] = x_q, u_x.size
    present = np.ones(n + 2, bool)
    present[n], present[n + 1] = u_x.size > 0, False
    p, _ = _reduced_step(B, slope, here, present, ball.radius, damping)

    # The model's gradient there, without its part along u_x.
    p_q, p_x = p[:n], over * float(p[n])
    along_x = slope_x + float(q_x @ p_q) + float(p[n]) * x_x
    ahead = gradient + p_x * (gradient - centre_gradient)
    if n:
        ahead = ahead + combine(p_q - p_x * x_q, known.hq)
    ahead = ahead - (along_x * u_x.scale) * new
    size_ahead = ball.norm(ahead)
    rest, _, size = known.reject(ball, ahead, size_ahead)
    floor = 100 * eps * (ball.norm(gradient) + float(np.hypot(size_ahead, along_x)))
    u_g = NewDirection.above(floor, rest, size)
    q_g = u_g.scale * ball.inners(known.hq, rest) if n else x_q
    slope_g = u_g.scale * ball.inner(rest, gradient)
    B[:n, -1] = B[-1, :n] = q_g
    B[-1, -1] = known.latest
    B[n, -1] = B[-1, n] = secant(u_g, q_g, slope_g)
    slope[-1], present[-1] = slope_g, u_g.size > 0
    p, top = _reduced_step(B, slope, here, present, ball.radius, damping)

    candidate = x + (float(p[n]) * u_x.scale) * new + (float(p[-1]) * u_g.scale) * rest
    if n:
        candidate = candidate + combine(p[:n], known.q)
    promise = float(slope @ p + 0.5 * p @ (B @ p))
    return Proposal(candidate, promise, promise - 0.5 * damping * float(p @ p), top)


def _reduced_step(
    B: np.ndarray, slope: np.ndarray, here: np.ndarray, present: np.ndarray, radius: float, damping: float
) -> tuple[np.ndarray, float]:
    """The step from `here` to the damped model's maximiser, in coordinates, and a bound on the model's curvature."""
    B = np.where(present[:, None] & present[None, :], B, 0.0)
    slope = np.where(present, slope, 0.0)
    bound = float(np.max(np.sum(np.abs(B), axis=1)))
    # Directions that do not exist get a curvature so negative that no step goes there.
    wall = 10.0 * (bound + damping + float(np.sqrt(slope @ slope)) / radius + np.finfo(float).tiny ** 0.5)
    A = B - np.diag(np.where(present, damping, wall))
    z = maximise_quadratic(A, slope - A @ here, radius, here)
    return np.where(present, z - here, 0.0), bound

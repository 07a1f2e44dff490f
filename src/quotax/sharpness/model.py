"""The next point to try: the quadratic model's exact maximiser over the ball, in the subspace that is known."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.sharpness.ball import Ball
from quotax.sharpness.curvature import Curvature
from quotax.sharpness.trust_region import maximise_quadratic


class Proposal(NamedTuple):
    """A candidate, the rise the model promises there (undamped and damped), and the model's top curvature."""

    candidate: jax.Array
    promise: jax.Array
    damped_promise: jax.Array
    top: jax.Array


class Part(NamedTuple):
    """The unit vector `scale * vector` along a new direction; nothing, with size and scale zero, if that is rounding.

    Products with the unit vector are products with the vector, scaled: it is not written down.
    """

    vector: jax.Array
    size: jax.Array
    scale: jax.Array

    @classmethod
    def above(cls, floor: jax.Array, vector: jax.Array, size: jax.Array) -> Part:
        """Of a vector and its norm, which is rounding up to `floor`."""
        kept = size > floor
        return cls(vector, jnp.where(kept, size, 0.0), jnp.where(kept, 1.0 / jnp.where(kept, size, 1.0), 0.0))

    def inner(self, ball: Ball, v: jax.Array) -> jax.Array:
        """The unit vector's inner product with v."""
        return self.scale * ball.inner(self.vector, v)


def propose(
    ball: Ball, known: Curvature, x: jax.Array, gradient: jax.Array, centre_gradient: jax.Array, damping: jax.Array
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
    slots = known.present.size
    dtype = known.products.dtype
    eps = jnp.finfo(dtype).eps

    size_x = ball.norm(x)
    new, x_q, size = known.reject(ball, x)
    u_x = Part.above(10 * eps**0.5 * size_x, new, size)
    # The secant `H u_x = over (g - g(0) - HQ x_q)`; divided by a small new part of x it would be noise.
    trusted = u_x.size > 0.1 * size_x
    over = jnp.where(trusted, u_x.scale, 0.0)

    def secant(u: Part, u_q: jax.Array, slope: jax.Array) -> jax.Array:
        """The product `<u, H u_x>`, where `u_q = <HQ, u>` and `slope = <u, g>`."""
        return over * (slope - u.inner(ball, centre_gradient) - u_q @ x_q)

    q_x, slope_x = u_x.scale * known.image_along(ball, new), u_x.inner(ball, gradient)
    x_x = secant(u_x, q_x, slope_x)
    B = jnp.zeros((slots + 2, slots + 2), dtype).at[:slots, :slots].set(known.hessian)
    B = B.at[:slots, slots].set(q_x).at[slots, :slots].set(q_x)
    B = B.at[slots, slots].set(jnp.where(trusted, x_x, known.latest))
    zero = jnp.zeros((), dtype)
    slope = jnp.concatenate([known.along(ball, gradient), jnp.stack([slope_x, zero])])
    here = jnp.concatenate([x_q, jnp.stack([u_x.size, zero])])
    present = jnp.concatenate([known.present, jnp.stack([u_x.size > 0, jnp.zeros((), bool)])])
    p, _ = _reduced_step(B, slope, here, present, ball.radius, damping)

    # The model's gradient there, without its part along u_x.
    p_q, p_x = p[:slots], over * p[slots]
    along_x = slope_x + q_x @ p_q + p[slots] * x_x
    ahead = gradient + p_x * (gradient - centre_gradient) + known.image(p_q - p_x * x_q)
    ahead = ahead - along_x * u_x.scale * new
    rest, _, size = known.reject(ball, ahead)
    u_g = Part.above(100 * eps * (ball.norm(gradient) + jnp.hypot(ball.norm(ahead), along_x)), rest, size)
    q_g, slope_g = u_g.scale * known.image_along(ball, rest), u_g.inner(ball, gradient)
    B = B.at[:slots, -1].set(q_g).at[-1, :slots].set(q_g).at[-1, -1].set(known.latest)
    x_g = secant(u_g, q_g, slope_g)
    B = B.at[slots, -1].set(x_g).at[-1, slots].set(x_g)
    slope = slope.at[-1].set(slope_g)
    p, top = _reduced_step(B, slope, here, present.at[-1].set(u_g.size > 0), ball.radius, damping)

    candidate = x + known.span(p[:slots]) + p[slots] * u_x.scale * new + p[-1] * u_g.scale * rest
    promise = slope @ p + 0.5 * p @ (B @ p)
    return Proposal(candidate, promise, promise - 0.5 * damping * (p @ p), top)


def _reduced_step(
    B: jax.Array, slope: jax.Array, here: jax.Array, present: jax.Array, radius: jax.Array, damping: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The step from `here` to the damped model's maximiser, in coordinates, and a bound on the model's curvature."""
    B = jnp.where(present[:, None] & present[None, :], B, 0.0)
    slope = jnp.where(present, slope, 0.0)
    bound = jnp.max(jnp.sum(jnp.abs(B), axis=1))
    # Directions that do not exist get a curvature so negative that no step goes there.
    wall = 10.0 * (bound + damping + jnp.linalg.norm(slope) / radius + jnp.finfo(B.dtype).tiny ** 0.5)
    A = B - jnp.diag(jnp.where(present, damping, wall))
    z = maximise_quadratic(A, slope - A @ here, radius, here)
    return jnp.where(present, z - here, 0.0), bound

"""The next point to try: the quadratic model's exact maximiser over the ball, in the subspace that is known."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.sharpness.ball import Ball
from quotax.sharpness.curvature import Curvature
from quotax.sharpness.trust_region import maximise_quadratic


class Proposal(NamedTuple):
    """A feasible candidate, the rise the model promises there (undamped and damped), and the model's top curvature."""

    candidate: jax.Array
    promise: jax.Array
    damped_promise: jax.Array
    top: jax.Array


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
    rest, x_q = known.reject(ball, x)
    u_x, x_x = ball.unit(rest, floor=10 * eps**0.5 * size_x)
    # The secant divided by a small new part of x would be noise.
    trusted = x_x > 0.1 * size_x
    over = jnp.where(trusted, 1.0 / jnp.where(trusted, x_x, 1.0), 0.0)
    h_x = over * (gradient - centre_gradient - known.image(x_q))

    q_x = known.image_along(ball, u_x)
    B = jnp.zeros((slots + 2, slots + 2), dtype).at[:slots, :slots].set(known.hessian)
    B = B.at[:slots, slots].set(q_x).at[slots, :slots].set(q_x)
    B = B.at[slots, slots].set(jnp.where(trusted, ball.inner(u_x, h_x), known.latest))
    zero = jnp.zeros((), dtype)
    slope = jnp.concatenate([known.along(ball, gradient), jnp.stack([ball.inner(u_x, gradient), zero])])
    here = jnp.concatenate([x_q, jnp.stack([x_x, zero])])
    present = jnp.concatenate([known.present, jnp.stack([x_x > 0, jnp.zeros((), bool)])])
    p, _ = _reduced_step(B, slope, here, present, ball.radius, damping)

    ahead = gradient + known.image(p[:slots]) + p[slots] * h_x
    rest = ahead - ball.inner(u_x, ahead) * u_x
    rest, _ = known.reject(ball, rest)
    rest = rest - ball.inner(u_x, rest) * u_x
    u_g, g_g = ball.unit(rest, floor=100 * eps * (ball.norm(gradient) + ball.norm(ahead)))
    q_g = known.image_along(ball, u_g)
    B = B.at[:slots, -1].set(q_g).at[-1, :slots].set(q_g).at[-1, -1].set(known.latest)
    x_g = ball.inner(u_g, h_x)
    B = B.at[slots, -1].set(x_g).at[-1, slots].set(x_g)
    slope = slope.at[-1].set(ball.inner(u_g, gradient))
    p, top = _reduced_step(B, slope, here, present.at[-1].set(g_g > 0), ball.radius, damping)

    move = known.span(p[:slots]) + p[slots] * u_x + p[-1] * u_g
    promise = slope @ p + 0.5 * p @ (B @ p)
    candidate = ball.feasible(x + move)
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


def top_direction(ball: Ball, known: Curvature) -> jax.Array:
    """The unit Ritz vector of the largest known curvature; zero if nothing is known."""
    K, present = known.hessian, known.present
    wall = 10.0 * (jnp.max(jnp.sum(jnp.abs(K), axis=1)) + 1.0)
    ritz = jnp.linalg.eigh(K - jnp.diag(jnp.where(present, 0.0, wall)))[1][:, -1]
    return ball.unit(known.span(jnp.where(present, ritz, 0.0)))[0]

"""The largest value of a small quadratic on a ball, exactly, hard case included."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax


def maximise_quadratic(A: jax.Array, b: jax.Array, radius: jax.Array, towards: jax.Array) -> jax.Array:
    """The argmax of `b.z + z.A z / 2` over `|z| <= radius`, for a symmetric matrix A of any signature.

    z is optimal iff `(lam - A) z = b` with `lam >= max(0, a_max)` and `lam (radius - |z|) = 0`. In eigenvectors of A,
    `z_i = b_i / (t + (a_max - a_i))` with `t = lam - a_max >= 0`: every difference is formed without cancellation.
    On the sphere t solves `1/|z(t)| = 1/radius`, which is nearly linear and concave in t, by Newton inside a bisection.
    Hard case: b has no component along the top eigenvectors and even `t = 0` leaves `|z| < radius`; the rest of the
    radius then goes along a top eigenvector, on the side of `towards` when b does not say which.
    """
    a, W = jnp.linalg.eigh(A)
    beta = W.T @ b
    a_max = a[-1]
    gaps = a_max - a
    tiny = jnp.finfo(A.dtype).tiny ** 0.5
    size = jnp.linalg.norm(beta)
    spread = jnp.maximum(jnp.max(jnp.abs(a)), size / radius) + tiny
    floor = jnp.finfo(A.dtype).eps * spread * 0.01

    # lam >= 0 means t >= -a_max; and |z(t)| <= |b| / t bounds the root from above.
    low = jnp.maximum(-a_max, floor)
    high = jnp.maximum(size / radius, low)

    def narrow(_: int, bracket: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        low, high, t = bracket
        z = beta / (gaps + t)
        norm = jnp.linalg.norm(z) + tiny
        low, high = jnp.where(norm > radius, t, low), jnp.where(norm > radius, high, t)
        slope = jnp.sum(z * z / (gaps + t)) / norm
        newton = t + (norm - radius) * norm / (radius * slope + tiny)
        inside = (newton > low) & (newton < high)
        return low, high, jnp.where(inside, newton, jnp.sqrt(low) * jnp.sqrt(high))

    t = lax.fori_loop(0, 40, narrow, (low, high, low))[2]
    at_low = jnp.linalg.norm(beta / (gaps + low)) <= radius
    t = jnp.where(at_low, low, t)
    z = beta / (gaps + t)

    # Deficient on the sphere (lam > 0): the hard case.
    norm = jnp.linalg.norm(z)
    hard = (a_max >= -floor) & (norm < radius * (1 - 1e-6))
    rest = jnp.maximum(radius**2 - jnp.sum(z[:-1] ** 2), 0.0)
    side = jnp.where(jnp.abs(z[-1]) > 1e-3 * radius, z[-1], W[:, -1] @ towards)
    top = jnp.where(side < 0, -1.0, 1.0) * jnp.sqrt(rest)
    z = z.at[-1].set(jnp.where(hard, top, z[-1]))
    norm = jnp.linalg.norm(z)
    z = z * jnp.where(norm > radius, radius / jnp.where(norm > 0, norm, 1.0), 1.0)
    return W @ z

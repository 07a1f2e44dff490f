"""One ascent at the memory of a few vectors, for networks of which no more copies fit.

Projected gradient ascent, as the explorers do it. The next point `s (x + c g)` is written out nowhere but inside the
loss: its norm and its products follow from those of x and g, and the place is updated where it lies. Beside the
parameters there are x, g, the moved parameters and their gradient.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from quotax.sharpness.exploring import REACH, Explorer
from quotax.sharpness.places import ROOM, Look, Place, Visit
from quotax.sharpness.vectors import finite

SHORTEST = 1e-6
"""A reach below this, after so many failures, has arrived as far as the loss resolves."""


def at_centre(look: Look, origin: jax.Array) -> tuple[jax.Array, jax.Array, Explorer]:
    """The loss, the norm of its gradient, and a single explorer at the centre: its first step leads uphill."""
    base, gradient = look.at(origin)
    gradient = jnp.where(finite(gradient), gradient, 0.0)
    zero = jnp.zeros(1, origin.dtype)
    integer = jnp.zeros(1, jnp.int32)
    one = Explorer(Place(origin[None], zero, gradient[None]), zero, zero + REACH, integer, zero)
    return base, look.ball.norm(gradient), one


def ascend(look: Look, one: Explorer, tolerance: jax.Array, limit: jax.Array) -> tuple[Explorer, Visit]:
    """At most `limit` steps; `age` counts them, and `side` is one when the ascent has arrived."""
    ball = look.ball

    def unfinished(state: tuple) -> jax.Array:
        i, *_, side = state
        return (i < limit) & (side == 0)

    def advance(state: tuple) -> tuple:
        i, x, rise, g, reach, history, nonfinite, steepest, _ = state
        size = ball.norm(g)
        step = reach * ball.radius / jnp.where(size > 0, size, 1.0)
        there = x + step * g
        length = ball.norm(there)
        scale = jnp.where(length > ball.radius, ball.radius / length, 1.0)
        value, h = look.at(scale * (x + step * g))
        good = jnp.isfinite(value) & finite(h)
        climbed = good & (value - look.base > rise)

        # <t, t'> of the tangential gradients at x and at z: long steps go on while it is positive.
        z_z = scale * length
        n_g = ball.inner(x, g) / jnp.maximum(ball.norm(x), _tiny(x))
        over = scale / jnp.maximum(z_z, _tiny(x))
        m_h = over * (ball.inner(x, h) + step * ball.inner(g, h))
        m_g = over * (ball.inner(x, g) + step * size**2)
        n_h = ball.inner(x, h) / jnp.maximum(ball.norm(x), _tiny(x))
        n_m = over * (ball.norm(x) + step * n_g)
        turned = ball.inner(g, h) - n_g * n_h - m_h * m_g + n_g * m_h * n_m
        factor = jnp.where(climbed, jnp.where(turned > 0, 2.0, 0.7), 0.25)

        on_sphere = (z_z >= ball.radius * (1 - 1e-5)) & (m_h > 0)
        tangent = jnp.sqrt(jnp.maximum(ball.norm(h) ** 2 - jnp.where(on_sphere, m_h, 0.0) ** 2, 0.0))
        arrived = climbed & (tangent <= tolerance * jnp.maximum(ball.norm(h), steepest))
        x = jnp.where(climbed, scale * (x + step * g), x)
        g = jnp.where(climbed, h, g)
        rise = jnp.where(climbed, value - look.base, rise)
        reach = factor * reach
        side = jnp.where(arrived | (reach < SHORTEST) | (size == 0), 1.0, 0.0).astype(x.dtype)
        steepest = jnp.where(good, jnp.maximum(steepest, ball.norm(h)), steepest)
        history = history.at[i].set(rise)
        return i + 1, x, rise, g, reach, history, nonfinite + (~good).astype(jnp.int32), steepest, side

    place, integer = one.here, jnp.zeros((), jnp.int32)
    x, g = place.x.reshape(-1), place.gradient.reshape(-1)
    history = jnp.full(ROOM, -jnp.inf, x.dtype)
    state = (integer, x, place.rise[0], g, one.reach[0], history, integer, ball.norm(g), one.side[0])
    i, x, rise, g, reach, history, nonfinite, steepest, side = lax.while_loop(unfinished, advance, state)
    place = Place(x[None], rise[None], g[None])
    moved = Explorer(place, one.gain, reach[None], one.age + i, side[None])
    return moved, Visit(i, history, nonfinite, steepest)


def _tiny(x: jax.Array) -> float:
    return float(jnp.finfo(x.dtype).tiny) ** 0.5

"""One ascent at the memory of a few vectors, for networks of which no more copies fit.

Projected gradient ascent, as the explorers do it. The next point `s (x + c g)` is written out nowhere but inside the
loss: its norm and its products follow from those of x and g, and the place is updated where it lies. Beside the
parameters there are x, g, the moved parameters and their gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from quotax.sharpness.problem.vectors import Vector, finite
from quotax.sharpness.search.exploring import REACH
from quotax.sharpness.search.places import Look

SHORTEST = 1e-6
"""A reach below this, after so many failures, has arrived as far as the loss resolves."""


@jax.tree_util.register_dataclass
@dataclass
class Ascent:
    """Where a single ascent is: the displacement, its rise and gradient, and the next reach; `arrived` is the end."""

    x: Vector
    rise: float
    gradient: Vector
    reach: float
    arrived: bool


def at_centre(look: Look) -> Ascent:
    """Its first step leads uphill."""
    gradient = look.gradient
    if look.problem.fused:  # on the device: a copy for the host would be noticed
        gradient = jnp.asarray(gradient)
    return Ascent(0.0 * gradient, 0.0, gradient, REACH, False)


def ascend(look: Look, one: Ascent, steepest: float, tolerance: float) -> tuple[bool, float]:
    """One step; whether there were numbers where it led, and the norm of the gradient there."""
    ball, x, g = look.ball, one.x, one.gradient
    tiny = math.sqrt(float(jnp.finfo(x.dtype).tiny))
    size, size_x = ball.norm(g), ball.norm(x)
    if size == 0:
        one.arrived = True
        return True, size
    step = one.reach * ball.radius / size
    x_g = ball.inner(x, g)
    length = math.sqrt(max(size_x**2 + 2 * step * x_g + (step * size) ** 2, 0.0))
    scale = ball.radius / length if length > ball.radius else 1.0
    value, h = look.problem.look_along(x, g, step, scale)
    good = math.isfinite(value) and finite(h)
    climbed = good and value - look.base > one.rise
    size_h = ball.norm(h) if good else 0.0
    factor = 0.25
    if climbed:
        # <t, t'> of the tangential gradients at x and at z: long steps go on while it is positive.
        x_h, g_h, z_z = ball.inner(x, h), ball.inner(g, h), scale * length
        n_g, n_h = x_g / max(size_x, tiny), x_h / max(size_x, tiny)
        over = scale / max(z_z, tiny)
        m_h, m_g = over * (x_h + step * g_h), over * (x_g + step * size**2)
        n_m = over * (size_x + step * n_g)
        turned = g_h - n_g * n_h - m_h * m_g + n_g * m_h * n_m
        factor = 2.0 if turned > 0 else 0.7
        on_sphere = z_z >= ball.radius * (1 - 1e-5) and m_h > 0
        tangent = math.sqrt(max(size_h**2 - (m_h**2 if on_sphere else 0.0), 0.0))
        one.arrived = tangent <= tolerance * max(size_h, steepest)
        one.x, one.gradient, one.rise = _moved(x, g, step, scale), h, value - look.base
    one.reach *= factor
    one.arrived = one.arrived or one.reach < SHORTEST
    return good, size_h


def _moved(x: Vector, g: Vector, step: float, scale: float) -> Vector:
    """The point `scale (x + step g)`, which uses up x."""
    return scale * (x + step * g) if isinstance(x, np.ndarray) else _in_place(x, g, step, scale)


@partial(jax.jit, donate_argnums=0)
def _in_place(x: jax.Array, g: jax.Array, step: float, scale: float) -> jax.Array:
    return scale * (x + step * g)

"""What sharpness is measured with today, written from the published descriptions: APGD and SAM's one step."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Rise = Callable[[jax.Array], tuple[jax.Array, jax.Array]]
"""From a flat displacement to the rise of the loss and its gradient."""

PUBLISHED = 20
"""Iterations of one APGD run in sharpness studies; a larger budget is spent on restarts."""

LONGEST = 3 * PUBLISHED
"""Iterations of a long run: the program's room for checkpoints."""


def checkpoints(iterations: int) -> list[int]:
    """Where APGD reconsiders: `ceil(p_j n)`, p = 0, 0.22 and then p_{j+1} = p_j + max(p_j - p_{j-1} - .03, .06)."""
    shares = [0.0, 0.22]
    while shares[-1] < 1:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - 0.03, 0.06))
    return sorted({math.ceil(p * iterations) for p in shares[1:] if p * iterations <= iterations})


def apgd(rise: Rise, size: int, radius: float, key: jax.Array, iterations: int) -> jax.Array:
    """The best rise after `iterations` gradients of auto-PGD from a random point of the sphere.

    z = P(x + eta g/|g|) and the next x = P(x + .75 (z - x) + .25 (x - x_before)), with eta = 2 radius at first. At a
    checkpoint eta is halved, and the best point taken up again, if fewer than three quarters of the steps since the
    last one rose, or if neither eta nor the best value has changed since. The point after the last gradient counts too.
    """
    at_checkpoint = np.zeros(LONGEST + 1, bool)
    at_checkpoint[checkpoints(iterations)] = True
    return _apgd(rise, size, jnp.float32(radius), key, jnp.asarray(iterations, jnp.int32), jnp.asarray(at_checkpoint))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _apgd(rise: Rise, size: int, radius: Any, key: jax.Array, iterations: Any, at_checkpoint: jax.Array) -> jax.Array:
    """One program for all radii and all lengths."""

    def unit(v: jax.Array) -> jax.Array:
        return v / jnp.maximum(jnp.linalg.norm(v), 1e-30)

    def project(v: jax.Array) -> jax.Array:
        norm = jnp.linalg.norm(v)
        return v * jnp.where(norm > radius, radius / norm, 1.0)

    def step(k: jax.Array, state: tuple) -> tuple:
        x, before, value, gradient, best, eta, seen = state
        best_x, best_value, best_gradient = best
        rises, last, last_eta, last_best = seen
        z = project(x + eta * unit(gradient))
        following = jnp.where(k == 0, z, project(x + 0.75 * (z - x) + 0.25 * (x - before)))
        new_value, new_gradient = rise(following)
        rises = rises + (new_value > value)
        better = new_value > best_value
        best_x, best_gradient = jnp.where(better, following, best_x), jnp.where(better, new_gradient, best_gradient)
        best_value = jnp.maximum(best_value, new_value)
        x, before, value, gradient = following, x, new_value, new_gradient
        here = at_checkpoint[k + 1]
        halve = here & ((rises < 0.75 * (k + 1 - last)) | ((eta == last_eta) & (best_value == last_best)))
        seen = tuple(
            jnp.where(here, new, old) for new, old in zip((0, k + 1, eta, best_value), (rises, *seen[1:]), strict=True)
        )
        eta = jnp.where(halve, eta / 2, eta)
        x, before = jnp.where(halve, best_x, x), jnp.where(halve, best_x, before)
        value, gradient = jnp.where(halve, best_value, value), jnp.where(halve, best_gradient, gradient)
        return x, before, value, gradient, (best_x, best_value, best_gradient), eta, seen

    x = radius * unit(jax.random.normal(key, (size,)))
    value, gradient = rise(x)
    zero, integer = jnp.zeros_like(value), jnp.zeros((), jnp.int32)
    seen = (integer, integer, 2 * radius, zero)
    state = (x, x, value, gradient, (x, jnp.maximum(value, 0.0), gradient), 2 * radius, seen)
    return jax.lax.fori_loop(0, iterations, step, state)[4][1]


def apgd_with_restarts(rise: Rise, size: int, radius: float, key: jax.Array, budget: int) -> float:
    """The best of as many runs as the budget pays for."""
    runs = max(1, budget // PUBLISHED)
    values = [apgd(rise, size, radius, k, min(budget, PUBLISHED)) for k in jax.random.split(key, runs)]
    return float(max(values))


@functools.partial(jax.jit, static_argnums=(0, 1))
def sam_step(rise: Rise, size: int, radius: jax.Array) -> jax.Array:
    """The rise at `radius g/|g|`: sharpness-aware minimisation's approximation of the maximum."""
    gradient = rise(jnp.zeros(size))[1]
    return rise(radius * gradient / jnp.maximum(jnp.linalg.norm(gradient), 1e-30))[0]

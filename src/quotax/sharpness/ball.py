"""The set that is searched: a metric ball in the whole space or in the horizontal space of a quotient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from quotax.sharpness import vectors
from quotax.sharpness.vectors import Stack, Vector


class Point(Protocol):
    """A factored point of a quotient; it also has `sharp(covector)`, the metric's inverse, if that is not identity."""

    def horizontal(self, v: Vector) -> Vector:
        """The orthogonal projection onto the horizontal space."""
        ...

    def inner(self, u: Vector, v: Vector) -> jax.Array:
        """The metric's inner product."""
        ...

    def norm(self, v: Vector) -> jax.Array:
        """The metric's norm."""
        ...


class Space(Protocol):
    """What sharpness needs to know of a quotient."""

    def at(self, params: Vector) -> Point:
        """Everything that depends on the point, computed once."""
        ...


class Ball(NamedTuple):
    """`{delta horizontal, |delta| <= radius}`, and the map from it to parameters.

    The maximiser knows its domain through these functions only. A curved ball is another `embed` (the exponential map),
    a scaled one another `inner` with its `sharp`.
    """

    horizontal: Callable[[Vector], Vector]
    sharp: Callable[[Vector], Vector]
    inner: Callable[[Vector, Vector], jax.Array]
    embed: Callable[[Vector], Vector]
    radius: jax.Array

    def norm(self, v: Vector) -> jax.Array:
        """The metric's norm, zero where rounding makes the square negative."""
        return jnp.sqrt(jnp.maximum(self.inner(v, v), 0.0))

    def inners(self, stack: Stack, v: Vector) -> jax.Array:
        """The inner products of a stack of vectors with `v`."""
        return jax.vmap(self.inner, in_axes=(0, None))(stack, v)

    def gradient(self, covector: Vector) -> Vector:
        """The horizontal metric gradient `P sharp(dL)`, for which `<grad, v> = dL(v)` on horizontal v."""
        return self.horizontal(self.sharp(covector))

    def unit(self, v: Vector, floor: Any = 0.0) -> tuple[Vector, jax.Array]:
        """`v` over its norm, and the norm; both zero where the norm is not above `floor`."""
        size = self.norm(v)
        kept = size > floor
        return vectors.scale(jnp.where(kept, 1.0 / jnp.where(kept, size, 1.0), 0.0), v), jnp.where(kept, size, 0.0)

    def random(self, key: jax.Array, like: Vector) -> Vector:
        """A point of the sphere of radius `radius`: the projected and normalised Gaussian."""
        direction, _ = self.unit(self.horizontal(vectors.gaussian(key, like)))
        return vectors.scale(self.radius, direction)

    def feasible(self, delta: Vector) -> Vector:
        """The point made horizontal again after rounding, and pulled back to the sphere if it is outside."""
        delta = self.horizontal(delta)
        size = self.norm(delta)
        return vectors.scale(jnp.where(size > self.radius, self.radius / size, 1.0), delta)


def linear_ball(params: Vector, point: Any, radius: jax.Array) -> Ball:
    """The ball `params + delta`: full and Euclidean without a point, horizontal in the point's metric with one."""
    dtype = vectors.scalar_dtype(params)

    def embed(delta: Vector) -> Vector:
        return vectors.add(params, delta)

    if point is None:
        return Ball(lambda v: v, lambda v: v, vectors.dot, embed, radius)
    sharp = getattr(point, "sharp", None) or (lambda covector: covector)
    return Ball(point.horizontal, sharp, lambda u, v: jnp.asarray(point.inner(u, v)).astype(dtype), embed, radius)


def broken_promises(ball: Ball, key: jax.Array, like: Vector) -> tuple[jax.Array, jax.Array]:
    """How far the projection is from idempotent, and the metric from matching its `sharp`, at a random pair.

    The first is `|P h - h| / |h|` for h = P z; the second `|<sharp(c), h> - c(h)| / (|sharp(c)| |h|)`: without it the
    ascent direction would not be the gradient of the ball's own metric.
    """
    one, two = jax.random.split(key)
    h, _ = ball.unit(ball.horizontal(vectors.gaussian(one, like)))
    covector = vectors.gaussian(two, like)
    raised = ball.sharp(covector)
    again = ball.norm(vectors.subtract(ball.horizontal(h), h))
    size = ball.norm(raised)
    mismatch = jnp.abs(ball.inner(raised, h) - vectors.dot(covector, h)) / jnp.where(size > 0, size, 1.0)
    return again, mismatch

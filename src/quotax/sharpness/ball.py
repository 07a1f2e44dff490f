"""The set that is searched: a metric ball in the whole space or in the horizontal space of a quotient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from quotax.sharpness.vectors import Layout, Tree, dot


class Point(Protocol):
    """A factored point of a quotient; it also has `sharp(covector)`, the metric's inverse, if that is not identity."""

    def horizontal(self, v: Tree) -> Tree:
        """The orthogonal projection onto the horizontal space."""
        ...

    def inner(self, u: Tree, v: Tree) -> jax.Array:
        """The metric's inner product."""
        ...

    def norm(self, v: Tree) -> jax.Array:
        """The metric's norm."""
        ...


class Space(Protocol):
    """What sharpness needs to know of a quotient."""

    def at(self, params: Tree) -> Point:
        """Everything that depends on the point, computed once."""
        ...


class Ball(NamedTuple):
    """`{delta horizontal, |delta| <= radius}` in flat coordinates, and the map from it to parameters.

    The maximiser knows its domain through these functions only. A curved ball is another `embed` (the exponential map),
    a scaled one another `inner` with its `sharp`.
    """

    horizontal: Callable[[jax.Array], jax.Array]
    sharp: Callable[[jax.Array], jax.Array]
    inner: Callable[[jax.Array, jax.Array], jax.Array]
    embed: Callable[[jax.Array], Tree]
    radius: jax.Array

    def norm(self, v: jax.Array) -> jax.Array:
        """The metric's norm, zero where rounding makes the square negative."""
        return jnp.sqrt(jnp.maximum(self.inner(v, v), 0.0))

    def inners(self, stack: jax.Array, v: jax.Array) -> jax.Array:
        """The inner products of the rows of a stack with `v`."""
        return jax.vmap(self.inner, in_axes=(0, None))(stack, v)

    def gradient(self, covector: jax.Array) -> jax.Array:
        """The horizontal metric gradient `P sharp(dL)`, for which `<grad, v> = dL(v)` on horizontal v."""
        return self.horizontal(self.sharp(covector))

    def unit(self, v: jax.Array, floor: Any = 0.0) -> tuple[jax.Array, jax.Array]:
        """`v` over its norm, and the norm; both zero where the norm is not above `floor`."""
        size = self.norm(v)
        kept = size > floor
        return v * jnp.where(kept, 1.0 / jnp.where(kept, size, 1.0), 0.0), jnp.where(kept, size, 0.0)

    def feasible(self, delta: jax.Array) -> jax.Array:
        """The point made horizontal again after rounding, and pulled back to the sphere if it is outside."""
        delta = self.horizontal(delta)
        size = self.norm(delta)
        return delta * jnp.where(size > self.radius, self.radius / size, 1.0)


def linear_ball(params: Tree, layout: Layout, point: Any, radius: jax.Array) -> Ball:
    """The ball `params + delta`: full and Euclidean without a point, horizontal in the point's metric with one.

    A point without `sharp` is Euclidean by the protocol: its inner product is then taken directly.
    """

    def embed(delta: jax.Array) -> Tree:
        return jax.tree.map(jnp.add, params, layout.nested(delta))

    def identity(v: jax.Array) -> jax.Array:
        return v

    def horizontal(v: jax.Array) -> jax.Array:
        return layout.flat(point.horizontal(layout.nested(v)))

    if point is None:
        return Ball(identity, identity, dot, embed, radius)
    if not hasattr(point, "sharp"):
        return Ball(horizontal, identity, dot, embed, radius)
    return Ball(
        horizontal,
        lambda covector: layout.flat(point.sharp(layout.nested(covector))),
        lambda u, v: jnp.asarray(point.inner(layout.nested(u), layout.nested(v))).astype(layout.dtype),
        embed,
        radius,
    )


def broken_promises(
    ball: Ball, layout: Layout, point: Any, one: jax.Array, two: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """How far the projection is from idempotent, and the metric from matching its `sharp`, at a pair of vectors.

    The first is `|P h - h| / |h|` for h = P one; the second `|<sharp(c), h> - c(h)| / (|sharp(c)| |h|)` for c = two:
    without it the ascent direction would not be the gradient of the ball's own metric.
    """
    h, _ = ball.unit(ball.horizontal(one))
    raised = ball.sharp(two)
    again = ball.norm(ball.horizontal(h) - h)
    if point is None:
        return again, jnp.zeros_like(again)
    size = ball.norm(raised)
    inner = jnp.asarray(point.inner(layout.nested(raised), layout.nested(h))).astype(layout.dtype)
    return again, jnp.abs(inner - dot(two, h)) / jnp.where(size > 0, size, 1.0)

"""The set that is searched: a metric ball in the whole space or in the horizontal space of a quotient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from quotax.sharpness.vectors import Layout, Tree, dot

# A geodesic that leaves its domain is followed up to this share of its exit time: there everything is still finite.
SHORT_OF_EXIT = 1 - 1e-9


class Point(Protocol):
    """A factored point of a quotient.

    A metric that is not Euclidean also has `whiten` and `unwhiten`, linear maps with `|unwhiten(e)| = |e|_2`, or
    `sharp(covector)`, the inverse of its matrix; a geodesic ball needs `geodesic(v)`. A geodesic whose `exit_time` has
    a derivative says so by `smooth_exit = True`: a maximum at the edge of the domain is then found exactly.
    """

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


def identity(v: Any) -> Any:
    """The argument."""
    return v


class Ball(NamedTuple):
    """`{x horizontal, |x| <= radius}` in flat coordinates x, and the map from it to parameters.

    The maximiser knows its domain through these functions only. A curved ball is another `embed` (the exponential map),
    a scaled one has coordinates in which it is round: `tangent(x)` is then the displacement or the initial velocity,
    `coordinates` its inverse. `stop(x)` is the time up to which a geodesic is followed, below 1 where it would leave
    its domain. `straight` is `embed` to first order, and `taylor`, where it is given, to second.
    """

    horizontal: Callable[[jax.Array], jax.Array]
    sharp: Callable[[jax.Array], jax.Array]
    inner: Callable[[jax.Array, jax.Array], jax.Array]
    embed: Callable[[jax.Array], Tree]
    radius: jax.Array
    tangent: Callable[[jax.Array], jax.Array] = identity
    coordinates: Callable[[jax.Array], jax.Array] = identity
    stop: Callable[[jax.Array], jax.Array] = lambda x: jnp.ones((), x.dtype)
    straight: Callable[[jax.Array], Tree] | None = None
    taylor: Callable[[jax.Array], Tree] | None = None

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

    def inside(self, x: jax.Array) -> jax.Array:
        """The point pulled back to the sphere if it is outside."""
        size = self.norm(x)
        return x * jnp.where(size > self.radius, self.radius / jnp.where(size > 0, size, 1.0), 1.0)


def euclidean(point: Any) -> bool:
    """Whether the point's metric is the Euclidean one: by its word, else because it has nothing to raise indices."""
    said = getattr(point, "euclidean", None)
    return not hasattr(point, "sharp") if said is None else bool(said)


def make_ball(
    params: Tree, layout: Layout, point: Any, radius: jax.Array, *, curved: bool = False, scale: Any = None
) -> Ball:
    """The ball `params + delta`, or the geodesic one.

    Without a point the whole space, Euclidean; with a `scale` the ball `|delta / scale|_2 <= radius`, in which entries
    of scale zero do not move. With a point the horizontal space in its metric.
    """

    def straight(displacement: jax.Array) -> Tree:
        return jax.tree.map(jnp.add, params, layout.nested(displacement))

    def horizontal(v: jax.Array) -> jax.Array:
        return layout.flat(point.horizontal(layout.nested(v)))

    if point is None:
        if scale is None:
            return Ball(identity, identity, dot, straight, radius)
        moving = scale > 0
        return Ball(
            lambda x: jnp.where(moving, x, 0.0),
            identity,
            dot,
            lambda x: straight(scale * x),
            radius,
            lambda x: scale * x,
            lambda v: jnp.where(moving, v / jnp.where(moving, scale, 1.0), 0.0),
        )
    if euclidean(point):
        ball = Ball(horizontal, identity, dot, straight, radius)
    elif hasattr(point, "unwhiten"):
        # In coordinates where the metric is the identity: products of vectors cost what they cost in the flat case.
        def unwhiten(x: jax.Array) -> jax.Array:
            return layout.flat(point.unwhiten(layout.nested(x)))

        def whiten(v: jax.Array) -> jax.Array:
            return layout.flat(point.whiten(layout.nested(v)))

        ball = Ball(
            lambda x: whiten(horizontal(unwhiten(x))),
            identity,
            dot,
            lambda x: straight(unwhiten(x)),
            radius,
            unwhiten,
            whiten,
        )
    else:
        ball = Ball(
            horizontal,
            lambda covector: layout.flat(point.sharp(layout.nested(covector))),
            lambda u, v: jnp.asarray(point.inner(layout.nested(u), layout.nested(v))).astype(layout.dtype),
            straight,
            radius,
        )
    if not curved or euclidean(point) or not hasattr(point, "geodesic"):
        return ball
    path = lambda x: point.geodesic(layout.nested(ball.tangent(x)))
    like = jax.eval_shape(path, jnp.zeros(layout.size, layout.dtype))
    smooth, expands = getattr(like, "smooth_exit", False), hasattr(like, "taylor")
    stop = lambda x: _stop(lambda v: jnp.asarray(path(v).exit_time).astype(layout.dtype), x, smooth)
    return ball._replace(
        # Geodesics that leave their domain are shortened: the image is the part of the ball inside the domain, on which
        # the loss is a continuous function of the velocity. The search never meets a NaN of the geometry.
        embed=lambda x: path(stop(x) * x).end,
        stop=stop,
        straight=ball.embed,
        taylor=(lambda x: path(x).taylor(1.0)) if expands else None,
    )


def _stop(exit_time: Callable[[jax.Array], jax.Array], x: jax.Array, smooth: bool) -> jax.Array:
    """The time up to which the geodesic of velocity x is followed: 1, or just short of its exit.

    Exit times come without a derivative, unless the path says that its own is `smooth`. The boundary is taken to be a
    plane across the ray, so that `s(x) x . x0 = s(x0) |x0|^2`. Exit times are homogeneous of degree -1: the derivative
    along the ray is right, and moving along a ray that is cut short changes nothing.
    """
    if smooth:
        return jnp.minimum(SHORT_OF_EXIT * exit_time(x), 1.0)
    at = jax.lax.stop_gradient(x)
    limit = jax.lax.stop_gradient(jnp.minimum(SHORT_OF_EXIT * exit_time(at), 1.0))
    along = dot(at, x)
    cut = (limit < 1) & (along > 0)
    return jnp.where(cut, limit * dot(at, at) / jnp.where(cut, along, 1.0), 1.0)


def broken_promises(
    ball: Ball, layout: Layout, point: Any, one: jax.Array, two: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """How far the projection is from idempotent, and the metric from matching the ball's own, at a pair of vectors.

    The first is `|P h - h| / |h|` for h = P one; the second `|<sharp(c), h> - c(h)| / (|sharp(c)| |h|)` for c = two:
    without it the ascent direction would not be the gradient of the ball's own metric. In whitened coordinates `sharp`
    is the identity, and the second says that `unwhiten` is an isometry.
    """
    h, _ = ball.unit(ball.horizontal(one))
    raised = ball.sharp(two)
    again = ball.norm(ball.horizontal(h) - h)
    if point is None:
        return again, jnp.zeros_like(again)
    size = ball.norm(raised)
    inner = point.inner(layout.nested(ball.tangent(raised)), layout.nested(ball.tangent(h)))
    return again, jnp.abs(jnp.asarray(inner).astype(layout.dtype) - dot(two, h)) / jnp.where(size > 0, size, 1.0)

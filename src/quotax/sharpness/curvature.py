"""What is known of the Hessian: directions with their images, learnt from gradients that were paid for anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from quotax.sharpness.ball import Ball
from quotax.sharpness.vectors import combine, finite

# A step teaches a new direction when at least this share of it is new; the image of that part is divided by the share,
# and with it everything in the loss that is not quadratic.
FRESH = 1e-2

# Of what a rejection leaves below this share of a vector, rounding is a visible part.
MOST = 0.5

# A step shorter than this many units of rounding of the radius has a gradient difference made of noise.
NOISE = 1e4


class Curvature(NamedTuple):
    """Orthonormal horizontal directions q_i, their images under the Hessian, and the products `<q_i, H q_j>`.

    A ring: `next` is the slot to overwrite, `last` the one written most recently. Empty slots hold zeros.
    """

    directions: jax.Array
    images: jax.Array
    products: jax.Array
    present: jax.Array
    next: jax.Array
    last: jax.Array

    @property
    def hessian(self) -> jax.Array:
        """`<q_i, H q_j>`, symmetrised."""
        return 0.5 * (self.products + self.products.T)

    @property
    def latest(self) -> jax.Array:
        """The curvature along the most recent direction; zero if there is none."""
        return self.products[self.last, self.last]

    def along(self, ball: Ball, v: jax.Array) -> jax.Array:
        """The components `<q_i, v>`."""
        return ball.inners(self.directions, v)

    def image_along(self, ball: Ball, v: jax.Array) -> jax.Array:
        """The products `<H q_i, v>`."""
        return ball.inners(self.images, v)

    def span(self, coefficients: jax.Array) -> jax.Array:
        """The vector `sum_i c_i q_i`."""
        return combine(coefficients, self.directions)

    def image(self, coefficients: jax.Array) -> jax.Array:
        """The vector `sum_i c_i H q_i`."""
        return combine(coefficients, self.images)

    def reject(self, ball: Ball, v: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """`v` minus its components along the directions, those components, and the norm of what is left.

        Done a second time where most of `v` went away, and rounding with it has become visible.
        """
        c = self.along(ball, v)
        rest = v - self.span(c)
        size = ball.norm(rest)

        def again() -> tuple[jax.Array, jax.Array, jax.Array]:
            more = self.along(ball, rest)
            left = rest - self.span(more)
            return left, c + more, ball.norm(left)

        return lax.cond(size < MOST * ball.norm(v), again, lambda: (rest, c, size))


def nothing_known(slots: int, like: jax.Array) -> Curvature:
    """An empty memory."""
    stack = jnp.zeros((slots, like.size), like.dtype)
    products = jnp.zeros((slots, slots), like.dtype)
    zero = jnp.zeros((), jnp.int32)
    return Curvature(stack, stack, products, jnp.zeros(slots, bool), zero, zero)


def learn(ball: Ball, known: Curvature, step: jax.Array, change: jax.Array, good: jax.Array) -> Curvature:
    """The memory after seeing the gradient change by `change` along `step`, if it is a `good` one.

    The oldest direction makes room. With `step = Q c + s` and s orthogonal to Q, `H s = change - HQ c` up to third
    order: stored for s, the model maps `step` to `change` exactly. When s is too small for that, and `change - HQ c`
    too large to be `H s`, the Hessian has changed along what is known: Broyden's correction
    `HQ += (change - HQ c) c^T / |c|^2` says so inside the span.
    """
    eps = jnp.finfo(known.products.dtype).eps
    slot = known.next
    others = jnp.arange(known.present.size, dtype=slot.dtype) != slot
    length = ball.norm(step)
    usable = good & (length > NOISE * eps * ball.radius)
    rest, c, rest_size = known.reject(ball, step)
    # What lies along the direction that makes room is new again.
    new = jnp.hypot(rest_size, jnp.where(known.present[slot], c[slot], 0.0))
    fresh = usable & (new > jnp.maximum(FRESH * length, NOISE * eps * ball.radius))

    def grow(known: Curvature) -> Curvature:
        kept = jnp.where(others, c, 0.0)
        q = (rest + c[slot] * known.directions[slot]) / new
        hq = (change - known.image(kept)) / new
        directions, images = known.directions.at[slot].set(q), known.images.at[slot].set(hq)
        after = (slot + 1) % known.present.size
        products = known.products.at[slot, :].set(ball.inners(images, q)).at[:, slot].set(ball.inners(directions, hq))
        return Curvature(directions, images, products, known.present.at[slot].set(True), after, slot)

    def correct(known: Curvature) -> Curvature:
        surprise = change - known.image(c)
        largest = jnp.max(jnp.sum(jnp.abs(known.products), axis=1))
        changed = usable & (ball.norm(surprise) > 3 * largest * jnp.maximum(rest_size, 0.01 * length))
        weights = jnp.where(changed, c / jnp.sum(c * c), 0.0)
        surprise = jnp.where(changed, surprise, 0.0)
        return known._replace(
            images=known.images + jnp.outer(weights, surprise),
            products=known.products + jnp.outer(known.along(ball, surprise), weights),
        )

    return lax.cond(fresh, grow, lambda known: lax.cond(usable, correct, lambda known: known, known), known)


def lanczos(
    ball: Ball,
    hessian_vector: Callable[[jax.Array], jax.Array],
    start: jax.Array,
    noise: jax.Array,
    count: jax.Array,
    slots: int,
) -> Curvature:
    """A memory filled by `count` Hessian-vector products at the centre: Krylov directions of `start`, then of noise.

    The last third starts again from a random direction: a Krylov space of the gradient cannot see eigenvectors that the
    gradient is orthogonal to, which is exactly the hard case of the trust-region problem. Fully orthogonalised in the
    metric of the ball, in which `P H P` is symmetric.
    """
    stack = nothing_known(slots, start).directions
    restart = count - count // 3

    def orthogonalise(directions: jax.Array, v: jax.Array) -> jax.Array:
        for _ in range(2):
            v = v - combine(ball.inners(directions, v), directions)
        return v

    def extend(i: jax.Array, state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        directions, images, candidate = state
        # Nonlinear in i and entrywise: another direction each time, without another draw.
        other = ball.horizontal(jnp.sin((i + 1).astype(noise.dtype) * noise))
        other, _ = ball.unit(other)
        candidate, _ = ball.unit(jnp.where(i == restart, other, candidate))
        new = orthogonalise(directions, candidate)
        # An exhausted Krylov space continues from noise; an exhausted horizontal space leaves the slot empty.
        new = jnp.where(ball.norm(new) > 1e-4, new, orthogonalise(directions, other))
        q, size = ball.unit(new, floor=1e-4)
        image = hessian_vector(q)
        good = (size > 0) & finite(image)
        q, image = jnp.where(good, q, 0.0), jnp.where(good, image, 0.0)
        return directions.at[i].set(q), images.at[i].set(image), image

    directions, images, _ = lax.fori_loop(0, count, extend, (stack, stack, start))
    products = jax.vmap(lambda image: ball.inners(directions, image), out_axes=1)(images)
    present = jax.vmap(ball.norm)(directions) > 0.5
    following, last = (count % slots).astype(jnp.int32), (count - 1).astype(jnp.int32)
    return Curvature(directions, images, products, present, following, last)

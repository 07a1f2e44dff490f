"""What is known of the Hessian: directions with their images, learnt from gradients that were paid for anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from quotax.sharpness import vectors
from quotax.sharpness.ball import Ball
from quotax.sharpness.vectors import Stack, Vector

# A step teaches a new direction when at least this share of it is new; the image of that part is divided by the share,
# and with it everything in the loss that is not quadratic.
FRESH = 1e-2

# A step shorter than this many units of rounding of the radius has a gradient difference made of noise.
NOISE = 1e4


class Curvature(NamedTuple):
    """Orthonormal horizontal directions q_i, their images under the Hessian, and the products `<q_i, H q_j>`.

    A ring: `next` is the slot to overwrite, `last` the one written most recently. Empty slots hold zeros.
    """

    directions: Stack
    images: Stack
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

    def along(self, ball: Ball, v: Vector) -> jax.Array:
        """The components `<q_i, v>`."""
        return ball.inners(self.directions, v)

    def image_along(self, ball: Ball, v: Vector) -> jax.Array:
        """The products `<H q_i, v>`."""
        return ball.inners(self.images, v)

    def span(self, coefficients: jax.Array) -> Vector:
        """The vector `sum_i c_i q_i`."""
        return vectors.combine(coefficients, self.directions)

    def image(self, coefficients: jax.Array) -> Vector:
        """The vector `sum_i c_i H q_i`."""
        return vectors.combine(coefficients, self.images)

    def reject(self, ball: Ball, v: Vector) -> tuple[Vector, jax.Array]:
        """`v` minus its components along the directions, and those components: done twice, against rounding."""
        first = self.along(ball, v)
        v = vectors.subtract(v, self.span(first))
        second = self.along(ball, v)
        return vectors.subtract(v, self.span(second)), first + second


def learn(ball: Ball, known: Curvature, step: Vector, change: Vector) -> Curvature:
    """The memory after seeing the gradient change by `change` along `step`; the oldest direction makes room.

    With `step = Q c + s` and s orthogonal to Q, `H s = change - HQ c` up to third order: stored for s, the model maps
    `step` to `change` exactly. When s is too small for that, and `change - HQ c` too large to be `H s`, the Hessian has
    changed along what is known: Broyden's correction `HQ += (change - HQ c) c^T / |c|^2` says so inside the span.
    """
    eps = jnp.finfo(known.products.dtype).eps
    slot = known.next
    others = jnp.arange(known.present.size) != slot
    length = ball.norm(step)
    rest, c = known.reject(ball, step)
    s = vectors.add(rest, known.span(jnp.where(others, 0.0, c)))
    new = ball.norm(s)
    usable = (length > NOISE * eps * ball.radius) & vectors.finite(change)
    fresh = usable & (new > jnp.maximum(FRESH * length, NOISE * eps * ball.radius))

    image = vectors.subtract(change, known.image(jnp.where(others, c, 0.0)))
    over = jnp.where(fresh, 1.0 / jnp.where(fresh, new, 1.0), 0.0)
    q, hq = vectors.scale(over, s), vectors.scale(over, image)
    directions, images = vectors.put(known.directions, slot, q), vectors.put(known.images, slot, hq)
    after = (slot + 1) % known.present.size
    products = known.products.at[slot, :].set(ball.inners(images, q)).at[:, slot].set(ball.inners(directions, hq))
    grown = Curvature(directions, images, products, known.present.at[slot].set(True), after, slot)

    surprise = vectors.subtract(change, known.image(c))
    largest = jnp.max(jnp.sum(jnp.abs(known.products), axis=1))
    changed = usable & (ball.norm(surprise) > 3 * largest * jnp.maximum(ball.norm(rest), 0.01 * length))
    weights = c / jnp.where(usable, jnp.sum(c * c), 1.0)
    corrected = known._replace(
        images=jax.tree.map(
            lambda leaf, e: leaf + jnp.tensordot(weights.astype(e.dtype), e, axes=0), known.images, surprise
        ),
        products=known.products + jnp.outer(known.along(ball, surprise), weights),
    )
    return vectors.where(fresh, grown, vectors.where(changed, corrected, known))


def lanczos(
    ball: Ball, hessian_vector: Callable[[Vector], Vector], start: Vector, count: int, slots: int, key: jax.Array
) -> Curvature:
    """A memory filled by `count` Hessian-vector products at the centre: Krylov directions of `start`, then of noise.

    The last third starts again from a random direction: a Krylov space of the gradient cannot see eigenvectors that the
    gradient is orthogonal to, which is exactly the hard case of the trust-region problem. Fully orthogonalised in the
    metric of the ball, in which `P H P` is symmetric.
    """
    dtype = vectors.scalar_dtype(start)
    stack = vectors.zero_stack(slots, start)
    following, last = jnp.asarray(count % slots, jnp.int32), jnp.asarray(max(count - 1, 0), jnp.int32)
    if count == 0:
        return Curvature(stack, stack, jnp.zeros((slots, slots), dtype), jnp.zeros(slots, bool), following, last)
    restart = count - count // 3

    def orthogonalise(directions: Stack, v: Vector) -> Vector:
        for _ in range(2):
            v = vectors.subtract(v, vectors.combine(ball.inners(directions, v), directions))
        return v

    def extend(i: jax.Array, state: tuple[Stack, Stack, Vector]) -> tuple[Stack, Stack, Vector]:
        directions, images, candidate = state
        noise, _ = ball.unit(ball.random(jax.random.fold_in(key, i), start))
        candidate, _ = ball.unit(vectors.where(i == restart, noise, candidate))
        new = orthogonalise(directions, candidate)
        # An exhausted Krylov space continues from noise; an exhausted horizontal space leaves the slot empty.
        new = vectors.where(ball.norm(new) > 1e-4, new, orthogonalise(directions, noise))
        q, size = ball.unit(new, floor=1e-4)
        image = hessian_vector(q)
        good = (size > 0) & vectors.finite(image)
        q, image = vectors.where(good, (q, image), (vectors.zeros(q), vectors.zeros(q)))
        return vectors.put(directions, i, q), vectors.put(images, i, image), image

    directions, images, _ = lax.fori_loop(0, count, extend, (stack, stack, start))
    products = jax.vmap(lambda image: ball.inners(directions, image), out_axes=1)(images)
    present = jax.vmap(ball.norm)(directions) > 0.5
    return Curvature(directions, images, products, present, following, last)

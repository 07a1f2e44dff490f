"""What is known of the Hessian: directions with their images, learnt from gradients that were paid for anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import jax
import numpy as np

from quotax.sharpness.problem.ball import Ball
from quotax.sharpness.problem.vectors import Vector, combine, finite, put, zeros

# A step teaches a new direction when at least this share of it is new; the image of that part is divided by the share,
# and with it everything in the loss that is not quadratic.
FRESH = 1e-2

# Of what a rejection leaves below this share of a vector, rounding is a visible part.
MOST = 0.5

# A step shorter than this many units of rounding of the radius has a gradient difference made of noise.
NOISE = 1e4


@jax.tree_util.register_dataclass
@dataclass
class HessianMemory:
    """Orthonormal horizontal directions q_i, their images under the Hessian, and the products `<q_i, H q_j>`.

    A ring: `next` is the slot to overwrite, `last` the one written most recently, `used` the number of slots that were
    ever written.
    """

    directions: Vector
    images: Vector
    products: np.ndarray
    used: int
    next: int
    last: int

    @property
    def slots(self) -> int:
        """Directions that there is room for."""
        return len(self.products)

    @property
    def q(self) -> Vector:
        """The directions in use."""
        return self.directions[: self.used]

    @property
    def hq(self) -> Vector:
        """Their images."""
        return self.images[: self.used]

    @property
    def hessian(self) -> np.ndarray:
        """`<q_i, H q_j>`, symmetrised."""
        known = self.products[: self.used, : self.used]
        return 0.5 * (known + known.T)

    @property
    def latest(self) -> float:
        """The curvature along the most recent direction; zero if there is none."""
        return float(self.products[self.last, self.last])

    def reject(self, ball: Ball, v: Vector, size: float) -> tuple[Vector, np.ndarray, float]:
        """`v`, of norm `size`, minus its components along the directions, those components, and the norm of the rest.

        Done a second time where most of `v` went away, and rounding with it has become visible.
        """
        if not self.used:
            return v, np.zeros(0), size
        c = ball.inners(self.q, v)
        rest = v - combine(c, self.q)
        left = ball.norm(rest)
        if left < MOST * size:
            more = ball.inners(self.q, rest)
            rest = rest - combine(more, self.q)
            c, left = c + more, ball.norm(rest)
        return rest, c, left


def nothing_known(slots: int, like: Vector) -> HessianMemory:
    """An empty memory."""
    return HessianMemory(zeros(slots, like), zeros(slots, like), np.zeros((slots, slots)), 0, 0, 0)


def learn(ball: Ball, known: HessianMemory, step: Vector, length: float, change: Vector, eps: float) -> None:
    """Remember that the gradient changed by `change` along `step`, a vector of norm `length`.

    The oldest direction makes room. With `step = Q c + s` and s orthogonal to Q, `H s = change - HQ c` up to third
    order: stored for s, the model maps `step` to `change` exactly. When s is too small for that, and `change - HQ c`
    too large to be `H s`, the Hessian has changed along what is known: Broyden's correction
    `HQ += (change - HQ c) c^T / |c|^2` says so inside the span.
    """
    if not length > NOISE * eps * ball.radius:
        return
    slot = known.next
    rest, c, size = known.reject(ball, step, length)
    # What lies along the direction that makes room is new again.
    replaced = slot < known.used
    new = float(np.hypot(size, c[slot] if replaced else 0.0))
    if new > max(FRESH * length, NOISE * eps * ball.radius):
        kept = c.copy()
        q, hq = rest, change
        if replaced:
            kept[slot] = 0.0
            q = q + float(c[slot]) * known.directions[slot]
        if known.used:
            hq = hq - combine(kept, known.hq)
        q, hq = q * (1 / new), hq * (1 / new)
        known.directions, known.images = put(known.directions, slot, q), put(known.images, slot, hq)
        known.used = max(known.used, slot + 1)
        known.products[slot, : known.used] = ball.inners(known.hq, q)
        known.products[: known.used, slot] = ball.inners(known.q, hq)
        known.next, known.last = (slot + 1) % known.slots, slot
    elif known.used:
        surprise = change - combine(c, known.hq)
        largest = float(np.max(np.sum(np.abs(known.products), axis=1)))
        if ball.norm(surprise) > 3 * largest * max(size, 0.01 * length):
            weights = c / float(c @ c)
            along = ball.inners(known.q, surprise)
            for i, weight in enumerate(weights):
                known.images = put(known.images, i, known.images[i] + float(weight) * surprise)
            known.products[: known.used, : known.used] += np.outer(along, weights)


def lanczos(
    ball: Ball, hessian_vector: Callable[[Vector], Vector], start: Vector, noise: Vector, count: int, slots: int
) -> tuple[HessianMemory, int]:
    """A memory filled by at most `count` Hessian-vector products at the centre, and how many were spent.

    Krylov directions of `start`, then of noise: the last third starts again from a random direction, because a Krylov
    space of the gradient cannot see eigenvectors that the gradient is orthogonal to, which is exactly the hard case of
    the trust-region problem. Fully orthogonalised in the metric of the ball, in which `P H P` is symmetric and which
    `linalg.lanczos` does not know: there the metric is the identity.
    """
    known = nothing_known(slots, start)
    restart = count - count // 3

    def orthogonalise(v: Vector) -> Vector:
        for _ in range(2 if known.used else 0):
            v = v - combine(ball.inners(known.q, v), known.q)
        return v

    def other(i: int) -> Vector:
        # Nonlinear in i and entrywise: another direction each time, without another draw.
        xp: ModuleType = np if isinstance(noise, np.ndarray) else jax.numpy
        return ball.unit(ball.horizontal(xp.sin((i + 1.0) * noise)))[0]

    candidate = start
    for i in range(count):
        new = orthogonalise(other(i) if i == restart else ball.unit(candidate)[0])
        # An exhausted Krylov space continues from noise.
        if not ball.norm(new) > 1e-4:
            new = orthogonalise(other(i))
        q, size = ball.unit(new, floor=1e-4)
        if not size:  # the horizontal space is exhausted too
            return _closed(ball, known), i
        candidate = hessian_vector(q)
        if finite(candidate):
            slot = known.used
            known.directions, known.images = put(known.directions, slot, q), put(known.images, slot, candidate)
            known.used, known.next, known.last = slot + 1, (slot + 1) % slots, slot
        else:
            candidate = q * 0.0
    return _closed(ball, known), count


def _closed(ball: Ball, known: HessianMemory) -> HessianMemory:
    if known.used:
        known.products[: known.used, : known.used] = ball.products(known.q, known.hq)
    return known

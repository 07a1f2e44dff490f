"""Solutions of `S x = b` from products with `S`, positive semi-definite, and a preconditioner; vectors are flat.

A subspace that holds the slow directions is found once (`deflate`) and solved exactly; on what is left the spectrum is
narrow, so that a polynomial fixed beforehand (`chebyshev`) needs few products and no inner products. Where it is not
narrow, `conjugate_gradients` go on until the residual is rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.geometry.linalg.one_by_one import eigh

Operator = Callable[[jax.Array], jax.Array]

_MOST_STEPS = 200
_PATIENCE = 5
"""Steps without a smaller residual after which it is taken to be rounding."""

_PROBING = 5
"""Products spent on the spectrum outside the subspace."""

_WIDER = 1.35
"""So much wider than seen with these few products the spectrum is taken to be."""


class Subspace(NamedTuple):
    """Directions `p` with `p_i S p_j = 0`, their images `S p`, and `1 / p S p`, zero for those that were not needed.

    `low` and `high` enclose the spectrum of the preconditioned operator on what is left.
    """

    directions: jax.Array
    images: jax.Array
    weights: jax.Array
    low: jax.Array
    high: jax.Array

    def coarse(self, right: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The solution within the subspace, and the right-hand side that it leaves."""
        found = (self.directions @ right) * self.weights
        return found @ self.directions, right - found @ self.images

    def outside(self, vector: jax.Array) -> jax.Array:
        """What is left of a vector without its part in the subspace, orthogonally in `S`."""
        return vector - ((self.images @ vector) * self.weights) @ self.directions


class _Deflation(NamedTuple):
    """`rest` is what the directions leave of the start, `better` that preconditioned, `least` its size at its least.

    The size has last halved `since` steps ago.
    """

    space: Subspace
    rest: jax.Array
    better: jax.Array
    least: jax.Array
    since: jax.Array
    steps: jax.Array


class _Polynomial(NamedTuple):
    """The solution so far, its residual before the last `change`, and the recurrence's factor."""

    x: jax.Array
    rest: jax.Array
    change: jax.Array
    rate: jax.Array


class _Conjugate(NamedTuple):
    """The solution so far, its residual and the preconditioner's square of it, and where to go next."""

    x: jax.Array
    rest: jax.Array
    direction: jax.Array
    size: jax.Array
    steps: jax.Array


def deflate(matvec: Operator, precondition: Operator, starts: jax.Array, most: int) -> Subspace:
    """The conjugate directions of the steps towards the solution for `starts[0]`, at most so many.

    They hold the directions in which `precondition` is furthest from an inverse, which converge first, however small
    their part in the start is. The second start sees how wide the spectrum of the others is. Both lie in the range of
    `S`.
    """
    start, other = starts
    dtype = start.dtype
    epsilon = float(jnp.finfo(dtype).eps)
    zeros, ones = jnp.zeros((most, start.size), dtype), jnp.ones((), dtype)
    first = precondition(start)
    size = jnp.vdot(start, first)
    empty = Subspace(zeros, zeros, jnp.zeros(most, dtype), ones, ones)

    def unfinished(state: _Deflation) -> jax.Array:
        return (state.steps < most) & (state.since < _PATIENCE) & (state.least > epsilon**1.7 * size)

    def step(state: _Deflation) -> _Deflation:
        space, rest, better, least, since, i = state
        direction = space.outside(space.outside(better))
        image = matvec(direction)
        along = jnp.vdot(direction, image)
        weight = jnp.where(along > 0, 1 / jnp.where(along > 0, along, 1), 0)
        rest = rest - (jnp.vdot(direction, rest) * weight) * image
        space = space._replace(
            directions=space.directions.at[i].set(direction),
            images=space.images.at[i].set(image),
            weights=space.weights.at[i].set(weight),
        )
        better = precondition(rest)
        left = jnp.vdot(rest, better)
        since = jnp.where(left < least / 2, 0, since + 1)
        return _Deflation(space, rest, better, jnp.minimum(left, least), since, i + 1)

    none = jnp.zeros((), int)
    space, *_, since, count = jax.lax.while_loop(unfinished, step, _Deflation(empty, start, first, size, none, none))
    # What was tried after the residual had reached rounding is rounding itself.
    space = space._replace(weights=jnp.where(jnp.arange(most) < count - since, space.weights, 0))
    low, high = _interval(matvec, lambda r: space.outside(precondition(r)), space.coarse(other)[1])
    return space._replace(low=low, high=high)


def _interval(matvec: Operator, precondition: Operator, start: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The ends of the preconditioned spectrum: Lanczos' values, from the numbers of conjugate gradients."""
    rest, better = start, precondition(start)
    direction, size = better, jnp.vdot(start, better)
    diagonal, beside, carried = [], [], jnp.zeros((), start.dtype)
    enough = float(jnp.finfo(start.dtype).eps) ** 1.5 * size
    alive = size > 0
    for _ in range(_PROBING):
        image = matvec(direction)
        along = jnp.vdot(direction, image)
        alive = alive & (along > 0) & (size > enough)
        inverse = jnp.where(alive, along / jnp.where(size > 0, size, 1), 1)  # 1 / alpha
        diagonal.append(jnp.where(alive, inverse + carried, jnp.nan))
        rest = rest - image / inverse
        better = precondition(rest)
        new = jnp.vdot(rest, better)
        ratio = jnp.where(alive, jnp.maximum(new, 0) / jnp.where(size > 0, size, 1), 0)
        beside.append(jnp.sqrt(ratio) * inverse)
        carried, size, direction = ratio * inverse, new, better + ratio * direction
    # Steps that were not taken get the value of the first, which is within the spectrum.
    inner = jnp.stack(diagonal)
    taken = jnp.isfinite(inner)
    within = jnp.where(taken[0], inner[0], 1)
    off = jnp.where(taken[1:] & taken[:-1], jnp.stack(beside[:-1]), 0)
    matrix = jnp.diag(jnp.where(taken, inner, within)) + jnp.diag(off, 1) + jnp.diag(off, -1)
    values, _ = eigh(matrix)
    middle, half = (values[-1] + values[0]) / 2, (values[-1] - values[0]) / 2
    half = jnp.maximum(_WIDER * half, 1e-3 * middle)
    return jnp.maximum(middle - half, 1e-3 * middle), middle + half


def steps_needed(low: jax.Array, high: jax.Array, goal: float, most: int) -> jax.Array:
    """How many products `chebyshev` needs for a relative error of `goal`; more than `most` where these do not do."""
    turn = jnp.arccosh(jnp.maximum((high + low) / (high - low), 1 + 1e-6))
    return jnp.where(jnp.isfinite(turn), jnp.clip(jnp.ceil(jnp.arccosh(1 / goal) / turn) - 1, 0, most + 1), most + 1)


def chebyshev(
    matvec: Operator, precondition: Operator, right: jax.Array, low: jax.Array, high: jax.Array, steps: jax.Array
) -> jax.Array:
    """The polynomial that is best for a spectrum within these ends, in so many products with the operator."""
    middle, half = (high + low) / 2, (high - low) / 2

    def step(_: jax.Array, state: _Polynomial) -> _Polynomial:
        x, rest, change, rate = state
        rest = rest - matvec(change)
        new = 1 / (2 * middle / half - rate)
        change = new * rate * change + (2 * new / half) * precondition(rest)
        return _Polynomial(x + change, rest, change, new)

    change = precondition(right) / middle
    return jax.lax.fori_loop(0, steps.astype(int), step, _Polynomial(change, right, change, half / middle)).x


def conjugate_gradients(matvec: Operator, precondition: Operator, right: jax.Array) -> jax.Array:
    """`x` with `matvec(x) = right`, started from the preconditioner's guess.

    Stops when the residual, measured by the preconditioner, is at the level of rounding. Where the operator is singular
    but consistent, the iteration stays in its range, and so does the solution up to the preconditioner's.
    """
    epsilon = float(jnp.finfo(right.dtype).eps)
    first = precondition(right)
    goal = epsilon**1.7 * jnp.vdot(right, first)

    def unfinished(state: _Conjugate) -> jax.Array:
        return (state.size > goal) & (state.steps < _MOST_STEPS)

    def step(state: _Conjugate) -> _Conjugate:
        x, rest, direction, size, count = state
        image = matvec(direction)
        along = jnp.vdot(direction, image)
        length = jnp.where(along > 0, size / jnp.where(along > 0, along, 1), 0)
        x, rest = x + length * direction, rest - length * image
        better = precondition(rest)
        # A direction without any curvature left means that rounding has been reached.
        new = jnp.where(along > 0, jnp.vdot(rest, better), 0)
        direction = better + new / jnp.where(size > 0, size, 1) * direction
        return _Conjugate(x, rest, direction, new, count + 1)

    start = _Conjugate(jnp.zeros_like(right), right, first, jnp.vdot(right, first), jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, step, start).x

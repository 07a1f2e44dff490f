"""Visited points of a ball, and which of several searches deserves the next gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from quotax.sharpness.ball import Ball
from quotax.sharpness.vectors import finite

# How many steps like its last one a search is trusted to make.
AHEAD = 2.0

# Units of rounding of the radius that a point may be away from horizontal.
STRAYED = 8

ROOM = 64
"""Rounds that one call of a compiled stage can run, which is the room for their history."""


class Place(NamedTuple):
    """A visited point: the displacement, the rise of the loss and its horizontal metric gradient there."""

    x: jax.Array
    rise: jax.Array
    gradient: jax.Array


class Visit(NamedTuple):
    """What a stage reports: rounds run, the best rise after each, visits without a number, the steepest gradient."""

    rounds: jax.Array
    history: jax.Array
    nonfinite: jax.Array
    steepest: jax.Array


class Centre(NamedTuple):
    """What is known where a search begins: the loss, its horizontal metric gradient, and a random vertical vector.

    The vector is standard normal among those that a projection takes away; there is none where nothing is projected.
    """

    base: jax.Array
    gradient: jax.Array
    probe: jax.Array | None


class Look(NamedTuple):
    """What a stage needs to look at points: the ball, the loss on it, and what is known at the centre.

    `each` runs searches that advance together: as one batch, or one after the other.
    """

    ball: Ball
    at: Callable[[jax.Array], tuple[jax.Array, jax.Array]]
    centre: Centre
    each: Callable[..., Any] = jax.vmap

    @property
    def base(self) -> jax.Array:
        """The loss at the centre."""
        return self.centre.base

    @property
    def gradient(self) -> jax.Array:
        """The horizontal metric gradient at the centre."""
        return self.centre.gradient

    def visit(self, x: jax.Array) -> tuple[Place, jax.Array]:
        """The place at x, and whether loss and gradient are finite there."""
        value, gradient = self.at(x)
        return Place(x, value - self.base, gradient), jnp.isfinite(value) & finite(gradient)

    def feasible(self, x: jax.Array) -> jax.Array:
        """A combination of horizontal vectors, pulled back to the sphere if it is outside.

        Rounding may have left some of it vertical: the product with a random vertical vector is as large as that part,
        and costs a fraction of the projection that takes it away.
        """
        if self.centre.probe is not None:
            allowed = STRAYED * jnp.finfo(x.dtype).eps * self.ball.radius
            strayed = jnp.abs(self.ball.inner(self.centre.probe, x)) > allowed
            x = lax.cond(strayed, self.ball.horizontal, lambda x: x, x)
        return self.ball.inside(x)


def outlook(rise: jax.Array, gain: jax.Array) -> jax.Array:
    """Where a search would be after a few more steps as good as its last: the one with the best outlook goes on."""
    return rise + AHEAD * gain


def bend(ball: Ball, x: jax.Array, slope: jax.Array, reach: jax.Array) -> jax.Array:
    """The step `x + reach radius g/|g|` along a slope g, which is to be projected to the ball.

    On the sphere a long reach is the linear-maximisation step `radius g/|g|`, which never lowers a convex loss; a short
    one follows the gradient along the sphere. A gradient that points inwards leads inside.
    """
    size = ball.norm(slope)
    return x + jnp.where(size > 0, reach * ball.radius / jnp.where(size > 0, size, 1.0), 0.0) * slope


def tangent(ball: Ball, place: Place) -> jax.Array:
    """The gradient without its part along x."""
    square = ball.inner(place.x, place.x)
    share = jnp.where(square > 0, ball.inner(place.x, place.gradient) / jnp.where(square > 0, square, 1.0), 0.0)
    return place.gradient - share * place.x


def bent(ball: Ball, here: Place, there: Place, climbed: jax.Array, reach: jax.Array) -> jax.Array:
    """The next reach: shorter after a fall or where the tangential gradient has turned round, longer otherwise."""
    onward = ball.inner(tangent(ball, here), tangent(ball, there)) > 0
    return jnp.where(climbed, jnp.where(onward, 2.0, 0.7), 0.25) * reach


def rows(tree: Any, index: jax.Array) -> Any:
    """Some rows of every array of a stacked record."""
    return jax.tree.map(lambda stack: stack[index], tree)


def with_rows(tree: Any, index: jax.Array, new: Any) -> Any:
    """A stacked record with some rows replaced."""
    return jax.tree.map(lambda stack, row: stack.at[index].set(row), tree, new)


def brief(stack: Any) -> Any:
    """A stacked record without its vectors: one number for each search."""
    return jax.tree.map(lambda array: array if array.ndim == 1 else None, stack)


def run_rounds(
    stack: Any,
    step: Callable[[Any, Any], tuple[Any, jax.Array, jax.Array, jax.Array]],
    priority: Callable[[Any], tuple[jax.Array, jax.Array]],
    width: int,
    limit: jax.Array,
    steepness: Callable[[Any], jax.Array],
    room: int = ROOM,
) -> tuple[Any, Visit]:
    """At most `limit` rounds, each of which advances the `width` searches of highest priority as one batch.

    `priority(brief(stack))` gives one number a search and whether the stage is over; `step(rows, stack)` the rows,
    their best rise, how many of them met no number, and whether gradients were spent: a round without does not count.
    There is `room` for the history of so many rounds.

    Searches are taken out of the stack when their turn comes and put back when it is over: in between, the stack that
    `step` gets has these rows as they were.
    """
    width = min(width, jax.tree.leaves(stack)[0].shape[0])
    dtype = jax.eval_shape(lambda s: priority(brief(s))[0], stack).dtype
    integer = jnp.zeros((), jnp.int32)

    def leading(summary: Any) -> jax.Array:
        return lax.top_k(priority(summary)[0], width)[1]

    def unfinished(state: tuple) -> jax.Array:
        i, stack, *_ = state
        return (i < limit) & ~priority(brief(stack))[1]

    def turn(state: tuple) -> tuple:
        i, stack, *seen = state
        index = leading(brief(stack))

        def goes_on(state: tuple) -> jax.Array:
            i, summary, *_ = state
            return (i < limit) & ~priority(summary)[1] & jnp.all(leading(summary) == index)

        def advance(state: tuple) -> tuple:
            i, summary, some, history, nonfinite, steepest = state
            some, best, bad, spent = step(some, stack)
            history = history.at[i].set(best)
            steepest = jnp.maximum(steepest, steepness(some))
            summary = with_rows(summary, index, brief(some))
            return i + spent.astype(jnp.int32), summary, some, history, nonfinite + bad, steepest

        state = lax.while_loop(goes_on, advance, (i, brief(stack), rows(stack, index), *seen))
        i, _, some, *seen = state
        return i, with_rows(stack, index, some), *seen

    state = (integer, stack, jnp.full(room, -jnp.inf, dtype), integer, jnp.zeros((), dtype))
    rounds, stack, history, nonfinite, steepest = lax.while_loop(unfinished, turn, state)
    return stack, Visit(rounds, history, nonfinite, steepest)

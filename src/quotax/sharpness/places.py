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


class Look(NamedTuple):
    """What a stage needs to look at points: the ball, the loss on it, and what is known at the centre.

    `spread` places searches that run at the same time on different devices.
    """

    ball: Ball
    at: Callable[[jax.Array], tuple[jax.Array, jax.Array]]
    base: jax.Array
    gradient: jax.Array
    spread: Callable[[Any], Any] = lambda rows: rows

    def visit(self, x: jax.Array) -> tuple[Place, jax.Array]:
        """The place at x, and whether loss and gradient are finite there."""
        value, gradient = self.at(x)
        return Place(x, value - self.base, gradient), jnp.isfinite(value) & finite(gradient)


def outlook(rise: jax.Array, gain: jax.Array) -> jax.Array:
    """Where a search would be after a few more steps as good as its last: the one with the best outlook goes on."""
    return rise + AHEAD * gain


def bend(ball: Ball, place: Place, reach: jax.Array) -> jax.Array:
    """The projected gradient step `P(x + reach radius g/|g|)`.

    On the sphere a long reach is the linear-maximisation step `radius g/|g|`, which never lowers a convex loss; a short
    one follows the gradient along the sphere. A gradient that points inwards leads inside.
    """
    return ball.feasible(place.x + reach * ball.radius * ball.unit(place.gradient)[0])


def bent(ball: Ball, here: Place, there: Place, climbed: jax.Array, reach: jax.Array) -> jax.Array:
    """The next reach: shorter after a fall or where the tangential gradient has turned round, longer otherwise."""

    def tangent(place: Place) -> jax.Array:
        normal, _ = ball.unit(place.x)
        return place.gradient - ball.inner(normal, place.gradient) * normal

    onward = ball.inner(tangent(here), tangent(there)) > 0
    return jnp.where(climbed, jnp.where(onward, 2.0, 0.7), 0.25) * reach


def rows(tree: Any, index: jax.Array) -> Any:
    """Some rows of every array of a stacked record."""
    return jax.tree.map(lambda stack: stack[index], tree)


def with_rows(tree: Any, index: jax.Array, new: Any) -> Any:
    """A stacked record with some rows replaced."""
    return jax.tree.map(lambda stack, row: stack.at[index].set(row), tree, new)


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

    `priority(stack)` gives one number a search and whether the stage is over; `step(rows, stack)` the rows, their best
    rise, how many of them met no number, and whether gradients were spent: a round without does not count. There is
    `room` for the history of so many rounds.
    """
    first = jax.tree.leaves(stack)[0]
    dtype = jax.eval_shape(lambda s: priority(s)[0], stack).dtype
    integer = jnp.zeros((), jnp.int32)

    def unfinished(state: tuple) -> jax.Array:
        i, stack, *_ = state
        return (i < limit) & ~priority(stack)[1]

    def advance(state: tuple) -> tuple:
        i, stack, history, nonfinite, steepest = state
        _, index = lax.top_k(priority(stack)[0], min(width, first.shape[0]))
        moved, best, bad, spent = step(rows(stack, index), stack)
        history = history.at[i].set(best)
        steepest = jnp.maximum(steepest, steepness(moved))
        return i + spent.astype(jnp.int32), with_rows(stack, index, moved), history, nonfinite + bad, steepest

    state = (integer, stack, jnp.full(room, -jnp.inf, dtype), integer, jnp.zeros((), dtype))
    rounds, stack, history, nonfinite, steepest = lax.while_loop(unfinished, advance, state)
    return stack, Visit(rounds, history, nonfinite, steepest)

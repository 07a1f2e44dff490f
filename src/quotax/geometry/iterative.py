"""Conjugate gradients on algebra elements, preconditioned by the closed form of every family's own block."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from quotax.geometry.vectors import Named, add, dot

Operator = Callable[[Named], Named]

_MOST_STEPS = 200


def conjugate_gradients(matvec: Operator, precondition: Operator, right: Mapping[str, jax.Array]) -> Named:
    """`x` with `matvec(x) = right`, started from the preconditioner's guess.

    Stops when the residual, measured by the preconditioner, is at the level of rounding. Where the operator is singular
    but consistent, the iteration stays in its range, and so does the solution up to the preconditioner's.
    """
    right = dict(right)
    epsilon = float(jnp.finfo(jnp.result_type(*right.values())).eps)
    goal = epsilon**1.7 * dot(right, precondition(right))

    def unfinished(state: tuple[Named, Named, Named, jax.Array, jax.Array]) -> jax.Array:
        *_, size, count = state
        return (size > goal) & (count < _MOST_STEPS)

    def step(
        state: tuple[Named, Named, Named, jax.Array, jax.Array],
    ) -> tuple[Named, Named, Named, jax.Array, jax.Array]:
        x, rest, direction, size, count = state
        image = matvec(direction)
        along = dot(direction, image)
        length = jnp.where(along > 0, size / jnp.where(along > 0, along, 1), 0)
        x, rest = add(x, length, direction), add(rest, -length, image)
        better = precondition(rest)
        new = dot(rest, better)
        # A direction without any curvature left means that rounding has been reached.
        new = jnp.where(along > 0, new, 0)
        direction = add(better, new / jnp.where(size > 0, size, 1), direction)
        return x, rest, direction, new, count + 1

    zero = {name: jnp.zeros_like(array) for name, array in right.items()}
    first = precondition(right)
    start = (zero, right, first, dot(right, first), jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, step, start)[0]

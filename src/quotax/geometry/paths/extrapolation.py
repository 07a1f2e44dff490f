r"""Ordinary differential equations by extrapolation (Gragg, Bulirsch, Stoer): a small loop around one right-hand side.

The modified midpoint rule in $n$ substeps has an error in even powers of $1/n$. Its results for $n = 2, 4, 6, \ldots$
are extrapolated to infinitely many, one column after the other, until two columns agree: the order follows the
tolerance. Where the last column does not agree, the step is shortened.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

_MAX_STEPS = 2048


class Reached(NamedTuple):
    """Where a solution is, the length of its next step, and the steps tried; a step of zero is the end of it."""

    t: jax.Array
    y: jax.Array
    step: jax.Array
    steps: jax.Array


class _Columns(NamedTuple):
    """The increments of the midpoint rule, how many there are, the extrapolated one and its error."""

    table: jax.Array
    used: jax.Array
    change: jax.Array
    error: jax.Array


def tolerance(dtype: DTypeLike) -> float:
    """The relative error of a step."""
    return 1e-12 if jnp.finfo(dtype).bits >= 64 else 1e-6


def begin(y: jax.Array, duration: jax.Array) -> Reached:
    """At the start of a path that changes by about its own size in a `duration` of 1."""
    return Reached(jnp.zeros_like(duration), y, 1 / (1 + 2 * jnp.abs(duration)), jnp.zeros((), int))


def integrate(rate: Callable[[jax.Array], jax.Array], start: Reached, end: jax.Array, scale: jax.Array) -> Reached:
    """The solution of `y' = rate(y)` at `end`, or where it cannot be followed any further.

    `scale` is what the absolute error of every entry refers to. Derivatives are in forward mode.
    """
    dtype = start.y.dtype
    goal = tolerance(dtype)
    counts, weights = _columns(8 if goal < 1e-9 else 5)
    counts, weights = jnp.asarray(counts), jnp.asarray(weights, dtype)
    last = len(counts) - 1

    def midpoint(y: jax.Array, h: jax.Array, n: jax.Array) -> jax.Array:
        """The increment of the rule in n substeps."""
        part = h / n.astype(dtype)

        def substep(m: jax.Array, both: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            before, now = both
            return now, before + jnp.where(m == 0, part, 2 * part) * rate(y + now)

        zero = jnp.zeros_like(y)
        return jax.lax.fori_loop(0, n, substep, (zero, zero))[1]

    def attempt(y: jax.Array, h: jax.Array) -> _Columns:
        size = jax.lax.stop_gradient(goal * (scale + jnp.abs(y)))

        def column(found: _Columns) -> _Columns:
            j = found.used
            table = found.table.at[j].set(midpoint(y, h, counts[j]))
            change = weights[j] @ table
            gap = jax.lax.stop_gradient(change - found.change) / jnp.where(size > 0, size, 1)
            error = jnp.where(j > 0, jnp.sqrt(jnp.mean(gap**2)), jnp.inf)
            return _Columns(table, j + 1, change, error)

        unfinished = lambda found: (found.used <= last) & ~(found.error <= 1)
        zeros = jnp.zeros((last + 1, y.size), dtype)
        nothing = _Columns(zeros, jnp.zeros((), int), jnp.zeros_like(y), jnp.asarray(jnp.inf, dtype))
        return jax.lax.while_loop(unfinished, column, nothing)

    def unfinished(now: Reached) -> jax.Array:
        return (now.t < end) & (now.step > 0) & (now.steps < _MAX_STEPS)

    def advance(now: Reached) -> Reached:
        left = end - now.t
        whole = now.step >= left
        h = jnp.where(whole, left, now.step)
        found = attempt(now.y, h)
        good = found.error <= 1
        # The step at which the last column but one would agree.
        order = (2 * found.used - 1).astype(dtype)
        ideal = 0.8 * jnp.where(found.error > 0, found.error, 1e-6) ** (-1 / order)
        factor = jnp.where(found.used < last, jnp.maximum(ideal, 1.5), ideal)
        longer = jnp.where(jnp.isfinite(factor), jnp.clip(factor, 0.1, 4), 0.1) * h
        # A last step that was cut short says little about the next.
        step = jnp.where(good & whole, jnp.maximum(now.step, longer), longer)
        step = jnp.where(step > 100 * goal, step, 0)
        t = jnp.where(good, jnp.where(whole, end, now.t + h), now.t)
        return Reached(t, jnp.where(good, now.y + found.change, now.y), step, now.steps + 1)

    return jax.lax.while_loop(unfinished, advance, start)


@functools.cache
def _columns(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The substeps of every column, and in every row the weights that extrapolate so many of them."""
    counts = 2 * np.arange(1, columns + 1)
    squares = counts.astype(float) ** 2
    weights = np.zeros((columns, columns))
    for j in range(columns):
        for i in range(j + 1):
            others = np.delete(squares[: j + 1], i)
            weights[j, i] = np.prod(squares[i] / (squares[i] - others))
    return counts, weights

r"""Newton's method for the least norm on an orbit: by the host, one compiled step at a time, or as a loop of a program.

A step is $-\tfrac12$ times the coordinates of $\theta$'s own vertical part, damped while it does not descend.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from quotax.geometry.canonical.acting import Elements, act, near_identity
from quotax.geometry.canonical.balance import is_pair
from quotax.geometry.canonical.gauge import Gauge
from quotax.geometry.canonical.norm_on_orbit import (
    DENSE,
    Descent,
    descent_at,
    none_vanished,
    squared_norm,
    tolerance_of,
)
from quotax.geometry.canonical.sweeps import swept_start
from quotax.geometry.families.component import Component
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg import inverse_roots
from quotax.geometry.linalg.named import Named, ravel, unravel
from quotax.geometry.linalg.one_by_one import eigh
from quotax.geometry.projection import gram, solver
from quotax.geometry.projection.vertical import factors_at
from quotax.trees import AnyArray, Carry, Tree

_STEPS = 60
_SHORTEST = 1e-6


def by_newton(plan: Gauge, start: Named) -> tuple[Named, Elements, tuple[AnyArray, ...]]:
    """Until the moments are rounding, and one step more."""
    now = _started(plan, start)
    tolerance, damping = tolerance_of(start), 1.0
    for _ in range(_STEPS):
        if not (now.rest > tolerance and damping > _SHORTEST):
            break
        there, better = _step(plan, factors_at(plan.parts, now.arrays), now, damping)
        now, damping = (there, min(1.0, 4 * damping)) if better else (now, damping / 4)
    judgement = _judgement(plan, start, now)
    if now.rest > 0:
        there, better = _step(plan, factors_at(plan.parts, now.arrays), now, 1.0)
        now = there if better else now
    return now.arrays, now.elements, judgement


def iterate(plan: Gauge, start: Descent) -> Descent:
    """The same while something is traced: a loop of the program."""
    tolerance = tolerance_of(start.arrays)

    def going(state: Carry) -> jax.Array:
        count, now, damping = state
        return (count < _STEPS) & (now.rest > tolerance) & (damping > _SHORTEST)

    def step(state: Carry) -> Carry:
        count, now, damping = state
        there, better = _trial(plan, factors_at(plan.parts, now.arrays), now, damping)
        now = jax.tree.map(lambda a, b: jnp.where(better, a, b), there, now)
        return count + 1, now, jnp.where(better, jnp.minimum(1.0, 4 * damping), damping / 4)

    one = jnp.ones((), jnp.result_type(*start.arrays.values()))
    return lax.while_loop(going, step, (0, start, one))[1]


def _trial(plan: Gauge, factors: Tree, now: Descent, damping: float | jax.Array) -> tuple[Descent, jax.Array]:
    """Where a damped step leads, and whether that is better."""
    direction = newton_step(plan, factors, now.arrays, now.rests, far=True)
    there = descent_at(plan, *move(plan, now.arrays, now.elements, direction, damping))
    better = there.value <= now.value + tolerance_of(now.arrays) * squared_norm(plan, now.arrays)
    return there, better & jnp.isfinite(there.rest)


def newton_step(plan: Gauge, factors: Tree, at: Named, rests: list[Elements], *, far: bool = False) -> Elements:
    """Minus half the coordinates whose Gram image is the moment, as algebra elements; small enough to trust.

    At a canonical representative the Gram operator maps self-adjoint generators to such. `far` from it, where a
    parameter is on both sides of a matrix, it does not, and their part of the solution may hardly descend.
    """
    steps: Elements = {}
    for part, factored, rest in zip(plan.parts, factors, rests, strict=True):
        right = {name: -0.5 * value for name, value in rest.items()}
        alone = far and part.dimension <= DENSE and any(_two_sided(family) for family in part.families)
        found = _symmetric_solution(part, at, right) if alone else solver.solve(part, factored, at, right)
        for family in part.families:
            xi = found[family.name]
            steps[family.name] = 0.5 * (xi + jnp.swapaxes(xi, -1, -2)) if family.group.layout == "matrix" else xi
    square = functools.reduce(jnp.maximum, [_square_size(f, steps[f.name]) for f in plan.linear])
    # The root of what is at least 1: a step is zero at the solution, where its length has no derivative.
    length = jnp.sqrt(jnp.maximum(1.0, square))
    return {name: xi / length for name, xi in steps.items()}


def move(
    plan: Gauge, arrays: Named, found: Elements, steps: Elements, damping: float | jax.Array
) -> tuple[Named, Elements]:
    """A damped step, and the elements with it."""
    elements = {f.name: near_identity(f, damping * steps[f.name]) for f in plan.linear}
    composed = {f.name: f.group.compose(elements[f.name], found[f.name]) for f in plan.linear}
    return act(plan.linear, arrays, elements), composed


def judged(plan: Gauge, before: Named, after: Descent) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Whether this is the least norm of the orbit; whether it was reached; whether no direction vanished."""
    closed = none_vanished(plan, before, after.arrays)
    reached = (after.rest <= 100 * tolerance_of(before)) & closed
    return reached & plan.balanced, reached, closed


def _symmetric_solution(part: Component, arrays: Named, right: Elements) -> Elements:
    """The solution of the Gram operator's equation among symmetric matrices, of minimum norm: for few coordinates."""
    dtype = jnp.result_type(*arrays.values())

    def symmetric(coordinates: jax.Array) -> jax.Array:
        own = unravel(part.shapes, coordinates, part.shapes)
        for f in part.families:
            if f.group.general:
                own[f.name] = 0.5 * (own[f.name] + jnp.swapaxes(own[f.name], -1, -2))
        return ravel(own, part.shapes)

    projection = jax.vmap(symmetric)(jnp.eye(part.dimension, dtype=dtype))
    values, vectors = eigh(projection @ gram.matrix(part, gram.data(part, arrays), arrays) @ projection)
    weights = inverse_roots.reciprocal(values, part.dimension * float(jnp.finfo(dtype).eps) * jnp.max(values))
    return part.elements(vectors @ (weights * (vectors.T @ symmetric(part.flat(right)))))


def _two_sided(family: Family) -> bool:
    return family.group.general and not is_pair(family)


def _square_size(family: Family, xi: jax.Array) -> jax.Array:
    squares = jnp.sum(xi**2, (-2, -1)) if family.group.layout == "matrix" else xi**2
    return jnp.max(squares, initial=0)


_started, _step, _judgement = (jax.jit(f, static_argnums=0) for f in (swept_start, _trial, judged))

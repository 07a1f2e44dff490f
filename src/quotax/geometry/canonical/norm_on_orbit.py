r"""The squared norm on an orbit, $F(g) = \tfrac12 |g \theta|^2$: its moments, and whether a direction vanished.

Of a family with a one-sided action it is $F - \kappa \log |\det g|$, whose minimum has the moment $\kappa$.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.geometry.canonical.acting import Elements
from quotax.geometry.canonical.balance import is_pair, spectra
from quotax.geometry.canonical.gauge import Gauge
from quotax.geometry.families.component import Component
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.geometry.linalg.one_by_one import eigh, log_determinant
from quotax.geometry.projection import gram
from quotax.trees import Tree

DENSE = 1024
"""Components of at most so many coordinates have their Gram matrix."""


class Descent(NamedTuple):
    """A point on the way: the elements that led to it, what is left of the moments, its relative size, and `F`."""

    arrays: Named
    elements: Elements
    rests: list[Elements]
    rest: jax.Array
    value: jax.Array


def descent_at(plan: Gauge, arrays: Named, elements: Elements) -> Descent:
    """The point to which these elements led."""
    rests = moments_of(plan, arrays)
    return Descent(arrays, elements, rests, _relative(plan, arrays, rests), _value(plan, arrays, elements))


def tolerance_of(arrays: Named) -> float:
    """What a relative size of the moments is rounding."""
    return 100 * float(jnp.finfo(jnp.result_type(*arrays.values())).eps)


def moments_of(plan: Gauge, arrays: Named) -> list[Elements]:
    """For each component its families' moments, less what they should be."""
    result = []
    for part in plan.parts:
        moments = part.covelocity(arrays, arrays)
        for family in part.families:
            sign = plan.characters.get(family.name, 0)
            if sign:
                moments[family.name] = moments[family.name] - sign * _unit(family, moments[family.name])
        result.append(moments)
    return result


def _relative(plan: Gauge, arrays: Named, rests: list[Elements]) -> jax.Array:
    """How far the moments are from where they should be, relative to the squared norms."""
    ratios = [
        functools.reduce(jnp.maximum, [jnp.linalg.norm(m.ravel()) for m in rest.values()])
        / jnp.where(size > 0, size, 1)
        for rest, size in zip(rests, _squares(plan, arrays), strict=True)
    ]
    return functools.reduce(jnp.maximum, ratios)


def settled(plan: Gauge, arrays: Named) -> jax.Array:
    """Whether the moments are where they should be at a canonical representative: whether it was reached."""
    if not plan.parts:
        return jnp.asarray(True)
    return _relative(plan, arrays, moments_of(plan, arrays)) <= 100 * tolerance_of(arrays)


def _squares(plan: Gauge, arrays: Named) -> list[jax.Array]:
    return [functools.reduce(jnp.add, [jnp.sum(arrays[n] ** 2) for n in part.moved]) for part in plan.parts]


def squared_norm(plan: Gauge, arrays: Named) -> jax.Array:
    """What the linear families move, squared and added up."""
    return functools.reduce(jnp.add, _squares(plan, arrays))


def _value(plan: Gauge, arrays: Named, found: Elements) -> jax.Array:
    """`F`, with the logarithms of one-sided families."""
    value = 0.5 * squared_norm(plan, arrays)
    for family in plan.linear:
        sign = plan.characters.get(family.name, 0)
        if sign:
            value = value - sign * _log_determinant(family, found[family.name])
    return value


def none_vanished(plan: Gauge, before: Named, after: Named) -> jax.Array:
    """Whether no direction vanished on the way: the orbit of a least norm that is not attained only comes near it.

    On an axis the two Gram matrices (of what is multiplied by `g`, and by its inverse) have equal ranks at a
    representative of least norm; where a rank is lower than both were before, the orbit does not reach it. Where
    a parameter is on both sides, or the powers are unequal, the stabiliser of the whole component is compared.
    """
    answers = [jnp.asarray(True)]
    tolerance = 1e3 * float(jnp.finfo(jnp.result_type(*before.values())).eps)
    for family in plan.linear:
        if plan.characters.get(family.name, 0):
            continue
        old, new = spectra(family, before), spectra(family, after)
        if old is not None and new is not None:
            answers.append(~lost(old, new, tolerance))
    for part in plan.parts:
        if part.dimension <= DENSE and not all(is_pair(family) for family in part.families):
            answers.append(_kernel(part, after) <= _kernel(part, before))
    return functools.reduce(jnp.logical_and, answers)


def lost(old: tuple[Tree, Tree], new: tuple[Tree, Tree], tolerance: float) -> Tree:
    """Whether more eigenvalues have vanished on a side than had on both before."""
    gone = lambda values: (values <= tolerance * values.max(-1, keepdims=True)).sum(-1)
    one, two = (gone(values) for values in old)
    least = one - (one - two) * (one > two)
    return ((gone(new[0]) > least) | (gone(new[1]) > least)).any()


def _kernel(part: Component, arrays: Named) -> jax.Array:
    """The dimension of the directions that do not move the parameters, up to what the iteration resolves."""
    square = functools.reduce(jnp.add, [jnp.sum(arrays[name] ** 2) for name in part.moved])
    values, _ = eigh(gram.matrix(part, gram.data(part, arrays), arrays))
    return jnp.sum(values <= 1e3 * float(jnp.finfo(values.dtype).eps) * square)


def _unit(family: Family, like: jax.Array) -> jax.Array:
    """The derivative of the logarithm of the determinant."""
    return jnp.eye(like.shape[-1], dtype=like.dtype) if family.group.layout == "matrix" else jnp.ones_like(like)


def _log_determinant(family: Family, g: jax.Array) -> jax.Array:
    if family.group.layout == "matrix":
        return jnp.sum(log_determinant(g))
    return jnp.sum(g) if family.group.layout == "vector" else jnp.sum(jnp.log(jnp.abs(g)))

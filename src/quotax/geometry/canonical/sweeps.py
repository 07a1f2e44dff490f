"""Sweeps of closed forms, family by family, towards the least norm: by the host until they settle, or few to start."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from quotax.geometry.canonical.acting import Elements, act
from quotax.geometry.canonical.balance import Balancing, balancing, chosen, is_pair
from quotax.geometry.canonical.gauge import Gauge
from quotax.geometry.canonical.norm_on_orbit import Descent, descent_at, lost
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.programs.compiling import fetched, once
from quotax.trees import AnyArray, Carry, Tree

_SWEEPS = 5
_MOST_SWEEPS = 60


def _sweep(plan: Gauge, arrays: Named) -> tuple[Named, dict[str, Balancing]]:
    """One closed form for each family, and for each of its copies whether it was exact."""
    found: dict[str, Balancing] = {}
    for family in plan.linear:
        found[family.name] = balancing(family, arrays, plan.characters.get(family.name, 0))
        arrays = family.act(arrays, found[family.name].element)
    return arrays, found


_swept = once(_sweep)


def swept_start(plan: Gauge, arrays: Named) -> Descent:
    """Sweeps of closed forms, family by family: one, or as many as it takes to resolve all Gram matrices.

    A copy of a family whose Gram matrices never are, because a direction is zero, starts where it is.
    """
    if not any(_divides_matrices(family) for family in plan.linear):
        there, found = _sweep(plan, arrays)
        return descent_at(plan, there, {name: one.element for name, one in found.items()})

    def sweep(state: Carry) -> Carry:
        count, arrays, elements, _ = state
        arrays, found = _sweep(plan, arrays)
        composed = {f.name: f.group.compose(found[f.name].element, elements[f.name]) for f in plan.linear}
        return count + 1, arrays, composed, {name: one.exact for name, one in found.items()}

    def unresolved(state: Carry) -> jax.Array:
        count, *_, exact = state
        return (count < _SWEEPS) & ~functools.reduce(jnp.logical_and, [jnp.all(e) for e in exact.values()])

    dtype = jnp.result_type(*arrays.values())
    identities = {f.name: jnp.asarray(f.group.identity(f.sizes, dtype)) for f in plan.linear}
    never = {f.name: jnp.zeros(_copies(f), bool) for f in plan.linear}
    *_, elements, exact = lax.while_loop(unresolved, sweep, (0, arrays, identities, never))
    elements = {name: chosen(exact[name], g, identities[name]) for name, g in elements.items()}
    return descent_at(plan, act(plan.linear, arrays, elements), elements)


def by_sweeps(plan: Gauge, start: Named) -> tuple[Named, Elements, tuple[AnyArray, ...]] | None:
    """Until the two sides of every family differ by rounding; nothing where that takes too many sweeps.

    Every family meets its neighbours in part of its parameters only, so that sweeps mostly converge by themselves.
    """
    if not all(is_pair(family) for family in plan.linear):
        return None
    now, elements, last, before = start, {}, math.inf, None
    epsilon = float(jnp.finfo(jnp.result_type(*start.values())).eps)
    for count in range(_MOST_SWEEPS):
        now, device = _swept(plan, now)
        found: dict[str, Tree] = fetched(device)
        before = before or found
        resolved = all(np.all(one.exact) for one in found.values())
        if not resolved and count >= _SWEEPS:
            return None
        for family in plan.linear:
            g = found[family.name].element
            own = elements.get(family.name)
            elements[family.name] = g if own is None else family.group.compose(g, own)
        rest = max(_imbalance(found[f.name].grams, plan.characters.get(f.name, 0)) for f in plan.linear)
        if resolved and (rest <= 4 * epsilon or (rest <= 100 * epsilon and rest > last / 2)):
            closed = not any(
                lost(_spectra(before[f.name].grams, f), _spectra(found[f.name].grams, f), 1e3 * epsilon)
                for f in plan.linear
                if f.name not in plan.characters
            )
            answers = tuple(map(np.asarray, (closed and plan.balanced, closed, closed)))
            return (now, *jax.device_put((elements, answers)))
        if count > 2 and not rest < 0.7 * last:
            return None
        last = rest
    return None


def _spectra(grams: tuple[np.ndarray, np.ndarray], family: Family) -> tuple[Tree, ...]:
    """As `balance.spectra`, of Gram matrices on the host."""
    return tuple(np.linalg.eigvalsh(g) if family.group.layout == "matrix" else g[..., None] for g in grams)


def _imbalance(grams: tuple[np.ndarray, np.ndarray], character: int) -> float:
    """How far the Gram matrices are from balance, relative to both."""
    left, right = grams
    matrix = left.ndim > 1 and left.shape[-1] == left.shape[-2] > 1
    unit = (np.eye(left.shape[-1]) if matrix else 1) if character else 0
    size = float(np.linalg.norm(left) + np.linalg.norm(right))
    return float(np.linalg.norm(left - right - character * unit)) / size if size else 0.0


def _copies(family: Family) -> tuple[int, ...]:
    """The shape of what a balancing element says of its copies."""
    return tuple(family.group.shape(family.sizes)[:-2]) if _divides_matrices(family) else ()


def _divides_matrices(family: Family) -> bool:
    """Whether its closed form divides by matrices, of which rounding may keep too little."""
    return family.group.layout == "matrix" and is_pair(family)

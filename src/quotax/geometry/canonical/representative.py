r"""The canonical representative of an orbit: shifts removed, then the least norm that the linear families can reach.

For a linear action whose generators $\xi$ are self-adjoint or skew, $F(g) = \tfrac12 |g \theta|^2$ is convex along
$e^{t\xi}$ (Kempf-Ness). Its gradient at the identity is the moment $V^T \theta$, its second derivative along a
self-adjoint $\xi$ is $2 |\xi \theta|^2$, so a Newton step is $-\tfrac12$ times the coordinates of $\theta$'s own
vertical part. Where $F$ is least the moment vanishes, and two such points of one orbit differ by an orthogonal element.
Of one family at a time that point is known in closed form (`balance`), so that sweeps over the families descend too.

A family that only scales one way (in front of a norm) has no least norm: there $F - \kappa \log |\det g|$ is used,
whose minimum has the moment $\kappa$. Shifts act first: what they add is taken out of the parameters that they only
shift.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from quotax.geometry.canonical.acting import Elements, act, inverses
from quotax.geometry.canonical.gauge import Gauge
from quotax.geometry.canonical.newton import by_newton, iterate, judged, move, newton_step
from quotax.geometry.canonical.norm_on_orbit import moments_of
from quotax.geometry.canonical.sweeps import by_sweeps, swept_start
from quotax.geometry.families.roles import is_shift
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named, traced
from quotax.geometry.projection.vertical import factors_at
from quotax.programs.compiling import once

_POLISH = 2


class Canonical(NamedTuple):
    """A canonical representative, the elements that lead to it, and whether it is the least norm of the orbit.

    `reached` says whether it exists and was reached, also where it is the least of something other than the norm;
    `closed` whether no direction vanished on the way, which means that it does not exist; `shrunk` by what factor
    taking the shifts out made an array smaller, and with it the digits that it keeps.
    """

    arrays: Named
    shifts: Elements
    scalings: Elements
    attained: jax.Array
    reached: jax.Array
    closed: jax.Array
    shrunk: Named


def canonical_of(plan: Gauge, arrays: Named) -> Canonical:
    """The representative; differentiable twice, although the iteration itself is not differentiated.

    Of numbers that are known the iteration is the host's, around one small compiled step. While something is
    traced, it is a loop of the program.
    """
    return _traced(plan, arrays) if traced(arrays) else _stepped(plan, arrays)


@functools.partial(jax.jit, static_argnums=0)
def _traced(plan: Gauge, arrays: Named) -> Canonical:
    """In one program.

    Newton's map at a solution reproduces the solution's first derivative, and each further step one more. Where
    representatives differ by orthogonal elements, the derivative is that of one that does not turn.
    """
    start, shifts, shrunk = _without_shifts(plan, arrays)
    if not plan.parts:
        return _unmoved(plan, start, shifts, shrunk)
    fixed = lax.stop_gradient(start)
    moved = iterate(plan, swept_start(plan, fixed))
    state = act(plan.linear, start, moved.elements)
    factors = lax.stop_gradient(factors_at(plan.parts, moved.arrays))

    def polish(_: object, now: tuple[Named, Elements]) -> tuple[Named, Elements]:
        steps = newton_step(plan, factors, moved.arrays, moments_of(plan, now[0]))
        return move(plan, *now, steps, 1.0)

    state, found = lax.fori_loop(0, _POLISH, polish, (state, moved.elements))
    attained, reached, closed = judged(plan, fixed, moved)
    return Canonical(state, shifts, found, attained, reached, closed, shrunk)


def _stepped(plan: Gauge, arrays: Named) -> Canonical:
    """By the host: sweeps of closed forms where these converge, else Newton's method."""
    one = jnp.ones(())
    shifts, start, shrunk = {}, arrays, dict.fromkeys(arrays, one)
    if plan.shifts:
        start, shifts, shrunk = _shifts_out(plan, arrays)
    if not plan.parts:
        return _unmoved(plan, start, shifts, shrunk)
    there, elements, (attained, reached, closed) = by_sweeps(plan, start) or by_newton(plan, start)
    return Canonical(there, shifts, elements, attained, reached, closed, shrunk)


@functools.partial(jax.jit, static_argnums=(0, 1))
def represented(plan: Gauge, families: tuple[Family, ...], arrays: Named, found: Canonical) -> tuple[Named, Elements]:
    """The arrays moved by one element for each family, in the order in which families act."""
    element: Elements = {}
    for family in families:
        if family.name in found.scalings:
            element[family.name] = found.scalings[family.name]
        elif family.name in found.shifts and is_shift(family):
            element[family.name] = plan.shifted(arrays)[1][family.name]
        else:
            continue
        arrays = family.act(arrays, element[family.name])
    return arrays, element


def carried_back(plan: Gauge, found: Canonical, point: Named) -> Named:
    """A point near the representative, moved by the inverse of what led there."""
    point = act(plan.linear, point, inverses(plan.linear, found.scalings))
    return act(plan.shifts[::-1], point, inverses(plan.shifts, found.shifts))


def _without_shifts(plan: Gauge, arrays: Named) -> tuple[Named, Elements, Named]:
    start, shifts = plan.shifted(arrays)
    return start, shifts, {name: _shrunk(array, start[name]) for name, array in arrays.items()}


_shifts_out = once(_without_shifts)


def _unmoved(plan: Gauge, start: Named, shifts: Elements, shrunk: Named) -> Canonical:
    yes = jnp.asarray(True)
    return Canonical(start, shifts, {}, jnp.asarray(plan.balanced), yes, yes, shrunk)


def _shrunk(before: jax.Array, after: jax.Array) -> jax.Array:
    """The ratio of the norms where it is above one; one where nothing but rounding is left: nothing was lost there."""
    one, two = (jnp.linalg.norm(lax.stop_gradient(a).ravel()) for a in (before, after))
    left = two > 100 * float(jnp.finfo(after.dtype).eps) * one
    return jnp.where(left, jnp.maximum(one / jnp.where(left, two, 1), 1), 1)

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
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from quotax.geometry.canonical.acting import Elements, act, inverses, near_identity, shift_to_slice
from quotax.geometry.canonical.balance import Balancing, balancing, chosen, is_pair, spectra
from quotax.geometry.families.component import Component, components
from quotax.geometry.families.roles import clashes, hopeless, is_linear, is_shift, one_sided, uninformative
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg import inverse_roots
from quotax.geometry.linalg.named import Named, ravel, traced, unravel
from quotax.geometry.linalg.one_by_one import eigh, log_determinant
from quotax.geometry.projection import gram, solver
from quotax.geometry.projection.vertical import factors_at
from quotax.programs.compiling import once

_SWEEPS = 5
_MOST_SWEEPS = 60
_STEPS = 60
_SHORTEST = 1e-6
_POLISH = 2
_DENSE = 1024


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


class Descent(NamedTuple):
    """A point on the way: the elements that led to it, what is left of the moments, its relative size, and `F`."""

    arrays: Named
    elements: Elements
    rests: list[Elements]
    rest: jax.Array
    value: jax.Array


@dataclass(frozen=True)
class Gauge:
    """What each family does for the canonical representative.

    `shifts` are removed in order; `parts` hold the linear families, without the parameters that say nothing about a
    family's canonical form; `characters` are the families with a one-sided action, with the sign of it; `unsettled`
    are the families for which there is no canonical form.
    """

    shifts: tuple[Family, ...]
    parts: tuple[Component, ...]
    characters: Mapping[str, int]
    excluded: frozenset[str]
    unsettled: Mapping[str, str]

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.shifts, self.parts, self.excluded))

    def __hash__(self) -> int:
        """Computed once, because every call of a compiled program asks for it."""
        return self._hash

    @property
    def linear(self) -> tuple[Family, ...]:
        """The families with a moment."""
        return tuple(family for part in self.parts for family in part.families)

    @property
    def balanced(self) -> bool:
        """Whether the canonical representative is the least norm, for generic parameters."""
        return not (self.characters or self.excluded or self.unsettled)

    # --- the representative

    def canonical(self, arrays: Named) -> Canonical:
        """The representative; differentiable twice, although the iteration itself is not differentiated.

        Of numbers that are known the iteration is the host's, around one small compiled step. While something is
        traced, it is a loop of the program.
        """
        return self._traced(arrays) if traced(arrays) else self._stepped(arrays)

    @functools.partial(jax.jit, static_argnums=0)
    def _traced(self, arrays: Named) -> Canonical:
        """In one program.

        Newton's map at a solution reproduces the solution's first derivative, and each further step one more. Where
        representatives differ by orthogonal elements, the derivative is that of one that does not turn.
        """
        start, shifts, shrunk = self._without_shifts(arrays)
        if not self.parts:
            return self._unmoved(start, shifts, shrunk)
        fixed = lax.stop_gradient(start)
        moved = self._iterate(self._start(fixed))
        state = act(self.linear, start, moved.elements)
        factors = lax.stop_gradient(factors_at(self.parts, moved.arrays))

        def polish(_: Any, now: tuple[Named, Elements]) -> tuple[Named, Elements]:
            steps = self._newton(factors, moved.arrays, self._rests(now[0]))
            return self._move(*now, steps, 1.0)

        state, found = lax.fori_loop(0, _POLISH, polish, (state, moved.elements))
        attained, reached, closed = self._judged(fixed, moved)
        return Canonical(state, shifts, found, attained, reached, closed, shrunk)

    def _stepped(self, arrays: Named) -> Canonical:
        """By the host: sweeps of closed forms where these converge, else Newton's method."""
        one = jnp.ones(())
        shifts, start, shrunk = {}, arrays, dict.fromkeys(arrays, one)
        if self.shifts:
            start, shifts, shrunk = self._shifts_out(arrays)
        if not self.parts:
            return self._unmoved(start, shifts, shrunk)
        there, elements, (attained, reached, closed) = self._by_sweeps(start) or self._by_newton(start)
        return Canonical(there, shifts, elements, attained, reached, closed, shrunk)

    def _by_sweeps(self, start: Named) -> tuple[Named, Elements, Any] | None:
        """Until the two sides of every family differ by rounding; nothing where that takes too many sweeps.

        Every family meets its neighbours in part of its parameters only, so that sweeps mostly converge by themselves.
        """
        if not all(is_pair(family) for family in self.linear):
            return None
        now, elements, last, before = start, {}, math.inf, None
        epsilon = float(jnp.finfo(jnp.result_type(*start.values())).eps)
        for count in range(_MOST_SWEEPS):
            now, device = self._swept(now)
            found: dict[str, Any] = jax.device_get(device)
            before = before or found
            resolved = all(np.all(one.exact) for one in found.values())
            if not resolved and count >= _SWEEPS:
                return None
            for family in self.linear:
                g = found[family.name].element
                own = elements.get(family.name)
                elements[family.name] = g if own is None else family.group.compose(g, own)
            rest = max(_imbalance(found[f.name].grams, self.characters.get(f.name, 0)) for f in self.linear)
            if resolved and (rest <= 4 * epsilon or (rest <= 100 * epsilon and rest > last / 2)):
                closed = not any(
                    _lost(_spectra(before[f.name].grams, f), _spectra(found[f.name].grams, f), 1e3 * epsilon)
                    for f in self.linear
                    if f.name not in self.characters
                )
                answers = tuple(map(np.asarray, (closed and self.balanced, closed, closed)))
                return (now, *jax.device_put((elements, answers)))
            if count > 2 and not rest < 0.7 * last:
                return None
            last = rest
        return None

    def _by_newton(self, start: Named) -> tuple[Named, Elements, Any]:
        """Until the moments are rounding, and one step more."""
        now = self._started(start)
        tolerance, damping = self._tolerance(start), 1.0
        for _ in range(_STEPS):
            if not (now.rest > tolerance and damping > _SHORTEST):
                break
            there, better = self._step(factors_at(self.parts, now.arrays), now, damping)
            now, damping = (there, min(1.0, 4 * damping)) if better else (now, damping / 4)
        judgement = self._judgement(start, now)
        if now.rest > 0:
            there, better = self._step(factors_at(self.parts, now.arrays), now, 1.0)
            now = there if better else now
        return now.arrays, now.elements, judgement

    @functools.partial(jax.jit, static_argnums=0)
    def shifted(self, arrays: Named) -> tuple[Named, Elements]:
        """The arrays without what the shifts can add, in the parameters that they only shift."""
        elements = {f.name: f.group.identity(f.sizes, jnp.result_type(*arrays.values())) for f in self.shifts}
        for _ in range(2 if len(self.shifts) > 1 else 1):
            for family in self.shifts:
                step = shift_to_slice(family, arrays)
                arrays = family.act(arrays, step)
                elements[family.name] = family.group.compose(elements[family.name], step)
        return arrays, elements

    def back(self, found: Canonical, point: Named) -> Named:
        """A point near the representative, moved by the inverse of what led there."""
        point = act(self.linear, point, inverses(self.linear, found.scalings))
        return act(self.shifts[::-1], point, inverses(self.shifts, found.shifts))

    # --- the start

    def _without_shifts(self, arrays: Named) -> tuple[Named, Elements, Named]:
        start, shifts = self.shifted(arrays)
        return start, shifts, {name: _shrunk(array, start[name]) for name, array in arrays.items()}

    def _unmoved(self, start: Named, shifts: Elements, shrunk: Named) -> Canonical:
        yes = jnp.asarray(True)
        return Canonical(start, shifts, {}, jnp.asarray(self.balanced), yes, yes, shrunk)

    def _sweep(self, arrays: Named) -> tuple[Named, dict[str, Balancing]]:
        """One closed form for each family, and for each of its copies whether it was exact."""
        found: dict[str, Balancing] = {}
        for family in self.linear:
            found[family.name] = balancing(family, arrays, self.characters.get(family.name, 0))
            arrays = family.act(arrays, found[family.name].element)
        return arrays, found

    def _start(self, arrays: Named) -> Descent:
        """Sweeps of closed forms, family by family: one, or as many as it takes to resolve all Gram matrices.

        A copy of a family whose Gram matrices never are, because a direction is zero, starts where it is.
        """
        if not any(_divides_matrices(family) for family in self.linear):
            there, found = self._sweep(arrays)
            return self._at(there, {name: one.element for name, one in found.items()})

        def sweep(state: tuple[Any, ...]) -> tuple[Any, ...]:
            count, arrays, elements, _ = state
            arrays, found = self._sweep(arrays)
            composed = {f.name: f.group.compose(found[f.name].element, elements[f.name]) for f in self.linear}
            return count + 1, arrays, composed, {name: one.exact for name, one in found.items()}

        def unresolved(state: tuple[Any, ...]) -> jax.Array:
            count, *_, exact = state
            return (count < _SWEEPS) & ~functools.reduce(jnp.logical_and, [jnp.all(e) for e in exact.values()])

        dtype = jnp.result_type(*arrays.values())
        identities = {f.name: jnp.asarray(f.group.identity(f.sizes, dtype)) for f in self.linear}
        never = {f.name: jnp.zeros(_copies(f), bool) for f in self.linear}
        *_, elements, exact = lax.while_loop(unresolved, sweep, (0, arrays, identities, never))
        elements = {name: chosen(exact[name], g, identities[name]) for name, g in elements.items()}
        return self._at(act(self.linear, arrays, elements), elements)

    # --- Newton's method

    def _tolerance(self, arrays: Named) -> float:
        return 100 * float(jnp.finfo(jnp.result_type(*arrays.values())).eps)

    def _at(self, arrays: Named, elements: Elements) -> Descent:
        rests = self._rests(arrays)
        return Descent(arrays, elements, rests, self._rest(arrays, rests), self._value(arrays, elements))

    def _trial(self, factors: Any, now: Descent, damping: Any) -> tuple[Descent, jax.Array]:
        """Where a damped step leads, and whether that is better."""
        direction = self._newton(factors, now.arrays, now.rests, far=True)
        there = self._at(*self._move(now.arrays, now.elements, direction, damping))
        better = there.value <= now.value + self._tolerance(now.arrays) * self._square(now.arrays)
        return there, better & jnp.isfinite(there.rest)

    def _iterate(self, start: Descent) -> Descent:
        tolerance = self._tolerance(start.arrays)

        def going(state: tuple[Any, ...]) -> jax.Array:
            count, now, damping = state
            return (count < _STEPS) & (now.rest > tolerance) & (damping > _SHORTEST)

        def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
            count, now, damping = state
            there, better = self._trial(factors_at(self.parts, now.arrays), now, damping)
            now = jax.tree.map(lambda a, b: jnp.where(better, a, b), there, now)
            return count + 1, now, jnp.where(better, jnp.minimum(1.0, 4 * damping), damping / 4)

        one = jnp.ones((), jnp.result_type(*start.arrays.values()))
        return lax.while_loop(going, step, (0, start, one))[1]

    def _judged(self, before: Named, after: Descent) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Whether this is the least norm of the orbit; whether it was reached; whether no direction vanished."""
        closed = self._closed(before, after.arrays)
        reached = (after.rest <= 100 * self._tolerance(before)) & closed
        return reached & self.balanced, reached, closed

    def _newton(self, factors: Any, at: Named, rests: list[Elements], *, far: bool = False) -> Elements:
        """Minus half the coordinates whose Gram image is the moment, as algebra elements; small enough to trust.

        At a canonical representative the Gram operator maps self-adjoint generators to such. `far` from it, where a
        parameter is on both sides of a matrix, it does not, and their part of the solution may hardly descend.
        """
        steps: Elements = {}
        for part, factored, rest in zip(self.parts, factors, rests, strict=True):
            right = {name: -0.5 * value for name, value in rest.items()}
            alone = far and part.dimension <= _DENSE and any(_two_sided(family) for family in part.families)
            found = symmetric_solution(part, at, right) if alone else solver.solve(part, factored, at, right)
            for family in part.families:
                xi = found[family.name]
                steps[family.name] = 0.5 * (xi + jnp.swapaxes(xi, -1, -2)) if family.group.layout == "matrix" else xi
        square = functools.reduce(jnp.maximum, [_square_size(f, steps[f.name]) for f in self.linear])
        # The root of what is at least 1: a step is zero at the solution, where its length has no derivative.
        length = jnp.sqrt(jnp.maximum(1.0, square))
        return {name: xi / length for name, xi in steps.items()}

    def _move(self, arrays: Named, found: Elements, steps: Elements, damping: Any) -> tuple[Named, Elements]:
        elements = {f.name: near_identity(f, damping * steps[f.name]) for f in self.linear}
        composed = {f.name: f.group.compose(elements[f.name], found[f.name]) for f in self.linear}
        return act(self.linear, arrays, elements), composed

    def _rests(self, arrays: Named) -> list[Elements]:
        """For each component its families' moments, less what they should be."""
        result = []
        for part in self.parts:
            moments = part.covelocity(arrays, arrays)
            for family in part.families:
                sign = self.characters.get(family.name, 0)
                if sign:
                    moments[family.name] = moments[family.name] - sign * _unit(family, moments[family.name])
            result.append(moments)
        return result

    def _rest(self, arrays: Named, rests: list[Elements]) -> jax.Array:
        """How far the moments are from where they should be, relative to the squared norms."""
        ratios = [
            functools.reduce(jnp.maximum, [jnp.linalg.norm(m.ravel()) for m in rest.values()])
            / jnp.where(size > 0, size, 1)
            for rest, size in zip(rests, self._squares(arrays), strict=True)
        ]
        return functools.reduce(jnp.maximum, ratios)

    def settled(self, arrays: Named) -> jax.Array:
        """Whether the moments are where they should be at a canonical representative: whether it was reached."""
        if not self.parts:
            return jnp.asarray(True)
        return self._rest(arrays, self._rests(arrays)) <= 1e4 * float(jnp.finfo(jnp.result_type(*arrays.values())).eps)

    def _squares(self, arrays: Named) -> list[jax.Array]:
        return [functools.reduce(jnp.add, [jnp.sum(arrays[n] ** 2) for n in part.moved]) for part in self.parts]

    def _square(self, arrays: Named) -> jax.Array:
        return functools.reduce(jnp.add, self._squares(arrays))

    def _value(self, arrays: Named, found: Elements) -> jax.Array:
        """`F`, with the logarithms of one-sided families."""
        value = 0.5 * self._square(arrays)
        for family in self.linear:
            sign = self.characters.get(family.name, 0)
            if sign:
                value = value - sign * _log_determinant(family, found[family.name])
        return value

    def _closed(self, before: Named, after: Named) -> jax.Array:
        """Whether no direction vanished on the way: the orbit of a least norm that is not attained only comes near it.

        On an axis the two Gram matrices (of what is multiplied by `g`, and by its inverse) have equal ranks at a
        representative of least norm; where a rank is lower than both were before, the orbit does not reach it. Where
        a parameter is on both sides, or the powers are unequal, the stabiliser of the whole component is compared.
        """
        answers = [jnp.asarray(True)]
        tolerance = 1e3 * float(jnp.finfo(jnp.result_type(*before.values())).eps)
        for family in self.linear:
            if self.characters.get(family.name, 0):
                continue
            old, new = spectra(family, before), spectra(family, after)
            if old is not None and new is not None:
                answers.append(~_lost(old, new, tolerance))
        for part in self.parts:
            if part.dimension <= _DENSE and not all(is_pair(family) for family in part.families):
                answers.append(_kernel(part, after) <= _kernel(part, before))
        return functools.reduce(jnp.logical_and, answers)

    # --- the host's steps, one program each

    _swept, _shifts_out = once(_sweep), once(_without_shifts)
    _started, _step, _judgement = (jax.jit(f, static_argnums=0) for f in (_start, _trial, _judged))


def _lost(old: tuple[Any, Any], new: tuple[Any, Any], tolerance: float) -> Any:
    """Whether more eigenvalues have vanished on a side than had on both before."""
    gone = lambda values: (values <= tolerance * values.max(-1, keepdims=True)).sum(-1)
    one, two = (gone(values) for values in old)
    least = one - (one - two) * (one > two)
    return ((gone(new[0]) > least) | (gone(new[1]) > least)).any()


def _spectra(grams: tuple[np.ndarray, np.ndarray], family: Family) -> tuple[Any, ...]:
    """As `balance.spectra`, of Gram matrices on the host."""
    return tuple(np.linalg.eigvalsh(g) if family.group.layout == "matrix" else g[..., None] for g in grams)


def _imbalance(grams: tuple[np.ndarray, np.ndarray], character: int) -> float:
    """How far the Gram matrices are from balance, relative to both."""
    left, right = grams
    matrix = left.ndim > 1 and left.shape[-1] == left.shape[-2] > 1
    unit = (np.eye(left.shape[-1]) if matrix else 1) if character else 0
    size = float(np.linalg.norm(left) + np.linalg.norm(right))
    return float(np.linalg.norm(left - right - character * unit)) / size if size else 0.0


def _shrunk(before: jax.Array, after: jax.Array) -> jax.Array:
    """The ratio of the norms where it is above one; one where nothing but rounding is left: nothing was lost there."""
    one, two = (jnp.linalg.norm(lax.stop_gradient(a).ravel()) for a in (before, after))
    left = two > 100 * float(jnp.finfo(after.dtype).eps) * one
    return jnp.where(left, jnp.maximum(one / jnp.where(left, two, 1), 1), 1)


def _copies(family: Family) -> tuple[int, ...]:
    """The shape of what a balancing element says of its copies."""
    return tuple(family.group.shape(family.sizes)[:-2]) if _divides_matrices(family) else ()


def _divides_matrices(family: Family) -> bool:
    """Whether its closed form divides by matrices, of which rounding may keep too little."""
    return family.group.layout == "matrix" and is_pair(family)


def symmetric_solution(part: Component, arrays: Named, right: Elements) -> Elements:
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


def gauge(families: Sequence[Family], *, unique: bool) -> Gauge:
    """How these families are brought to a canonical representative; decided from their terms and sizes alone.

    `unique` asks for a representative that is unique up to orthogonal elements, as an invariant metric needs: a side
    of a matrix family that cannot fix the element is then left out, and a family that neither side fixes is unsettled.
    Without it the least norm is looked for, whatever its stabiliser.
    """
    continuous = [family for family in families if family.dimension]
    unsettled: dict[str, str] = {}
    shifts = _carriers_first([family for family in continuous if is_shift(family)])
    linear = []
    for family in continuous:
        if is_linear(family):
            linear += [] if family.group.orthogonal else [family]
        elif not is_shift(family):
            unsettled[family.name] = "its generators are neither linear and self-adjoint nor shifts"
    for one, two in clashes(linear):
        unsettled[one.name] = f"it does not commute with {two.name}"
    linear = [family for family in linear if family.name not in unsettled]
    excluded: set[str] = set()
    while True:
        restricted = [family.restricted(lambda t, out=frozenset(excluded): t.target not in out) for family in linear]
        dropped: set[str] = set()
        for family in restricted:
            dropped |= uninformative(family) if unique else set()
        if not dropped:
            break
        excluded |= dropped
    for family in restricted if unique else ():
        if not family.terms or hopeless(family):
            unsettled[family.name] = "its axis is longer than what reads and writes it together can fix"
    kept = [family for family in restricted if family.name not in unsettled]
    characters = {family.name: sign for family in kept if (sign := one_sided(family))}
    return Gauge(tuple(shifts), components(kept), characters, frozenset(excluded), unsettled)


def _carriers_first(shifts: list[Family]) -> list[Family]:
    """The shifts in an order in which none brings back what one before it took out, where there is such an order.

    A shift that a weight carries on (`b1 + t`, `b2 - W2 t`) comes before the shift of what it is carried to.
    """
    onto = lambda f, own: {t.target for t in f.terms or () if (t.kind == "shift") == own}
    ordered: list[Family] = []
    while shifts:
        free = [f for f in shifts if not any(onto(f, True) & onto(g, False) for g in shifts if g is not f)]
        ordered.append((free or shifts)[0])
        shifts = [f for f in shifts if f is not ordered[-1]]
    return ordered


def _two_sided(family: Family) -> bool:
    return family.group.general and not is_pair(family)


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


def _square_size(family: Family, xi: jax.Array) -> jax.Array:
    squares = jnp.sum(xi**2, (-2, -1)) if family.group.layout == "matrix" else xi**2
    return jnp.max(squares, initial=0)

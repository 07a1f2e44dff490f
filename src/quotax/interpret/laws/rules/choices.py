"""Extremes, comparisons, and choices by truth values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import sympy as sp

from quotax.interpret.laws.rules.algebraic import multiple, result
from quotax.interpret.laws.rules.masked_rows import masked_name
from quotax.interpret.laws.rules.pointwise import generic, infinity, one_number, operands, variables
from quotax.interpret.laws.rules.positions import as_size, bounds, decided, token_of, token_selection, top_place
from quotax.interpret.laws.rules.truths import compared_truth
from quotax.interpret.laws.sources import together
from quotax.interpret.laws.tensors import Known, NoLaw, Tensor, Value
from quotax.interpret.laws.writing import HIDDEN, Eqn
from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.polynomials import UNIT, Algebra, Poly, key_of, rational, single
from quotax.kernel.sheet import Extreme, Function, Guard, definitions, made_of, node
from quotax.kernel.sizes import ZERO


def finite(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Every real number is finite: true, guarded by the conditions under which the operand is a number."""
    value = eqn.writer.tensor(args[0])
    if _infinite(eqn.algebra, value.poly):
        return generic(eqn, args)
    return [replace(value, poly=UNIT, compared=(value.poly,))]


def _infinite(algebra: Algebra, poly: Poly) -> bool:
    """Whether an infinite constant stands in a polynomial itself; under a mask it is not looked for."""
    atoms = [algebra.atoms[number] for term in poly for number, _, _ in term]
    return any(isinstance(atom.what, kinds.Infinite) or atom.name == "mask" for atom in atoms)


# --- comparisons and choices


def extreme(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`max` and `min`: `max(a, -inf) = a`, and where `a <= b` is known of positions, `max(a, b) = b`."""
    smaller = eqn.primitive.name == "min"
    worst = np.inf if smaller else -np.inf
    for k, arg in enumerate(args):
        if one_number(eqn, arg) == worst:
            return [operands(eqn, args)[1 - k]]
    left, right = operands(eqn, args)
    order = _order_of(eqn.algebra, left.poly, right.poly)
    if order is not None:
        return [(left if (order <= 0) == smaller else right)]
    return generic(eqn, args)


def _order_of(algebra: Algebra, left: Poly, right: Poly) -> int | None:
    """-1 or 0 when left is at most right for all sizes and places, 1 when it is above."""
    found = bounds(algebra, algebra.add(left, right, -1))
    if found is None:
        return None
    if ZERO.minus(found[1]).nonnegative:
        return -1
    return 1 if found[0].positive else None


def clamp(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Clamping between bounds, which does nothing to positions that are known to be in them."""
    low, value, high = operands(eqn, args)
    over, under = _order_of(eqn.algebra, low.poly, value.poly), _order_of(eqn.algebra, value.poly, high.poly)
    if over == -1 and under == -1:
        return [value]
    return generic(eqn, args)


def compare(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Comparisons: of positions where it is known, of tokens and ramps with ramps a selection, else a function."""
    name, algebra = eqn.primitive.name, eqn.algebra
    left, right = operands(eqn, args)
    known = decided(algebra, name, left.poly, right.poly)
    if known is not None:
        poly: Poly = UNIT if known else {}
        return [_compared(left, right, poly, (left.poly, right.poly))]
    if name in ("eq", "ne") and left.poly == right.poly:
        # a number equals itself: guarded by the conditions under which it is one
        return [_compared(left, right, UNIT if name == "eq" else {}, (left.poly,))]
    truth = compared_truth(eqn, name, left, right)
    if truth is not None:
        return [truth]
    if name == "eq":
        for one, other in ((left, right), (right, left)):
            found = _one_hot(eqn, one.poly, other.poly)
            if found is not None:
                return [replace(left, poly=found, compared=())]
    (out,) = generic(eqn, args)
    return [
        _compared(
            left, right, eqn.writer.tensor(out).poly, tuple(p for p in (left.poly, right.poly) if rational(p) is None)
        )
    ]


def _compared(left: Tensor, right: Tensor, poly: Poly, compared: tuple[Poly, ...]) -> Tensor:
    return Tensor(left.dims, poly, compared=compared, inherited=left.guards | right.guards)


def _one_hot(eqn: Eqn, poly: Poly, ramp: Poly) -> Poly | None:
    """`[poly = n]` for a ramp n: a delta of two ramps, a selection by tokens, or the place of a maximum."""
    algebra = eqn.algebra
    factor, other = single(ramp), single(poly)
    if factor is None or not _counts(algebra.atoms[factor.atom].what):
        return None
    (column,) = factor.at
    token = token_of(algebra, poly)
    if token is not None:
        return None if any(column in tuple(ix.parts(i)) for i in token.at) else token_selection(algebra, token, column)
    if other is not None and isinstance(algebra.atoms[other.atom].what, kinds.Ramp):
        (there,) = other.at
        if there.extent == column.extent:
            return algebra.normal(1, [algebra.delta(there, column)])
    top = top_place(eqn, poly, column)
    if top is not None:
        return top
    at = as_size(algebra, poly)
    if at is not None and at.nonnegative and column.extent.minus(at).positive:
        return algebra.normal(1, [algebra.delta(ix.Fixed(at, column.extent), column)])
    return None


def _counts(what: object) -> bool:
    """Whether an array is 0, 1, 2, ...: of an axis with a number for its size it is a constant."""
    if isinstance(what, kinds.Constant) and what.array.ndim == 1:
        return bool((what.array == np.arange(len(what.array))).all())
    return isinstance(what, kinds.Ramp)


def select(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`where`: `p a + (1 - p) b`; next to an infinite alternative, a mask."""
    which, *cases = args
    number = one_number(eqn, which)
    everything = operands(eqn, args)
    if number is not None:
        chosen = everything[1 + int(number)]
        conditions = which.guards if isinstance(which, Tensor) else frozenset()
        return [replace(chosen, guards=chosen.guards | conditions)]
    if len(cases) != 2:
        raise NoLaw("it chooses between more than two cases")
    predicate, no, yes = everything
    guards = _guards(eqn, predicate, no, yes)
    filled = [_infinite_value(eqn, c, v.poly) for c, v in zip(cases, (no, yes), strict=True)]
    algebra = eqn.algebra
    if any(f is not None for f in filled):
        poly = _masked(eqn, predicate.poly, (no.poly, yes.poly), filled)
    else:
        rest = algebra.add(UNIT, predicate.poly, -1)
        poly = algebra.add(algebra.multiply(predicate.poly, yes.poly), algebra.multiply(rest, no.poly))
    out = result(eqn, no, poly)
    assumed = no.assumed | yes.assumed
    if any(f is not None for f in filled):
        assumed |= {f"{HIDDEN}{eqn.place} hides meets no other infinity"}
    return [replace(out, assumed=assumed, guards=guards)]


def _infinite_value(eqn: Eqn, given: Value, poly: Poly) -> float | None:
    if isinstance(given, Known):
        found = one_number(eqn, given)
        return float(found) if found is not None and not np.isfinite(found) else None
    return infinity(eqn, poly)


def _guards(eqn: Eqn, predicate: Tensor, no: Tensor, yes: Tensor) -> frozenset[Guard]:
    """What a choice makes of conditions.

    Where the predicate is not moved, a point and its image choose the same case, and a condition of the other is not
    used; so conditions may be assumed if the predicate is invariant, or permuted together with what they are about.
    A choice between multiples of what the predicate
    compares has no value where that has none: `where(z > 0, z, 0.1 z)`.
    """
    guards = predicate.guards | no.guards | yes.guards
    cases, asked = [no.poly, yes.poly], no.assumed | yes.assumed
    if predicate.compared and all(multiple(c, predicate.compared) for c in cases):
        freed = {Guard(c, None) for c in no.assumed & yes.assumed} - predicate.inherited - no.guards - yes.guards
        guards -= freed
        asked -= {guard.condition for guard in freed}
    if not _fixed(eqn.algebra, predicate.poly):
        key = key_of(_closed(eqn, predicate.poly))
        joint = together(eqn.algebra, predicate.poly, (no, yes))
        entry = None if joint is None else key_of(_closed(eqn, joint))
        guards |= {Guard(c, key, entry) for c in asked}
    return guards


def _fixed(algebra: Algebra, poly: Poly) -> bool:
    """Whether a predicate is made of positions and constants alone."""
    given = kinds.Ramp | kinds.Extent | kinds.Delta | kinds.Constant | kinds.Rational | kinds.Real
    given |= kinds.Input | kinds.TokenInput
    return all(definitions(atom) or isinstance(atom.what, given) for atom in made_of(algebra, [poly]))


def _closed(eqn: Eqn, poly: Poly) -> Poly:
    """The polynomial in slots: a guard is about all its entries."""
    return eqn.algebra.in_slots(poly, eqn.algebra.free_in(poly))


def _masked(eqn: Eqn, predicate: Poly, cases: tuple[Poly, Poly], filled: Sequence[float | None]) -> Poly:
    """`x` where kept and infinite elsewhere: a function through which a finite shift and a positive factor pass."""
    if all(f is not None for f in filled):
        if filled[0] == filled[1]:
            return cases[0]
        raise NoLaw("both of its cases are infinite")
    hidden = 0 if filled[0] is not None else 1
    level = filled[hidden]
    assert level is not None
    z, p = variables(2)
    function = Function(sp.Function(masked_name(hidden, level))(z, p), (z, p), "mask", Extreme())
    return node(eqn.algebra, function, [cases[1 - hidden], predicate])

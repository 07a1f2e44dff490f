"""Sums, products, powers and choices: what is polynomial in its operands, or becomes so with one reciprocal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from quotax.interpret.laws.pointwise import generic, infinity, one_number, opaque, operands, variables
from quotax.interpret.laws.rules.positions import as_size, bounds, token_of, token_selection, top_place
from quotax.interpret.laws.sources import together
from quotax.interpret.laws.tensors import Known, NoLaw, Tensor
from quotax.interpret.laws.writing import OPEN, Equation
from quotax.kernel import indices as ix
from quotax.kernel.polynomials import UNIT, Algebra, Atom, Poly, Term, key_of, rational, sign_of
from quotax.kernel.sheet import Extreme, Function, Guard, definitions, named_sum, node
from quotax.kernel.sizes import ZERO

_POWERS = 4
"""Whole powers up to this are multiplied out."""
_COUNTING = ("iota", "tokens", "size", "delta", "selection", "const")
"""Kinds of atoms that positions are made of."""


def _result(eqn: Equation, value: Tensor, poly: Poly) -> Tensor:
    """A sum of reals gets a name; positions stay written out, so that they can be read."""
    out = replace(value, poly=poly, compared=(), source=None)
    return eqn.writer.settled(out) if eqn.out_kind == "f" else out


def counts(eqn: Equation, args: Sequence[Any]) -> bool:
    """Whether a sum or product of integers is one of positions in a type that holds them; else it may overflow."""
    if eqn.out_kind != "i":
        return True
    if str(eqn.outputs[0].dtype) not in ("int32", "int64", "uint32", "uint64"):
        return False
    for arg in args:
        if isinstance(arg, Tensor):
            for term in arg.poly:
                for number, _, _ in term:
                    atom = eqn.algebra.atoms[number]
                    if atom.kind not in _COUNTING and atom.sign != "boolean":
                        return False
    eqn.writer.notes["integer arithmetic on positions does not overflow"] = None
    return True


def linear(scale: int) -> Any:
    """`a + scale * b`."""

    def rule(eqn: Equation, args: list[Any]) -> list[Any]:
        if not counts(eqn, args):
            return opaque(eqn, args)
        left, right = operands(eqn, args)
        poly = eqn.algebra.add(left.poly, right.poly, scale)
        return [_result(eqn, left, poly)] if _in_range(eqn, poly) else opaque(eqn, args)

    return rule


def _in_range(eqn: Equation, poly: Poly) -> bool:
    """Whether a difference is one in its type: without a sign there is nothing below zero."""
    if eqn.out_kind != "i" or not str(eqn.outputs[0].dtype).startswith("u"):
        return True
    found = bounds(eqn.algebra, poly)
    return found is not None and found[0].nonnegative


def negative(eqn: Equation, args: list[Any]) -> list[Any]:
    """`-a`."""
    if not counts(eqn, args):
        return opaque(eqn, args)
    poly = eqn.algebra.scale(args[0].poly, -1)
    return [replace(args[0], poly=poly, compared=())] if _in_range(eqn, poly) else opaque(eqn, args)


def product(eqn: Equation, args: list[Any]) -> list[Any]:
    """`a b` at each place."""
    if not counts(eqn, args):
        return opaque(eqn, args)
    left, right = operands(eqn, args)
    out = _result(eqn, left, eqn.algebra.multiply(left.poly, right.poly))
    # [z > 0] z has no value where z has none
    for truth, value in ((left, right), (right, left)):
        if truth.compared and _multiple(eqn.algebra, value.poly, truth.compared):
            freed = {Guard(c, None) for c in value.assumed} - truth.inherited - value.guards
            out = replace(out, guards=out.guards - freed)
    return [out]


def quotient(eqn: Equation, args: list[Any]) -> list[Any]:
    """`a / b`; of integers, a function without laws of its own."""
    if eqn.out_kind == "i":
        return opaque(eqn, args)
    left, right = operands(eqn, args)
    inverse = power(eqn, right, Fraction(-1))
    out = _result(eqn, left, eqn.algebra.multiply(left.poly, inverse.poly))
    return [replace(out, assumed=out.assumed | inverse.assumed)]


def integer_power(eqn: Equation, args: list[Any]) -> list[Any]:
    """`a ** n`."""
    if eqn.out_kind == "i":
        return opaque(eqn, args)
    return [power(eqn, args[0], Fraction(int(eqn.params["y"])))]


def fixed_power(exponent: str) -> Any:
    """`a ** exponent` for a primitive that says so."""

    def rule(eqn: Equation, args: list[Any]) -> list[Any]:
        if eqn.out_kind == "i":
            return opaque(eqn, args)
        return [power(eqn, eqn.writer.tensor(args[0]), Fraction(exponent))]

    return rule


def general_power(eqn: Equation, args: list[Any]) -> list[Any]:
    """`a ** b`: by the laws of powers when b is one number."""
    found = one_number(eqn, args[1])
    if found is not None and np.isfinite(found) and isinstance(args[0], Tensor) and eqn.shape(1) == ():
        exponent = rational(eqn.writer.number(found))
        if exponent is not None and exponent.denominator <= 64:
            return [power(eqn, args[0], exponent)]
    return generic(eqn, args)


def power(eqn: Equation, value: Tensor, exponent: Fraction) -> Tensor:
    """A power of a tensor: multiplied out, or an entry of one atom to that power."""
    algebra = eqn.algebra
    if exponent == 0:  # one, even where the base is no number
        return replace(value, poly=UNIT, compared=(), guards=value.guards | {Guard(c, None) for c in value.assumed})
    whole = exponent.denominator == 1
    if whole and 0 < exponent <= _POWERS:
        poly = value.poly
        for _ in range(int(exponent) - 1):
            poly = algebra.multiply(poly, value.poly)
        return _result(eqn, value, poly)
    if not value.poly:
        if exponent > 0:
            return value
        raise NoLaw("it divides by zero")
    sign = sign_of(algebra, value.poly)
    if whole and _never_zero(algebra, value.poly):
        return replace(value, poly=_entry_power(eqn, value.poly, exponent), compared=())
    out = replace(value, poly=_entry_power(eqn, value.poly, exponent), compared=())
    if sign == "positive" or (exponent > 0 and (whole or sign == "nonnegative")):
        return out
    if exponent > 0:
        return out.assuming(f"what stands under the root at {eqn.place} is not negative")
    end = OPEN if _flat(algebra, value.poly) or _selects(algebra, value.poly) else ""
    if whole:
        return out.assuming(f"the denominator at {eqn.place} is not zero{end}")
    return out.assuming(f"what stands under the root at {eqn.place} is positive{end}")


def _flat(algebra: Algebra, poly: Poly) -> bool:
    """Whether a polynomial may vanish on open sets: something in it is constant on pieces."""
    waiting, seen = [poly], set()
    while waiting:
        for number in {n for term in waiting.pop() for n, _, _ in term} - seen:
            seen.add(number)
            atom = algebra.atoms[number]
            if atom.kind == "function" and atom.data[0].law is None:
                expression = atom.data[0].expression
                flat = expression.has(sp.Max, sp.Min, sp.Piecewise, sp.floor, sp.ceiling, sp.sign, AppliedUndef)
                if flat and _varies(algebra, atom.data[1]):
                    return True
            waiting += definitions(atom)
    return False


def _selects(algebra: Algebra, poly: Poly) -> bool:
    """Whether every term has a factor that is zero at some of its places: a delta, a selection, a constant's zeros."""
    if len(poly) == 1:
        ((term, _),) = poly.items()
        if len(term) == 1 and algebra.atoms[term[0][0]].kind == "let":
            return _selects(algebra, algebra.atoms[term[0][0]].data)
    return all(any(_has_zeros(algebra.atoms[n]) and _unsummed(at) for n, at, _ in term) for term in poly)


def _has_zeros(atom: Atom) -> bool:
    if atom.kind in ("delta", "selection", "order", "window"):
        return True
    return atom.kind == "const" and bool(np.any(np.asarray(atom.data) == 0))


def _unsummed(at: Sequence[ix.Index]) -> bool:
    return not any(ix.has(i, ix.Bound) for i in at)


def _varies(algebra: Algebra, polys: Sequence[Poly]) -> bool:
    """Whether parameters or real inputs occur in polynomials, or in what they are made of."""
    waiting, seen = list(polys), set()
    while waiting:
        for number in {n for term in waiting.pop() for n, _, _ in term} - seen:
            seen.add(number)
            atom = algebra.atoms[number]
            if atom.kind in ("parameter", "carry") or (atom.kind == "input" and atom.sign != "boolean"):
                return True
            waiting += definitions(atom)
    return False


def _never_zero(algebra: Algebra, poly: Poly) -> bool:
    """Whether it is `where(m == 0, c, m)` with a number c that is not zero."""
    if len(poly) == 1:
        ((term, _),) = poly.items()
        if len(term) != 1 or algebra.atoms[term[0][0]].kind != "let":
            return False
        return _never_zero(algebra, algebra.at(algebra.atoms[term[0][0]].data, term[0][1]))
    for term, number in poly.items():
        if len(term) != 1 or algebra.atoms[term[0][0]].kind != "function":
            continue
        function, args, _ = algebra.atoms[term[0][0]].data
        if function.name != "eq" or len(args) != 1 or function.expression.subs(function.symbols[0], 0) != 1:
            continue
        chosen: Poly = {term: UNIT[()]}
        other = algebra.multiply(algebra.add(UNIT, chosen, -1), algebra.at(args[0], term[0][1]))
        if algebra.add(poly, algebra.add(algebra.scale(chosen, number), other), -1) == {}:
            return True
    return False


def _entry_power(eqn: Equation, poly: Poly, exponent: Fraction) -> Poly:
    """One term to a power factor by factor where that is allowed; anything longer as one atom.

    `(a b)^p = a^p b^p` for whole p, and for any p where both are not negative. `(a^q)^p = a^(qp)` likewise: for the
    root of an even power it would lose an absolute value.
    """
    algebra = eqn.algebra
    whole = exponent.denominator == 1
    exact: Any = int(exponent) if whole else exponent
    if len(poly) == 1:
        ((term, coefficient),) = poly.items()
        signed = all(algebra.atoms[a].sign in ("positive", "nonnegative", "boolean") for a, _, _ in term)
        fine = whole or (coefficient > 0 and (signed or _one_entry(term)))
        if not algebra.bound_in(term) and fine:
            number = {(): coefficient**exact} if whole else algebra.root(coefficient, exponent)
            return algebra.multiply(number, algebra.normal(1, [(a, at, p * exact) for a, at, p in term]))
    made = named_sum(algebra, poly)
    ((_, coefficient),) = made.items()
    if coefficient < 0 and not whole:
        # the root of a negative multiple: the multiple is part of what is under the root
        (z,) = variables(1)
        expression = z ** sp.Rational(exponent.numerator, exponent.denominator)
        return node(algebra, Function(expression, (z,), f"power {exponent}"), [poly])
    if made == poly:
        raise NoLaw("it is a power that has no name")
    return _entry_power(eqn, made, exponent)


def _one_entry(term: Term) -> bool:
    return len(term) == 1 and term[0][2] == 1


def convert(eqn: Equation, args: list[Any]) -> list[Any]:
    """Change of type: nothing for reals, for truth values as 0 and 1, and for integers as reals or longer integers."""
    before, after = eqn.inputs[0].dtype, eqn.outputs[0].dtype
    kinds = eqn.kind(0), eqn.out_kind
    if "k" in kinds:
        raise NoLaw("it converts what is no number")
    if kinds == ("f", "f"):
        if str(before) != str(after):
            eqn.writer.casts += 1
        return [args[0]]
    if kinds[0] == "b" or kinds == ("i", "f"):
        return [args[0]]
    if kinds == ("i", "i"):
        wide = np.iinfo(after).min <= np.iinfo(before).min and np.iinfo(before).max <= np.iinfo(after).max
        return [args[0]] if wide or _fits(eqn, args[0], after) else opaque(eqn, args)
    if kinds[1] == "b":
        return generic(eqn, args)
    return opaque(eqn, args)


def rounded(eqn: Equation, args: list[Any]) -> list[Any]:
    """Fewer digits, which is nothing for reals."""
    eqn.writer.casts += 1
    return list(args)


def _fits(eqn: Equation, value: Any, dtype: Any) -> bool:
    """Whether positions are known to fit; those of ordinary length do in 32 bits, which is said."""
    if not isinstance(value, Tensor):
        return False
    found = bounds(eqn.algebra, value.poly)
    if found is None:
        return sign_of(eqn.algebra, value.poly) != "real" and all(
            eqn.algebra.atoms[n].sign == "boolean" for term in value.poly for n, _, _ in term
        ) and len(value.poly) == 1 and set(value.poly.values()) == {1}  # fmt: skip
    info = np.iinfo(dtype)
    if found[1].value is not None and found[0].value is not None:
        return info.min <= found[0].value and found[1].value <= info.max
    if info.bits >= 32:
        eqn.writer.notes["sizes and positions fit into 32 bits"] = None
        return info.min < 0 or found[0].nonnegative
    return False


# --- truth values


def conjunction(eqn: Equation, args: list[Any]) -> list[Any]:
    """`a and b` of truth values is their product."""
    if eqn.kind(0) != "b":
        return opaque(eqn, args)
    left, right = operands(eqn, args)
    return [replace(left, poly=eqn.algebra.multiply(left.poly, right.poly), compared=())]


def disjunction(eqn: Equation, args: list[Any]) -> list[Any]:
    """`a or b` is `a + b - a b`."""
    return _both(eqn, args, -1)


def exclusive(eqn: Equation, args: list[Any]) -> list[Any]:
    """`a xor b` is `a + b - 2 a b`."""
    return _both(eqn, args, -2)


def _both(eqn: Equation, args: list[Any], times: int) -> list[Any]:
    if eqn.kind(0) != "b":
        return opaque(eqn, args)
    algebra = eqn.algebra
    left, right = operands(eqn, args)
    poly = algebra.add(algebra.add(left.poly, right.poly), algebra.multiply(left.poly, right.poly), times)
    return [replace(left, poly=poly, compared=())]


def negation(eqn: Equation, args: list[Any]) -> list[Any]:
    """`not a` is `1 - a`."""
    if eqn.kind(0) != "b":
        return opaque(eqn, args)
    return [replace(args[0], poly=eqn.algebra.add(UNIT, args[0].poly, -1))]


def finite(eqn: Equation, args: list[Any]) -> list[Any]:
    """Every real number is finite: true, guarded by the conditions under which the operand is a number."""
    value = eqn.writer.tensor(args[0])
    if _infinite(eqn.algebra, value.poly):
        return generic(eqn, args)
    return [replace(value, poly=UNIT, compared=(value.poly,))]


def _infinite(algebra: Algebra, poly: Poly) -> bool:
    """Whether an infinite constant stands in a polynomial itself; under a mask it is not looked for."""
    return any(
        algebra.atoms[n].kind == "infinite" or algebra.atoms[n].name == "mask" for term in poly for n, _, _ in term
    )


# --- comparisons and choices


def extreme(eqn: Equation, args: list[Any]) -> list[Any]:
    """`max` and `min`; an infinite bound is no bound, and positions may be known to be in order."""
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


def clamp(eqn: Equation, args: list[Any]) -> list[Any]:
    """Clamping between bounds, which does nothing to positions that are known to be in them."""
    low, value, high = operands(eqn, args)
    over, under = _order_of(eqn.algebra, low.poly, value.poly), _order_of(eqn.algebra, value.poly, high.poly)
    if over == -1 and under == -1:
        return [value]
    return generic(eqn, args)


def compare(eqn: Equation, args: list[Any]) -> list[Any]:
    """Comparisons: of positions where it is known, of tokens and ramps with ramps a selection, else a function."""
    name, algebra = eqn.primitive.name, eqn.algebra
    left, right = operands(eqn, args)
    known = _decided(algebra, name, left.poly, right.poly)
    if known is not None:
        poly: Poly = UNIT if known else {}
        return [_compared(left, right, poly, (left.poly, right.poly))]
    if name in ("eq", "ne") and left.poly == right.poly:
        # a number equals itself: guarded by the conditions under which it is one
        return [_compared(left, right, UNIT if name == "eq" else {}, (left.poly,))]
    if name == "eq":
        for one, other in ((left, right), (right, left)):
            found = _one_hot(eqn, one.poly, other.poly)
            if found is not None:
                return [replace(left, poly=found, compared=())]
    (out,) = generic(eqn, args)
    return [_compared(left, right, out.poly, tuple(p for p in (left.poly, right.poly) if rational(p) is None))]


def _compared(left: Tensor, right: Tensor, poly: Poly, compared: tuple[Poly, ...]) -> Tensor:
    return Tensor(left.dims, poly, compared=compared, inherited=left.guards | right.guards)


def _decided(algebra: Algebra, name: str, left: Poly, right: Poly) -> bool | None:
    """What a comparison of positions and sizes is for all of them."""
    found = bounds(algebra, algebra.add(left, right, -1))
    if found is None:
        return None
    low, high = found
    below, above = ZERO.minus(high), low
    if name in ("lt", "ge") and (below.positive or above.nonnegative):
        return below.positive if name == "lt" else above.nonnegative
    if name in ("le", "gt") and (below.nonnegative or above.positive):
        return below.nonnegative if name == "le" else above.positive
    if name in ("eq", "ne"):
        if below.positive or above.positive:
            return name == "ne"
        if low == high == ZERO:
            return name == "eq"
    return None


def _one_hot(eqn: Equation, poly: Poly, ramp: Poly) -> Poly | None:
    """`[poly = n]` for a ramp n: a delta of two ramps, a selection by tokens, or the place of a maximum."""
    algebra = eqn.algebra
    if len(ramp) != 1:
        return None
    ((term, coefficient),) = ramp.items()
    if coefficient != 1 or len(term) != 1 or algebra.atoms[term[0][0]].kind != "iota":
        return None
    column = term[0][1][0]
    token = token_of(algebra, poly)
    if token is not None:
        return None if any(column in tuple(ix.parts(i)) for i in token[1]) else token_selection(algebra, token, column)
    if len(poly) == 1:
        ((other, c),) = poly.items()
        if c == 1 and len(other) == 1 and algebra.atoms[other[0][0]].kind == "iota":
            there = other[0][1][0]
            if there.extent == column.extent:
                return algebra.normal(1, [algebra.delta(there, column)])
    top = top_place(eqn, poly, column)
    if top is not None:
        return top
    at = as_size(algebra, poly)
    if at is not None and at.nonnegative and column.extent.minus(at).positive:
        return algebra.normal(1, [algebra.delta(ix.Fixed(at, column.extent), column)])
    return None


def select(eqn: Equation, args: list[Any]) -> list[Any]:
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
    out = _result(eqn, no, poly)
    assumed = no.assumed | yes.assumed
    if any(f is not None for f in filled):
        assumed |= {f"what the mask at {eqn.place} hides meets no other infinity"}
    return [replace(out, assumed=assumed, guards=guards)]


def _infinite_value(eqn: Equation, given: Any, poly: Poly) -> float | None:
    if isinstance(given, Known):
        found = one_number(eqn, given)
        return float(found) if found is not None and not np.isfinite(found) else None
    return infinity(eqn, poly)


def _guards(eqn: Equation, predicate: Tensor, no: Tensor, yes: Tensor) -> frozenset[Guard]:
    """What a choice makes of conditions.

    Where the predicate is not moved, a point and its image choose the same case, and a condition of the other is not
    used; so conditions may be assumed if the predicate is invariant, or permuted together with what they are about.
    A choice between multiples of what the predicate
    compares has no value where that has none: `where(z > 0, z, 0.1 z)`.
    """
    guards = predicate.guards | no.guards | yes.guards
    cases = [no.poly, yes.poly]
    if predicate.compared and all(_multiple(eqn.algebra, c, predicate.compared) for c in cases):
        freed = {Guard(c, None) for c in no.assumed & yes.assumed} - predicate.inherited - no.guards - yes.guards
        guards -= freed
    if not _fixed(eqn.algebra, predicate.poly):
        key = key_of(_closed(eqn, predicate.poly))
        joint = together(eqn.algebra, predicate.poly, (no, yes))
        entry = None if joint is None else key_of(_closed(eqn, joint))
        guards |= {Guard(c, key, entry) for c in no.assumed | yes.assumed}
    return guards


def _multiple(algebra: Algebra, poly: Poly, compared: Sequence[Poly]) -> bool:
    """Whether a polynomial is a number times one of those that are compared."""
    for other in compared:
        if other and set(other) == set(poly) and len({poly[t] / other[t] for t in other}) == 1:
            return True
    return False


def _fixed(algebra: Algebra, poly: Poly) -> bool:
    """Whether a predicate is made of positions and constants alone."""
    kinds = ("iota", "size", "delta", "const", "rational", "number", "input", "tokens")
    waiting = [poly]
    while waiting:
        for term in waiting.pop():
            for number, _, _ in term:
                atom = algebra.atoms[number]
                inner = definitions(atom)
                if not inner and atom.kind not in kinds:
                    return False
                waiting += inner
    return True


def _closed(eqn: Equation, poly: Poly) -> Poly:
    """The polynomial in slots: a guard is about all its entries."""
    return eqn.algebra.in_slots(poly, eqn.algebra.free_in(poly))


def _masked(eqn: Equation, predicate: Poly, cases: tuple[Poly, Poly], filled: Sequence[float | None]) -> Poly:
    """`x` where kept and infinite elsewhere: a function through which a finite shift and a positive factor pass."""
    if all(f is not None for f in filled):
        if filled[0] == filled[1]:
            return cases[0]
        raise NoLaw("both of its cases are infinite")
    hidden = 0 if filled[0] is not None else 1
    level = filled[hidden]
    assert level is not None
    z, p = variables(2)
    name = f"masked{hidden}_{'nan' if level != level else level}"
    function = Function(sp.Function(name)(z, p), (z, p), "mask", Extreme())
    return node(eqn.algebra, function, [cases[1 - hidden], predicate])

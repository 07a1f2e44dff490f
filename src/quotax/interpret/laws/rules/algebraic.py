"""Sums, products and powers: what is polynomial in its operands, or becomes so with one reciprocal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from quotax.interpret.laws.rules.masked_rows import has_values, left_over
from quotax.interpret.laws.rules.pointwise import generic, one_number, opaque, operands, variables
from quotax.interpret.laws.rules.positions import bounds
from quotax.interpret.laws.rules.truths import compared_truth
from quotax.interpret.laws.tensors import NoLaw, Tensor, Value, parted
from quotax.interpret.laws.writing import OPEN, Eqn, Rule, about_infinities
from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Atom, Factor
from quotax.kernel.polynomials import UNIT, Algebra, Poly, Term, rational, sign_of
from quotax.kernel.sheet import Function, Guard, made_of, named_sum, node

_POWERS = 4
"""Whole powers up to this are multiplied out."""
_COUNTING = (kinds.Ramp, kinds.TokenInput, kinds.Extent, kinds.Delta, kinds.Selection, kinds.Constant)
"""Kinds of atoms that positions are made of."""


def result(eqn: Eqn, value: Tensor, poly: Poly) -> Tensor:
    """A sum of reals gets a name; positions stay written out, so that they can be read."""
    out = replace(value, poly=poly, compared=(), source=None)
    return eqn.writer.settled(out) if eqn.out_kind == "f" else out


def counts(eqn: Eqn, args: Sequence[Value]) -> bool:
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
                    if not isinstance(atom.what, _COUNTING) and atom.sign != "boolean":
                        return False
    eqn.writer.notes["integer arithmetic on positions does not overflow"] = None
    return True


def linear(scale: int) -> Rule:
    """`a + scale * b`."""

    def rule(eqn: Eqn, args: list[Value]) -> list[Value]:
        if not counts(eqn, args):
            return opaque(eqn, args)
        left, right = operands(eqn, args)
        poly = eqn.algebra.add(left.poly, right.poly, scale)
        return [result(eqn, left, poly)] if _in_range(eqn, poly) else opaque(eqn, args)

    return rule


def _in_range(eqn: Eqn, poly: Poly) -> bool:
    """Whether a difference is one in its type: without a sign there is nothing below zero."""
    if eqn.out_kind != "i" or not str(eqn.outputs[0].dtype).startswith("u"):
        return True
    found = bounds(eqn.algebra, poly)
    return found is not None and found[0].nonnegative


def negative(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`-a`."""
    if not counts(eqn, args):
        return opaque(eqn, args)
    value = eqn.writer.tensor(args[0])
    poly = eqn.algebra.scale(value.poly, -1)
    return [replace(value, poly=poly, compared=())] if _in_range(eqn, poly) else opaque(eqn, args)


def product(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`a b` at each place."""
    if not counts(eqn, args):
        return opaque(eqn, args)
    left, right = operands(eqn, args)
    out = result(eqn, left, eqn.algebra.multiply(left.poly, right.poly))
    # [z > 0] z has no value where z has none
    for truth, value in ((left, right), (right, left)):
        if truth.compared and multiple(value.poly, truth.compared):
            freed = {Guard(c, None) for c in value.assumed} - truth.inherited - value.guards
            out = replace(out, guards=out.guards - freed)
    return [out]


def quotient(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`a / b`; of integers, a function without laws of its own."""
    if eqn.out_kind == "i":
        return opaque(eqn, args)
    left, right = operands(eqn, args)
    inverse = power(eqn, right, Fraction(-1))
    out = result(eqn, left, eqn.algebra.multiply(left.poly, inverse.poly))
    return [replace(out, assumed=out.assumed | inverse.assumed)]


def integer_power(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`a ** n`."""
    if eqn.out_kind == "i":
        return opaque(eqn, args)
    return [power(eqn, eqn.writer.tensor(args[0]), Fraction(int(eqn.params["y"])))]


def fixed_power(exponent: str) -> Rule:
    """`a ** exponent` for a primitive that says so."""

    def rule(eqn: Eqn, args: list[Value]) -> list[Value]:
        if eqn.out_kind == "i":
            return opaque(eqn, args)
        return [power(eqn, eqn.writer.tensor(args[0]), Fraction(exponent))]

    return rule


def general_power(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`a ** b`: by the laws of powers when b is one number."""
    found = one_number(eqn, args[1])
    if found is not None and np.isfinite(found) and isinstance(args[0], Tensor) and eqn.shape(1) == ():
        exponent = rational(eqn.writer.number(found))
        if exponent is not None and exponent.denominator <= 64:
            return [power(eqn, args[0], exponent)]
    return generic(eqn, args)


def power(eqn: Eqn, value: Tensor, exponent: Fraction) -> Tensor:
    """A power of a tensor: multiplied out, or an entry of one atom to that power."""
    algebra = eqn.algebra
    if exponent == 0:  # one, even where the base is no number
        return replace(value, poly=UNIT, compared=(), guards=value.guards | {Guard(c, None) for c in value.assumed})
    whole = exponent.denominator == 1
    if whole and 0 < exponent <= _POWERS:
        poly = value.poly
        for _ in range(int(exponent) - 1):
            poly = algebra.multiply(poly, value.poly)
        return result(eqn, value, poly)
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
    if whole:
        left = left_over(eqn.writer, value.poly)
        if left is not None:
            return out if left else out.assuming(_rows(eqn))
    end = OPEN if _flat(algebra, value.poly) or _selects(algebra, value.poly) else ""
    if whole:
        return out.assuming(f"the denominator at {eqn.place} is not zero{end}")
    return out.assuming(f"what stands under the root at {eqn.place} is positive{end}")


def _rows(eqn: Eqn) -> str:
    return f"in every row that is summed at {eqn.place} its mask leaves something"


def exponential(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`exp(z)`: zero where masks make z minus infinity, so that their infinities are none of the result's.

    As long as they stand in z: where two have cancelled, or one has met a zero, the conditions stay.
    """
    (out,) = generic(eqn, args)
    value = args[0]
    about = frozenset(filter(about_infinities, value.assumed)) if isinstance(value, Tensor) else frozenset()
    if not about or not isinstance(value, Tensor) or not isinstance(out, Tensor) or value.lost:
        return [out]
    return [replace(out, freed=about) if has_values(eqn.writer, value.poly) else out]


def _flat(algebra: Algebra, poly: Poly) -> bool:
    """Whether a polynomial may vanish on open sets: something in it is constant on pieces."""
    for atom in made_of(algebra, [poly]):
        if isinstance(atom.what, kinds.Application) and atom.what.function.law is None:
            expression = atom.what.function.expression
            flat = expression.has(sp.Max, sp.Min, sp.Piecewise, sp.floor, sp.ceiling, sp.sign, AppliedUndef)
            if flat and _varies(algebra, atom.what.arguments):
                return True
    return False


def _selects(algebra: Algebra, poly: Poly) -> bool:
    """Whether every term has a factor that is zero at some of its places: a delta, a selection, a constant's zeros."""
    if len(poly) == 1:
        ((term, _),) = poly.items()
        what = algebra.atoms[term[0].atom].what if len(term) == 1 else None
        if isinstance(what, kinds.NamedSum):
            return _selects(algebra, what.poly)
    return all(any(_has_zeros(algebra.atoms[n]) and _unsummed(at) for n, at, _ in term) for term in poly)


def _has_zeros(atom: Atom) -> bool:
    if isinstance(atom.what, kinds.Delta | kinds.Selection | kinds.Order | kinds.Window):
        return True
    return isinstance(atom.what, kinds.Constant) and bool(np.any(atom.what.array == 0))


def _unsummed(at: Sequence[ix.Index]) -> bool:
    return not any(ix.has(i, ix.Bound) for i in at)


def _varies(algebra: Algebra, polys: Sequence[Poly]) -> bool:
    """Whether parameters or real inputs occur in polynomials, or in what they are made of."""
    varying = kinds.Parameter | kinds.Carry | kinds.Input
    return any(isinstance(atom.what, varying) and atom.sign != "boolean" for atom in made_of(algebra, polys))


def _never_zero(algebra: Algebra, poly: Poly) -> bool:
    """Whether it is `where(m == 0, c, m)` with a number c that is not zero."""
    if len(poly) == 1:
        ((term, _),) = poly.items()
        what = algebra.atoms[term[0].atom].what if len(term) == 1 else None
        return isinstance(what, kinds.NamedSum) and _never_zero(algebra, algebra.at(what.poly, term[0].at))
    for term, number in poly.items():
        what = algebra.atoms[term[0].atom].what if _one_entry(term) else None
        if not isinstance(what, kinds.Application):
            continue
        function, args = what.function, what.arguments
        if function.name != "eq" or len(args) != 1 or function.expression.subs(function.symbols[0], 0) != 1:
            continue
        chosen: Poly = {term: UNIT[()]}
        other = algebra.multiply(algebra.add(UNIT, chosen, -1), algebra.at(args[0], term[0].at))
        if algebra.add(poly, algebra.add(algebra.scale(chosen, number), other), -1) == {}:
            return True
    return False


def _entry_power(eqn: Eqn, poly: Poly, exponent: Fraction) -> Poly:
    """One term to a power factor by factor where that is allowed; anything longer as one atom.

    `(a b)^p = a^p b^p` for whole p, and for any p where both are not negative. `(a^q)^p = a^(qp)` likewise: for the
    root of an even power it would lose an absolute value.
    """
    algebra = eqn.algebra
    whole = exponent.denominator == 1
    exact: Any = int(exponent) if whole else exponent
    poly = _parted(algebra, poly)
    if len(poly) == 1:
        ((term, coefficient),) = poly.items()
        signed = all(algebra.atoms[a].sign in ("positive", "nonnegative", "boolean") for a, _, _ in term)
        fine = whole or (coefficient > 0 and (signed or _one_entry(term)))
        if not algebra.bound_in(term) and fine:
            number = algebra.root(coefficient, exponent)
            return algebra.multiply(number, algebra.normal(1, [Factor(a, at, p * exact) for a, at, p in term]))
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


def _parted(algebra: Algebra, poly: Poly) -> Poly:
    """The polynomial with what all terms of a sum have for a factor, and is not summed over, before a sum of the rest.

    The mean of `(a / n)^2` is that of `a^2` times `n^-2`: of a norm behind a norm the length goes out. Such a
    factor is positive wherever the sum has a value.
    """
    if len(poly) == 1:
        ((term, coefficient),) = poly.items()
        for factor in () if algebra.bound_in(term) else term:
            what = algebra.atoms[factor.atom].what
            inner = algebra.at(what.poly, factor.at) if isinstance(what, kinds.NamedSum) and factor.power == 1 else {}
            common, rest = _common(algebra, inner)
            if common:
                others = [f for f in term if f is not factor]
                return algebra.multiply(named_sum(algebra, rest), algebra.normal(coefficient, [*common, *others]))
    common, rest = _common(algebra, poly)
    return algebra.multiply(named_sum(algebra, rest), algebra.normal(1, common)) if common else poly


def _common(algebra: Algebra, poly: Poly) -> tuple[list[Factor], Poly]:
    """The positive factors of every term that no sum is over, and the polynomial without them."""
    sign = lambda f: algebra.atoms[f.atom].sign
    sure = lambda f: sign(f) == "positive" or (sign(f) == "nonnegative" and f.power < 0)
    return parted(algebra, poly, sure)


def _one_entry(term: Term) -> bool:
    return len(term) == 1 and term[0].power == 1


def convert(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Change of type: nothing for reals, for truth values as 0 and 1, and for integers as reals or longer integers."""
    before, after = eqn.inputs[0].dtype, eqn.outputs[0].dtype
    kinds = eqn.kind(0), eqn.out_kind
    if "k" in kinds:
        raise NoLaw("it converts what is no number")
    if kinds == ("f", "f"):
        if str(before) != str(after):
            eqn.writer.casts += 1
        return [args[0]]
    if kinds[0] == "b" or kinds == ("i", "f") or (kinds == ("f", "i") and _is_truth(eqn, args[0])):
        return [args[0]]
    if kinds == ("i", "i"):
        wide = np.iinfo(after).min <= np.iinfo(before).min and np.iinfo(before).max <= np.iinfo(after).max
        return [args[0]] if wide or _fits(eqn, args[0], after) else opaque(eqn, args)
    if kinds[1] == "b":
        (value,) = operands(eqn, args)
        truth = compared_truth(eqn, "ne", value, replace(value, poly={}))
        return generic(eqn, args) if truth is None else [truth]
    return opaque(eqn, args)


def rounded(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Fewer digits, which is nothing for reals."""
    eqn.writer.casts += 1
    return list(args)


def _is_truth(eqn: Eqn, value: Value) -> bool:
    """Whether every entry is known to be 0 or 1."""
    if not isinstance(value, Tensor) or set(value.poly.values()) != {1} or len(value.poly) != 1:
        return False
    (term,) = value.poly
    truths = all(eqn.algebra.atoms[number].sign == "boolean" and power > 0 for number, _, power in term)
    return truths and sign_of(eqn.algebra, value.poly) != "real"


def _fits(eqn: Eqn, value: Value, dtype: np.dtype) -> bool:
    """Whether positions are known to fit; those of ordinary length do in 32 bits, which is said."""
    if not isinstance(value, Tensor):
        return False
    found = bounds(eqn.algebra, value.poly)
    if found is None:
        return _is_truth(eqn, value)
    info = np.iinfo(dtype)
    if found[1].value is not None and found[0].value is not None:
        return info.min <= found[0].value and found[1].value <= info.max
    if info.bits >= 32:
        eqn.writer.notes["sizes and positions fit into 32 bits"] = None
        return info.min < 0 or found[0].nonnegative
    return False


def multiple(poly: Poly, compared: Sequence[Poly]) -> bool:
    """Whether a polynomial is a number times one of those that are compared."""
    for other in compared:
        if other and set(other) == set(poly) and len({poly[t] / other[t] for t in other}) == 1:
            return True
    return False

"""Truth values: numbers that are 0 or 1, which logic makes polynomials of and comparisons read."""

from __future__ import annotations

import itertools
from dataclasses import replace

from quotax.interpret.domain import COMPARISONS
from quotax.interpret.laws.rules.pointwise import opaque, operands
from quotax.interpret.laws.tensors import Tensor, Value
from quotax.interpret.laws.writing import Eqn
from quotax.kernel.indices import Index
from quotax.kernel.polynomials import UNIT, Algebra, Poly, rational

_MOST = 6
"""Polynomials in more truth values than this are not looked at case by case."""


def conjunction(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`a and b` of truth values is their product."""
    if eqn.kind(0) != "b":
        return opaque(eqn, args)
    left, right = operands(eqn, args)
    return [replace(left, poly=eqn.algebra.multiply(left.poly, right.poly), compared=())]


def disjunction(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`a or b` is `a + b - a b`."""
    return _both(eqn, args, -1)


def exclusive(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`a xor b` is `a + b - 2 a b`."""
    return _both(eqn, args, -2)


def _both(eqn: Eqn, args: list[Value], times: int) -> list[Value]:
    if eqn.kind(0) != "b":
        return opaque(eqn, args)
    algebra = eqn.algebra
    left, right = operands(eqn, args)
    poly = algebra.add(algebra.add(left.poly, right.poly), algebra.multiply(left.poly, right.poly), times)
    return [replace(left, poly=poly, compared=())]


def negation(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`not a` is `1 - a`."""
    if eqn.kind(0) != "b":
        return opaque(eqn, args)
    value = eqn.writer.tensor(args[0])
    return [replace(value, poly=eqn.algebra.add(UNIT, value.poly, -1))]


def compared_truth(eqn: Eqn, name: str, left: Tensor, right: Tensor) -> Tensor | None:
    """A truth value compared with a number is itself, its negation, or known: `m > 0` is m."""
    for value, other, turned in ((left, right, False), (right, left, True)):
        number = rational(other.poly)
        if number is None or value.assumed or value.guards or not truth_valued(eqn.algebra, value.poly):
            continue
        at = [COMPARISONS[name](*((number, k) if turned else (k, number))) for k in (0, 1)]
        poly = eqn.algebra.scale(value.poly, int(at[1]) - int(at[0]))
        return replace(value, poly=eqn.algebra.add(poly, UNIT, int(at[0])), compared=(), source=None)
    return None


def truth_valued(algebra: Algebra, poly: Poly) -> bool:
    """Whether a polynomial in truth values is 0 or 1 wherever they are."""
    entries: dict[tuple[int, tuple[Index, ...]], int] = {}
    for term in poly:
        if algebra.bound_in(term) or any(f.power != 1 or algebra.atoms[f.atom].sign != "boolean" for f in term):
            return False
        for factor in term:
            entries.setdefault((factor.atom, factor.at), len(entries))
    if len(entries) > _MOST or not entries:
        return False
    for values in itertools.product((0, 1), repeat=len(entries)):
        total = sum(c for term, c in poly.items() if all(values[entries[f.atom, f.at]] for f in term))
        if total not in (0, 1):
            return False
    return True

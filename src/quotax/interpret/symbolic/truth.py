"""Truth values: comparisons of SymPy numbers, decided where constants, infinities or tokens' ranges decide them."""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp
from sympy.core.numbers import Infinity, NaN
from sympy.functions.elementary.piecewise import Piecewise
from sympy.logic.boolalg import BooleanFalse, BooleanTrue

from quotax.interpret.domain import COMPARISONS
from quotax.interpret.symbolic.bounds import interval
from quotax.interpret.symbolic.scalars import FALSE, INFINITE, TRUE, is_improper

_RELATION = {"eq": sp.Eq, "ne": sp.Ne, "lt": sp.Lt, "le": sp.Le, "gt": sp.Gt, "ge": sp.Ge}


def truth(value: sp.Basic) -> sp.Basic:
    """A Python truth value as SymPy's."""
    return TRUE if value else FALSE


def conjunction(*terms: sp.Basic) -> sp.Basic:
    """All of the terms."""
    terms = tuple(dict.fromkeys(t for t in terms if t is not TRUE))
    if FALSE in terms:
        return FALSE
    return TRUE if not terms else terms[0] if len(terms) == 1 else sp.And(*terms, evaluate=False)


def disjunction(*terms: sp.Basic) -> sp.Basic:
    """Any of the terms."""
    terms = tuple(dict.fromkeys(t for t in terms if t is not FALSE))
    if TRUE in terms:
        return TRUE
    return FALSE if not terms else terms[0] if len(terms) == 1 else sp.Or(*terms, evaluate=False)


def negation(term: sp.Basic) -> sp.Basic:
    """Not the term."""
    return sp.Not(term)


def exclusive(a: sp.Basic, b: sp.Basic) -> sp.Basic:
    """Exactly one of the two."""
    if isinstance(a, (BooleanTrue, BooleanFalse)):
        return negation(b) if a is TRUE else b
    if isinstance(b, (BooleanTrue, BooleanFalse)):
        return negation(a) if b is TRUE else a
    return FALSE if a == b else sp.Xor(a, b)


def _first_true(branches: list[tuple[sp.Basic, sp.Basic]]) -> sp.Basic:
    """The truth of the first branch whose condition holds."""
    found, before = [], TRUE
    for value, condition in branches:
        found.append(conjunction(before, condition, value))
        before = conjunction(before, negation(condition))
    return disjunction(*found)


def compare(relation: str, a: sp.Basic, b: sp.Basic, below: Mapping[sp.Symbol, int] | None = None) -> sp.Basic:
    """`a relation b` as a SymPy truth value; `below`, for integers, bounds the symbols (see `bounds.interval`)."""
    if isinstance(a, NaN) or isinstance(b, NaN):
        return truth(relation == "ne")
    if a.is_Boolean or b.is_Boolean:
        return exclusive(a, b) if relation == "ne" else negation(exclusive(a, b))
    if a == b:
        return truth(relation in ("eq", "le", "ge"))
    if a.is_Number and b.is_Number:
        return truth(COMPARISONS[relation](a, b))
    for e, other in ((a, b), (b, a)):
        if is_improper(e) or (isinstance(e, Piecewise) and other.is_Number and all(x.is_Number for x, _ in e.args)):
            sides = [(a, x) if e is b else (x, b) for x, _ in e.args]
            truths = (compare(relation, left, right, below) for left, right in sides)
            return _first_true([(value, c) for value, (_, c) in zip(truths, e.args, strict=True)])
    for e, sign in ((a, 1), (b, -1)):
        if isinstance(e, INFINITE):
            large = sign if isinstance(e, Infinity) else -sign
            return truth(COMPARISONS[relation](large, 0))
    if below is not None:
        (low, high), (other_low, other_high) = interval(a, below), interval(b, below)
        if high < other_low or low > other_high:
            return truth(COMPARISONS[relation](0, 1 if high < other_low else -1))
        if low == high == other_low == other_high:
            return truth(COMPARISONS[relation](0, 0))
        if relation in ("ge", "lt") and low >= other_high:
            return truth(relation == "ge")
        if relation in ("le", "gt") and high <= other_low:
            return truth(relation == "le")
    return _RELATION[relation](a, b, evaluate=False)


def is_finite(e: sp.Basic) -> sp.Basic:
    """Whether a value is finite: true of every expression in real symbols, except where a mask says otherwise."""
    if isinstance(e, (*INFINITE, NaN)):
        return FALSE
    if is_improper(e):
        return _first_true([(is_finite(b), c) for b, c in e.args])
    if isinstance(e, (sp.Max, sp.Min)) and any(map(is_improper, e.args)):
        return disjunction(*map(is_finite, e.args))
    return TRUE

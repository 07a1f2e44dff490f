"""What can be told cheaply about a SymPy expression's range: its sign, and for integers an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping

import sympy as sp
from sympy.functions.elementary.piecewise import Piecewise

Interval = tuple[float, float]


def is_positive(e: sp.Basic) -> bool:
    """Whether `e > 0` for all real values of its symbols, as far as its shape shows (SymPy's own answer is slow)."""
    if isinstance(e, sp.exp):
        return True
    if isinstance(e, sp.Add):
        return all(map(is_nonnegative, e.args)) and any(map(is_positive, e.args))
    if isinstance(e, (sp.Mul, sp.Min)):
        return all(map(is_positive, e.args))
    if isinstance(e, sp.Pow):
        return is_positive(e.base)
    if isinstance(e, sp.Max):
        return any(map(is_positive, e.args))
    if isinstance(e, Piecewise):
        return all(is_positive(branch) for branch, _ in e.args)
    return bool((e.is_Number or e.is_Symbol) and e.is_positive)


def is_nonnegative(e: sp.Basic) -> bool:
    """Whether `e >= 0` for all real values of its symbols, as far as its shape shows."""
    if isinstance(e, sp.Abs) or is_positive(e):
        return True
    if isinstance(e, (sp.Add, sp.Mul, sp.Min)):
        return all(map(is_nonnegative, e.args))
    if isinstance(e, sp.Pow):
        return bool(e.exp.is_Integer and e.exp.is_even) or is_nonnegative(e.base)
    if isinstance(e, sp.Max):
        return any(map(is_nonnegative, e.args))
    if isinstance(e, Piecewise):
        return all(is_nonnegative(branch) for branch, _ in e.args)
    return bool((e.is_Number or e.is_Symbol) and e.is_nonnegative)


def interval(e: sp.Basic, below: Mapping[sp.Symbol, int]) -> Interval:
    """Least and greatest value of an integer expression; `below` says that a symbol is in 0..below-1."""
    if e.is_Number:
        return float(e), float(e)
    if isinstance(e, sp.Symbol):
        return (0.0, float(below.get(e, math.inf) - 1)) if e.is_nonnegative else (-math.inf, math.inf)
    if isinstance(e, sp.Add):
        ends = [interval(term, below) for term in e.args]
        return sum(low for low, _ in ends), sum(high for _, high in ends)
    if isinstance(e, sp.Mul) and len(e.args) == 2 and e.args[0].is_Number:
        ends = [float(e.args[0]) * end for end in interval(e.args[1], below)]
        return min(ends), max(ends)
    if isinstance(e, (sp.Max, sp.Min)):
        pick = max if isinstance(e, sp.Max) else min
        ends = [interval(term, below) for term in e.args]
        return pick(low for low, _ in ends), pick(high for _, high in ends)
    if isinstance(e, sp.Mod) and e.args[1].is_Integer and e.args[1].is_positive:
        return 0.0, float(e.args[1]) - 1
    if isinstance(e, Piecewise):
        ends = [interval(branch, below) for branch, _ in e.args]
        return min(low for low, _ in ends), max(high for _, high in ends)
    return -math.inf, math.inf

"""Sums over indices: the one simplification that actions need, contracting Kronecker deltas."""

from __future__ import annotations

import sympy as sp


def contract_deltas(expression: sp.Expr) -> sp.Expr:
    """Carry out every sum over an index that a Kronecker delta ties to another.

    >>> i, j = sp.symbols("i j", integer=True)
    >>> W, n = sp.IndexedBase("W"), sp.Symbol("n", integer=True)
    >>> contract_deltas(sp.Sum(sp.KroneckerDelta(i, j) * W[j], (j, 0, n - 1)))
    W[i]
    """
    if not expression.has(sp.KroneckerDelta) or not expression.args:
        return expression
    inner = expression.func(*(contract_deltas(arg) for arg in expression.args))
    return _contract_sum(inner) if isinstance(inner, sp.Sum) else inner


def _contract_sum(total: sp.Sum) -> sp.Expr:
    terms = sp.Add.make_args(sp.expand_mul(total.function))
    return sp.Add(*(_contract_term(term, list(total.limits)) for term in terms))


def _contract_term(term: sp.Expr, limits: list[sp.Tuple]) -> sp.Expr:
    for delta in term.atoms(sp.KroneckerDelta):
        for tied, other in (delta.args, delta.args[::-1]):
            limit = next((limit for limit in limits if limit[0] == tied), None)
            if limit is not None and delta in sp.Mul.make_args(term):
                rest = sp.Mul(*(f for f in sp.Mul.make_args(term) if f != delta))
                return _contract_term(rest.xreplace({tied: other}), [kept for kept in limits if kept != limit])
    return sp.Sum(term, *limits) if limits and term != 0 else term

"""The infinitesimal action: SymPy differentiates an entry along a one-parameter subgroup at the identity."""

from __future__ import annotations

import functools

import sympy as sp

from quotax.symmetry.groups import Group, Layout
from quotax.symmetry.new_entries.general_entries import ELEMENT, INVERSE, TANGENT, Entry
from quotax.symmetry.new_entries.sums import contract_deltas


def differentiate(entry: Entry, group: Group) -> Entry:
    """The derivative of `entry` at the identity, linear in the entries of `xi`.

    On the subgroup `g(t) = exp(t xi)` every entry of `g` is its identity value plus `t` times an entry of `xi`, up to
    `t^2`; SymPy does the rest (products, sums, powers, exp, log).
    """
    time = sp.Symbol("t", real=True)
    expression = entry.expression
    curve: dict[sp.Expr, sp.Expr] = {}
    if not group.element_axes:
        curve[sp.Symbol(ELEMENT)] = _identity((), group.layout) + time * sp.Symbol(TANGENT)
    for atom in expression.atoms(sp.Indexed):
        slopes = {ELEMENT: sp.Integer(1), INVERSE: _inverse_slope()}
        if atom.base.name in slopes:
            tangent = sp.Indexed(sp.IndexedBase(TANGENT), *atom.indices)
            curve[atom] = _identity(atom.indices, group.layout) + time * slopes[atom.base.name] * tangent
    derivative = sp.diff(expression.xreplace(curve), time).subs(time, 0)
    return Entry(entry.name, entry.indices, entry.factors, contract_deltas(derivative), f"d/dt {entry.text}")


def _identity(indices: tuple[sp.Symbol, ...], layout: Layout) -> sp.Expr:
    if layout == "matrix":
        return sp.KroneckerDelta(*indices[-2:])
    return sp.Integer(0 if layout == "vector" else 1)


@functools.cache
def _inverse_slope() -> sp.Expr:
    """The number `c` in `inv(1 + t xi) = 1 + c t xi + O(t^2)`, by SymPy with a non-commutative `xi`."""
    t, xi = sp.Symbol("t"), sp.Symbol("xi", commutative=False)
    return (((1 + t * xi) ** -1).diff(t).subs(t, 0)).coeff(xi)

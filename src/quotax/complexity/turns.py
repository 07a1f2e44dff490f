r"""Arrays that an action multiplies by orthogonal matrices along their axes, read off its formula: $W \to A W B$.

The general entry of such an array is one entry of W times entries of the group element, each of which is summed with
one index of W in the place of a free one. Singular values of W are the same then, on whichever sides it is turned.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from quotax.artifacts import ArraySpec
from quotax.parts import whole_name
from quotax.symmetry import ELEMENT, INVERSE, Action, variable


def turns(action: Action, params: Sequence[ArraySpec], name: str) -> bool:
    """Whether the action does no more to one of the arrays than to turn it along its axes."""
    entries = {entry.name: entry for entry in action.entries}
    if name not in {whole_name(spec) for spec in params}:
        return False
    if name not in entries:
        return not {spec.name for spec in params if whole_name(spec) == name} & set(entries)  # a part of it may move
    if not action.group.orthogonal:
        return False
    entry = entries[name]
    summed, factors = _product(entry.expression)
    if any(not isinstance(f, sp.Indexed) or str(f.base) not in (variable(name), ELEMENT, INVERSE) for f in factors):
        return False
    own = [factor for factor in factors if str(factor.base) == variable(name)]
    others = [factor for factor in factors if str(factor.base) != variable(name)]
    if len(own) != 1 or len(own[0].indices) != len(entry.indices):
        return False
    places = dict(zip(own[0].indices, entry.indices, strict=True))
    if len(places) != len(entry.indices):
        return False
    still = {index for index, free in places.items() if index == free}
    contracted = {index for index in places if index in summed}
    if still | contracted != set(places) or contracted != summed:
        return False
    used = []
    for factor in others:
        inside = contracted.intersection(factor.indices)
        if len(inside) > 1 or len(set(factor.indices)) != len(factor.indices):
            return False
        pair = {index for s in inside for index in (s, places[s])}
        if inside and set(factor.indices[-2:]) != pair:
            return False
        if not (set(factor.indices) - pair) <= still:
            return False
        used += inside
    return sorted(map(str, used)) == sorted(map(str, contracted))


def _product(expression: sp.Expr) -> tuple[set[sp.Symbol], list[sp.Expr]]:
    """The indices that are summed and the factors of a product of sums of products, opened."""
    if isinstance(expression, sp.Sum):
        summed, factors = _product(expression.function)
        return summed | {limit[0] for limit in expression.limits}, factors
    if isinstance(expression, sp.Mul):
        parts = [_product(each) for each in expression.args]
        return set().union(*(summed for summed, _ in parts)), [f for _, factors in parts for f in factors]
    return set(), [expression]

"""Actions on a fused array as a whole: what they say of `W[i,k]`, i the part, becomes an entry of each part `W.i`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp

from quotax.artifacts import ArraySpec
from quotax.symmetry.new_entries.general_entries import Entry, entry_of, extent, variable
from quotax.symmetry.new_entries.sums import contract_deltas


def by_parts(entry: Entry, places: Mapping[str, tuple[list[int], list[ArraySpec]]], text: str) -> tuple[Entry, ...]:
    """The entries where whole arrays are named: `W[i,k]`, with i the part, is an entry of the part `W.i`."""

    def apart(expression: sp.Expr) -> sp.Expr:
        """The expression with parts in place of wholes; sums over parts are written out."""
        if isinstance(expression, sp.Sum):
            inner, kept = expression.function, []
            for limit in expression.limits:
                if limit[0] in divisors:
                    inner = sp.Add(*(inner.subs(limit[0], i) for i in range(int(limit[2]) + 1)))
                else:
                    kept.append(limit)
            inner = apart(inner)
            return sp.Sum(inner, *kept) if kept else inner
        if isinstance(expression, sp.Indexed) and expression.base.name in places:
            taken, own = places[expression.base.name]
            name, rest = part_at(taken, own, expression.indices)
            return entry_of(sp.IndexedBase(variable(name)), rest)
        return expression.func(*map(apart, expression.args)) if expression.args else expression

    divisors = {
        index
        for each in (entry.expression, sp.Indexed(sp.IndexedBase(variable(entry.name)), *entry.indices))
        for atom in each.atoms(sp.Indexed)
        if atom.base.name in places
        for index in part_indices(places[atom.base.name][0], atom.indices)
    }
    if variable(entry.name) not in places:
        return (Entry(entry.name, entry.indices, entry.factors, apart(entry.expression), text),)
    taken, own = places[variable(entry.name)]
    chosen = part_indices(taken, entry.indices)
    out = []
    for spec, at in zip(own, itertools.product(*(range(int(extent(entry.factors[i]))) for i in chosen)), strict=True):
        value = entry.expression.subs(dict(zip(chosen, at, strict=True)))
        kept = tuple(i for i in entry.indices if i not in chosen)
        out.append(Entry(spec.name, kept, entry.factors, contract_deltas(sp.sympify(apart(value))), text))
    return tuple(out)


def part_indices(places: Sequence[int], indices: Sequence[Any]) -> list[Any]:
    """Of the indices of a fused array those that say which part is meant."""
    left, found = list(indices), []
    for place in places:
        found.append(left.pop(place))
    return found


def part_at(places: Sequence[int], own: Sequence[ArraySpec], indices: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """The part that an entry of a fused array lies in, and the entry's indices there."""
    left, number = list(indices), 0
    for level, place in enumerate(places):
        number = number * len(own[0].cuts[level].pieces) + int(left.pop(place))
    return own[number].name, tuple(left)

"""Gains: parameters that a scaling can bring to one, and what the other actions are there.

A gain `s` in front of a matrix, `U s n(z)`, leaves `s -> g s, U -> U / g`. Other symmetries then depend on `s`: a
rotation of `z` moves `U` to `U S R^T S^-1`. In the coordinates `U' = U S`, which the scaling does not move, it is
`U' R^T` again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import sympy as sp

from quotax.symmetry.new_entries.general_entries import ELEMENT, INVERSE, parameter, variable
from quotax.symmetry.symmetry import Action


@dataclass(frozen=True)
class Gain:
    """A parameter `s` with `s -> g^power s`, of the scaling's own shape, so that `s = 1` fixes the element.

    `weights` says for every other parameter that the scaling moves along which of its axes, and to which power.
    """

    name: str
    power: int
    weights: Mapping[str, tuple[tuple[int, ...], int]] = field(hash=False)


def gain_of(action: Action, name: str) -> Gain | None:
    """The parameter as a gain of this action, or nothing where it is none."""
    if action.group.layout != "diagonal" or not action.group.free or not action.terms:  # a pair of them needs two
        return None
    weights: dict[str, tuple[tuple[int, ...], int]] = {}
    for term in action.terms:
        if term.kind != "diagonal" or term.target in weights or term.coefficient != int(term.coefficient):
            return None
        places = tuple(term.target_labels.index(label) for label in term.element)
        weights[term.target] = places, int(term.coefficient)
    if name not in weights:
        return None
    places, power = weights.pop(name)
    own = next(entry for entry in action.entries if entry.name == name)
    whole = places == tuple(range(len(own.indices)))
    return Gain(name, power, weights) if whole and abs(power) == 1 else None


def reads(action: Action) -> set[str]:
    """The parameters that an action depends on without moving them."""
    found = {_named(atom) for entry in action.entries for atom in entry.expression.atoms(sp.Indexed)}
    return found - {"", *(entry.name for entry in action.entries)}


def without(action: Action, gains: Sequence[Gain]) -> Action | None:
    """The action on the other parameters in coordinates that absorb the gains; nothing where it still depends on them.

    With `t' = t s^(-m / a)` where the scaling takes `s` to `g^a s` and `t` to `g^m t`: every entry of `t` is replaced
    by one of `t'`, and what `s` is left must cancel. A permutation of the gains permutes what they are absorbed in.
    """
    names = {gain.name for gain in gains}
    if action.projectors:
        return None
    moved = {entry.name for entry in action.entries} & names
    if moved and not action.group.reorders:
        return None
    entries = []
    for entry in action.entries:
        if entry.name in names:
            continue
        if moved:
            expression = entry.expression
        else:
            old = {atom: atom * _scale(atom, gains) for atom in entry.expression.atoms(sp.Indexed)}
            target = sp.Indexed(sp.IndexedBase(variable(entry.name)), *entry.indices) if entry.indices else None
            own = 1 / _scale(target, gains) if target is not None else sp.S.One
            expression = _times(entry.expression.xreplace(old), own)
        if any(_named(atom) in names for atom in expression.atoms(sp.Indexed)):
            return None
        entries.append(replace(entry, expression=expression))
    return replace(action, entries=tuple(entries))


def _named(atom: sp.Indexed) -> str:
    """The parameter that an entry is of; empty for one of the group element."""
    return "" if atom.base.name in (ELEMENT, INVERSE) else parameter(atom.base.name)


def _scale(atom: sp.Indexed, gains: Sequence[Gain]) -> sp.Expr:
    """`t / t'` for an entry of a parameter."""
    total = sp.S.One
    for gain in gains:
        places, power = gain.weights.get(_named(atom), ((), 0))
        if power:
            base = sp.IndexedBase(variable(gain.name))
            total *= sp.Indexed(base, *(atom.indices[k] for k in places)) ** (power * gain.power)
    return total


def _times(expression: sp.Expr, factor: sp.Expr) -> sp.Expr:
    """The product, under the sums, where powers of one entry cancel."""
    if isinstance(expression, sp.Add):
        return sp.Add(*(_times(term, factor) for term in expression.args))
    if isinstance(expression, sp.Sum):
        return sp.Sum(_times(expression.function, factor), *expression.limits)
    if isinstance(expression, sp.Mul):
        for part in expression.args:
            if isinstance(part, sp.Sum):
                rest = sp.Mul(*(other for other in expression.args if other is not part))
                return _times(part, rest * factor)
    return expression * factor

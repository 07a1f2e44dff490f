r"""Actions as transforms that other tools can merge into weights: plain data, with no formula to parse.

What becomes of an array is one of three things.

- It is *multiplied*, along some of its dimensions, by the element `g` of the group, by its inverse, its transpose or
  both: with `side` left $\text{new}_i = \sum_j M_{ij} \text{old}_j$, with right
  $\text{new}_i = \sum_j \text{old}_j M_{ji}$, where $M$ is `g` with what `inverse` and `transpose` say. Vectors and
  numbers multiply entries by `g ** power`. Where there is one element for each head, `each` is the dimension of the
  heads.
- `factor * g` is *added*, `g` lying along the dimensions named, the same for all indices of the others.
- It is a sum of *terms*, each a contraction of arrays in the notation of NumPy's `einsum`.

An array may be a `part` of the one that is stored: an axis of that, counted from the end, is `before * pieces * after`,
the pieces one after another, and the part is the piece `index` of it, or without the axis where it is `stacked`.
Several cuts are made in their order. Dimensions are counted with fused axes apart: an array is brought to the shape of
its `axes` first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy as sp

from quotax.artifacts import ArraySpec, Cut
from quotax.parts import whole_name
from quotax.presenting import Json
from quotax.symmetry.new_entries.general_entries import ELEMENT, INVERSE, Entry, parameter, variable
from quotax.symmetry.plain import group_data
from quotax.symmetry.symmetry import Action
from quotax.trees import AnyArray


@dataclass(frozen=True)
class _Factor:
    name: str
    indices: tuple[Any, ...]
    power: Any


@dataclass(frozen=True)
class _Term:
    coefficient: Any
    factors: tuple[_Factor, ...]
    summed: frozenset[Any]


def mapping(action: Action, specs: tuple[ArraySpec, ...]) -> dict[str, Json]:
    """The action as data: the group, the axes of its element, and what becomes of every array that moves.

    >>> from quotax.symmetry import GL, Symmetry
    >>> specs = (ArraySpec("A", (("h",), ("x",))), ArraySpec("B", (("y",), ("h",))))
    >>> linear = Symmetry("linear", GL("h"), {"A": "g @ A", "B": "B @ inv(g)"})
    >>> found = mapping(linear.bind(specs), specs)["arrays"]
    >>> found["A"]["multiply"]
    [{'dimension': 0, 'side': 'left', 'inverse': False, 'transpose': False, 'each': None}]
    >>> found["B"]["multiply"]
    [{'dimension': 1, 'side': 'right', 'inverse': True, 'transpose': False, 'each': None}]
    """
    own = {spec.name: spec for spec in specs}
    arrays = {entry.name: _array(entry, own[entry.name], action) for entry in action.entries}
    element = {"axes": list(action.group.element_axes), "layout": action.group.layout}
    return {"name": action.name, "group": group_data(action.group), "element": element, "arrays": arrays}


def _array(entry: Entry, spec: ArraySpec, action: Action) -> dict[str, Json]:
    data: dict[str, Json] = {"axes": list(spec.factors)}
    if spec.cuts:
        data["part"] = {"of": whole_name(spec), "cuts": [_cut(cut) for cut in spec.cuts]}
    terms = None if entry.projectors else _terms(entry.expression)
    if terms is not None:
        data |= _multiplied(entry, terms, action) or _added(entry, terms) or _contracted(entry, terms) or {}
    return data | {"formula": entry.text}


def _cut(cut: Cut) -> dict[str, Json]:
    pieces = [list(piece) for piece in cut.pieces]
    return {
        "axis": cut.axis, "pieces": pieces, "index": cut.index,
        "before": list(cut.before), "after": list(cut.after), "stacked": cut.stacked,
    }  # fmt: skip


def _terms(expression: sp.Expr) -> list[_Term] | None:
    """The sum of products that an entry is; nothing where it is made of other functions."""
    if isinstance(expression, sp.Add):
        parts = [_terms(part) for part in expression.args]
        return None if any(part is None for part in parts) else [term for part in parts for term in part or ()]
    if isinstance(expression, sp.Sum):
        inner = _terms(sp.expand_mul(expression.function))
        indices = frozenset(limit[0] for limit in expression.limits)
        if inner is None or any(indices & term.summed for term in inner):
            return None
        return [_Term(term.coefficient, term.factors, term.summed | indices) for term in inner]
    if isinstance(expression, sp.Mul):
        product = [_Term(sp.S.One, (), frozenset())]
        for part in expression.args:
            others = _terms(part)
            if others is None or any(a.summed & b.summed for a in product for b in others):
                return None
            product = [
                _Term(a.coefficient * b.coefficient, a.factors + b.factors, a.summed | b.summed)
                for a in product
                for b in others
            ]
        return product
    if expression.is_number:
        return [_Term(expression, (), frozenset())]
    base, power = expression.as_base_exp()
    if power.is_number and isinstance(base, sp.Indexed):
        return [_Term(sp.S.One, (_Factor(str(base.base), tuple(base.indices), power),), frozenset())]
    if power.is_number and isinstance(base, sp.Symbol):
        return [_Term(sp.S.One, (_Factor(base.name, (), power),), frozenset())]
    return None


def _number(value: AnyArray) -> int | float:
    return int(value) if sp.sympify(value).is_Integer else float(value)


def _multiplied(entry: Entry, terms: list[_Term], action: Action) -> dict[str, Json] | None:
    """One product of the old array with elements, each along a dimension of its own."""
    if len(terms) != 1:
        return None
    (term,) = terms
    old = [f for f in term.factors if f.name == variable(entry.name)]
    elements = [f for f in term.factors if f.name in (ELEMENT, INVERSE)]
    if len(old) != 1 or old[0].power != 1 or len(old) + len(elements) != len(term.factors):
        return None
    turned = {k: pair for k, pair in enumerate(zip(entry.indices, old[0].indices, strict=True)) if pair[0] != pair[1]}
    if {pair[1] for pair in turned.values()} != set(term.summed):
        return None
    steps = [_step(factor, entry, turned, action) for factor in elements]
    places = [step["dimension"] for step in steps if step is not None]
    if None in steps or len(set(places)) < len(places) or not set(turned) <= set(places):
        return None
    coefficient = {} if term.coefficient == 1 else {"factor": _number(term.coefficient)}
    return {"multiply": steps, **coefficient}


def _step(
    factor: _Factor, entry: Entry, turned: Mapping[int, tuple[Any, Any]], action: Action
) -> dict[str, Json] | None:
    """What one element does: along which dimension, from which side, one for each index of which dimension."""
    group, indices = action.group, factor.indices
    each = None
    if count := len(group.each_axes):
        if any(index not in entry.indices for index in indices[:count]) or len(indices) < count:
            return None
        places, indices = [entry.indices.index(index) for index in indices[:count]], indices[count:]
        each = places[0] if count == 1 else places
    if group.layout == "matrix":
        if len(indices) != 2 or factor.power != 1:
            return None
        for k, (new, old) in turned.items():
            if set(indices) == {new, old}:
                last = k == len(entry.indices) - 1 and k > 0
                straight = indices == ((old, new) if last else (new, old))
                return {
                    "dimension": k,
                    "side": "right" if last else "left",
                    "inverse": factor.name == INVERSE,
                    "transpose": not straight,
                    "each": each,
                }
        return None
    power = _number(factor.power if factor.name == ELEMENT else -factor.power)
    if not indices:
        return {"dimension": None, "power": power, "each": each}
    if len(indices) != 1 or indices[0] not in entry.indices:
        return None
    return {"dimension": entry.indices.index(indices[0]), "power": power, "each": each}


def _added(entry: Entry, terms: list[_Term]) -> dict[str, Json] | None:
    """The old array, and a multiple of the element along some of its dimensions."""
    same = [t for t in terms if t.coefficient == 1 and t.factors == (_Factor(variable(entry.name), entry.indices, 1),)]
    others = [t for t in terms if t not in same]
    if len(same) != 1 or len(others) != 1 or len(others[0].factors) != 1 or others[0].summed:
        return None
    (factor,) = others[0].factors
    if factor.name != ELEMENT or factor.power != 1 or not set(factor.indices) <= set(entry.indices):
        return None
    return {
        "add": {
            "dimensions": [entry.indices.index(i) for i in factor.indices],
            "factor": _number(others[0].coefficient),
        }
    }


def _contracted(entry: Entry, terms: list[_Term]) -> dict[str, Json] | None:
    """The terms as NumPy's `einsum` takes them; what a term says nothing of is the same for all its indices."""
    rows = []
    for term in terms:
        labels = dict.fromkeys(i for f in term.factors for i in f.indices)
        if not term.factors or not all(isinstance(i, sp.Symbol) for i in labels):
            return None
        letters = {index: chr(ord("a") + k) for k, index in enumerate(labels)}
        kept = [k for k, index in enumerate(entry.indices) if index in letters]
        spelled = ",".join("".join(letters[i] for i in f.indices) for f in term.factors)
        operands = [
            {"array": _called(f.name)} | ({} if f.power == 1 else {"power": _number(f.power)}) for f in term.factors
        ]
        rows.append(
            {
                "factor": _number(term.coefficient),
                "einsum": f"{spelled}->{''.join(letters[entry.indices[k]] for k in kept)}",
                "operands": operands,
                "dimensions": kept,
            }
        )
    return {"terms": rows}


def _called(name: str) -> str:
    """The operand's name; of a parameter that is called as the element is, the one that the language gives it."""
    return name if name in (ELEMENT, INVERSE) or parameter(name) == ELEMENT else parameter(name)

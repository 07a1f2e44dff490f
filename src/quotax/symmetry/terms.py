"""The terms of an infinitesimal action: bilinear products of an algebra element with one parameter.

Nearly every field of the action language is a sum of products `c xi[...] p[...]`, some indices summed:
`xi[h, l] W[l, x]` for a matrix on an axis, `xi[h] W[h, x]` for a scaling, `xi[x]` alone for a shift, `-W[y, h] xi[h]`
for a shift carried by a weight. What a term is decides which structure its Gram operator has, and which closed forms
apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import sympy as sp

from quotax.symmetry.new_entries.general_entries import TANGENT, Entry, maps_of, parameter

Kind = Literal["matrix", "diagonal", "shift", "carried"]


@dataclass(frozen=True)
class Term:
    """`coefficient * einsum(source, xi)`, added to the velocity of `target`; labels are letters, one per index.

    `source` is `None` where the velocity does not depend on the parameters. Fused axes are taken apart.

    - `matrix`: the source is the target, and `xi` mixes one of its indices; `transposed` when as `xi[l, h] W[l, x]`.
    - `diagonal`: the source is the target, scaled along some of its indices (or along none, by a scalar).
    - `shift`: no source.
    - `carried`: the source is another parameter.
    """

    target: str
    source: str | None
    element: str
    source_labels: str
    target_labels: str
    coefficient: float
    kind: Kind
    position: int | None = None
    transposed: bool = False

    @property
    def subscripts(self) -> str:
        """The `einsum` of source and element."""
        return f"{self.source_labels},{self.element}->{self.target_labels}"

    @property
    def homogeneous(self) -> bool:
        """Whether the velocity is linear in the target itself."""
        return self.kind in ("matrix", "diagonal")


def terms(entries: tuple[Entry, ...]) -> tuple[Term, ...] | None:
    """The terms of an infinitesimal action, or nothing when some part of it is not of this form."""
    found: list[Term] = []
    for entry in entries:
        for summand in _summands(entry.expression):
            term = _read(entry, summand)
            if term is None:
                return None
            found.append(term)
    return tuple(found)


def _summands(expression: sp.Expr) -> list[sp.Expr]:
    """The expression as a list of products under their sums."""
    if isinstance(expression, sp.Sum):
        inner = _summands(sp.expand_mul(expression.function))
        return [sp.Sum(part, *expression.limits) for part in inner]
    expanded = sp.expand_mul(expression)
    if isinstance(expanded, sp.Add):
        return [part for term in expanded.args for part in _summands(term)]
    if isinstance(expanded, sp.Mul) and any(isinstance(factor, sp.Sum) for factor in expanded.args):
        total = next(factor for factor in expanded.args if isinstance(factor, sp.Sum))
        rest = sp.Mul(*(factor for factor in expanded.args if factor is not total))
        if rest.is_number:
            return [sp.Sum(rest * part.function, *part.limits) for part in _summands(total)]
    return [] if expanded == 0 else [expanded]


def _read(entry: Entry, summand: sp.Expr) -> Term | None:
    limits: tuple[sp.Tuple, ...] = ()
    while isinstance(summand, sp.Sum):
        limits, summand = limits + summand.limits, summand.function
    coefficient, element, source = 1.0, None, None
    for factor in sp.Mul.make_args(summand):
        if factor.is_number:
            coefficient *= float(factor)
            continue
        name = factor.base.name if isinstance(factor, sp.Indexed) else getattr(factor, "name", None)
        indices = tuple(factor.indices) if isinstance(factor, sp.Indexed) else ()
        if name is not None and maps_of(name):
            return None
        if name == TANGENT and element is None:
            element = indices
        elif name is not None and source is None and isinstance(factor, sp.Indexed | sp.Symbol):
            source = (parameter(name), indices)
        else:
            return None
    if element is None:
        return None
    summed = tuple(limit[0] for limit in limits)
    used = (*entry.indices, *summed, *element, *(source[1] if source else ()))
    letters = {symbol: chr(ord("a") + i) for i, symbol in enumerate(dict.fromkeys(used))}
    if len(letters) > 26 or not all(isinstance(symbol, sp.Symbol) for symbol in letters):
        return None
    spell = lambda symbols: "".join(letters[symbol] for symbol in symbols)
    if any(len(set(word)) < len(word) for word in (element, entry.indices, source[1] if source else ())):
        return None
    if any(symbol not in element and (source is None or symbol not in source[1]) for symbol in summed):
        return None
    kind, position, transposed = _kind(entry, element, source, summed)
    return Term(
        entry.name,
        source[0] if source else None,
        spell(element),
        spell(source[1]) if source else "",
        spell(entry.indices),
        coefficient,
        kind,
        position,
        transposed,
    )


def _kind(
    entry: Entry,
    element: tuple[sp.Symbol, ...],
    source: tuple[str, tuple[sp.Symbol, ...]] | None,
    summed: tuple[sp.Symbol, ...],
) -> tuple[Kind, int | None, bool]:
    if source is None:
        return "shift", None, False
    name, indices = source
    if name == entry.name and not summed and indices == entry.indices:
        return "diagonal", None, False
    if name == entry.name and len(summed) == 1 and len(indices) == len(entry.indices) and len(element) >= 2:
        places = [i for i, (a, b) in enumerate(zip(indices, entry.indices, strict=True)) if a != b]
        if len(places) == 1 and indices[places[0]] == summed[0]:
            own = entry.indices[places[0]]
            if element[-2:] == (own, summed[0]):
                return "matrix", places[0], False
            if element[-2:] == (summed[0], own):
                return "matrix", places[0], True
    return "carried", None, False

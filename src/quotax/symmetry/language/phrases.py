"""Actions made as values: the words of the language, with the entry that they stand for.

Whoever makes an action by a computation writes its lines here, in words and in SymPy at once; `parsing` reads from the
words the same entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import sympy as sp

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.symmetry.new_entries.general_entries import (
    ELEMENT,
    INVERSE,
    NULL,
    Entry,
    Map,
    entry_of,
    label,
    projector,
    total,
    variable,
    written,
)


@dataclass(frozen=True)
class Phrase:
    """Words with the expression that they stand for; operators write both."""

    text: str
    expression: sp.Expr

    def __mul__(self, other: Phrase) -> Phrase:
        return Phrase(f"{self.text} * {other.text}", self.expression * other.expression)

    def __truediv__(self, other: Phrase) -> Phrase:
        return Phrase(f"{self.text} / {other.text}", self.expression / other.expression)

    def __pow__(self, a: Fraction | int) -> Phrase:
        return Phrase(f"{self.text}**({a})", self.expression ** number(a).expression)

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(f"{self.text} + {other.text}", self.expression + other.expression)

    def __sub__(self, other: Phrase) -> Phrase:
        return Phrase(f"{self.text} - {other.text}", self.expression - other.expression)

    def times(self, a: Fraction) -> Phrase:
        """A multiple."""
        product = number(a) * self
        return product.said(self.text) if a == 1 else product.said(f"-{self.text}") if a == -1 else product

    def under(self, name: str) -> Phrase:
        """A function of it."""
        return Phrase(f"{name}({self.text})", {"exp": sp.exp, "log": sp.log}[name](self.expression))

    def shifted(self, r: Fraction) -> Phrase:
        """The sum with a number, in brackets."""
        return self if not r else (self + number(r) if r > 0 else self - number(-r)).bracketed()

    def bracketed(self) -> Phrase:
        """The same in brackets."""
        return self.said(f"({self.text})")

    def said(self, text: str) -> Phrase:
        """The same in other words."""
        return Phrase(text, self.expression)


def number(a: Fraction | int) -> Phrase:
    """A fraction."""
    text = str(a.numerator) if a.denominator == 1 else f"({a.numerator}/{a.denominator})"
    return Phrase(text, sp.Rational(a.numerator, a.denominator))


class ActionLine:
    """What becomes of one parameter, on its way: its indices, and those that are summed; `plain` without indices."""

    def __init__(self, spec: ArraySpec, plain: bool, centres: Mapping[str, Fraction] | None = None) -> None:
        """Indices named after the axes; parameters with a centre `r` are spoken of as `w + r`."""
        self.spec, self.plain, self.centres = spec, plain, centres or {}
        self.factors: dict[sp.Symbol, AxisFactor] = {}
        self.indices = tuple(self.index(factor) for factor in spec.factors)

    def index(self, factor: AxisFactor, name: str | None = None) -> sp.Symbol:
        """An index; one of a new name, unless that is given."""
        symbol = sp.Symbol(name or label(factor, [known.name for known in self.factors]), integer=True)
        self.factors[symbol] = factor
        return symbol

    def array(self, name: str, indices: Sequence[sp.Symbol]) -> Phrase:
        """An entry of a parameter, with its centre."""
        return self._entry(written(name), variable(name), indices).shifted(self.centres.get(name, Fraction(0)))

    def element(self, indices: Sequence[sp.Symbol], *, inverse: bool = False) -> Phrase:
        """An entry of the group element, or of its inverse."""
        name = INVERSE if inverse else ELEMENT
        return self._entry(name, name, indices)

    def kernel(self, own: Map, indices: Sequence[sp.Symbol]) -> Phrase:
        """An entry of the projector onto the kernel of a parameter, those of its copies first."""
        name = projector([own._replace(parameter=variable(own.parameter))])
        return self._entry(f"{NULL}({written(own.parameter)})", name, indices)

    def _entry(self, words: str, name: str, indices: Sequence[sp.Symbol]) -> Phrase:
        return Phrase(words + self._at(indices), entry_of(sp.IndexedBase(name), tuple(indices)))

    def _at(self, indices: Sequence[sp.Symbol]) -> str:
        return "" if self.plain or not indices else f"[{','.join(map(str, indices))}]"

    @property
    def named(self) -> Phrase:
        """The parameter before, without its centre."""
        return self._entry(written(self.spec.name), variable(self.spec.name), self.indices)

    @property
    def old(self) -> Phrase:
        """The parameter before, with its centre."""
        return self.array(self.spec.name, self.indices)

    def back(self, phrase: Phrase) -> Phrase:
        """What becomes of the parameter, where this becomes of the parameter and its centre."""
        r = self.centres.get(self.spec.name, Fraction(0))
        return phrase - number(r) if r > 0 else phrase + number(-r) if r else phrase

    def summed(self, phrase: Phrase, indices: Sequence[sp.Symbol]) -> Phrase:
        """The sum over indices, which goes without saying."""
        return Phrase(phrase.text, total(phrase.expression, tuple(indices), self.factors))

    def becomes(self, phrase: Phrase) -> tuple[str, Entry]:
        """The line, under its key."""
        entry = Entry(self.spec.name, self.indices, self.factors, phrase.expression, phrase.text)
        return self.spec.name + self._at(self.indices), entry

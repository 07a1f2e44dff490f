"""The general entry of a transformed parameter: what every way of stating an action becomes.

An `Entry`'s expression is made of `Indexed` entries of the parameters and of the group element `g` (and of `inv(g)`),
with explicit `Sum`s. SymPy differentiates and prints it; `reading` evaluates it on arrays of any kind. Fused axes are
taken apart: `head*k` has two indices here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import sympy as sp

from quotax.artifacts import AxisFactor

ELEMENT = "g"
INVERSE = "inv(g)"
TANGENT = "xi"
"""The names that the group element, its inverse and an element of the Lie algebra have in entries."""

NULL = "null"
"""The word for the projector onto the kernel of parameters."""

RESERVED = frozenset({ELEMENT, "inv", "exp", "log"})
"""The words of the language, which name a parameter only as `p.g`."""


@dataclass(frozen=True)
class Entry:
    """The general entry of one transformed parameter.

    `indices` are its index symbols, one per axis factor; `factors` says what each of them, and each summed index,
    runs over.
    """

    name: str
    indices: tuple[sp.Symbol, ...]
    factors: Mapping[sp.Symbol, AxisFactor] = field(hash=False)
    expression: sp.Expr
    text: str

    @property
    def named(self) -> frozenset[str]:
        """The names in its formula that are no indices: those of all parameters that it is made of, and others."""
        symbols = [str(s) for s in self.expression.free_symbols if isinstance(s, sp.Symbol) and not s.is_integer]
        maps = [own.parameter for name in symbols for own in maps_of(name)]
        return frozenset(parameter(name) for name in symbols if not maps_of(name)).union(maps)

    @property
    def projectors(self) -> frozenset[str]:
        """The names of the projectors onto kernels in its formula."""
        names = (str(s) for s in self.expression.free_symbols if isinstance(s, sp.Symbol))
        return frozenset(name for name in names if maps_of(name))


class Map(NamedTuple):
    """A parameter as a linear map from one of its axes to the others, one for each index of its axes at `copies`."""

    parameter: str
    axis: int
    copies: tuple[int, ...]


def projector(maps: Sequence[Map]) -> str:
    r"""The name in entries of the projector onto what these maps all send to zero, $1 - A^+ A$ of them together.

    >>> projector([Map("V", 1, ())]), maps_of(projector([Map("V", 2, (0,))]))
    ('null V@1@', (Map(parameter='V', axis=2, copies=(0,)),))
    """
    return " ".join((NULL, *(f"{p}@{axis}@{'-'.join(map(str, copies))}" for p, axis, copies in maps)))


def maps_of(name: str) -> tuple[Map, ...]:
    """The maps of the projector of this name; none where it is another name."""
    word, *written_maps = name.split(" ")
    if word != NULL or not written_maps:
        return ()
    parts = (one.split("@") for one in written_maps)
    return tuple(Map(p, int(axis), tuple(int(c) for c in copies.split("-") if c)) for p, axis, copies in parts)


def degree(expression: sp.Basic) -> float:
    """The degree of an entry as a polynomial in the parameters, or a bound on it; infinite where it may be none.

    >>> W, g, i = sp.IndexedBase("W"), sp.IndexedBase("g"), sp.Symbol("i")
    >>> [degree(each) for each in (g[i] * W[i] + 1, W[i] ** 2 * g[i], sp.exp(W[i]), g[i] / W[i])]
    [1, 2, inf, inf]
    """
    if isinstance(expression, sp.Indexed | sp.Symbol):
        name = str(expression.base if isinstance(expression, sp.Indexed) else expression)
        if maps_of(name):
            return math.inf
        return int(name not in (ELEMENT, INVERSE, TANGENT))
    if isinstance(expression, sp.Sum):
        return degree(expression.function)
    below = [degree(part) for part in expression.args]
    if isinstance(expression, sp.KroneckerDelta) or not any(below):
        return 0
    if isinstance(expression, sp.Add):
        return max(below)
    if isinstance(expression, sp.Mul):
        return sum(below)
    if isinstance(expression, sp.Pow) and expression.exp.is_Integer and int(expression.exp) > 0:
        return int(expression.exp) * below[0]
    return math.inf


def variable(parameter: str) -> str:
    """The name that a parameter has in entries: its own, unless the language uses that."""
    return f"p.{parameter}" if parameter in (ELEMENT, TANGENT) else parameter


def written(parameter: str) -> str:
    """How an action names a parameter: by its name, or as `p.name` where the language uses that."""
    return f"p.{parameter}" if parameter in RESERVED else parameter


def parameter(variable: str) -> str:
    """The parameter that a name in entries stands for."""
    plain = variable.removeprefix("p.")
    return plain if plain in (ELEMENT, TANGENT) else variable


def label(factor: AxisFactor, taken: Collection[str]) -> str:
    """A name for an index, after its axis."""
    base = factor if isinstance(factor, str) and factor not in (*RESERVED, "p") else "i"
    return next(name for name in (base, *(f"{base}{i}" for i in range(1, 99))) if name not in taken)


def extent(factor: AxisFactor) -> sp.Expr:
    """The number of values of an index, as SymPy writes it in the limits of a sum."""
    return sp.Integer(factor) if isinstance(factor, int) else sp.Symbol(factor, integer=True, positive=True)


def entry_of(base: sp.IndexedBase, indices: tuple[sp.Symbol, ...]) -> sp.Expr:
    """An entry of an array; a scalar is a plain symbol."""
    return sp.Indexed(base, *indices) if indices else sp.Symbol(base.name)


def total(term: sp.Expr, summed: Sequence[sp.Symbol], factors: Mapping[sp.Symbol, AxisFactor]) -> sp.Expr:
    """The sum of `term` over these indices."""
    if not summed:
        return term
    return sp.Sum(term, *((symbol, 0, extent(factors[symbol]) - 1) for symbol in summed))

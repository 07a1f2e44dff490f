"""A claim in the laws domain: parameters and inputs as atoms, and the action as polynomials in them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import sympy as sp

from quotax.artifacts import ArraySpec, AxisFactor, Trace
from quotax.interpret.laws import indices as ix
from quotax.interpret.laws.algebra import Algebra, Poly
from quotax.interpret.laws.elements import Element
from quotax.interpret.laws.indices import Index, Range
from quotax.interpret.laws.pointwise import exponential, logarithm
from quotax.interpret.laws.tensors import Dims, NoLaw, Tensor, flat, free_indices, place
from quotax.symmetry import (
    ELEMENT,
    INVERSE,
    ComplexScaling,
    Diagonal,
    Entry,
    Group,
    O,
    Permutation,
    PositiveDiagonal,
    SignFlip,
    variable,
)

_SUMMED = 60_000
"""Places of the summed indices of an entry, away from those of dimensions."""


def ranges(traces: tuple[Trace, ...], axes: tuple[str, ...]) -> dict[str, Range]:
    """The range of every named axis."""
    return {axis: tuple(t.sizes[axis] for t in traces) for axis in axes}


def element_of(group: Group, sizes: Mapping[str, Range]) -> Element:
    """What the laws domain needs to know of a group."""
    each = sizes[group.each] if group.each else None
    axis = sizes[group.axis] if group.axis else None
    pairs = "adjacent"
    if isinstance(group, ComplexScaling):
        kind, pairs = "complex", group.pairs
    elif isinstance(group, Permutation):
        kind = "permutation"
    elif isinstance(group, O):
        kind = "orthogonal"
    elif group.layout == "matrix":
        kind = "general"
    elif group.layout == "vector":
        kind = "vector"
    elif isinstance(group, SignFlip):
        kind = "sign"
    elif isinstance(group, PositiveDiagonal) and not isinstance(group, Diagonal):
        kind = "positive"
    else:
        kind = "nonzero"
    return Element(kind, each, axis, pairs)


def dims_of_spec(spec: ArraySpec, sizes: Mapping[str, Range], traces: int) -> tuple[Dims, list[list[Range]]]:
    """The dimensions of an array, and for each all factors, also those of size one."""
    full = [[_range(f, sizes, traces) for f in axis] for axis in spec.axes]
    return tuple(tuple(r for r in axis if not ix.trivial(r)) for axis in full), full


def _range(factor: AxisFactor, sizes: Mapping[str, Range], traces: int) -> Range:
    return (factor,) * traces if isinstance(factor, int) else sizes[factor]


def array(algebra: Algebra, spec: ArraySpec, sizes: Mapping[str, Range], traces: int, parameter: bool) -> Tensor:
    """A parameter or an input as a tensor that nothing moves."""
    dims, _ = dims_of_spec(spec, sizes, traces)
    labels = flat(free_indices(dims))
    slots = [label[2] for label in labels]
    kind, sign, data = "parameter" if parameter else "input", "real", None
    if spec.kind == "tokens":
        assert spec.below is not None
        kind, sign, data = "tokens", "nonnegative", _range(spec.below, sizes, traces)
    elif spec.kind == "mask":
        sign = "boolean"
    made = algebra.atom((kind, spec.name), kind, spec.name, slots, sign=sign, data=data)
    poly: Poly = {((made.number, tuple(labels), 1),): Fraction(1)}
    return Tensor(dims, poly, poly)


def moved(
    algebra: Algebra, element: Element, entry: Entry, params: Mapping[str, Tensor], specs: Mapping[str, ArraySpec],
    sizes: Mapping[str, Range], traces: int,
) -> Poly:  # fmt: skip
    """What the action makes of a parameter, in the free indices of its dimensions."""
    _, full = dims_of_spec(specs[entry.name], sizes, traces)
    names: dict[sp.Symbol, Index] = {}
    symbols = iter(entry.indices)
    for d, axis in enumerate(full):
        kept = 0
        for extent in axis:
            symbol = next(symbols)
            if ix.trivial(extent):
                names[symbol] = ix.fixed(0, extent)
            else:
                names[symbol] = place(d, kept, extent)
                kept += 1
    reader = _Reader(algebra, element, params, entry, sizes, traces)
    return reader.visit(sp.sympify(entry.expression), names)


class _Reader:
    """An entry's expression as a polynomial."""

    def __init__(
        self, algebra: Algebra, element: Element, params: Mapping[str, Tensor], entry: Entry,
        sizes: Mapping[str, Range], traces: int,
    ) -> None:  # fmt: skip
        self.algebra, self.element, self.entry = algebra, element, entry
        self.params = {variable(name): value for name, value in params.items()}
        self.sizes, self.traces = sizes, traces
        self.count = 0

    def visit(self, expression: sp.Expr, names: Mapping[sp.Symbol, Index]) -> Poly:
        algebra = self.algebra
        if expression.is_Rational:
            value = Fraction(int(expression.p), int(expression.q))
            return {(): value} if value else {}
        if expression.is_number:
            return algebra.number([float(expression)] * self.traces)
        if isinstance(expression, sp.Symbol):
            return self.array(expression.name, ())
        if isinstance(expression, sp.Indexed):
            return self.array(expression.base.name, tuple(names[i] for i in expression.indices))
        if isinstance(expression, sp.KroneckerDelta):
            left, right = (names[i] for i in expression.args)
            return algebra.normal(1, [algebra.delta(left, right)])
        if isinstance(expression, sp.Add):
            out: Poly = {}
            for part in expression.args:
                out = algebra.add(out, self.visit(part, names))
            return out
        if isinstance(expression, sp.Mul):
            out = {(): Fraction(1)}
            for part in expression.args:
                out = algebra.multiply(out, self.visit(part, names))
            return out
        if isinstance(expression, sp.Sum):
            return self.total(expression, names)
        if isinstance(expression, sp.Pow) and expression.exp.is_Rational:
            return self.power(self.visit(expression.base, names), expression.exp)
        if isinstance(expression, sp.exp):
            return exponential(algebra, self.visit(expression.args[0], names))
        if isinstance(expression, sp.log):
            inner = self.visit(expression.args[0], names)
            if len(inner) == 1:
                ((term, coefficient),) = inner.items()
                positive = all(algebra.atoms[a].sign == "positive" for a, _, _ in term)
                found = logarithm(algebra, coefficient, term, self.traces) if positive and coefficient > 0 else None
                if found is not None and not algebra.bound_in(term):
                    return found
        raise NoLaw(f"the action of {self.entry.name!r} is not polynomial in g: {self.entry.text}")

    def array(self, name: str, at: tuple[Index, ...]) -> Poly:
        if name in (ELEMENT, INVERSE):
            return self.element.entry(self.algebra, at, name == INVERSE)
        value = self.params[name]
        ((term, _),) = value.plain.items()
        number = term[0][0]
        kept = tuple(i for i in at if not (i[0] == ix.FIXED and ix.trivial(i[2])))
        return self.algebra.normal(1, [(number, kept, 1)])

    def total(self, expression: sp.Sum, names: Mapping[sp.Symbol, Index]) -> Poly:
        inner = dict(names)
        labels = []
        for symbol, *_ in expression.limits:
            extent = _range(self.entry.factors[symbol], self.sizes, self.traces)
            if ix.trivial(extent):
                inner[symbol] = ix.fixed(0, extent)
                continue
            inner[symbol] = place(_SUMMED + self.count, 0, extent)
            self.count += 1
            labels.append(inner[symbol])
        return self.algebra.total(self.visit(expression.function, inner), labels)

    def power(self, base: Poly, exponent: sp.Rational) -> Poly:
        power = Fraction(int(exponent.p), int(exponent.q))
        whole = power.denominator == 1
        if len(base) == 1:
            ((term, coefficient),) = base.items()
            positive = coefficient > 0 and all(self.algebra.atoms[a].sign == "positive" for a, _, _ in term)
            if not self.algebra.bound_in(term) and (whole or positive):
                number: Poly = (
                    {(): coefficient ** int(power)}
                    if whole
                    else self.algebra.number([float(coefficient) ** float(power)] * self.traces)
                )
                return self.algebra.multiply(
                    number, self.algebra.normal(1, [(a, at, p * (int(power) if whole else power)) for a, at, p in term])
                )
        if whole and 0 < power <= 6:
            out: Poly = {(): Fraction(1)}
            for _ in range(int(power)):
                out = self.algebra.multiply(out, base)
            return out
        raise NoLaw(f"the action of {self.entry.name!r} has a power that is no monomial: {self.entry.text}")

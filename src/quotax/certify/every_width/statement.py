"""A claim in the kernel's words: the group element, and what the action makes of each parameter as a polynomial."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from fractions import Fraction

import sympy as sp

from quotax.artifacts import ArraySpec, AxisFactor, Model
from quotax.interpret.laws.tensors import NoLaw
from quotax.kernel.atoms import Exact, Factor, Real
from quotax.kernel.elements import Element
from quotax.kernel.indices import CLAIMED, Fixed, Free, Index
from quotax.kernel.polynomials import UNIT, Algebra, Poly, slot
from quotax.kernel.projectors import Projector
from quotax.kernel.sheet import Sheet
from quotax.kernel.sizes import ONE, ZERO, Size
from quotax.kernel.transformation import exponential, logarithm
from quotax.symmetry import ELEMENT, INVERSE, Action, Entry, variable
from quotax.symmetry.new_entries.general_entries import maps_of

Sizes = Mapping[str, Size]


def element_of(action: Action, sheet: Sheet, model: Model, sizes: Sizes) -> Element:
    """What the kernel needs to know of a group, and of the projectors beside its element."""
    group = action.group
    each = tuple(sizes[axis] for axis in group.each_axes)
    axis = sizes[group.axis] if group.axis else None
    specs = {variable(spec.name): spec for spec in model.params}
    projectors = tuple(_projector(name, sheet, specs, sizes) for name in action.projectors)
    return dataclasses.replace(group.element(each, axis), projectors=projectors)


def _projector(name: str, sheet: Sheet, specs: Mapping[str, ArraySpec], sizes: Sizes) -> Projector:
    """A projector onto the kernel of parameters; a factor of size one has no slot.

    Of a parameter whose atom is another array, `w + r`, nothing is known.
    """
    maps, slots = [], ()
    for own in maps_of(name):
        spec = specs[own.parameter]
        extents = [_extent(factor, sizes) for factor in spec.factors]
        slot_of = dict(zip((k for k, e in enumerate(extents) if e != ONE), itertools.count(), strict=False))
        copies = tuple(slot_of[k] for k in own.copies if k in slot_of)
        if spec.name not in sheet.centres:
            maps.append((sheet.parameters[spec.name], slot_of.get(own.axis), copies))
        slots = tuple(extents[k] for k in (*own.copies, own.axis, own.axis) if k in slot_of)
    return Projector(name, tuple(maps), slots)


def claimed(
    sheet: Sheet, algebra: Algebra, action: Action, element: Element, model: Model, sizes: Sizes
) -> dict[str, Poly]:
    """What the action makes of the parameters that it names, in the slots of their atoms."""
    specs = {spec.name: spec for spec in model.params}
    numbers = {variable(name): number for name, number in sheet.parameters.items()}
    return {
        entry.name: _Reader(algebra, element, numbers, _centred(entry, sheet.centres), sizes).image(specs[entry.name])
        for entry in action.entries
    }


def _centred(entry: Entry, centres: Mapping[str, Fraction]) -> Entry:
    """What becomes of `w + r`, in terms of such sums: `(w + r) -> A(w) + r` with `w = (w + r) - r`."""
    if not centres:
        return entry
    at = {variable(name): sp.Rational(r.numerator, r.denominator) for name, r in centres.items()}
    expression = sp.sympify(entry.expression)
    named = lambda atom: atom.base.name if isinstance(atom, sp.Indexed) else atom.name
    arrays = [atom for atom in expression.atoms(sp.Indexed, sp.Symbol) if not (atom.is_Symbol and atom.is_integer)]
    old = {atom: atom - at[named(atom)] for atom in arrays if named(atom) in at}
    moved = expression.xreplace(old) + at.get(variable(entry.name), sp.S.Zero)
    return dataclasses.replace(entry, expression=moved)


def _extent(factor: AxisFactor, sizes: Sizes) -> Size:
    return Size.of(factor) if isinstance(factor, int) else sizes[factor]


class _Reader:
    """An entry's expression as a polynomial."""

    def __init__(
        self, algebra: Algebra, element: Element, numbers: Mapping[str, int], entry: Entry, sizes: Sizes
    ) -> None:
        self.algebra, self.element, self.entry = algebra, element, entry
        self.numbers, self.sizes = numbers, sizes
        self.count = 0

    def image(self, spec: ArraySpec) -> Poly:
        """What the parameter becomes; a factor of size one has no slot."""
        names: dict[sp.Symbol, Index] = {}
        kept = 0
        symbols = iter(self.entry.indices)
        for factor in spec.factors:
            symbol, extent = next(symbols), _extent(factor, self.sizes)
            if extent == ONE:
                names[symbol] = Fixed(ZERO, ONE)
            else:
                names[symbol] = slot(kept, extent)
                kept += 1
        return self.visit(sp.sympify(self.entry.expression), names)

    def visit(self, expression: sp.Expr, names: Mapping[sp.Symbol, Index]) -> Poly:
        algebra = self.algebra
        if expression.is_Rational:
            value = Fraction(int(expression.p), int(expression.q))
            return {(): value} if value else {}
        if expression.is_number:
            sign = "positive" if expression.is_positive else "real"
            made = algebra.atoms.make(("real", expression), Real(expression), str(expression), (), sign=sign)
            return algebra.entry(made, ())
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
            out = UNIT
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
                positive = coefficient > 0 and all(algebra.atoms[a].sign == "positive" for a, _, _ in term)
                found = logarithm(algebra, coefficient, term) if positive else None
                if found is not None and not algebra.bound_in(term):
                    return found
        raise NoLaw(f"the action of {self.entry.name!r} is not polynomial in g: {self.entry.text}")

    def array(self, name: str, at: tuple[Index, ...]) -> Poly:
        if name in (ELEMENT, INVERSE):
            return self.element.entry(self.algebra, at, name == INVERSE)
        kept = tuple(i for i in at if not (isinstance(i, Fixed) and i.extent == ONE))
        for projector in self.element.projectors:
            if projector.name == name:
                return self.algebra.entry(projector.atom(self.algebra.atoms), kept)
        if name not in self.numbers:
            raise NoLaw(f"the action of {self.entry.name!r} reads {name}, which is no array of the model")
        return self.algebra.normal(1, [Factor(self.numbers[name], kept, 1)])

    def total(self, expression: sp.Sum, names: Mapping[sp.Symbol, Index]) -> Poly:
        inner = dict(names)
        summed: list[Index] = []
        for symbol, *_ in expression.limits:
            extent = _extent(self.entry.factors[symbol], self.sizes)
            if extent == ONE:
                inner[symbol] = Fixed(ZERO, ONE)
                continue
            self.count += 1
            inner[symbol] = Free((CLAIMED, self.count), extent)
            summed.append(inner[symbol])
        return self.algebra.total(self.visit(expression.function, inner), summed)

    def power(self, base: Poly, exponent: sp.Rational) -> Poly:
        power = Fraction(int(exponent.p), int(exponent.q))
        whole = power.denominator == 1
        if len(base) == 1:
            ((term, coefficient),) = base.items()
            positive = coefficient > 0 and all(self.algebra.atoms[a].sign == "positive" for a, _, _ in term)
            if not self.algebra.bound_in(term) and (whole or positive):
                number: Poly = {(): coefficient ** int(power)} if whole else self.algebra.root(coefficient, power)
                exact: Exact = int(power) if whole else power
                return self.algebra.multiply(
                    number, self.algebra.normal(1, [Factor(a, at, p * exact) for a, at, p in term])
                )
        if whole and 0 < power <= 6:
            out = UNIT
            for _ in range(int(power)):
                out = self.algebra.multiply(out, base)
            return out
        raise NoLaw(f"the action of {self.entry.name!r} has a power that is no monomial: {self.entry.text}")

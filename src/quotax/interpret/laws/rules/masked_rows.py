r"""What a mask leaves: where a sum of exponentials of masked scores is positive.

$\sum_s e^{z_{ts}}$ is zero where every $z_{ts}$ of the row is minus infinity and positive elsewhere. Where scores are
infinite is said by the predicates of their masks, so a row is a sum of truth values: it has something left if one of
them is one at some place. For a causal triangle that is the diagonal, $t \le t$. Of predicates that inputs decide it is
assumed, for the inputs that the claim is about: nothing else can make such a row empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sympy as sp

from quotax.interpret.laws.rules.positions import decided
from quotax.interpret.laws.writing import Writer
from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Atom, Factor, Function, Term
from quotax.kernel.indices import Fixed, Free, Index
from quotax.kernel.polynomials import UNIT, Algebra, Poly, fraction
from quotax.kernel.rewriting import constant
from quotax.kernel.sheet import definitions, infinite, made_of, node
from quotax.kernel.sizes import Size

MASKED = "masked"
"""How the functions that a choice next to an infinity is begin their names."""
_TOKENS = (0, 1, 2)
"""Inputs that are one of these everywhere are tried for some that leave something in every row."""
_PLACES = 200
"""So many places are tried for one at which a predicate is true."""
_RELATIONS = {sp.StrictGreaterThan: "gt", sp.GreaterThan: "ge", sp.StrictLessThan: "lt", sp.LessThan: "le"} | {
    sp.Equality: "eq", sp.Unequality: "ne"
}  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """A truth value at free indices, and those of them that any place will do for."""

    poly: Poly
    anywhere: tuple[Free, ...] = ()


Row = tuple[Shown, ...]
"""A row has something left where one of these is true at some place."""


def masked_name(hidden: int, level: float) -> str:
    """The name of `where(p, z, level)` (hidden 0) or `where(p, level, z)` (hidden 1)."""
    return f"{MASKED}{hidden}_{'nan' if level != level else level}"


def left_over(writer: Writer, poly: Poly) -> bool | None:
    """Whether a sum is positive: proved (True), or wherever masks that inputs decide leave something (False).

    None where it is not known to be a sum of exponentials and truth values, where masks depend on anything else, or
    where no inputs are seen to leave something in every row: of what never happens everything is true.
    """
    reader = _Reader(writer)
    row = reader.positive(poly)
    return None if row is None else _decided(reader, (row, *reader.rows))


def has_values(writer: Writer, poly: Poly) -> bool | None:
    """Whether an exponent is a number or minus infinity everywhere, its maxima numbers; answers as `left_over` does."""
    reader = _Reader(writer)
    return None if reader.finite(poly, 1) is None else _decided(reader, tuple(reader.rows))


def _decided(reader: _Reader, rows: Sequence[Row]) -> bool | None:
    writer = reader.writer
    if all(map(reader.certain, rows)):
        return True
    if not all(_of_inputs(writer.algebra, seen.poly) for each in rows for seen in each):
        return None
    for mask, token in itertools.product((1, 0), _TOKENS):
        reader.inputs = {"mask": mask, "token": token}
        if all(map(reader.certain, rows)):
            writer.emptied = writer.emptied or "sometimes"
            return False
    writer.emptied = "always"
    return None


def of_inputs(atom: Atom) -> bool:
    """Whether an atom is a position, a number, or an input of integers or truth values."""
    if isinstance(atom.what, kinds.Input):
        return atom.sign == "boolean"
    given = kinds.TokenInput | kinds.Ramp | kinds.Extent | kinds.Delta | kinds.Order | kinds.Window
    return isinstance(atom.what, given | kinds.Constant | kinds.Rational | kinds.Real) or bool(definitions(atom))


def _of_inputs(algebra: Algebra, poly: Poly) -> bool:
    return all(map(of_inputs, made_of(algebra, [poly])))


@dataclass
class _Reader:
    writer: Writer
    rows: list[Row] = field(default_factory=list)
    """The rows of the maxima that were met: each has to have something left, or the maximum is no number."""
    inputs: Mapping[str, int] = field(default_factory=dict)
    """What masks and tokens are everywhere, where that is supposed."""

    @property
    def algebra(self) -> Algebra:
        return self.writer.algebra

    # --- where sums are positive, and exponents finite

    def positive(self, poly: Poly) -> Row | None:
        """Where a sum of terms none of which is negative is positive."""
        out: list[Shown] = []
        for term, coefficient in poly.items():
            if coefficient < 0:
                return None
            factors, away = self._opened(term)
            row: Row = (Shown(UNIT, away),)
            for factor in factors:
                own = self._positive_factor(factor)
                if own is None:
                    return None
                row = tuple(
                    Shown(self.algebra.multiply(one.poly, two.poly), (*one.anywhere, *two.anywhere))
                    for one, two in itertools.product(row, own)
                )
            out += row
        return tuple(out)

    def _opened(self, term: Term) -> tuple[list[Factor], tuple[Free, ...]]:
        bound = self.algebra.bound_in(term)
        away = tuple(self.writer.fresh(i.extent) for i in bound)
        opened: dict[Index, Index] = dict(zip(bound, away, strict=True))
        return [f._replace(at=tuple(ix.replaced(i, opened) for i in f.at)) for f in term], away

    def _positive_factor(self, factor: Factor) -> Row | None:
        number, at, power = factor
        atom = self.algebra.atoms[number]
        if atom.sign == "positive":
            return (Shown(UNIT),)
        if power <= 0:
            return None
        if atom.sign == "boolean":
            return (Shown(self.algebra.entry(atom, at)),)
        if isinstance(atom.what, kinds.NamedSum):
            return self.positive(self.algebra.at(atom.what.poly, at))
        if isinstance(atom.what, kinds.Application) and _exponential(atom.what.function):
            finite = self.finite(self.algebra.at(atom.what.arguments[0], at), 1)
            return None if finite is None else (Shown(finite),)
        return None

    def finite(self, poly: Poly, sign: int) -> Poly | None:
        """Where `sign` times a polynomial is a number: a truth value; elsewhere it is minus infinity."""
        out = UNIT
        for term, coefficient in poly.items():
            here = [f for f in term if infinite(self.algebra, [{(f,): UNIT[()]}])]
            if not here:
                continue
            rest = [f for f in term if f is not here[0]]
            scaled = all(self.algebra.atoms[f.atom].sign == "positive" for f in rest)
            if len(here) > 1 or here[0].power != 1 or not scaled or self.algebra.bound_in(term):
                return None
            found = self._finite_factor(here[0], sign if coefficient > 0 else -sign)
            if found is None:
                return None
            out = self.algebra.multiply(out, found)
        return out

    def _finite_factor(self, factor: Factor, sign: int) -> Poly | None:
        algebra, (number, at, _) = self.algebra, factor
        match algebra.atoms[number].what:
            case kinds.NamedSum(poly):
                return self.finite(algebra.at(poly, at), sign)
            case kinds.Infinite(value):
                array = sign * np.asarray(value, np.float64)
                if np.any(np.isnan(array) | (array == np.inf)):
                    return None
                return algebra.substituted(constant(algebra, (array > -np.inf).astype(int), at))
            case kinds.Application(Function(expression=expression), (z, p), _) if expression.func.__name__ in (
                masked_name(0, -sign * np.inf), masked_name(1, -sign * np.inf)
            ):  # fmt: skip
                shown = algebra.at(p, at)
                if expression.func.__name__.startswith(f"{MASKED}1"):
                    shown = algebra.add(UNIT, shown, -1)
                inner = self.finite(algebra.at(z, at), sign)
                return None if inner is None else algebra.multiply(shown, inner)
            case kinds.Reduction(name="max", touched=touched, new=(), definition=definition):
                away = tuple(self.writer.fresh(i.extent) for i in touched)
                here = algebra.substitute(algebra.at(definition, at), dict(zip(touched, away, strict=True)))
                inner = self.finite(here, 1)
                if inner is None:
                    return None
                self.rows.append((Shown(inner, away),))
                return UNIT
            case _:
                return None

    # --- rows that are seen to have something left

    def certain(self, row: Row) -> bool:
        """Whether one of the truth values is one at some place, which may depend on the free indices."""
        return any(self._somewhere(seen) for seen in row)

    def _somewhere(self, seen: Shown) -> bool:
        algebra = self.algebra
        present = set(algebra.free_in(seen.poly))
        away = [i for i in seen.anywhere if i in present]
        if not all(i.extent.positive for i in seen.anywhere):
            return False
        fixed = sorted(present - set(away), key=ix.order)
        choices: list[list[Index]] = [
            [*(j for j in fixed if j.extent == i.extent), *_ends(i.extent)] for i in away
        ]  # fmt: skip
        for places in itertools.islice(itertools.product(*choices), _PLACES):
            if self._valued(algebra.substitute(seen.poly, dict(zip(away, places, strict=True)))) == UNIT:
                return True
        return False

    def _valued(self, poly: Poly) -> Poly:
        """The polynomial with comparisons that are known at its places."""
        algebra = self.algebra
        out: Poly = {}
        for term, coefficient in poly.items():
            product: Poly = {(): coefficient}
            if algebra.bound_in(term) or any(f.power < 1 for f in term):
                product = {term: coefficient}
            else:
                for factor in term:
                    product = algebra.multiply(product, self._valued_factor(factor))
            out = algebra.add(out, product)
        return out

    def _valued_factor(self, factor: Factor) -> Poly:
        algebra, (number, at, power) = self.algebra, factor
        atom = algebra.atoms[number]
        match atom.what:
            case kinds.NamedSum(poly) if power == 1:
                return self._valued(algebra.at(poly, at))
            case kinds.Application(function, args, True):
                here = [self._valued(algebra.at(a, at)) for a in args]
                known = _known(algebra, function, here)
                if known is not None:
                    return UNIT if known else {}
                return node(algebra, function, here, True)
            case kinds.Input() if atom.sign == "boolean" and "mask" in self.inputs:
                return algebra.scale(UNIT, self.inputs["mask"])
            case kinds.TokenInput(below) if "token" in self.inputs and not below.minus(self.inputs["token"]).positive:
                return algebra.normal(1, [factor])
            case kinds.TokenInput() if "token" in self.inputs:
                return algebra.scale(UNIT, self.inputs["token"])
            case kinds.Constant(array) if power == 1 and len(set(at)) < len(at):
                return algebra.substituted(_along_diagonals(algebra, array, at))
            case _:
                return algebra.normal(1, [factor])


def _ends(extent: Size) -> list[Index]:
    return [Fixed(Size.of(0), extent), Fixed(extent.minus(1), extent)]


def _exponential(function: Function) -> bool:
    """Whether a function is zero at minus infinity alone."""
    (z,) = function.symbols if len(function.symbols) == 1 else (None,)
    return z is not None and function.expression in (sp.exp(z), sp.Integer(2) ** z)


def _known(algebra: Algebra, function: Function, args: Sequence[Poly]) -> bool | None:
    """What a comparison of positions is, where the function is one that is linear in them."""
    expression = function.expression
    if not isinstance(expression, sp.Piecewise) or len(expression.args) != 2:
        return None
    (yes, condition), (no, otherwise) = expression.args
    name = _RELATIONS.get(type(condition))
    if name is None or (yes, no) != (1, 0) or otherwise != sp.true:
        return None
    apart = sp.Poly(condition.lhs - condition.rhs, *function.symbols)
    if apart.total_degree() > 1 or not all(c.is_Rational for c in apart.coeffs()):
        return None
    poly = algebra.scale(UNIT, fraction(apart.coeff_monomial(1)))
    for z, arg in zip(function.symbols, args, strict=True):
        poly = algebra.add(poly, arg, fraction(apart.coeff_monomial(z)))
    return decided(algebra, name, poly, {})


def _along_diagonals(algebra: Algebra, array: np.ndarray, at: Sequence[Index]) -> Poly:
    """An array of numbers at indices some of which are the same."""
    distinct = list(dict.fromkeys(at))
    letters = [distinct.index(i) for i in at]
    return constant(algebra, np.einsum(array, letters, list(range(len(distinct)))), distinct)

"""The Lie algebra that the fields found span: closure, structure constants, centre, radical, in exact rationals.

A field is kept as Laurent polynomials, `{(component, monomial): coefficient}`. Monomials are independent as functions,
so that equality of fields is equality of coefficients, and nothing below is approximate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import sympy as sp
from flint import fmpq, fmpq_mat

from quotax.errors import SymmetryError
from quotax.presenting import Result

Monomial = tuple[tuple[int, Fraction], ...]
"""(variable, exponent) in the order of the variables."""
Terms = dict[tuple[int, Monomial], Fraction]
"""A vector field: the coefficient of each monomial in each component."""
Constants = dict[tuple[int, int, int], Fraction]
"""`c[k, i, j]` where [X_i, X_j] = sum_k c[k, i, j] X_k; what is not there is zero."""

LARGEST = 400
"""More independent fields than this are refused: the structure is the same at smaller sizes."""


@dataclass(frozen=True, repr=False)
class Structure(Result):
    """What the brackets of independent fields say, at stated sizes.

    `basis` are the fields that coordinates refer to. When brackets leave the span (`closed` is False, `leaves` is the
    first pair that does), there is no algebra to speak of and the other numbers are None.
    """

    sizes: Mapping[str, int]
    dimension: int
    closed: bool
    constants: Constants = field(repr=False, default_factory=dict)
    centre_basis: tuple[tuple[Fraction, ...], ...] | None = field(repr=False, default=None)
    derived: int | None = None
    semisimple: int | None = None
    killing_rank: int | None = None
    leaves: tuple[int, int] | None = None
    basis: tuple[dict[sp.Symbol, sp.Expr], ...] = field(repr=False, compare=False, default=())

    @property
    def centre(self) -> int | None:
        """The dimension of what commutes with everything; `centre_basis` has its coordinates."""
        return None if self.centre_basis is None else len(self.centre_basis)

    @property
    def radical(self) -> int | None:
        """The dimension of the largest solvable ideal."""
        return None if self.semisimple is None else self.dimension - self.semisimple

    @property
    def abelian(self) -> bool:
        """Whether all brackets vanish."""
        return self.closed and not self.constants

    @property
    def reductive(self) -> bool:
        """Whether the algebra is its centre and a semisimple algebra side by side."""
        return self.closed and self.radical == self.centre

    def __str__(self) -> str:
        """One line."""
        where = f" at {', '.join(f'{a}={n}' for a, n in self.sizes.items())}" if self.sizes else ""
        if not self.closed:
            return (
                f"{self.dimension} fields{where}, not closed: the bracket of fields {self.leaves} is not in their span"
            )
        kind = "abelian" if self.abelian else "reductive" if self.reductive else f"radical {self.radical}"
        return (
            f"Lie algebra of dimension {self.dimension}{where}, {kind}: centre {self.centre}, derived {self.derived}, "
            f"semisimple part {self.semisimple}, Killing form of rank {self.killing_rank}"
        )


def structure(generators: Sequence[Mapping[sp.Symbol, sp.Expr]], sizes: Mapping[str, int] | None = None) -> Structure:
    """The structure of the span of these fields.

    >>> x, y = sp.symbols("x y", real=True)
    >>> print(structure([{x: x}, {x: sp.Integer(1)}, {y: y}]))
    Lie algebra of dimension 3, radical 3: centre 1, derived 1, semisimple part 0, Killing form of rank 1
    """
    at = dict(sizes or {})
    symbols = {s: n for n, s in enumerate(dict.fromkeys(s for g in generators for s in _symbols(g)))}
    every = [_terms(g, symbols) for g in generators]
    span = _Span([terms for terms in every if terms])
    kept = tuple(dict(g) for g, terms in zip(generators, every, strict=True) if terms)
    basis = tuple(kept[i] for i in span.chosen)
    n = len(basis)
    if n > LARGEST:
        raise SymmetryError(
            f"`found.structure`: {n} independent fields are more than {LARGEST}; ask at smaller sizes, where the "
            "structure is the same."
        )
    constants: Constants = {}
    slopes = [_slopes(terms) for terms in span.fields]
    for i in range(n):
        for j in range(i):
            coordinates = span.coordinates(_bracket(span.fields[i], slopes[j], span.fields[j], slopes[i]))
            if coordinates is None:
                return Structure(at, n, False, leaves=(j, i), basis=basis)
            for k, value in coordinates.items():
                constants[k, i, j] = value
                constants[k, j, i] = -value
    return _numbers(at, n, constants, basis)


def _numbers(sizes: dict[str, int], n: int, constants: Constants, basis: tuple) -> Structure:
    """Everything that follows from the structure constants.

    The radical is what the Killing form makes orthogonal to the derived algebra, so the rank of K restricted to it on
    one side is the dimension of the quotient by the radical (Cartan; characteristic zero).
    """
    rows = {}
    for (k, i, j), value in constants.items():
        rows.setdefault((i, j), {})[k] = value
    brackets = _reduced([row for (i, j), row in rows.items() if i < j], n)
    # column (k, j) of the matrix whose left nullspace is the centre
    places = {place: c for c, place in enumerate(dict.fromkeys((k, j) for k, _, j in constants))}
    adjoint: list[dict[int, Fraction]] = [{} for _ in range(n)]
    for (k, i, j), value in constants.items():
        adjoint[i][places[k, j]] = value
    killing: dict[tuple[int, int], Fraction] = {}
    by_pair: dict[tuple[int, int], list[tuple[int, Fraction]]] = {}
    for (k, i, j), value in constants.items():
        by_pair.setdefault((k, j), []).append((i, value))
    for (k, j), left in by_pair.items():  # K(X_a, X_b) = sum_{k,j} c[k, a, j] c[j, b, k]
        for a, value in left:
            for b, other in by_pair.get((j, k), ()):
                killing[a, b] = killing.get((a, b), Fraction(0)) + value * other
    form = _matrix([{b: killing[a, b] for b in range(n) if (a, b) in killing} for a in range(n)], n)
    centre = _left_nullspace(adjoint, len(places))
    quotient = (form * brackets.transpose()).rank() if n and brackets.nrows() else 0
    return Structure(
        sizes, n, True, constants, centre, brackets.nrows(), quotient, form.rank() if n else 0, None, basis
    )


# --- fields as Laurent polynomials


def _symbols(generator: Mapping[sp.Symbol, sp.Expr]) -> Iterable[sp.Symbol]:
    yield from generator
    for expression in generator.values():
        yield from sorted(sp.sympify(expression).free_symbols, key=str)


def _terms(generator: Mapping[sp.Symbol, sp.Expr], symbols: Mapping[sp.Symbol, int]) -> Terms:
    out: Terms = {}
    for component, expression in generator.items():
        for product, number in sp.expand(sp.sympify(expression)).as_coefficients_dict().items():
            coefficient, powers = Fraction(1), []
            for base, exponent in product.as_powers_dict().items():
                if base in symbols and exponent.is_Rational:
                    powers.append((symbols[base], Fraction(int(exponent.p), int(exponent.q))))
                elif base.is_Rational and exponent.is_Integer:
                    coefficient *= Fraction(int(base.p), int(base.q)) ** int(exponent)
                else:
                    raise SymmetryError(
                        f"`found.structure`: the component {component} of a field has the term {product}, which is no "
                        "monomial with a rational coefficient."
                    )
            key = symbols[component], tuple(sorted(powers))
            out[key] = out.get(key, Fraction(0)) + coefficient * Fraction(int(number.p), int(number.q))
    return {key: value for key, value in out.items() if value}


def _slopes(terms: Terms) -> dict[int, list[tuple[int, Monomial, Fraction]]]:
    """For each variable, the derivatives of all terms that contain it: (component, monomial, coefficient)."""
    out: dict[int, list[tuple[int, Monomial, Fraction]]] = {}
    for (component, monomial), value in terms.items():
        for place, (variable, exponent) in enumerate(monomial):
            lower = ((variable, exponent - 1),) if exponent != 1 else ()
            rest = (*monomial[:place], *lower, *monomial[place + 1 :])
            out.setdefault(variable, []).append((component, rest, value * exponent))
    return out


def _bracket(x: Terms, slopes_y: Mapping, y: Terms, slopes_x: Mapping) -> Terms:
    """[X, Y] = X(Y) - Y(X), component by component."""
    out: Terms = {}
    for sign, terms, slopes in ((1, x, slopes_y), (-1, y, slopes_x)):
        for (variable, monomial), value in terms.items():
            for component, other, slope in slopes.get(variable, ()):
                key = component, _times(monomial, other)
                out[key] = out.get(key, Fraction(0)) + sign * value * slope
    return {key: value for key, value in out.items() if value}


def _times(a: Monomial, b: Monomial) -> Monomial:
    if not a or not b:
        return a or b
    powers = dict(a)
    for variable, exponent in b:
        powers[variable] = powers.get(variable, Fraction(0)) + exponent
    return tuple(sorted((v, e) for v, e in powers.items() if e))


# --- exact linear algebra


class _Span:
    """Fields, the first independent ones among them, and coordinates in terms of these."""

    def __init__(self, every: Sequence[Terms]) -> None:
        self._columns = {key: c for c, key in enumerate(dict.fromkeys(k for terms in every for k in terms))}
        rows = [{self._columns[key]: value for key, value in terms.items()} for terms in every]
        self.chosen = _pivots(_matrix(rows, len(self._columns)).transpose()) if rows else []
        self.fields = [every[i] for i in self.chosen]
        chosen = _matrix([rows[i] for i in self.chosen], len(self._columns))
        keys = list(self._columns)
        self._tests = [keys[c] for c in _pivots(chosen)] if self.chosen else []
        n = len(self.chosen)
        square = [[_exact(terms.get(key, Fraction(0))) for key in self._tests] for terms in self.fields]
        self._inverse = fmpq_mat(n, n, [v for row in square for v in row]).inv() if n else None

    def coordinates(self, terms: Terms) -> dict[int, Fraction] | None:
        """Of a field in the chosen ones: read off at as many coefficients as there are fields, checked at all."""
        if not terms:
            return {}
        if self._inverse is None or any(key not in self._columns for key in terms):
            return None
        found: dict[int, Fraction] = {}
        for place, key in enumerate(self._tests):
            if key in terms:
                for k in range(len(self._tests)):
                    value = _fraction(self._inverse[place, k])
                    if value:
                        found[k] = found.get(k, Fraction(0)) + terms[key] * value
        rest = dict(terms)
        for k, coordinate in found.items():
            for key, value in self.fields[k].items():
                rest[key] = rest.get(key, Fraction(0)) - coordinate * value
        return None if any(rest.values()) else {k: value for k, value in found.items() if value}


def _exact(value: Fraction) -> fmpq:
    return fmpq(value.numerator, value.denominator)


def _fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def _matrix(rows: Sequence[Mapping[int, Fraction]], columns: int) -> fmpq_mat:
    out = fmpq_mat(len(rows), columns)
    for i, row in enumerate(rows):
        for j, value in row.items():
            out[i, j] = _exact(value)
    return out


def _pivots(matrix: fmpq_mat) -> list[int]:
    """The columns of the echelon form's leading entries: the first independent columns."""
    reduced, rank = matrix.rref()
    out, column = [], 0
    for row in range(rank):
        while reduced[row, column] == 0:
            column += 1
        out.append(column)
    return out


def _reduced(rows: Sequence[Mapping[int, Fraction]], columns: int) -> fmpq_mat:
    """The echelon form without its zero rows."""
    if not rows:
        return fmpq_mat(0, columns)
    reduced, rank = _matrix(rows, columns).rref()
    return fmpq_mat(rank, columns, [reduced[i, j] for i in range(rank) for j in range(columns)])


def _left_nullspace(rows: Sequence[Mapping[int, Fraction]], columns: int) -> tuple[tuple[Fraction, ...], ...]:
    """A basis of the combinations of rows that vanish."""
    n = len(rows)
    if not columns:
        return tuple(tuple(Fraction(int(i == j)) for j in range(n)) for i in range(n))
    reduced, _ = _matrix(rows, columns).transpose().rref()
    pivots = _pivots(reduced)
    out = []
    for free in (j for j in range(n) if j not in set(pivots)):
        vector = [Fraction(0)] * n
        vector[free] = Fraction(1)
        for row, pivot in enumerate(pivots):
            vector[pivot] = -_fraction(reduced[row, free])
        out.append(tuple(vector))
    return tuple(out)

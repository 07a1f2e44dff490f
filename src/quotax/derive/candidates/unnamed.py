"""Fields that belong to no recognised family: found by the general ansatz, proved one by one at their sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp

from quotax.artifacts import Certificate, Model, Trace, sizes_text
from quotax.derive.candidates import polynomial_fields
from quotax.derive.candidates.measured_coefficients import arbitrary, measured
from quotax.derive.candidates.polynomial_fields import Unknowns
from quotax.derive.points.vector_fields import fields_at, random_point
from quotax.derive.sampling import modular
from quotax.errors import SymmetryError, UnsupportedPrimitiveError
from quotax.interpret import symbolic_outputs, symbols_for
from quotax.interpret.symbolic.entries import OutOfTime, until
from quotax.presenting import Result
from quotax.symmetry import Action
from quotax.telling import Budget

ProveZero = Callable[[Sequence[sp.Expr], float], bool]
"""Whether all these expressions were proved, in so many seconds, to be zero wherever they are defined."""

MEASURED = "numbers of the model, measured"

Field = dict[sp.Symbol, sp.Expr]
"""The components of a vector field that are not zero, by the parameter's entry."""


@dataclass(frozen=True, repr=False)
class FieldFamily(Result):
    """Vector fields at stated sizes, `{entry: expression}`; those that are proved add `len(fields)` to the orbit."""

    name: str
    sizes: Mapping[str, int]
    fields: tuple[Field, ...]
    certificate: Certificate
    unknowns: Unknowns = field(repr=False, compare=False)
    coefficients: np.ndarray = field(repr=False, compare=False)

    def at(self, theta: np.ndarray) -> np.ndarray:
        """The fields at a point, as residues."""
        return self.unknowns.fields(self.coefficients, theta)

    def to_dict(self, *, largest: int | None = None) -> dict[str, Any]:
        """JSON values: the fields for people, the coefficients of the ansatz for `from_dict`."""
        rows = [{str(k): int(row[k]) for k in np.flatnonzero(row)} for row in self.coefficients]
        return {
            "name": self.name,
            "sizes": dict(self.sizes),
            "fields": [{str(symbol): str(value) for symbol, value in field.items()} for field in self.fields],
            "coefficients": rows,
            "certificate": self.certificate.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], model: Model, ansatz: polynomial_fields.Ansatz) -> FieldFamily:
        """The family that `to_dict` wrote, for a model of the same parameters; refused where its fields differ."""
        sizes = dict(data["sizes"])
        basis = polynomial_fields.unknowns(model.trace(sizes), ansatz)
        rows = np.zeros((len(data["coefficients"]), 0 if basis is None else basis.count), np.int64)
        for row, own in zip(rows, data["coefficients"], strict=True):
            row[[int(k) for k in own]] = list(own.values())
        symbols = [symbol for spec in model.params for symbol in symbols_for(spec, sizes).reshape(-1)]
        fields = []
        for row in rows[: len(data["fields"])]:
            numbers = None if basis is None else modular.rationals(row)
            if basis is not None and (numbers is None or arbitrary(numbers)):
                numbers = measured(model.trace(sizes), basis, row)
            fields.append(polynomial_fields.as_sympy(basis, numbers, symbols) if basis and numbers else {})
        said = [{str(symbol): str(value) for symbol, value in field.items()} for field in fields]
        if basis is None or said != data["fields"]:
            raise SymmetryError(f"the fields {data['name']!r} of the file are not those of its coefficients.")
        certificate = Certificate.from_dict(data["certificate"])
        return cls(data["name"], sizes, tuple(fields), certificate, basis, rows)


@dataclass(frozen=True)
class Leftover:
    """What the general ansatz gave at one assignment: fields with a proof, and fields for which none was found."""

    proved: FieldFamily | None = None
    unproved: tuple[FieldFamily, ...] = ()


def leftover(
    model: Model,
    actions: Sequence[Action],
    sizes: Mapping[str, int],
    ansatz: polynomial_fields.Ansatz,
    prove_zero: ProveZero,
    progress: Callable[[str], None] = lambda line: None,
    budget: Budget | None = None,
) -> Leftover:
    """Fields of the ansatz that point where the actions do not, each tried for a proof at these sizes."""
    budget, trace = budget or Budget(), model.trace(sizes)
    basis = polynomial_fields.unknowns(trace, ansatz)
    if basis is None:
        most = f"too many at {sizes_text(sizes)}: {polynomial_fields.UNKNOWNS:,} unknown coefficients at most"
        budget.refuse(polynomial_fields.ansatz_fields(ansatz), most)
        return Leftover()
    progress(f"solving for {basis.count} coefficients of {ansatz} fields")
    chosen = _chosen(model, trace, actions, basis)
    if not chosen:
        return Leftover()
    symbols = {spec.name: symbols_for(spec, sizes) for spec in model.params}
    flat = [symbol for spec in model.params for symbol in symbols[spec.name].reshape(-1)]
    written, unread = None, ""
    try:
        written = _written(trace, budget)
    except UnsupportedPrimitiveError as error:
        unread = str(error)

    def family(name: str, rows: Sequence[np.ndarray], fields: Sequence[Field], certificate: Certificate) -> FieldFamily:
        return FieldFamily(name, dict(sizes), tuple(fields), certificate, basis, np.array(rows))

    fields, kept, unproved = [], [], []
    for row in chosen:
        numbers = modular.rationals(row)
        if numbers is None or arbitrary(numbers):
            floats = measured(trace, basis, row) if budget.left else None
            why = "no fractions were found for its coefficients"
            if floats is not None:
                why = f"X f = 0 holds in float64 at random points; its coefficients are {MEASURED}"
            vectors = () if floats is None else (polynomial_fields.as_sympy(basis, floats, flat),)
            unproved.append(family("unnamed", [row], vectors, _undecided(model, sizes, why)))
            continue
        vector = polynomial_fields.as_sympy(basis, numbers, flat)
        if written is not None and budget.left:
            progress(f"proving a field of {len(vector)} components")
            along = _changes(vector, written, budget)
            if along is not None and prove_zero(along, budget.left):
                fields.append(vector)
                kept.append(row)
                continue
            why = "X f = 0 holds modulo a prime at random points, and was not proved"
        elif unread:
            why = f"X f = 0 holds modulo a prime at random points; {unread}"
        else:
            why = f"X f = 0 holds modulo a prime at random points; the budget of {budget.seconds:g} s was spent"
        unproved.append(family("unnamed", [row], [vector], _undecided(model, sizes, why)))
    proved = family("unnamed", kept, fields, _proved(model, sizes, len(fields))) if fields else None
    return Leftover(proved, tuple(unproved))


def _written(trace: Trace, budget: Budget) -> list[sp.Expr] | None:
    """The entries of the outputs as expressions; None where there is no time to write them out."""
    try:
        with until(time.monotonic() + budget.left):
            outputs, _ = symbolic_outputs(trace)
    except OutOfTime:
        return None
    return [entry for out in outputs for entry in out.reshape(-1)]


def _chosen(model: Model, trace: Trace, actions: Sequence[Action], basis: Unknowns) -> list[np.ndarray]:
    """The coefficients of fields that are flat modulo the prime, one for each direction beside the actions' own."""
    rng = np.random.default_rng(7)
    solutions = polynomial_fields.solve(trace, basis, rng)
    if not len(solutions):
        return []
    theta = random_point(model.params, trace.sizes, rng)
    rows = [fields_at(a, model.params, trace.sizes, theta) for a in actions]
    known = np.concatenate([np.zeros((0, len(theta)), np.int64), *rows])
    return polynomial_fields.directions(basis, solutions, known, theta)


def _proved(model: Model, sizes: Mapping[str, int], count: int) -> Certificate:
    where = sizes_text(sizes)
    steps = (f"X f = 0 identically for each of {count} fields at {where}",)
    assumptions = ("roots and logarithms have arguments at which they are defined, denominators are not zero",)
    claim = f"{model.name} is constant along these fields"
    return Certificate(claim, "proved", f"widths ({where})", steps, assumptions)


def _undecided(model: Model, sizes: Mapping[str, int], why: str) -> Certificate:
    where = sizes_text(sizes)
    return Certificate(f"{model.name} is constant along this field", "undecided", f"widths ({where})", residual=why)


def _changes(field: Field, expressions: Sequence[sp.Expr], budget: Budget) -> list[sp.Expr] | None:
    """The derivatives of expressions along a field; None where there is no time for all of them."""
    out = []
    for expression in expressions:
        terms, free = [], expression.free_symbols
        for symbol, slope in field.items():
            if symbol in free:
                if not budget.left:
                    return None
                terms.append(sp.diff(expression, symbol) * slope)
        out.append(sp.Add(*terms))
    return out

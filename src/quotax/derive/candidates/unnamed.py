"""Fields that belong to no recognised family: found by the general ansatz, proved one by one at their sizes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import sympy as sp

from quotax.artifacts import Certificate, Model, Trace, sizes_text
from quotax.derive.candidates import polynomial_fields
from quotax.derive.candidates.field_pieces import Arrays
from quotax.derive.candidates.polynomial_fields import UNKNOWNS, Ansatz, Unknowns, ansatz_fields
from quotax.derive.candidates.unexplained import FlatClasses, Names, Unexplained, unexplained
from quotax.derive.points.exact_jacobian import ExactJacobian, exact_jacobian
from quotax.derive.points.vector_fields import fields_at
from quotax.derive.sampling import modular
from quotax.errors import SymmetryError
from quotax.interpret import symbols_for
from quotax.presenting import Json, Result
from quotax.presenting.telling import Budget
from quotax.symmetry import Action
from quotax.trees import AnyArray

LOOKED_AT = 2500
"""With more parameters than this, what the families leave is not looked at."""
SMALL = 700
"""With more parameters than this, fields that move all of them are not looked for."""

LONGEST = 64
"""Numerators and denominators above this are those of a residue that happens to be a fraction."""

Lines = tuple[str, ...]
ProveField = Callable[[Trace, Callable[[Arrays], dict[str, AnyArray]], float], tuple[Lines, Lines] | None]
"""Steps and assumptions of a proof, in so many seconds, that outputs do not change along a field; None for no proof."""

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
    among: Names | None = None
    """The parameters that they were looked for among; None for all."""
    by: str = ""
    """Which basis of the ansatz they are written in."""

    def at(self, theta: np.ndarray) -> np.ndarray:
        """The fields at a point, as residues."""
        return self.unknowns.fields(self.coefficients, theta)

    def to_dict(self, *, largest: int | None = None) -> dict[str, Json]:
        """JSON values: the fields for people, the coefficients of the ansatz for `from_dict`."""
        rows = [{str(k): int(row[k]) for k in np.flatnonzero(row)} for row in self.coefficients]
        return {
            "name": self.name,
            "sizes": dict(self.sizes),
            "fields": [{str(symbol): str(value) for symbol, value in field.items()} for field in self.fields],
            "coefficients": rows,
            "among": self.among,
            "by": self.by,
            "certificate": self.certificate.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Json], model: Model, ansatz: Ansatz) -> FieldFamily:
        """The family that `to_dict` wrote, for a model of the same parameters; refused where its fields differ."""
        sizes = dict(data["sizes"])
        among = None if data.get("among") is None else tuple(data["among"])
        by = data.get("by", "")
        basis = polynomial_fields.bases(model.trace(sizes), ansatz, among).get(by)
        rows = np.zeros((len(data["coefficients"]), 0 if basis is None else basis.count), np.int64)
        for row, own in zip(rows, data["coefficients"], strict=True):
            row[[int(k) for k in own]] = list(own.values())
        symbols = [symbol for spec in model.params for symbol in symbols_for(spec, sizes).reshape(-1)]
        fields = []
        for row in rows[: len(data["fields"])]:
            numbers = None if basis is None else modular.rationals(row)
            fields.append(polynomial_fields.as_sympy(basis, numbers, symbols) if basis and numbers else {})
        said = [{str(symbol): str(value) for symbol, value in field.items()} for field in fields]
        if basis is None or said != data["fields"]:
            raise SymmetryError(f"the fields {data['name']!r} of the file are not those of its coefficients.")
        certificate = Certificate.from_dict(data["certificate"])
        return cls(data["name"], sizes, tuple(fields), certificate, basis, rows, among, by)


@dataclass(frozen=True)
class Leftover:
    """What the general ansatz gave at one assignment: fields with a proof, and fields for which none was found."""

    proved: tuple[FieldFamily, ...] = ()
    unproved: tuple[FieldFamily, ...] = ()


@dataclass
class Remainder:
    """What families leave at a point of one assignment, and what of it fields were found for."""

    model: Model
    sizes: Mapping[str, int]
    here: ExactJacobian
    known: np.ndarray
    """Fields at the point: those of the families, and those found."""

    @property
    def unexplained(self) -> Unexplained:
        """What is flat beside what is known."""
        shapes = [spec.shape(self.sizes) for spec in self.model.params]
        return unexplained(self.model.params, shapes, self.here, self.known)

    def count(self, among: Names | None = None) -> int:
        """How many flat directions nothing explains, of those that move these parameters alone."""
        classes = FlatClasses(self.here.flat, self.known)
        if among is None or not classes.left:
            return classes.left
        still = [np.full(math.prod(s.shape(self.sizes)), s.name not in among) for s in self.model.params]
        return classes.without(np.flatnonzero(np.concatenate(still))).left


def remainder(model: Model, actions: Sequence[Action], sizes: Mapping[str, int], budget: Budget) -> Remainder | None:
    """What these actions leave; None where the budget does not allow to look."""
    here = exact_jacobian(model.trace(sizes), np.random.default_rng(7), budget)
    if here is None:
        return None
    rows = [fields_at(a, model.params, sizes, here.theta) for a in actions]
    return Remainder(model, sizes, here, np.concatenate([np.zeros((0, len(here.theta)), np.int64), *rows]))


def leftover(
    model: Model,
    actions: Sequence[Action],
    sizes: Mapping[str, int],
    ansatz: Ansatz,
    prove_field: ProveField,
    progress: Callable[[str], None] = lambda line: None,
    budget: Budget | None = None,
) -> Leftover:
    """Fields of the ansatz that point where the actions do not, each tried for a proof at these sizes.

    Those that move connected parameters alone come first, then those of all parameters, where these are few. What was
    not looked at is among what the budget left undone.
    """
    budget, trace = budget or Budget(), model.trace(sizes)
    where, what, total = sizes_text(sizes), ansatz_fields(ansatz), parameters(model, sizes)
    if total > LOOKED_AT:
        budget.refuse(what, f"{total} parameters at {where}, and {LOOKED_AT:,} at most")
        return Leftover()
    progress(f"looking at what the families leave of {total} parameters")
    rest = remainder(model, actions, sizes, budget)
    if rest is None:
        budget.undone.append(what)
        return Leftover()
    proved: list[FieldFamily] = []
    unproved: list[FieldFamily] = []

    def search(bases: Mapping[str, Unknowns], among: Names | None) -> None:
        for by, basis in bases.items():
            if not rest.count(among) or not budget.allows(what + _moving(among)):
                return
            progress(f"solving for {basis.count} coefficients of {ansatz} fields{_moving(among)}")
            chosen = _chosen(trace, rest, basis, budget)
            if chosen is None:
                budget.undone.append(what + _moving(among))
                return
            written = functools.partial(FieldFamily, unknowns=basis, among=among, by=by)
            found = _tried(rest, basis, written, chosen, prove_field, progress, budget)
            proved.extend(replace(f, name=_name(len(proved) + k)) for k, f in enumerate(found.proved))
            unproved.extend(found.unproved)

    names = {spec.name for spec in model.params}
    own = {spec.name: math.prod(spec.shape(sizes)) for spec in model.params}

    def solvable(among: Names | None) -> dict[str, Unknowns]:
        small = sum(own[name] for name in among or names) <= SMALL
        return polynomial_fields.bases(trace, ansatz, among) if small else {}

    fits = lambda among: polynomial_fields.complete(ansatz, solvable(among))
    groups = [among for among in _groups(rest.unexplained, fits) if set(among) != names]
    for among in groups:
        search(solvable(among), among)
    search(solvable(None), None)
    if rest.count() and not fits(None):
        short = [among for among in groups if not fits(among)]
        for among in short:
            budget.refuse(what + _moving(among), _too_many(sum(own[name] for name in among), where))
        beyond = " or ".join(", ".join(among) for among in groups if among not in short)
        budget.refuse(what + (f" that move more than {beyond}" if beyond else ""), _too_many(total, where))
    return Leftover(tuple(proved), tuple(unproved))


def parameters(model: Model, sizes: Mapping[str, int]) -> int:
    """How many there are."""
    return sum(math.prod(spec.shape(sizes)) for spec in model.params)


def _groups(rest: Unexplained, fits: Callable[[Names], bool]) -> list[Names]:
    """Connected parameters; the minimal sets among them apart where those are too many."""
    out: list[Names] = []
    for group in rest.connected:
        out += [group] if fits(group) else [own for own in rest.sets if set(own) <= set(group)]
    return out


def _too_many(count: int, where: str) -> str:
    if count > SMALL:
        return f"{count} parameters at {where}, and {SMALL} at most"
    return f"too many at {where}: {UNKNOWNS:,} unknown coefficients at most"


def _moving(among: Names | None) -> str:
    return "" if among is None else f" that move {', '.join(among)}"


def _name(number: int) -> str:
    return f"unnamed #{number + 1}" if number else "unnamed"


def _chosen(trace: Trace, rest: Remainder, basis: Unknowns, budget: Budget) -> list[np.ndarray] | None:
    """The coefficients of fields that are flat modulo the prime, one for each direction beside what is known.

    These are known from now on. None where the budget did not allow to solve for them.
    """
    solutions = polynomial_fields.solve(trace, basis, np.random.default_rng(7), budget)
    if solutions is None:
        return None
    if not len(solutions):
        return []
    chosen = polynomial_fields.directions(basis, solutions, rest.known, rest.here.theta)
    if chosen:
        rest.known = np.concatenate([rest.known, basis.fields(np.array(chosen), rest.here.theta)])
    return chosen


def _tried(
    rest: Remainder,
    basis: Unknowns,
    written: Callable[..., FieldFamily],
    chosen: Sequence[np.ndarray],
    prove_field: ProveField,
    progress: Callable[[str], None],
    budget: Budget,
) -> Leftover:
    """The fields with these coefficients, each tried for a proof."""
    model, sizes = rest.model, dict(rest.sizes)
    trace = model.trace(sizes)
    flat = [symbol for spec in model.params for symbol in symbols_for(spec, sizes).reshape(-1)]
    fields, kept, unproved = [], [], []
    steps: dict[str, None] = {}
    assumptions: dict[str, None] = {}

    def left(row: np.ndarray, fields: tuple[Field, ...], why: str) -> None:
        unproved.append(written("unnamed", sizes, fields, _undecided(model, sizes, why), coefficients=row[None]))

    for row in chosen:
        numbers = modular.rationals(row)
        if numbers is None or _arbitrary(numbers):
            left(row, (), "no fractions were found for its coefficients")
            continue
        vector = polynomial_fields.as_sympy(basis, numbers, flat)
        if not budget.left:
            spent = f"the budget of {budget.seconds:g} s was spent"
            left(row, (vector,), f"X f = 0 holds modulo a prime at random points; {spent}")
            continue
        progress(f"proving a field of {len(vector)} components")
        function = basis.function(numbers, trace)
        proof = None if function is None else prove_field(trace, function, budget.left)
        if proof is None:
            left(row, (vector,), "X f = 0 holds modulo a prime at random points, and was not proved")
            continue
        fields.append(vector)
        kept.append(row)
        steps |= dict.fromkeys(proof[0])
        assumptions |= dict.fromkeys(proof[1])
    if not fields:
        return Leftover((), tuple(unproved))
    certificate = _proved(model, sizes, len(fields), tuple(steps), tuple(assumptions))
    proved = written("unnamed", sizes, tuple(fields), certificate, coefficients=np.array(kept))
    return Leftover((proved,), tuple(unproved))


def _proved(model: Model, sizes: Mapping[str, int], count: int, how: Lines, assumed: Lines) -> Certificate:
    where = sizes_text(sizes)
    steps = (f"X f = 0 identically for each of {count} fields at {where}", *how)
    defined = "roots and logarithms have arguments at which they are defined, denominators are not zero"
    assumptions = (defined, *(a for a in assumed if a not in defined))
    claim = f"{model.name} is constant along these fields"
    return Certificate(claim, "proved", f"widths ({where})", steps, assumptions)


def _arbitrary(numbers: Sequence[Fraction]) -> bool:
    """Whether fractions are those of residues that stand for other numbers: of a variance that was closed over."""
    return any(max(abs(n.numerator), n.denominator) > LONGEST for n in numbers)


def _undecided(model: Model, sizes: Mapping[str, int], why: str) -> Certificate:
    where = sizes_text(sizes)
    return Certificate(f"{model.name} is constant along this field", "undecided", f"widths ({where})", residual=why)

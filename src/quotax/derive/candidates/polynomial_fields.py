r"""Polynomial fields in general, as ground truth for the templates: every field of a degree, or matrices on all axes.

A basis field is a list of (target entry, monomial) pairs; the determining equations are linear in the fields'
coefficients. The solutions are a module over functions, so that of all solutions only those are kept that point in a
new direction at a generic point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import sympy as sp

from quotax.artifacts import ArraySpec, Trace
from quotax.derive.candidates.field_pieces import (
    AddedConstants,
    Arrays,
    ContractedInto,
    EntryPolynomials,
    MatrixOnAxes,
    Piece,
    function_of,
)
from quotax.derive.candidates.unexplained import FlatClasses
from quotax.derive.sampling import modular
from quotax.derive.sampling.batches import Batch, batches
from quotax.interpret.jets.residues import PRIME
from quotax.presenting.telling import Budget
from quotax.trees import AnyArray

Ansatz = Literal["linear", "affine", "quadratic", "full"]

UNKNOWNS = 2600
"""More unknowns than this are not solved for: about three seconds of row reduction."""

Monomial = tuple[int, ...]
"""Positions in the flat parameter vector, multiplied together; the empty monomial is 1."""


def ansatz_fields(ansatz: Ansatz) -> str:
    """What is looked for, in words."""
    return f"fields of the {ansatz} ansatz"


@dataclass(frozen=True)
class Unknowns:
    """Basis fields as parallel arrays: unknown, target entry, monomial."""

    owner: np.ndarray
    target: np.ndarray
    monomial: np.ndarray
    monomials: tuple[Monomial, ...]
    count: int
    pieces: tuple[tuple[int, Piece], ...]
    """How they act, each with the first of its unknowns."""

    def function(self, numbers: Sequence[Fraction], trace: Trace) -> Callable[[Arrays], dict[str, AnyArray]] | None:
        """The field with these numbers as a function of arrays by name; None where it cannot be said exactly."""
        return function_of(self.pieces, self.count, numbers, {s.name: s.shape(trace.sizes) for s in trace.params})

    def values(self, theta: np.ndarray) -> np.ndarray:
        """All monomials at points `(samples, parameters)`."""
        out = np.ones((len(theta), len(self.monomials)), np.int64)
        for k, monomial in enumerate(self.monomials):
            for position in monomial:
                out[:, k] = out[:, k] * theta[:, position] % PRIME
        return out

    def equations(self, batch: Batch) -> np.ndarray:
        """One row per output and sample."""
        samples = batch.samples
        theta = np.concatenate([p.reshape(samples, -1) for p in batch.params.values()], axis=1)
        slopes = batch.dense().reshape(-1, samples, theta.shape[1])
        terms = slopes[:, :, self.target] * self.values(theta)[None, :, self.monomial] % PRIME
        starts = np.flatnonzero(np.diff(self.owner, prepend=-1))
        return (np.add.reduceat(terms, starts, axis=2) % PRIME).reshape(-1, self.count)

    def fields(self, coefficients: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """The fields with these coefficients `(fields, unknowns)` at one point."""
        value = self.values(theta[None])[0][self.monomial]
        out = np.zeros((len(coefficients), len(theta)), np.int64)
        for row, own in zip(out, coefficients, strict=True):
            np.add.at(row, self.target, own[self.owner] * value % PRIME)
        return out % PRIME


def bases(trace: Trace, ansatz: Ansatz, moved: Collection[str] | None = None) -> dict[str, Unknowns]:
    """What is solved for, one after the other, by a word: matrices on axes, then all fields of the degree.

    Each is left out where it is too large. Of fields that move some parameters alone, those are all; what is added to
    them along an axis may be made of others.
    """
    specs = [spec for spec in trace.params if moved is None or spec.name in moved]
    constants = ansatz != "linear"
    axes = _by_axis(trace, specs, trace.params, constants) or _by_axis(trace, specs, specs, constants)
    every = _by_entry(trace, ansatz, specs)
    return {word: basis for word, basis in (("axes", axes), ("entries", every)) if basis is not None}


def complete(ansatz: Ansatz, found: Mapping[str, Unknowns]) -> bool:
    """Whether the bases are all that the ansatz asks for: matrices on axes are enough for those of one degree."""
    return "entries" in found or ("axes" in found and ansatz not in ("quadratic", "full"))


def _by_entry(trace: Trace, ansatz: Ansatz, specs: Sequence[ArraySpec]) -> Unknowns | None:
    """Every entry moved by every monomial."""
    entries = _entries(trace)
    own = np.concatenate([entries[spec.name].ravel() for spec in specs])
    degrees = {"linear": (1,), "affine": (0, 1), "full": (0, 1), "quadratic": (0, 1, 2)}[ansatz]
    count = len(own) * sum(math.comb(len(own) + k - 1, k) for k in degrees)
    if count > UNKNOWNS:
        return None
    monomials = [m for k in degrees for m in itertools.combinations_with_replacement(own.tolist(), k)]
    target, monomial = (a.ravel() for a in np.meshgrid(own, np.arange(len(monomials)), indexing="ij"))
    shapes = tuple((spec.name, spec.split_shape(trace.sizes)) for spec in specs)
    every = EntryPolynomials(shapes, {name: int(at.flat[0]) for name, at in entries.items()}, tuple(monomials))
    return Unknowns(np.arange(count), target, monomial, tuple(monomials), count, ((0, every),))


def _entries(trace: Trace) -> dict[str, np.ndarray]:
    """The places of all entries in a flat vector, by parameter."""
    out, start = {}, 0
    for spec in trace.params:
        shape = spec.split_shape(trace.sizes)
        out[spec.name] = np.arange(start, start + math.prod(shape)).reshape(shape)
        start += out[spec.name].size
    return out


def _by_axis(
    trace: Trace, specs: Sequence[ArraySpec], sources: Sequence[ArraySpec], constants: bool
) -> Unknowns | None:
    """A matrix on every axis of every parameter; constants; parameters contracted with a vector into others."""
    pairs: list[list[tuple[int, Monomial]]] = []
    pieces: list[tuple[int, Piece]] = []
    entries = _entries(trace)
    for spec in specs:
        array = entries[spec.name]
        axes = range(array.ndim)
        groups = [(a,) for a in axes]
        groups += [
            p for p in itertools.combinations(axes, 2) if array.ndim > 2 and array.shape[p[0]] * array.shape[p[1]] <= 9
        ]
        for group in groups or [()]:
            size = math.prod(array.shape[a] for a in group)
            rows = np.moveaxis(array, group, range(len(group))).reshape(size, -1)
            pieces.append((len(pairs), MatrixOnAxes(spec.name, array.shape, group)))
            for i, j in itertools.product(range(len(rows)), repeat=2):
                pairs.append([(int(t), (int(s),)) for t, s in zip(rows[i], rows[j], strict=True)])
        if constants:
            pieces.append((len(pairs), AddedConstants(spec.name, array.shape)))
            pairs += [[(int(t), ())] for t in array.ravel()]
    for one, other in itertools.product(specs, sources):
        target, source = one.name, other.name
        rest = [k for k, f in enumerate(other.factors) if f not in one.factors]
        kept = [k for k in range(len(other.factors)) if k not in rest]
        if target != source and rest and sorted(map(str, one.factors)) == sorted(str(other.factors[k]) for k in kept):
            left = list(kept)  # sizes that are numbers may occur twice, in their order
            order = [left.pop(next(i for i, k in enumerate(left) if other.factors[k] == f)) for f in one.factors]
            columns = entries[source].transpose(*order, *rest).reshape(entries[target].size, -1)
            pieces.append(
                (len(pairs), ContractedInto(target, source, entries[source].shape, tuple(order), tuple(rest)))
            )
            for column in columns.T:
                pairs.append([(int(t), (int(s),)) for t, s in zip(entries[target].ravel(), column, strict=True)])
    if len(pairs) > UNKNOWNS:
        return None
    table: dict[Monomial, int] = {}
    flat = [(k, t, table.setdefault(m, len(table))) for k, pair in enumerate(pairs) for t, m in pair]
    owner, target_, monomial = (np.array(column, np.int64) for column in zip(*flat, strict=True))
    return Unknowns(owner, target_, monomial, tuple(table), len(pairs), tuple(pieces))


def solve(trace: Trace, basis: Unknowns, rng: np.random.Generator, budget: Budget) -> np.ndarray | None:
    """Coefficients of all fields that leave the model unchanged; fresh batches are drawn until they change nothing.

    None where the budget does not allow for that.
    """
    stream = batches(trace, rng, 8)
    kept, rows = [], 0
    while rows < basis.count + 20:
        if not budget.left:
            return None
        piece = basis.equations(next(stream))
        kept.append(piece)
        rows += len(piece)
    solutions = modular.nullspace(np.concatenate(kept))
    quiet = 0
    while quiet < 3 and len(solutions):
        if not budget.left:
            return None
        residual = modular.product(basis.equations(next(stream)), solutions.T)
        if residual.any():
            solutions = modular.echelon(modular.product(modular.nullspace(residual), solutions))
            quiet = 0
        else:
            quiet += 1
    return solutions


def directions(basis: Unknowns, solutions: np.ndarray, known: np.ndarray, theta: np.ndarray) -> list[np.ndarray]:
    """Of the solutions, sparsest first, those that point in a new direction at `theta` beside the `known` rows."""
    order = sorted(range(len(solutions)), key=lambda k: int(np.count_nonzero(solutions[k])))
    classes = FlatClasses(basis.fields(solutions[order], theta), known)
    most, rows = classes.left, np.zeros((0, classes.of.shape[1]), np.int64)
    chosen = []
    for k, own in zip(order, classes.of, strict=True):
        if len(rows) == most:
            break
        grown = modular.echelon(np.concatenate([rows, own[None]]))
        if len(grown) > len(rows):
            rows = grown
            chosen.append(solutions[k])
    return chosen


def as_sympy(
    basis: Unknowns, coefficients: Sequence[Fraction] | Sequence[float], symbols: Sequence[sp.Symbol]
) -> dict[sp.Symbol, sp.Expr]:
    """A field as SymPy expressions by parameter entry."""
    out: dict[sp.Symbol, sp.Expr] = {}
    for unknown, target, monomial in zip(basis.owner, basis.target, basis.monomial, strict=True):
        a = coefficients[unknown]
        if a:
            number = sp.Rational(a.numerator, a.denominator) if isinstance(a, Fraction) else sp.Float(a)
            term = sp.Mul(number, *(symbols[p] for p in basis.monomials[monomial]))
            out[symbols[target]] = out.get(symbols[target], sp.S.Zero) + term
    return {symbol: expression for symbol, expression in out.items() if expression != 0}

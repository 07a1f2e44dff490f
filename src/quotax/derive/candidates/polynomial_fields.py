r"""Polynomial fields in general, as ground truth for the templates: every field of a degree, or matrices on all axes.

A basis field is a list of (target entry, monomial) pairs; the determining equations are linear in the fields'
coefficients. The solutions are a module over functions, so that of all solutions only those are kept that point in a
new direction at a generic point.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import sympy as sp

from quotax.artifacts import Trace
from quotax.derive.sampling import modular
from quotax.derive.sampling.batches import Batch, batches
from quotax.interpret.jets.residues import PRIME

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

    def real_field(self, unknown: int, theta: np.ndarray) -> np.ndarray:
        """One basis field at a point of floats."""
        out = np.zeros(len(theta))
        for k in np.flatnonzero(self.owner == unknown):
            out[self.target[k]] += np.prod(theta[list(self.monomials[self.monomial[k]])])
        return out

    def fields(self, coefficients: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """The fields with these coefficients `(fields, unknowns)` at one point."""
        value = self.values(theta[None])[0][self.monomial]
        out = np.zeros((len(coefficients), len(theta)), np.int64)
        for row, own in zip(out, coefficients, strict=True):
            np.add.at(row, self.target, own[self.owner] * value % PRIME)
        return out % PRIME


def unknowns(trace: Trace, ansatz: Ansatz) -> Unknowns | None:
    """All fields of the degree if they are few enough, otherwise matrices on axes; None when both are too many."""
    total = sum(int(np.prod(spec.shape(trace.sizes), dtype=np.int64)) for spec in trace.params)
    degrees = {"linear": (1,), "affine": (0, 1), "full": (0, 1), "quadratic": (0, 1, 2)}[ansatz]
    monomials = [m for k in degrees for m in itertools.combinations_with_replacement(range(total), k)]
    if total * len(monomials) <= UNKNOWNS:
        target, monomial = (a.ravel() for a in np.meshgrid(np.arange(total), np.arange(len(monomials)), indexing="ij"))
        return Unknowns(np.arange(len(target)), target, monomial, tuple(monomials), len(target))
    if ansatz in ("quadratic", "full"):
        return None
    return _by_axis(trace, constants=ansatz == "affine")


def _by_axis(trace: Trace, constants: bool) -> Unknowns | None:
    """A matrix on every axis of every parameter; constants; parameters contracted with a vector into others."""
    pairs: list[list[tuple[int, Monomial]]] = []
    start, entries = 0, {}
    for spec in trace.params:
        shape = spec.split_shape(trace.sizes)
        entries[spec.name] = np.arange(start, start + int(np.prod(shape, dtype=np.int64))).reshape(shape)
        start += entries[spec.name].size
    for array in entries.values():
        axes = range(array.ndim)
        groups = [(a,) for a in axes]
        groups += [
            p for p in itertools.combinations(axes, 2) if array.ndim > 2 and array.shape[p[0]] * array.shape[p[1]] <= 9
        ]
        for group in groups or [()]:
            rows = np.moveaxis(array, group, range(len(group))).reshape(
                int(np.prod([array.shape[a] for a in group], dtype=np.int64)), -1
            )
            for i, j in itertools.product(range(len(rows)), repeat=2):
                pairs.append([(int(t), (int(s),)) for t, s in zip(rows[i], rows[j], strict=True)])
        if constants:
            pairs += [[(int(t), ())] for t in array.ravel()]
    own = {spec.name: spec.factors for spec in trace.params}
    for target, source in itertools.permutations(own, 2):
        rest = [k for k, f in enumerate(own[source]) if f not in own[target]]
        kept = [k for k in range(len(own[source])) if k not in rest]
        if rest and sorted(map(str, own[target])) == sorted(str(own[source][k]) for k in kept):
            order = [own[source].index(f) for f in own[target]]
            columns = entries[source].transpose(*order, *rest).reshape(entries[target].size, -1)
            for column in columns.T:
                pairs.append([(int(t), (int(s),)) for t, s in zip(entries[target].ravel(), column, strict=True)])
    if len(pairs) > UNKNOWNS:
        return None
    table: dict[Monomial, int] = {}
    flat = [(k, t, table.setdefault(m, len(table))) for k, pair in enumerate(pairs) for t, m in pair]
    owner, target_, monomial = (np.array(column, np.int64) for column in zip(*flat, strict=True))
    return Unknowns(owner, target_, monomial, tuple(table), len(pairs))


def solve(trace: Trace, basis: Unknowns, rng: np.random.Generator) -> np.ndarray:
    """Coefficients of all fields that leave the model unchanged; fresh batches are drawn until they change nothing."""
    stream = batches(trace, rng, 8)
    kept, rows = [], 0
    while rows < basis.count + 20:
        piece = basis.equations(next(stream))
        kept.append(piece)
        rows += len(piece)
    solutions = modular.nullspace(np.concatenate(kept))
    quiet = 0
    while quiet < 3 and len(solutions):
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
    rows = modular.echelon(known)
    values = basis.fields(solutions[order], theta)
    most = modular.rank(np.concatenate([rows, values]))
    chosen = []
    for k, value in zip(order, values, strict=True):
        if len(rows) == most:
            break
        grown = modular.echelon(np.concatenate([rows, value[None]]))
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

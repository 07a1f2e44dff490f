"""Fields that belong to no recognised family: found by the general ansatz, proved one by one at their sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sympy as sp

from quotax.artifacts import Certificate, Model
from quotax.derive import ansatz as general
from quotax.derive import linear
from quotax.derive.fields import fields_at
from quotax.derive.moments import factors
from quotax.interpret import symbolic_outputs
from quotax.interpret.jets import PRIME
from quotax.symmetry import Action

ProveZero = Callable[[Sequence[sp.Expr]], bool]
"""Whether all these expressions were proved to be zero."""


@dataclass(frozen=True)
class FieldFamily:
    """Proved vector fields at stated sizes, `{entry: expression}`; together they add `len(fields)` to the orbit."""

    name: str
    sizes: Mapping[str, int]
    fields: tuple[dict[sp.Symbol, sp.Expr], ...]
    certificate: Certificate
    unknowns: general.Unknowns = field(repr=False, compare=False)
    coefficients: np.ndarray = field(repr=False, compare=False)

    def at(self, theta: np.ndarray) -> np.ndarray:
        """The fields at a point, as residues."""
        return self.unknowns.fields(self.coefficients, theta)


def leftover(
    model: Model,
    actions: Sequence[Action],
    sizes: Mapping[str, int],
    ansatz: general.Ansatz,
    prove_zero: ProveZero,
    progress: Callable[[str], None] = lambda line: None,
) -> FieldFamily | None:
    """Fields of the ansatz that point where the actions do not, each proved at these sizes."""
    trace = model.trace(sizes)
    basis = general.unknowns(trace, ansatz)
    if basis is None:
        return None
    progress(f"solving for {basis.count} coefficients of {ansatz} fields")
    rng = np.random.default_rng(7)
    solutions = general.solve(trace, basis, rng)
    point = {
        s.name: rng.integers(1, PRIME, [f if isinstance(f, int) else sizes[f] for f in factors(s)], dtype=np.int64)
        for s in model.params
    }
    theta = general.parameters_of(model.params, point)
    known = np.concatenate(
        [np.zeros((0, len(theta)), np.int64), *(fields_at(a, model.params, sizes, point) for a in actions)]
    )
    if not len(solutions):
        return None
    chosen = general.directions(basis, solutions, known, theta)
    outputs, symbols = symbolic_outputs(trace) if chosen else ([], {})
    flat = [symbol for spec in model.params for symbol in symbols[spec.name].reshape(-1)] if chosen else []
    fields, kept = [], []
    for row in chosen:
        numbers = linear.rationals(row)
        if numbers is None:
            continue
        vector = general.as_sympy(basis, numbers, flat)
        progress(f"proving a field of {len(vector)} components")
        if prove_zero([_along(vector, entry) for out in outputs for entry in out.reshape(-1)]):
            fields.append(vector)
            kept.append(row)
    if not fields:
        return None
    where = ", ".join(f"{a}={n}" for a, n in sizes.items())
    steps = (f"X f = 0 identically for each of {len(fields)} fields at {where}",)
    certificate = Certificate(f"{model.name} is constant along these fields", "proved", f"widths ({where})", steps)
    return FieldFamily("unnamed", dict(sizes), tuple(fields), certificate, basis, np.array(kept))


def _along(field: Mapping[sp.Symbol, sp.Expr], expression: sp.Expr) -> sp.Expr:
    """The derivative of an expression along a field."""
    free = expression.free_symbols
    return sp.Add(*(sp.diff(expression, symbol) * slope for symbol, slope in field.items() if symbol in free))

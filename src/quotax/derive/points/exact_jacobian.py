"""The derivatives of a model at one random point, exact modulo the prime: their rank, and what they send to zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quotax.artifacts import Trace
from quotax.derive.sampling import modular
from quotax.derive.sampling.batches import batches
from quotax.interpret.jets.residues import PRIME
from quotax.presenting.telling import Budget


@dataclass(frozen=True)
class ExactJacobian:
    """Derivatives at `theta` (flat residues) over many inputs: `rows` span them, in reduced echelon form.

    `opaque` says whether a sign had to be drawn. Drawn one by one, signs allow every pattern: the rank is then at least
    that of any real point, and what is sent to zero is sent to zero whatever the signs are.
    """

    theta: np.ndarray
    rows: np.ndarray
    pivots: np.ndarray
    opaque: bool

    @property
    def rank(self) -> int:
        """How many derivatives are independent."""
        return len(self.rows)

    @property
    def moving(self) -> np.ndarray:
        """Which parameters change anything."""
        return np.asarray(self.rows.any(axis=0))

    @property
    def flat(self) -> np.ndarray:
        """A basis (rows) of the directions that all derivatives send to zero."""
        free = np.setdiff1d(np.arange(len(self.theta)), self.pivots)
        out = np.zeros((len(free), len(self.theta)), np.int64)
        out[np.arange(len(free)), free] = 1
        out[:, self.pivots] = -self.rows[:, free].T % PRIME
        return out


def exact_jacobian(trace: Trace, rng: np.random.Generator, budget: Budget | None = None) -> ExactJacobian | None:
    """At a random point: inputs are drawn until they add nothing; None where the budget does not allow that."""
    budget = budget or Budget()
    discrete = any(spec.discrete for spec in trace.inputs)
    stream = batches(trace, rng, 1 if discrete and all(s.discrete for s in trace.inputs) else 16, one_point=True)
    total = sum(int(np.prod(s.shape(trace.sizes), dtype=np.int64)) for s in trace.params)
    theta, opaque, quiet = np.zeros(total, np.int64), False, 0
    rows, pivots = np.zeros((0, total), np.int64), np.zeros(0, np.int64)
    pending: list[np.ndarray] = []
    while quiet < (6 if discrete else 2) and len(rows) < total:
        if not budget.left:
            return None
        batch = next(stream)
        theta = np.concatenate([batch.params[s.name][0].ravel() for s in trace.params])
        opaque = opaque or batch.opaque
        pending.append(batch.dense())
        if sum(map(len, pending)) < max(total // 4, 40):
            continue
        seen = np.concatenate(pending)
        pending = []
        more, places = _added(rows, pivots, seen)
        quiet = 0 if len(more) else quiet + 1
        if len(more):
            rows = np.concatenate([(rows - modular.product(rows[:, places], more)) % PRIME, more])
            pivots = np.concatenate([pivots, places])
    return ExactJacobian(theta, rows, pivots, opaque)


def _added(rows: np.ndarray, pivots: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What new derivatives add to those in echelon form, in the same form, with the columns that they start at."""
    rest = modular.squeezed((seen - modular.product(seen[:, pivots], rows)) % PRIME)
    more = modular.echelon(rest[rest.any(axis=1)])
    return more, (more != 0).argmax(axis=1) if len(more) else np.zeros(0, np.int64)

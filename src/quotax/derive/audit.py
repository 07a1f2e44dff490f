"""The audit: parameters, rank, flat directions, algebra, orbit, and what no found symmetry explains."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sympy as sp

from quotax.artifacts import Model, Trace
from quotax.derive import linear
from quotax.derive.fields import fields_at, random_point
from quotax.derive.running import GAP, Running
from quotax.derive.sampling import batches
from quotax.derive.unnamed import FieldFamily
from quotax.errors import SymmetryError, UnsupportedPrimitiveError
from quotax.symmetry import Action

LARGEST = 2500
"""With more parameters than this the rank of the Jacobian is not computed."""


@dataclass(frozen=True)
class Audit:
    """What a network's symmetries explain of its flat directions, at stated sizes.

    `rank` is the generic rank of theta -> f(theta, .), `flat` what is left of the parameters, `orbit` the generic rank
    of the fields found, `surplus` the flat directions that no found symmetry explains. A number that is None was not to
    be had, and `unavailable` says why. `flatness` is how far random fields moved the outputs, where that was measured.
    """

    sizes: Mapping[str, int]
    parameters: int
    rank: int | None
    algebra: int | None
    orbit: int | None
    method: str
    trace: Trace = field(repr=False, compare=False)
    actions: tuple[Action, ...] = field(repr=False, compare=False)
    flatness: float | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)

    @property
    def flat(self) -> int | None:
        """Parameters minus rank."""
        return None if self.rank is None else self.parameters - self.rank

    @property
    def stabiliser(self) -> int | None:
        """Algebra minus orbit."""
        return None if self.algebra is None or self.orbit is None else self.algebra - self.orbit

    @property
    def surplus(self) -> int | None:
        """Flat minus orbit."""
        return None if self.flat is None or self.orbit is None else self.flat - self.orbit

    @property
    def complete(self) -> bool:
        """Whether the symmetries found explain every flat direction."""
        return self.surplus == 0

    def directions(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """A random float64 point, and an orthonormal basis (rows) of its flat directions orthogonal to the orbit."""
        if self.rank is None:
            raise SymmetryError(
                f"`audit.directions()` at {self.parameters} parameters: {self.unavailable.get('surplus', 'no rank')}. "
                "Ask for an audit at smaller sizes."
            )
        running = Running(self.trace)
        return surplus_directions(running, self.actions, self.trace, np.random.default_rng(seed))

    def __str__(self) -> str:
        """One line."""
        verdict = "complete" if self.complete else "unknown" if self.surplus is None else f"surplus {self.surplus}"
        if self.unavailable:
            verdict = "cannot say: " + "; ".join(f"{name}, because {why}" for name, why in self.unavailable.items())
        return (
            f"{self.parameters} parameters, rank {self.rank}, flat {self.flat}, algebra {self.algebra}, "
            f"orbit {self.orbit}, stabiliser {self.stabiliser}: {verdict} ({self.method})"
        )


def audit(
    model: Model,
    actions: Sequence[Action],
    sizes: Mapping[str, int],
    unnamed: Sequence[FieldFamily] = (),
    formulas: tuple[sp.Expr, sp.Expr] | None = None,
) -> Audit:
    """Count at these sizes."""
    trace = model.trace(sizes)
    total = sum(int(np.prod(s.shape(sizes), dtype=np.int64)) for s in model.params)
    if total > LARGEST and formulas is not None:
        return large(trace, actions, sizes, total, formulas)
    algebra, orbit = counts(model, actions, sizes, unnamed)
    rank, method = jacobian_rank(trace, total)
    return Audit(dict(sizes), total, rank, algebra, orbit, method, trace, tuple(actions))


def large(
    trace: Trace, actions: Sequence[Action], sizes: Mapping[str, int], total: int, formulas: tuple[sp.Expr, sp.Expr]
) -> Audit:
    """What a network of real size allows: dimensions by formula, flatness and independence by random products."""
    from quotax.derive.formulas import axis_symbol
    from quotax.derive.probing import FLAT, probe

    at = {axis_symbol(a): n for a, n in sizes.items()}
    algebra, orbit = (int(v) if v.is_integer else None for v in (sp.sympify(f.subs(at)) for f in formulas))
    seen = probe(trace, actions)
    if orbit is None and seen.exhausted:
        orbit = seen.independent
    method = f"dimensions by formula, float64: {seen}"
    if seen.flatness is not None and seen.flatness > FLAT:
        method += f" (NOT flat: more than {FLAT:.0e})"
    if orbit is not None and (seen.independent > orbit or (seen.exhausted and seen.independent < orbit)):
        method += f" (the formula's orbit is {orbit})"
    why = f"a Jacobian of {total} columns was not computed"
    unavailable = {"rank": why, "flat": "it needs the rank", "surplus": "it needs the rank"}
    for name, value in (("algebra", algebra), ("orbit", orbit)):
        if value is None:
            unavailable[name] = "no formula covers these sizes"
    return Audit(dict(sizes), total, None, algebra, orbit, method, trace, tuple(actions), seen.flatness, unavailable)


def counts(
    model: Model, actions: Sequence[Action], sizes: Mapping[str, int], unnamed: Sequence[FieldFamily]
) -> tuple[int, int]:
    """(algebra, orbit) of the families and the unnamed fields together."""
    rng = np.random.default_rng(3)
    points = [random_point(model.params, sizes, rng) for _ in range(2)]
    per_point = []
    for point in points:
        theta = np.concatenate([point[s.name].reshape(-1) for s in model.params])
        rows = [fields_at(a, model.params, sizes, point) for a in actions] + [f.at(theta) for f in unnamed]
        per_point.append(np.concatenate([np.zeros((0, len(theta)), np.int64), *rows]))
    return linear.rank(np.concatenate(per_point, axis=1)), max(map(linear.rank, per_point))


def jacobian_rank(trace: Trace, total: int, seed: int = 11) -> tuple[int, str]:
    """The generic rank of theta -> f(theta, .): modulo a prime where all towers are exact, otherwise in float64."""
    rng = np.random.default_rng(seed)
    try:
        exact, opaque = exact_rank(trace, total, rng)
        if not opaque:
            return exact, "exact, modulo a prime"
    except UnsupportedPrimitiveError:
        exact = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found, gap = Running(trace).rank(rng)
    agrees = "" if exact is None or exact != found else ", exact arithmetic agrees"
    clear = "" if gap > GAP else " (no clear gap)"
    return found, f"float64, spectral gap {gap:.1e}{clear}, largest of 3 points{agrees}"


def exact_rank(trace: Trace, total: int, rng: np.random.Generator) -> tuple[int, bool]:
    """The rank at one random point over many inputs, and whether a sign had to be drawn."""
    discrete = any(spec.kind != "real" for spec in trace.inputs)
    stream = batches(
        trace, rng, 1 if discrete and not any(s.kind == "real" for s in trace.inputs) else 16, one_point=True
    )
    rows = np.zeros((0, total), np.int64)
    opaque, quiet, best = False, 0, -1
    pending: list[np.ndarray] = []
    while quiet < (6 if discrete else 2):
        batch = next(stream)
        opaque = opaque or batch.opaque
        pending.append(batch.dense())
        if sum(map(len, pending)) < max(total // 4, 40):
            continue
        rows = linear.echelon(np.concatenate([rows, linear.squeezed(np.concatenate(pending))]))
        pending = []
        quiet = quiet + 1 if len(rows) == best else 0
        best = len(rows)
        if best == total:
            break
    return best, opaque


def surplus_directions(
    running: Running, actions: Sequence[Action], trace: Trace, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Flat directions at a random point, with those along the orbit projected out."""
    import jax

    from quotax.derive.fields import algebra_basis
    from quotax.derive.floats import float_fields

    theta, total = running.point(rng), sum(running.sizes)
    drawn = [running.inputs(rng) for _ in range(4 * total + 40)]
    with jax.enable_x64(True):
        jacobian = np.asarray(running._jacobian(theta, *(np.stack(c) for c in zip(*drawn, strict=True)))).reshape(
            -1, total
        )
    _, values, right = np.linalg.svd(jacobian)
    rank = int(np.sum(values > values[0] * 1e-9))
    flat = right[rank:]
    fields = [float_fields(a, trace, theta, algebra_basis(a, trace.sizes)) for a in actions]
    rows = np.concatenate([np.zeros((0, total)), *fields])
    if len(rows):
        _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
        orbit = basis[sizes > 1e-9 * max(sizes[0], 1e-300)]
        flat = flat - flat @ orbit.T @ orbit
        _, sizes, basis = np.linalg.svd(flat, full_matrices=False)
        flat = basis[sizes > 1e-6]
    return theta, flat

"""The audit: parameters, rank, flat directions, algebra, orbit, and what no found symmetry explains."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sympy as sp

from quotax.artifacts import Model, Trace
from quotax.derive.candidates.unnamed import Leftover
from quotax.derive.found.array_kernels import explained
from quotax.derive.found.dimensions import axis_symbol
from quotax.derive.points.exact_jacobian import exact_jacobian
from quotax.derive.points.faint_constants import SEEN, raised
from quotax.derive.points.float_model import GAP, MOST_POINTS, FloatModel, Rank, counted
from quotax.derive.points.probing import FLAT, probe
from quotax.derive.points.vector_fields import dimensions, fields_at
from quotax.derive.points.where_defined import ANYWHERE
from quotax.errors import SymmetryError, UnsupportedPrimitiveError
from quotax.presenting import Result
from quotax.presenting.tables import wrapped
from quotax.programs.threads import one_thread
from quotax.symmetry import Action

LARGEST = 2500
"""With more parameters than this the rank of the Jacobian is not computed."""
DENSE = 500
"""With more parameters than this a surplus is not looked at for what kernels of arrays explain."""

NOWHERE = "no point was found at which all outputs are numbers with finite derivatives"


@dataclass(frozen=True, repr=False)
class Audit(Result):
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
    model: Model = field(repr=False, compare=False)
    actions: tuple[Action, ...] = field(repr=False, compare=False)
    flatness: float | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)
    inert: tuple[str, ...] = ()
    unproved: int = 0
    kernels: Mapping[str, int] = field(default_factory=dict)
    """Surplus directions that an array has a kernel for, along an axis, by the array: `array_kernels.py`."""
    faint: int = 0
    """Directions that are not flat, and that only constants below 1e-8 keep from it: `faint_constants.py`."""

    _also = ("flat", "stabiliser", "surplus", "unexplained", "complete")

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
    def unexplained(self) -> int | None:
        """The surplus without what the kernels of arrays explain."""
        return None if self.surplus is None else self.surplus - sum(self.kernels.values())

    @property
    def complete(self) -> bool:
        """Whether the symmetries found explain every flat direction."""
        return self.surplus == 0

    def directions(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """A random float64 point, and an orthonormal basis (rows) of its flat directions orthogonal to the orbit."""
        if self.rank is None:
            raise SymmetryError(
                f"`audit.directions()` at {self.parameters} parameters: {self.unavailable.get('rank', 'no rank')}. "
                "Ask for an audit at other sizes."
            )
        here = _running(self.model.trace(self.sizes), self.faint)
        return surplus_directions(here, self.actions, self.rank, np.random.default_rng(seed))

    def __str__(self) -> str:
        """A sentence."""
        verdict = "complete" if self.complete else "unknown" if self.surplus is None else f"surplus {self.surplus}"
        if self.unavailable:
            verdict = "cannot say: " + "; ".join(f"{name}, because {why}" for name, why in self.unavailable.items())
        if self.kernels:
            what = ", ".join(f"{name} {count}" for name, count in self.kernels.items())
            verdict += (
                f", of which kernel directions {sum(self.kernels.values())} ({what}), unexplained {self.unexplained}"
            )
        if self.faint:
            verdict += f"; {self.faint} more directions are flat to float64, but for constants below 1e-8"
        if self.unproved:
            verdict += f"; {self.unproved} fields found here are not proved and not counted"
        inert = f"inert to first order: {', '.join(self.inert)}; " if self.inert else ""
        return wrapped(
            f"{inert}{self.parameters} parameters, rank {self.rank}, flat {self.flat}, algebra {self.algebra}, "
            f"orbit {self.orbit}, stabiliser {self.stabiliser}: {verdict} ({self.method})"
        )


@one_thread  # of a matrix of 4,000 x 1,000, too, singular values take a tenth of the processor time
def audit(
    model: Model,
    actions: Sequence[Action],
    sizes: Mapping[str, int],
    left: Leftover | None = None,
    formulas: tuple[sp.Expr, sp.Expr] | None = None,
) -> Audit:
    """Count at these sizes."""
    trace = model.trace(sizes)
    total = sum(int(np.prod(s.shape(sizes), dtype=np.int64)) for s in model.params)
    if total > LARGEST and formulas is not None:
        return large(model, actions, sizes, total, formulas)
    unnamed = () if left is None else tuple(family.at for family in left.proved)
    algebra, orbit = dimensions(actions, model.params, sizes, unnamed)
    seen = jacobian_rank(trace, total, orbit)
    if seen.rank is not None and FloatModel(trace).valued is None:
        seen = Seen(None, seen.method, (), _missing(NOWHERE))
    unproved = 0 if left is None else sum(max(len(f.fields), 1) for f in left.unproved)
    kernels = {}
    if seen.rank is not None and not unnamed and total <= DENSE and total - seen.rank > orbit:
        kernels = kernel_directions(_running(trace, seen.faint), actions, seen.rank, np.random.default_rng(0))
    return Audit(
        dict(sizes),
        total,
        seen.rank,
        algebra,
        orbit,
        seen.method,
        model,
        tuple(actions),
        unavailable=seen.unavailable,
        inert=seen.inert,
        unproved=unproved,
        kernels=kernels,
        faint=seen.faint,
    )


def large(
    model: Model, actions: Sequence[Action], sizes: Mapping[str, int], total: int, formulas: tuple[sp.Expr, sp.Expr]
) -> Audit:
    """What a network of real size allows: dimensions by formula, flatness and independence by random products."""
    at = {axis_symbol(a): n for a, n in sizes.items()}
    algebra, orbit = (int(v) if v.is_Integer else None for v in (sp.sympify(f.subs(at)) for f in formulas))
    seen = probe(model.trace(sizes), actions)
    if orbit is None and seen.exhausted:
        orbit = seen.independent
    method = f"dimensions by formula, float64: {seen}"
    if seen.flatness is not None and seen.flatness > FLAT:
        method += f" (NOT flat: more than {FLAT:.0e})"
    if orbit is not None and (seen.independent > orbit or (seen.exhausted and seen.independent < orbit)):
        method += f" (the formula's orbit is {orbit})"
    why = f"a Jacobian of {total} columns was not computed"
    unavailable = _missing(why)
    for name, value in (("algebra", algebra), ("orbit", orbit)):
        if value is None:
            unavailable[name] = "no formula covers these sizes"
    return Audit(
        dict(sizes), total, None, algebra, orbit, method, model, tuple(actions), seen.flatness, unavailable, seen.inert
    )


@dataclass(frozen=True)
class Seen:
    """What is known of the generic rank; None with the reason where it was not to be had."""

    rank: int | None
    method: str
    inert: tuple[str, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)
    faint: int = 0


def _running(trace: Trace, faint: int) -> FloatModel:
    """The model in floats, as the rank was taken."""
    return FloatModel(raised(trace)[0] if faint else trace)


def jacobian_rank(trace: Trace, total: int, orbit: int = 0, seed: int = 11) -> Seen:
    """The generic rank of theta -> f(theta, .): modulo a prime where all towers are exact, otherwise in float64.

    `orbit` is the dimension of proved orbits: the rank is at most what they leave of the parameters. A rank that is not
    there, that no gap separates from rounding, or that is larger than this bound, is no rank.
    """
    rng = np.random.default_rng(seed)
    left, exact = total - orbit, None
    try:
        jacobian = exact_jacobian(trace, rng)
        assert jacobian is not None  # no budget
        exact = jacobian.rank
        if not jacobian.opaque and exact <= left:
            return Seen(exact, "exact, modulo a prime", _inert(trace, jacobian.moving))
    except UnsupportedPrimitiveError:
        pass
    # Signs that are drawn one by one allow every pattern: what they reach bounds what any point reaches.
    most = left if exact is None else min(left, exact)
    running = FloatModel(trace)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = running.rank(rng, most)
    if found is None:
        return Seen(None, "float64", (), _missing(NOWHERE))
    faint, constants = 0, ""
    if found.value < most:
        louder, met = raised(trace)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            also = FloatModel(louder).rank(rng, most) if met else None
        if also is not None and also.value > found.value and (also.gap > GAP or also.value == most):
            faint, found = also.value - found.value, also
            constants = f", with {', '.join(f'{c:.0e}' for c in met)} as {SEEN}: as it is, rank {also.value - faint}"
    method = f"float64, {_points(running, found)}{constants}"
    if exact is not None:
        method += ", exact arithmetic agrees" if exact == found.value else f", exact arithmetic allows {exact}"
    inert = _inert(trace, found.moving)
    if found.value > left:
        why = f"float64 shows {found.value}, and the proved orbits leave {left} at most"
        return Seen(None, method, inert, _missing(why))
    if found.gap <= GAP and found.value < most:
        why = f"singular values fall by {found.gap:.1g} only at {found.value}, which is no clear gap"
        return Seen(None, method, inert, _missing(why))
    return Seen(found.value, method, inert, faint=faint)


def _points(running: FloatModel, found: Rank) -> str:
    where = f"largest of {found.points} points" if found.points > 1 else "one point"
    return f"spectral gap {found.gap:.1e}, {where}{running.smooth}"


def _missing(why: str) -> dict[str, str]:
    return {"rank": why, "flat": "it needs the rank", "surplus": "it needs the rank"}


def _inert(trace: Trace, moving: np.ndarray) -> tuple[str, ...]:
    """The parameters none of whose entries moves anything."""
    ends = np.cumsum([int(np.prod(spec.shape(trace.sizes), dtype=np.int64)) for spec in trace.params])
    parts = zip(trace.params, np.split(moving, ends[:-1]), strict=True)
    return tuple(spec.name for spec, part in parts if not part.any())


def surplus_directions(
    running: FloatModel, actions: Sequence[Action], rank: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Flat directions at a random point where the rank is the generic one, with those along the orbit projected out."""
    theta, flat, _ = _beside_the_orbit(running, actions, rank, rng)
    return theta, flat


def kernel_directions(
    running: FloatModel, actions: Sequence[Action], rank: int, rng: np.random.Generator
) -> dict[str, int]:
    """How many surplus directions the kernel of which array explains; none where no point is to be had."""
    try:
        theta, flat, orbit = _beside_the_orbit(running, actions, rank, rng)
    except SymmetryError:
        return {}
    return explained(running.trace.params, running.trace.sizes, actions, theta, flat, orbit)


def _beside_the_orbit(
    running: FloatModel, actions: Sequence[Action], rank: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A point, the flat directions there orthogonal to the orbit, and those along it."""
    theta, flat = _flat(running, rank, rng)
    trace, orbit = running.trace, np.zeros((0, len(theta)))
    fields = [fields_at(a, trace.params, trace.sizes, theta) for a in actions]
    rows = np.concatenate([orbit, *fields])
    if len(rows):
        _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
        orbit = basis[sizes > 1e-9 * max(sizes[0], 1e-300)]
        flat = flat - flat @ orbit.T @ orbit
        _, sizes, basis = np.linalg.svd(flat, full_matrices=False)
        flat = basis[sizes > 1e-6]
    return theta, flat, orbit


def _flat(running: FloatModel, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A random point, and a basis of what the derivatives send to zero there."""
    places = running.smooth or ANYWHERE
    for _ in range(MOST_POINTS):
        theta = running.point(rng, places)
        found = running.matrix(theta, rng, places)
        if found is None:
            continue
        _, values, right = np.linalg.svd(np.concatenate([found[0], np.zeros((1, len(theta)))]))
        if counted(values)[0] == rank:
            return theta, right[rank:]
    raise SymmetryError(
        f"`audit.directions()`: none of {MOST_POINTS} random points has the generic rank {rank}; try another seed=."
    )

"""A network of real size: random fields pushed through its derivative, and how many of them are independent."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from quotax.artifacts import Trace
from quotax.derive.points.float_model import REDRAWN, FloatModel, nudged
from quotax.derive.points.vector_fields import field_along
from quotax.derive.points.where_defined import Places
from quotax.symmetry import Action

FLAT = 1e-8
"""A field is called flat when the outputs move less than this, relative to the same field with random entries."""
SECONDS = 6.0
"""No further field is drawn after this long; compilation comes on top."""
ROUNDING = 1e3
"""A number at most this many times larger than the rounding that was seen in it cannot be told from rounding."""
NUDGES = 3
"""Points beside the one that is looked at, a few units in the last place away: what changes there is rounding."""
WIDTH = 512
"""Coordinates that a field is hashed to before ranks are taken; at most this many minus 64 fields are drawn."""
ELSEWHERE = 6
"""Further points at which a parameter that seems inert is looked at."""
HASHES = 4
"""Coordinates to which one parameter goes: with one, fields that share few parameters would collide."""


@dataclass(frozen=True)
class Probe:
    """Random fields of all families at one random point: the largest relative |J v|; how many were independent."""

    flatness: float | None
    fields: int
    independent: int
    exhausted: bool
    skipped: int = 0
    inert: tuple[str, ...] = ()
    where: str = ""

    def __str__(self) -> str:
        """One clause."""
        if self.flatness is None:
            return "outputs were not finite at random points"
        if not self.fields:
            return "no field to try"
        moved = f"{self.fields} random fields move the outputs by at most {self.flatness:.1e} of what others do"
        rank = f"{self.independent} of them are independent"
        count = " and no more were to be had" if self.exhausted else ""
        missed = f"; {self.skipped} families were not reached in time" if self.skipped else ""
        where = f" at a point{self.where}" if self.where else ""
        return f"{moved}{where}, {rank}{count}{missed}"


def probe(trace: Trace, actions: Sequence[Action], seed: int = 5) -> Probe:
    """Randomised Jacobian products, one field in memory at a time.

    The first field v of each family is pushed forward: |J v| over |J w|, where w is v times a random number in each
    entry. All fields meet one cotangent u: |<J'u, v>| over |J'u| |v|, times the root of the number of parameters, which
    is about one for a random v. What cannot be told from rounding is compared with the size of the numbers whose
    rounding it is (`_relative`), because J w may be rounding too. Ranks are taken of hashed fields (every parameter
    sent, with random weights, to `HASHES` of `WIDTH` coordinates), which keeps fewer fields than coordinates
    independent with overwhelming probability, also when all of them move few parameters.
    """
    rng = np.random.default_rng(seed)
    products = _Products(FloatModel(trace))
    along = lambda which, at, xi: field_along(actions[which], trace.params, trace.sizes, at, xi)
    with warnings.catch_warnings(), jax.enable_x64(True):
        warnings.simplefilter("ignore", RuntimeWarning)
        point = products.somewhere(rng)
        if point is None:
            return Probe(None, 0, 0, False)
        theta, gradient, total = point.theta, point.gradients[0], len(point.theta)
        hashes = [(rng.integers(0, WIDTH, total), rng.normal(size=total)) for _ in range(HASHES)]
        started, worst, hashed, tried = time.monotonic(), 0.0, [], set()
        slope = float(np.linalg.norm(gradient)) / np.sqrt(total)
        exhausted = True
        for which, first, xi in _elements(actions, trace, rng):
            late = time.monotonic() - started > SECONDS
            if late or len(hashed) >= WIDTH - 64:
                exhausted = False
                break
            field = along(which, theta, xi)
            size = float(np.linalg.norm(field))
            if not size or not np.isfinite(size):
                continue
            tried.add(which)
            hashed.append(sum(np.bincount(b, weights=w * field, minlength=WIDTH) for b, w in hashes) / size)
            met = [np.atleast_1d(g @ field) for g in point.gradients]
            worst = max(worst, _relative(met, slope * size, float(np.abs(gradient * field).sum())))
            if first:
                beside = [nudged(theta, rng) for _ in range(NUDGES)]
                fields = [field, *(along(which, at, xi) for at in beside)]
                pushed = [
                    np.asarray(products.push(at, v, point.inputs))
                    for at, v in zip((theta, *beside), fields, strict=True)
                ]
                scattered = field * rng.normal(size=total)
                other = float(np.linalg.norm(products.push(theta, scattered, point.inputs)))
                worst = max(worst, _relative(pushed, other, other))
        inert = products.inert(point, rng)
    values = np.linalg.svd(np.array(hashed), compute_uv=False) if hashed else np.zeros(0)
    independent = int(np.sum(values > 1e-9 * values.max(initial=1e-300)))
    skipped = len(actions) - len(tried) if not exhausted else 0
    return Probe(worst, len(hashed), independent, exhausted, skipped, inert, str(products.places))


def _relative(values: Sequence[np.ndarray], usual: float, terms: float) -> float:
    """|v| over its usual size, where `values` are v at a point and at points a few units in the last place away.

    When v changes by itself between these, or is no more than the rounding of its `terms`, it is rounding, and so may
    be what is usual: then the scale is that of the numbers which were rounded, the change over the precision.
    """
    eps = float(np.finfo(float).eps)
    size = float(np.linalg.norm(values[0]))
    rounding = max([eps * terms, *(float(np.linalg.norm(v - values[0])) for v in values[1:])])
    scale = max(usual, rounding / eps) if size <= ROUNDING * rounding else usual
    return size / scale if scale else float(size > 0)


@dataclass(frozen=True)
class _Point:
    """A point with finite derivatives: J v there, and J'u for one u at the point and at `NUDGES` points beside it."""

    theta: np.ndarray
    inputs: list[np.ndarray]
    gradients: list[np.ndarray]

    def still(self, running: FloatModel) -> set[str]:
        """Parameters whose derivatives are zero or change by themselves when the point is nudged."""
        ends = np.cumsum(running.sizes)[:-1]
        names = set()
        parts = zip(*(np.split(g, ends) for g in self.gradients), strict=True)
        for spec, own in zip(running.trace.params, parts, strict=True):
            change = max(float(np.abs(g - own[0]).max(initial=0.0)) for g in own[1:])
            if change >= 0.05 * float(np.abs(own[0]).max(initial=0.0)):
                names.add(spec.name)
        return names


class _Products:
    """J v and J'u of one model, each compiled once."""

    def __init__(self, running: FloatModel) -> None:
        self.running = running
        self.places = running.valued
        outputs = running.outputs
        self.push = jax.jit(lambda theta, v, inputs: jax.jvp(lambda t: outputs(t, *inputs), (theta,), (v,))[1])
        self.pull = jax.jit(lambda theta, u, inputs: jax.vjp(lambda t: outputs(t, *inputs), theta)[1](u)[0])

    def somewhere(self, rng: np.random.Generator) -> _Point | None:
        """A random point; None where none with finite derivatives was found."""
        if self.places is None:
            return None
        for _ in range(REDRAWN):
            theta = _moderate(self.running.trace, rng, self.places)
            inputs = self.running.inputs(rng, self.places)
            u = rng.normal(size=len(self.running(theta, inputs)))
            beside = (nudged(theta, rng) for _ in range(NUDGES))
            gradients = [np.asarray(self.pull(at, u, inputs)) for at in (theta, *beside)]
            if all(np.isfinite(g).all() for g in gradients):
                return _Point(theta, inputs, gradients)
        return None

    def inert(self, point: _Point, rng: np.random.Generator) -> tuple[str, ...]:
        """Parameters that move nothing at this point, nor at others: units that are dead at one live at another."""
        names = point.still(self.running)
        for _ in range(ELSEWHERE):
            other = self.somewhere(rng) if names else None
            if other is None:
                break
            names &= other.still(self.running)
        return tuple(spec.name for spec in self.running.trace.params if spec.name in names)


def _elements(
    actions: Sequence[Action], trace: Trace, rng: np.random.Generator
) -> Iterator[tuple[int, bool, np.ndarray]]:
    """Random algebra elements, one of each family in turn, until every family has had more than its dimension."""
    shapes = [a.group.coordinate_shape(trace.sizes) for a in actions]
    counts = [int(np.prod(s, dtype=np.int64)) for s in shapes]
    for turn in range(max(counts, default=0) + 2):
        for which, (action, shape, count) in enumerate(zip(actions, shapes, counts, strict=True)):
            if count and turn < count + 2:
                yield (
                    which,
                    not turn,
                    np.asarray(action.group.algebra(rng.normal(size=shape), trace.sizes)),
                )


def _moderate(trace: Trace, rng: np.random.Generator, places: Places) -> np.ndarray:
    """Random parameters at which a wide network neither saturates nor vanishes: fan-in scaling."""
    parts = []
    for spec in trace.params:
        shape = spec.shape(trace.sizes)
        fan = max(shape) if len(shape) > 1 else 1
        values = rng.normal(size=int(np.prod(shape, dtype=np.int64)))
        parts.append(places.drawn(spec.name, values) / np.sqrt(fan))
    return np.concatenate(parts)

"""Changes of the parameters at places (parameter, axis), and whether the outputs stay: in floats, before any proof."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from quotax.artifacts import ArraySpec, Trace
from quotax.derive.candidates.sign_subspaces import Values, close
from quotax.derive.points.float_model import REDRAWN, FloatModel
from quotax.derive.points.where_defined import ANYWHERE, Places
from quotax.interpret.tracing.centres import centres
from quotax.symmetry import Symmetry

Place = tuple[str, int]

Move = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]

Offset = tuple[str, str, int, Sequence[int], float]
"""(target, source, the source's place, the order of its other axes, c): c times a slice is added to the target."""

Case = tuple[dict[str, np.ndarray], list[tuple[list[np.ndarray], np.ndarray]]]
"""A point, and inputs with the outputs there."""

SUBSETS = 2048
"""At most this many sets of places are tried for one axis, smallest first."""


def subsets(places: list[Place]) -> Iterator[tuple[Place, ...]]:
    """All sets of places, smallest first; those within one branch of a nested parameter tree come before the others."""
    branches = dict.fromkeys(name.rpartition("/")[0] for name, _ in places)
    for branch in branches if len(branches) > 1 else ():
        own = [place for place in places if place[0].rpartition("/")[0] == branch]
        for size in range(1, min(len(own), 8) + 1):
            yield from itertools.islice(itertools.combinations(own, size), 64)
    for size in range(1, len(places) + 1):
        yield from itertools.combinations(places, size)


class MoveCheck:
    """Runs the model at three points before and after a change of the parameters."""

    def __init__(self, trace: Trace) -> None:
        self.running = running = FloatModel(trace)
        self.centres = centres(trace)
        self.shapes = {s.name: s.split_shape(trace.sizes) for s in trace.params}
        rng = np.random.default_rng(5)
        places = running.valued or ANYWHERE
        self.cases: list[Case] = []
        for _ in range(3):
            self.cases.append(self._drawn(rng, places))
            # where all units of some layer are dead, everything would look inert
            for _ in range(REDRAWN):
                (_, first), (_, second) = self.cases[-1][1]
                if not close(first, second):
                    break
                self.cases[-1] = self._drawn(rng, places)

    def _drawn(self, rng: np.random.Generator, places: Places) -> Case:
        """A point, and the outputs there at two inputs."""
        point = {n: places.drawn(n, rng.normal(size=shape)) for n, shape in self.shapes.items()}
        inputs = [self.running.inputs(rng, places) for _ in range(2)]
        return point, [(i, self.running(self.running.named(point), i)) for i in inputs]

    def inert(self, name: str) -> bool:
        """Whether a parameter changes nothing at all: entries move differently, or a common shift would look inert."""
        step = np.random.default_rng(7).uniform(0.1, 2, size=self.shapes[name])
        return self.same(lambda point: point | {name: point[name] * step})

    def same(self, move: Move) -> bool:
        """Whether the outputs stay (as far as float64 can tell)."""
        for point, outputs in self.cases:
            moved = self.running.named(point | move(dict(point)))
            for inputs, before in outputs:
                if not close(before, self.running(moved, inputs)):
                    return False
        return True

    def passing(self, moves: Sequence[Move]) -> list[bool]:
        """Which of these moves leave the outputs at the first point alone: the others need no further look."""
        point, outputs = self.cases[0]
        inputs, before = outputs[0]
        moved = [self.running.named(point | move(dict(point))) for move in moves]
        return [close(before, after) for after in self.running.at_many(moved, inputs)]

    def values(self, moved: Callable[[np.ndarray, Sequence[int]], np.ndarray]) -> Iterator[Values]:
        """For every point and input: the outputs after what sets of places stand for; `moved` is of flat points."""
        for point, outputs in self.cases:
            theta = self.running.named(point)
            for inputs, _ in outputs:
                yield lambda sets, t=theta, x=inputs: self.running.at_many(moved(t, sets), x)


def permuting(chosen: Sequence[Place], order: np.ndarray, at: Mapping[str, tuple[int, ...]] | None = None) -> Move:
    """Bring the chosen places into an order; with `at`, only at the first index along those axes of each parameter."""

    def move(point: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for name, axis in chosen:
            moved = np.take(point[name], order, axis=axis)
            if at is not None:
                first = (np.indices(moved.shape)[list(at[name])] == 0).all(axis=0)
                moved = np.where(first, moved, point[name])
            point[name] = moved
        return point

    return move


def flipping(
    chosen: Sequence[Place],
    about: Mapping[str, Fraction],
    offset: Offset | None = None,
    factors: Mapping[str, Sequence[Any]] | None = None,
    each: Sequence[str] = (),
) -> Move:
    """Flip the first index along the chosen places; the offset adds a multiple of a parameter's slice to another.

    With `each` the first along those axes alone.
    """

    def first(name: str, array: np.ndarray) -> np.ndarray:
        own = factors[name] if factors else ()
        return np.all([np.indices(array.shape)[own.index(axis)] == 0 for axis in each], axis=0)

    def move(point: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        before = dict(point)
        for name, axis in chosen:
            sign = np.ones(point[name].shape[axis])
            sign[0] = -1
            sign, r = sign.reshape([-1 if k == axis else 1 for k in range(point[name].ndim)]), float(about.get(name, 0))
            sign = np.where(first(name, point[name]), sign, 1.0) if each else sign
            point[name] = (point[name] + r) * sign - r
        if offset is not None:
            target, source, axis, order, c = offset
            piece = np.take(before[source] + float(about.get(source, 0)), 0, axis=axis).transpose(order)
            point[target] = point[target] + c * (np.where(first(target, piece), piece, 0.0) if each else piece)
        return point

    return move


def acted_places(specs: Sequence[ArraySpec], family: Symmetry, axis: str, odd: bool) -> set[Place]:
    """Where a family acts on an axis; `odd`: where a sign in it is seen."""
    action = family.bind(tuple(specs))
    seen = {term.target for term in action.terms or () if term.kind == "diagonal" and term.coefficient % 2 == 1}
    moved = action.moved if not odd or family.group.layout == "matrix" else seen
    return {(s.name, k) for s in specs if s.name in moved for k, f in enumerate(s.factors) if f == axis}

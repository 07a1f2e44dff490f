r"""Flat directions that are there because an array has a kernel: no group names them, and they are counted at a point.

Where an axis is longer than what an array reads along it, the array sends some vectors $\psi$ along the axis to zero.
What is written into them, $\delta W_{i\ldots} = \psi_i T_{\ldots}$, that array does not see; a matrix $C = c\,\psi^T$
may act on others that share the axis; biases may take up what is constant. Such directions are orbits of projectors,
$(1 - A^+ A)\,T$, whose group differs from point to point, and the language of actions has no word for them.

At one random point, those surplus directions that lie in the span of all these are counted: a kernel *explains* them.
The span of biases alone explains nothing. Behind a gain $v$ a kernel is seen through it: $\psi$ is one of
$W' = W v^{m}$, of what the scaling of $v$ does not move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.derive.points.vector_fields import split
from quotax.symmetry import Action, gain_of

NEAR = 1e-6
"""A unit vector that is this close to a space lies in it."""
SEEN = 1e-8
"""A direction lies in a span where the squares of its products with unit vectors there have at least this sum."""


class Kernel(NamedTuple):
    """Vectors (rows) along an axis of an array that it sends to zero."""

    name: str
    place: int
    axis: AxisFactor
    vectors: np.ndarray


def explained(
    specs: Sequence[ArraySpec],
    sizes: Mapping[str, int],
    actions: Sequence[Action],
    theta: np.ndarray,
    left: np.ndarray,
    orbit: np.ndarray,
) -> dict[str, int]:
    """How many of the directions `left` are explained, by the array whose kernel does it, each counted once.

    `left` and `orbit` are orthonormal rows, orthogonal to each other.
    """
    biases, named = _biases(specs, sizes, len(theta)), {}
    for kernel in _kernels(specs, sizes, theta):
        rows = np.concatenate(list(_directions(specs, sizes, actions, theta, kernel)))
        counting = _Counting(left, orbit, biases)
        if count := counting.with_more(rows):
            named[f"{kernel.name} along {kernel.axis}"] = count, rows
    counting, counts, total = _Counting(left, orbit, biases), dict[str, int](), 0
    for name, (_, rows) in sorted(named.items(), key=lambda item: -item[1][0]):  # what explains most comes first
        if (now := counting.with_more(rows)) > total:
            counts[name], total = now - total, now
    return counts


class _Counting:
    """How many of the directions `left` are in a span that grows, but for those that biases alone span."""

    def __init__(self, left: np.ndarray, orbit: np.ndarray, biases: np.ndarray) -> None:
        self.left, self.biases = left, biases
        self.every, self.kernels = _Span(orbit, biases), _Span(orbit, biases[:0])
        self.nothing = self.every.meeting(left)

    def with_more(self, rows: np.ndarray) -> int:
        """The number with these rows: those of them that move biases alone count by themselves, too."""
        self.every.add(rows)
        self.kernels.add(rows[~(rows - rows @ self.biases.T @ self.biases).any(axis=1)])
        return self.every.meeting(self.left) - self.nothing + self.kernels.meeting(self.left)


class _Span:
    """What rows span beside the orbit, by their Gram matrix: sums of many rows cost no more than those of few."""

    def __init__(self, orbit: np.ndarray, rows: np.ndarray) -> None:
        self.orbit, self.gram = orbit, np.zeros((rows.shape[1], rows.shape[1]))
        self.add(rows)

    def add(self, rows: np.ndarray) -> None:
        """Of one length each, those that are rounding left out; what is along the orbit does not count."""
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        kept = lengths[:, 0] > NEAR
        rows = rows[kept] / lengths[kept]
        rows = rows - rows @ self.orbit.T @ self.orbit
        self.gram += rows.T @ rows

    def meeting(self, left: np.ndarray) -> int:
        """The dimension of what this space and another, given by orthonormal rows, have in common."""
        values, vectors = np.linalg.eigh(self.gram)
        basis = vectors[:, values > SEEN]
        return int(np.sum(np.linalg.svd(left - left @ basis @ basis.T, compute_uv=False) < NEAR))


def _biases(specs: Sequence[ArraySpec], sizes: Mapping[str, int], total: int) -> np.ndarray:
    """Every entry of every vector and scalar."""
    marks = np.zeros(total)
    for spec in specs:
        if len(spec.factors) <= 1:
            split(specs, sizes, marks)[spec.name][...] = 1
    return np.eye(total)[marks > 0]


def _kernels(specs: Sequence[ArraySpec], sizes: Mapping[str, int], theta: np.ndarray) -> Iterator[Kernel]:
    arrays = split(specs, sizes, theta)
    for spec in specs:
        for place, axis in enumerate(spec.factors):
            rows = _along(arrays[spec.name], place)
            left, values, _ = np.linalg.svd(rows)
            rank = int(np.sum(values > 1e-9 * values.max(initial=0.0)))
            if len(spec.factors) > 1 and rank < len(rows):
                yield Kernel(spec.name, place, axis, left[:, rank:].T)


def _directions(
    specs: Sequence[ArraySpec],
    sizes: Mapping[str, int],
    actions: Sequence[Action],
    theta: np.ndarray,
    kernel: Kernel,
) -> Iterator[np.ndarray]:
    """What is written into a kernel, and matrices that read it, wherever the axis occurs."""
    arrays, at = split(specs, sizes, theta), split(specs, sizes, np.arange(len(theta)))
    for spec in specs:
        for place in (k for k, factor in enumerate(spec.factors) if factor == kernel.axis):
            rows, positions = (_along(own[spec.name], place) for own in (arrays, at))
            seen = list(_seen(specs, actions, arrays, kernel, spec.name, place))
            if np.linalg.matrix_rank(np.concatenate(seen)) == len(rows):
                seen = seen[:1]  # what is seen in several ways and fills the axis would explain anything
            for vectors in seen:
                into = np.einsum("ki,rs->kris", vectors, np.eye(rows.shape[1])).reshape(-1, *rows.shape)
                through = np.einsum("ci,kr->kcir", np.eye(len(rows)), vectors @ rows).reshape(-1, *rows.shape)
                changes = np.concatenate([into, through]) if rows.shape[1] > 1 else into  # of a vector it is anything
                out = np.zeros((len(changes), len(theta)))
                out[:, positions] = changes
                yield out


def _seen(
    specs: Sequence[ArraySpec],
    actions: Sequence[Action],
    arrays: Mapping[str, np.ndarray],
    kernel: Kernel,
    name: str,
    place: int,
) -> Iterator[np.ndarray]:
    """The kernel's vectors, and as an array sees them that is on another side of a gain."""
    yield kernel.vectors
    for vector in (s.name for s in specs if s.factors == (kernel.axis,)):
        for gain in filter(None, (gain_of(action, vector) for action in actions)):
            weights = dict(gain.weights) | {vector: ((0,), gain.power)}
            places = ((kernel.name, kernel.place), (name, place))
            power = sum(weights[n][1] for n, k in places if n in weights and weights[n][0] == (k,))
            if power:
                yield kernel.vectors * arrays[vector] ** (gain.power * power)


def _along(array: np.ndarray, place: int) -> np.ndarray:
    """A matrix whose rows are the indices at one place."""
    return np.moveaxis(array, place, 0).reshape(array.shape[place], -1)

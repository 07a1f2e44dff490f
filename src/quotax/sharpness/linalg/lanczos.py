"""Eigenvalues of a symmetric operator from its products with vectors: block Lanczos with full orthogonalisation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from quotax.sharpness.problem.vectors import Vector, combine, dot, dots, put, stacked, zeros

Operator = Callable[[Vector], Vector]

# What is left of a vector after orthogonalisation counts as a new direction above this share of it.
NEW = 1e-6

# Above this share what is left needs no second look.
MUCH = 0.1


class Ritz(NamedTuple):
    """Approximate eigenpairs in a basis of orthonormal rows, values ascending; `images` are those of the basis.

    The vector of a value is the combination of the `basis` by a column of `coordinates`.
    """

    values: np.ndarray
    coordinates: np.ndarray
    basis: Vector
    images: Vector

    @property
    def weights(self) -> np.ndarray:
        """The squared components of the first vector of the basis."""
        return self.coordinates[0] ** 2

    @property
    def products(self) -> int:
        """Products with the operator."""
        return len(self.values)

    def vector(self, i: int) -> Vector:
        """The i-th approximate eigenvector v."""
        return combine(self.coordinates[:, i], self.basis)

    def vectors(self, which: Sequence[int]) -> Vector:
        """Several of them, as a stack."""
        return combine(self.coordinates[:, list(which)].T, self.basis)

    def allowed(self, tolerance: float) -> float:
        """The largest residual of a value that is known to this tolerance, relative to the operator."""
        return tolerance * float(np.max(np.abs(self.values)))

    def residuals(self, which: Sequence[int]) -> np.ndarray:
        """`|A v - value v|` of several: within that distance of the value lies an eigenvalue of A."""
        if not len(which):
            return np.zeros(0)
        values = self.values[list(which), None].astype(self.basis.dtype)
        errors = combine(self.coordinates[:, list(which)].T, self.images) - values * self.vectors(which)
        return np.asarray([dot(error, error) ** 0.5 for error in errors])


def orthonormal(basis: Vector, stack: Vector, along: np.ndarray | None = None) -> tuple[list[Vector | None], float]:
    """For each row of a stack the unit vector of what is left outside the span of the basis' rows and of those before.

    Nothing where that is rounding. Rounding grows by the inverse of the second number: the least share that is left.
    `along` is `dots(stack, basis)`, where it is known.
    """
    sizes = [dot(v, v) ** 0.5 for v in stack]
    if len(basis):
        stack = stack - combine(dots(stack, basis) if along is None else along, basis)
    found: list[Vector | None] = []
    share = 1.0
    for v, size in zip(stack, sizes, strict=True):
        before = [q for q in found if q is not None]
        for _ in range(2):
            for q in before:
                v = v - dot(q, v) * q
        rest = dot(v, v) ** 0.5
        found.append(v * (1 / rest) if rest > NEW * size else None)
        share = min(share, rest / size if size > 0 else 0.0)
    return found, share


def block_lanczos(
    operator: Operator,
    project: Operator,
    random: Callable[[Sequence[int]], Vector],
    *,
    block: int,
    basis: int,
    ends: tuple[int, int],
    tolerance: float,
) -> Ritz:
    """The Ritz pairs once `ends = (bottom, top)` of them have residuals below `tolerance |A|`, or the basis is full.

    A block of b vectors finds eigenvalues of multiplicity up to b, of which a single vector sees one. Directions that
    a block lacks are replaced by `random` ones in the range of `project`; when that is exhausted, the answer is exact.
    All three work on stacks of vectors.
    """
    candidates = random(range(basis, basis + block))
    Q, images = zeros(basis, candidates[0]), zeros(basis, candidates[0])
    T = np.zeros((basis, basis))
    along = None
    count, rounds = 0, 0
    while True:
        first, wanted = count, candidates[: basis - count]
        new = _further(Q[:count], wanted, along, project, random)
        if new:
            for i, image in enumerate(operator(stacked(new))):
                Q, images = put(Q, count + i, new[i]), put(images, count + i, image)
            count += len(new)
            candidates = images[first:count]
            T[:count, first:count] = dots(Q[:count], candidates)
            along = T[:count, first:count].T[: basis - count]
            T[first:count, :first] = T[:first, first:count].T
        rounds += 1
        over = count == basis or len(new) < len(wanted)
        # Residuals cost passes over the basis: looked at in every fourth round.
        if over or (tolerance > 0 and rounds % 4 == 0):
            found = _ritz(Q[:count], images[:count], T[:count, :count])
            if over or converged(found, ends, tolerance):
                return found


def _further(
    basis: Vector,
    wanted: Vector,
    along: np.ndarray | None,
    project: Operator,
    random: Callable[[Sequence[int]], Vector],
) -> list[Vector]:
    """Orthonormal vectors for the next block, in the range of `project`: fewer than wanted when that is exhausted."""
    found, share = orthonormal(basis, wanted, along)
    lacking = [i for i, v in enumerate(found) if v is None]
    if lacking:
        for i, v in zip(lacking, random([len(basis) + i for i in lacking]), strict=True):
            found[i] = v
        found, share = orthonormal(basis, stacked(found))
    found = _up_to_nothing(found)
    if found and not share > MUCH:
        # Rounding must not lead out of the range, nor into the span of the basis.
        found = _up_to_nothing(orthonormal(basis, project(stacked(found)))[0])
    return found


def _up_to_nothing(found: list[Vector | None]) -> list[Vector]:
    return list(itertools.takewhile(lambda v: v is not None, found))


def _ritz(Q: Vector, images: Vector, T: np.ndarray) -> Ritz:
    if not np.all(np.isfinite(T)):
        return Ritz(np.full(len(T), np.nan), np.zeros_like(T), Q, images)
    return Ritz(*np.linalg.eigh(0.5 * (T + T.T)), Q, images)


def converged(found: Ritz, ends: tuple[int, int], tolerance: float) -> bool:
    """Whether the pairs at both ends have small residuals."""
    count = found.products
    if count < sum(ends) or not np.all(np.isfinite(found.values)):
        return False
    allowed = found.allowed(tolerance)
    outer = [*range(ends[0] - 1), *range(count - ends[1] + 1, count)]
    last = [i for i, end in ((ends[0] - 1, ends[0]), (count - ends[1], ends[1])) if end]  # inner ones converge last
    return all(bool(np.all(found.residuals(which) <= allowed)) for which in (last, outer))

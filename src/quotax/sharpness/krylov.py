"""Eigenvalues of a symmetric operator from its products with vectors: block Lanczos with full orthogonalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from quotax.sharpness.problem.vectors import Vector, combine, dot, dots, put, zeros

Operator = Callable[[Vector], Vector]

# What is left of a vector after orthogonalisation counts as a new direction above this share of it.
NEW = 1e-6


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

    def residual(self, i: int) -> float:
        """`|A v - value v|`: within that distance of the value lies an eigenvalue of A."""
        error = combine(self.coordinates[:, i], self.images) - float(self.values[i]) * self.vector(i)
        return dot(error, error) ** 0.5


def orthonormal(basis: Vector, v: Vector) -> Vector | None:
    """The unit vector of what is left of `v` outside the span of the basis' rows; nothing if that is rounding."""
    size = rest = dot(v, v) ** 0.5
    for _ in range(3 if len(basis) else 0):
        before = rest
        v = v - combine(dots(basis, v), basis)
        rest = dot(v, v) ** 0.5
        if rest > 0.5 * before:
            break  # what was taken away now is rounding of what is left
    return v * (1 / rest) if rest > NEW * size else None


def block_lanczos(
    operator: Operator,
    project: Operator,
    random: Callable[[int], Vector],
    *,
    block: int,
    basis: int,
    ends: tuple[int, int],
    tolerance: float,
) -> Ritz:
    """The Ritz pairs once `ends = (bottom, top)` of them have residuals below `tolerance |A|`, or the basis is full.

    A block of b vectors finds eigenvalues of multiplicity up to b, of which a single vector sees one. Directions that
    a block lacks are replaced by `random` ones in the range of `project`; when that is exhausted, the answer is exact.
    """
    candidates = [random(basis + i) for i in range(block)]
    Q, images = zeros(basis, candidates[0]), zeros(basis, candidates[0])
    T = np.zeros((basis, basis))
    count, rounds = 0, 0
    while True:
        first, wanted = count, candidates[: basis - count]
        for candidate in wanted:
            q = orthonormal(Q[:count], candidate)
            if q is None:
                q = orthonormal(Q[:count], project(random(count)))
            # Rounding must not lead out of the range.
            q = None if q is None else orthonormal(Q[:count], project(q))
            if q is None:
                break
            Q, count = put(Q, count, q), count + 1
        for i in range(first, count):
            images = put(images, i, operator(Q[i]))
        new, candidates = images[first:count], [images[i] for i in range(first, count)]
        T[:count, first:count] = dots(Q[:count], new)
        T[first:count, :first] = dots(Q[first:count], images[:first])
        found, rounds = _ritz(Q[:count], images[:count], T[:count, :count]), rounds + 1
        over = count == basis or count - first < len(wanted)
        # Residuals cost passes over the basis: looked at in every fourth round.
        if over or (tolerance > 0 and rounds % 4 == 0 and converged(found, ends, tolerance)):
            return found


def _ritz(Q: Vector, images: Vector, T: np.ndarray) -> Ritz:
    if not np.all(np.isfinite(T)):
        return Ritz(np.full(len(T), np.nan), np.zeros_like(T), Q, images)
    return Ritz(*np.linalg.eigh(0.5 * (T + T.T)), Q, images)


def converged(found: Ritz, ends: tuple[int, int], tolerance: float) -> bool:
    """Whether the pairs at both ends have small residuals."""
    count = found.products
    if count < sum(ends) or not np.all(np.isfinite(found.values)):
        return False
    allowed = tolerance * float(np.max(np.abs(found.values)))
    return all(found.residual(i) <= allowed for i in (*range(ends[0]), *range(count - ends[1], count)))

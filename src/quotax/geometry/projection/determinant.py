r"""The volume that the fields of families span at a point: half the logarithm of a Gram determinant.

$\log \sqrt{\det V^T V}$ in the coordinates of the algebras. Where a stabiliser makes the Gram matrix singular, it is
that of what is orthogonal to the stabiliser's algebra: the product of the eigenvalues that are not zero. What counts
as zero is measured on fields of length one, so that coordinates of very different sizes are all seen.

In float64 on the host, by structure as projections are: eigenvalues of the two sides of a matrix family, divisions for
scalings, the matrix itself up to some thousand coordinates, elimination of neighbouring layers, and the complement of
the largest family beyond.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quotax.errors import GeometryError
from quotax.geometry.families.component import Component
from quotax.geometry.linalg import inverse_roots
from quotax.geometry.linalg.named import Named
from quotax.geometry.linalg.one_by_one import eigh
from quotax.geometry.projection import block_elimination, gram, one_family
from quotax.programs.compiling import once
from quotax.trees import AnyArray

LARGEST = 4096
"""The most coordinates whose Gram matrix is made."""


class LogVolume(NamedTuple):
    """`value` is the logarithm of the volume, in `rank` of `dimension` directions."""

    value: float
    rank: int
    dimension: int

    @property
    def full(self) -> bool:
        """Whether the stabiliser is discrete."""
        return self.rank == self.dimension

    def beside(self, other: LogVolume) -> LogVolume:
        """Of fields that are orthogonal to those of the other."""
        return LogVolume(self.value + other.value, self.rank + other.rank, self.dimension + other.dimension)


NONE = LogVolume(0.0, 0, 0)


def log_volume(part: Component, arrays: Mapping[str, AnyArray], resolution: float) -> LogVolume:
    """The volume of a component's fields at arrays in float64 that are known up to the relative `resolution`."""
    if part.dimension == 0:
        return NONE
    here = {name: np.asarray(array, float) for name, array in arrays.items()}
    with jax.enable_x64(True):
        first = one_family.block(part, 0)
        if len(part.families) == 1 and first.exact and first.kind in ("numbers", "pairs", "matrices"):
            return _of_values(_closed(part, _held(part, here), 0), resolution)
        if part.dimension <= LARGEST:
            return of_matrix(np.asarray(_matrix(part, here)), resolution)
        held = _held(part, here)
        if block_elimination.plan(part) is not None:
            return _eliminated(part, held, here)
        return _by_complement(part, held, here, resolution)


_held = once(gram.data)


@once
def _matrix(part: Component, arrays: Named) -> jax.Array:
    return gram.matrix(part, gram.data(part, arrays), arrays)


def of_matrix(matrix: np.ndarray, resolution: float) -> LogVolume:
    """Of a Gram matrix; where it is singular, the kernel is filled up before the determinant is taken."""
    n = len(matrix)
    scale = 1 / np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), 1))
    unit = matrix * scale[:, None] * scale
    unit = (unit + unit.T) / 2
    quick = _by_cholesky(unit, resolution)
    if quick is not None:
        return LogVolume(float(quick - np.sum(np.log(scale))), n, n)
    values, vectors = np.linalg.eigh(unit)
    alive = values > _threshold(n, values.max(initial=0.0), resolution)
    if alive.all():
        return LogVolume(float(np.sum(np.log(values)) / 2 - np.sum(np.log(scale))), n, n)
    kernel = np.linalg.qr(scale[:, None] * vectors[:, ~alive])[0]
    weight = 1 / np.max(scale) ** 2
    filled = (matrix + weight * kernel @ kernel.T) * scale[:, None] * scale
    value = np.linalg.slogdet(filled)[1] / 2 - np.sum(np.log(scale)) - (~alive).sum() * np.log(weight) / 2
    return LogVolume(float(value), int(alive.sum()), n)


def _by_cholesky(unit: np.ndarray, resolution: float) -> float | None:
    """Half the logarithm of the determinant of a matrix of unit diagonal, where no pivot comes near rounding."""
    try:
        pivots = np.diag(np.linalg.cholesky(unit))
    except np.linalg.LinAlgError:
        return None
    safe = pivots.size == 0 or pivots.min() ** 2 > 10 * _threshold(len(unit), 1.0, resolution)
    return float(np.sum(np.log(pivots))) if safe else None


def _threshold(n: int, largest: float, resolution: float) -> float:
    """What eigenvalues of fields of length one have to exceed: rounding here, and that of the parameters, squared."""
    return max(n * np.finfo(float).eps, (n * resolution) ** 2) * largest


def _of_values(values: np.ndarray, resolution: float) -> LogVolume:
    """Of eigenvalues of the Gram matrix in stacks, a row for each copy of a group."""
    rows = values.reshape(-1, values.shape[-1]) if values.size else values.reshape(0, 1)
    alive = rows > np.asarray([_threshold(row.size, row.max(initial=0.0), resolution) for row in rows])[:, None]
    return LogVolume(float(np.sum(np.log(rows[alive])) / 2), int(alive.sum()), rows.size)


def _closed(part: Component, held: gram.Data, index: int) -> np.ndarray:
    """The eigenvalues of a family's block, in rows of which each has its own scale."""
    family = part.families[index]
    shape, group = family.group.shape(family.sizes), family.group
    pieces = gram.structure(part) or ()
    own = [(p, t) for p, t in zip(pieces, held, strict=True) if p.row == p.column == index]
    kind = one_family.block(part, index).kind
    if kind == "numbers":  # sums of squares, each with a small relative error of its own
        return np.asarray(group.pairing(one_family.diagonal(own, shape))).reshape(-1, 1)
    left, right = map(np.asarray, one_family.sides(own))
    if kind == "pairs":
        first, second = group.places(shape[-1])
        numbers = np.broadcast_to(np.diagonal(left + right, axis1=-2, axis2=-1), shape[:-1])
        both = (numbers[..., first] + numbers[..., second]).reshape(-1, 1)
        return np.repeat(both, family.dimension // both.size, axis=0)
    if group.orthogonal:
        frame = group.moved(shape[-1])
        total = left + right if frame is None else frame.T @ (left + right) @ frame
        values = np.linalg.eigvalsh(np.broadcast_to(total, (*shape[:-2], *total.shape[-2:])))
        rows, columns = np.triu_indices(values.shape[-1], 1)
        return np.maximum(values[..., rows] + values[..., columns], 0)
    one, two = (np.linalg.eigvalsh(np.broadcast_to(side, shape)) for side in (left, right))
    sums = np.maximum(one[..., :, None] + two[..., None, :], 0)
    return sums.reshape(*shape[:-2], -1)


def _eliminated(part: Component, held: gram.Data, arrays: Mapping[str, AnyArray]) -> LogVolume:
    """By elimination along layers: the roots of the inverses are triangular, or numbers."""
    found = jax.jit(block_elimination.factor, static_argnums=0)(part, held, arrays)
    numbers = [np.diag(root) if root.ndim == 2 else np.asarray(root) for root in found.roots]
    alive = np.concatenate(numbers) != 0
    if int(found.rank) != int(alive.sum()):  # then what is zero is no coordinate alone
        raise _refused(part, "have a stabiliser that mixes them")
    return LogVolume(float(-np.sum(np.log(np.abs(np.concatenate(numbers)[alive])))), int(alive.sum()), part.dimension)


def _by_complement(part: Component, held: gram.Data, arrays: Mapping[str, AnyArray], resolution: float) -> LogVolume:
    """The largest family's block, and its Schur complement on the others."""
    closed = [i for i in range(len(part.families)) if one_family.block(part, i).exact]
    closed = [i for i in closed if one_family.block(part, i).kind in ("numbers", "pairs", "matrices")]
    index = max(closed, key=lambda i: part.families[i].dimension, default=0)
    first = part.families[index]
    others = part.dimension - first.dimension
    if not closed or others > LARGEST:
        raise _refused(part, f"leave {others:,} coordinates without a closed form, and at most {LARGEST:,} are counted")
    own = _of_values(_closed(part, held, index), resolution)
    if not own.full:
        raise _refused(part, f"have a stabiliser in {first.name!r}")
    start = sum(family.dimension for family in part.families[:index])
    left = jax.jit(_complement, static_argnums=(0, 1, 2))(part, index, start, held, arrays)
    rest = of_matrix(np.asarray(left), resolution)
    return LogVolume(own.value + rest.value, own.rank + rest.rank, part.dimension)


def _complement(part: Component, index: int, start: int, held: gram.Data, arrays: Mapping[str, AnyArray]) -> jax.Array:
    first = part.families[index]
    inverse = one_family.invert(part, held, arrays, one_family.block(part, index))

    def column(c: jax.Array) -> jax.Array:
        flat = jnp.concatenate([c[:start], jnp.zeros(first.dimension, c.dtype), c[start:]])
        elements: Named = part.elements(flat)
        image = gram.apply(part, held, arrays, elements)
        answer = one_family.solve(inverse, image[first.name])
        left = part.flat(gram.apply(part, held, arrays, elements | {first.name: -answer}))
        return jnp.concatenate([left[:start], left[start + first.dimension :]])

    return jax.lax.map(column, jnp.eye(part.dimension - first.dimension))


def _refused(part: Component, why: str) -> GeometryError:
    names = ", ".join(repr(family.name) for family in part.families)
    return GeometryError(f"`volume`: {names} are tied to one another and {why}. Ask at smaller widths.")


@functools.partial(jax.jit, static_argnums=0)
def slope(part: Component, arrays: Named) -> Named:
    """The derivatives of the logarithm of the volume along directions that keep the rank: `tr(G^+ dG) / 2`."""
    matrix = gram.matrix(part, gram.data(part, arrays), arrays)
    values, vectors = eigh((matrix + matrix.T) / 2)
    floor = len(matrix) * float(jnp.finfo(matrix.dtype).eps) * jnp.max(values, initial=0)
    inverse = jax.lax.stop_gradient((vectors * inverse_roots.reciprocal(values, floor)) @ vectors.T)

    def half(at: Named) -> jax.Array:
        columns = jax.vmap(lambda c: part.flat(gram.apply(part, gram.data(part, at), at, part.elements(c))))
        return jnp.sum(inverse * columns(jnp.eye(part.dimension, dtype=inverse.dtype))) / 2

    return jax.grad(half)(arrays)

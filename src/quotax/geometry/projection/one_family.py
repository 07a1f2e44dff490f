"""The Gram block of one family, inverted in closed form where its structure allows.

- numbers: every coordinate is multiplied by a number (scalings, shifts): a division; by their mean, where indices share
  a factor;
- pairs: `xi S_L + S_R xi` projected onto `C*` on pairs is half the trace of each pair's block: the same;
- matrices: `xi S_L + S_R xi` on GL, or half the anticommutator with `S_L + S_R` on skew matrices, or on those that
  also send some vectors to zero: a division by sums of eigenvalues, in the eigenbases;
- dense: anything else of moderate size, such as `I + W^T W` of a shift carried by a weight.

Where a sum of eigenvalues vanishes, the direction does not move (stabilisers, dead units) and the inverse is zero
there: the minimum-norm solution. The rank is the number of the others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quotax.geometry.families.component import Component
from quotax.geometry.linalg import inverse_roots
from quotax.geometry.linalg.one_by_one import eigh
from quotax.geometry.projection import gram
from quotax.symmetry import Group

FactorKind = Literal["numbers", "pairs", "matrices", "dense", "identity"]

DENSE_BLOCK = 2048
"""Blocks without another closed form are made into matrices up to this size."""


@dataclass(frozen=True)
class ClosedForm:
    """How the diagonal block of a family is inverted; `exact` unless some of its pieces were left out."""

    index: int
    kind: FactorKind
    exact: bool


_SMALL = 128
"""Below this size eigenvalues cost nothing, and say more than Cholesky's factorisation."""


class Inverse(NamedTuple):
    """The inverse of a block: `left ((left^T b right) * weights) right^T`, or `dense b` on flat coordinates."""

    weights: jax.Array | None = None
    left: jax.Array | None = None
    right: jax.Array | None = None
    dense: jax.Array | None = None
    rank: jax.Array | None = None


def block(part: Component, index: int) -> ClosedForm:
    """The closed form that the block of one family has."""
    found = gram.structure(part)
    family = part.families[index]
    if found is None:
        return ClosedForm(index, "identity", False)
    own = [piece for piece in found if piece.row == piece.column == index]
    if all(piece.diagonal for piece in own) and (family.group.free or family.group.layout == "diagonal"):
        return ClosedForm(index, "numbers", True)
    sided = [piece for piece in own if piece.side()]
    whole = len(sided) == len(own)
    closed = family.group.layout == "matrix" and family.group.selfadjoint
    if closed and sided and (whole or family.dimension > DENSE_BLOCK):
        return ClosedForm(index, "pairs" if family.group.paired else "matrices", whole)
    if family.dimension <= DENSE_BLOCK:
        return ClosedForm(index, "dense", True)
    return ClosedForm(index, "identity", False)


def invert(part: Component, held: gram.Data, arrays: Mapping[str, jax.Array], block: ClosedForm) -> Inverse:
    """The inverse of a family's block, from the tensors of the Gram operator; nothing here is differentiated."""
    found = gram.structure(part) or ()
    own = [
        (piece, tensor)
        for piece, tensor in zip(found, held, strict=bool(found))
        if piece.row == piece.column == block.index
    ]
    family = part.families[block.index]
    shape = family.group.shape(family.sizes)
    match block.kind:
        case "numbers":
            # of elements of the algebra, which are the same wherever they share a factor
            return _numbers(family.group.nearest(diagonal(own, shape), family.sizes), family.group)
        case "pairs":
            total = sum(sides(own))
            first, second = family.group.places(shape[-1])
            numbers = jnp.diagonal(total, axis1=-2, axis2=-1)
            partner = np.empty(shape[-1], int)
            partner[first], partner[second] = second, first
            halves = (numbers + numbers[..., partner]) / 2
            weights = inverse_roots.reciprocal(halves, smallest(halves))
            return Inverse(weights=jnp.broadcast_to(weights[..., None], shape), rank=jnp.sum(weights > 0))
        case "matrices":
            left, right = sides(own)
            if family.group.orthogonal:
                return _anticommutator(left + right, shape, family.group.moved(shape[-1]))
            return _sylvester(left, right, shape)
        case "dense":
            return _dense(part, held, arrays, block.index)
    return Inverse(rank=jnp.asarray(family.dimension))


def solve(inverse: Inverse, covector: jax.Array) -> jax.Array:
    """The inverse applied to a covector of the algebra."""
    if inverse.dense is not None:
        return (inverse.dense @ covector.ravel()).reshape(covector.shape)
    if inverse.weights is None:
        return covector
    if inverse.left is None or inverse.right is None:
        return inverse.weights * covector
    left, right = inverse.left, inverse.right
    inner = jnp.swapaxes(left, -1, -2) @ covector @ right
    return left @ (inverse.weights * inner) @ jnp.swapaxes(right, -1, -2)


def _numbers(total: jax.Array, group: Group) -> Inverse:
    # A sum of squares has a small relative error however small it is, so that only zero itself counts as zero.
    weights = inverse_roots.reciprocal(total, smallest(total))
    return Inverse(weights=weights, rank=jnp.sum(group.pairing(weights) > 0))


def _sylvester(left: jax.Array, right: jax.Array, shape: tuple[int, ...]) -> Inverse:
    (rows, first), (columns, second) = (_eigen(side, shape) for side in (left, right))
    sums = rows[..., :, None] + columns[..., None, :]
    weights = _inverted(sums)
    return Inverse(weights, first, second, rank=jnp.sum(weights > 0))


def _anticommutator(total: jax.Array, shape: tuple[int, ...], moved: np.ndarray | None) -> Inverse:
    # For skew xi, the skew part of xi S is (xi S + S xi) / 2; for xi = F h F^T, that of h F^T S F the same in h.
    if moved is None:
        values, vectors = _eigen(total, shape)
    else:
        frame = jnp.asarray(moved, total.dtype)
        values, vectors = _eigen(frame.T @ total @ frame, (*shape[:-2], *2 * frame.shape[-1:]))
        vectors = frame @ vectors
    sums = (values[..., :, None] + values[..., None, :]) / 2
    weights = _inverted(sums)
    return Inverse(weights, vectors, vectors, rank=jnp.sum(jnp.triu(weights > 0, 1)))


def _inverted(sums: jax.Array) -> jax.Array:
    """One over sums of eigenvalues, and zero for those that are rounding."""
    largest = jnp.max(sums, axis=(-1, -2), keepdims=True, initial=0)
    return inverse_roots.reciprocal(sums, sums.shape[-1] * _epsilon(sums) * largest)


def _eigen(side: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    values, vectors = eigh(jnp.broadcast_to(side, shape))
    return jnp.maximum(values, 0), vectors


def sides(own: list[tuple[gram.Piece, jax.Array | None]]) -> tuple[jax.Array, jax.Array]:
    """The matrices that multiply `xi` from the left and from the right, a single zero where there is none."""
    sided = [(piece.side(), tensor) for piece, tensor in own if piece.side() and tensor is not None]
    zero = jnp.zeros_like(sided[0][1])
    left, right = (
        functools.reduce(jnp.add, [tensor for own, tensor in sided if own == side], zero) for side in ("left", "right")
    )
    return left, right


def diagonal(own: Sequence[tuple[gram.Piece, jax.Array | None]], shape: tuple[int, ...]) -> jax.Array:
    """The numbers by which diagonal pieces together multiply the coordinates."""
    total = jnp.zeros(shape, jnp.result_type(*(tensor for _, tensor in own)))
    for piece, tensor in own:
        assert tensor is not None
        places = tuple(slice(None) if label in piece.tensor_labels else None for label in piece.row_labels)
        total = total + tensor[places]
    return total


def _dense(part: Component, held: gram.Data, arrays: Mapping[str, jax.Array], index: int) -> Inverse:
    matrix = own_matrix(part, held, arrays, index)
    root, rank = (inverse_roots.spectral if len(matrix) < _SMALL else inverse_roots.regular)(matrix)
    inverse = root.T @ root
    family = part.families[index]
    shape, coordinates = family.group.shape(family.sizes), part.shapes[family.name]
    if shape == coordinates:
        return Inverse(dense=inverse, rank=rank)
    # Algebra elements are not flat coordinates here: B inverse B^T, with B the basis of the algebra.
    basis = jax.vmap(lambda c: family.group.algebra(c.reshape(coordinates), family.sizes).ravel(), out_axes=1)(
        jnp.eye(math.prod(coordinates), dtype=matrix.dtype)
    )
    return Inverse(dense=basis @ inverse @ basis.T, rank=rank)


def own_matrix(part: Component, held: gram.Data, arrays: Mapping[str, jax.Array], index: int) -> jax.Array:
    """The block of one family in flat coordinates."""
    family = part.families[index]
    own = [
        (piece, tensor)
        for piece, tensor in zip(gram.structure(part) or (), held, strict=False)
        if piece.row == piece.column == index
    ]
    if family.group.shape(family.sizes) == part.shapes[family.name] and all(piece.formed for piece, _ in own):
        matrices = [piece.matrix(tensor) for piece, tensor in own if tensor is not None]
        return functools.reduce(jnp.add, matrices)
    return gram.matrix(Component((family,)), tuple(tensor for _, tensor in own), arrays)


def smallest(array: jax.Array) -> float:
    """What sums of squares must exceed to be inverted: their relative error is small down to here."""
    return float(jnp.finfo(array.dtype).tiny) / _epsilon(array)


def _epsilon(array: jax.Array) -> float:
    return float(jnp.finfo(array.dtype).eps)

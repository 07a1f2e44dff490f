"""Block elimination for components whose families have elementwise algebras: scalings and shifts of neighbouring layers.

The Gram matrix has a block per family: diagonal for a scaling, and `-W^2` entrywise between the scalings of consecutive
layers. Families are eliminated where that costs least; a block that is still diagonal then costs a division, the others
are inverted once. A chain of four layers needs two inverses, and a solve reads eight blocks.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.geometry import closed_forms, gram
from quotax.geometry.component import Component, Named

_LARGEST_FAMILY = 8192
_MOST_ENTRIES = 2**27
_MOST_WORK = 2**39


@dataclass(frozen=True)
class Step:
    """One elimination: the family, whether its block is a diagonal by then, and the families it is tied to by then."""

    index: int
    diagonal: bool
    ties: tuple[int, ...]


class Elimination(NamedTuple):
    """For every step the inverse of its block, and that inverse times the blocks to the step's ties."""

    inverses: tuple[jax.Array, ...]
    ties: tuple[tuple[jax.Array, ...], ...]
    rank: jax.Array


@functools.lru_cache(maxsize=256)
def plan(part: Component) -> tuple[Step, ...] | None:
    """The order of elimination, or nothing where the component is not of this kind or the blocks would be too large."""
    pieces = gram.structure(part)
    sizes = [family.dimension for family in part.families]
    elementwise = all(family.group.shape(family.sizes) == part.shapes[family.name] for family in part.families)
    if pieces is None or not elementwise or max(sizes) > _LARGEST_FAMILY or not all(p.formed for p in pieces):
        return None
    if any(family.group.layout == "matrix" for family in part.families):
        return None
    diagonal = [closed_forms.block(part, i).kind == "numbers" for i in range(len(sizes))]
    ties: list[set[int]] = [set() for _ in sizes]
    for piece in pieces:
        if piece.row != piece.column:
            ties[piece.row].add(piece.column)
            ties[piece.column].add(piece.row)
    steps: list[Step] = []
    left, entries, work = set(range(len(sizes))), 0, 0

    def cost(i: int) -> int:
        around = sum(sizes[j] for j in ties[i])
        return sizes[i] * around**2 + (0 if diagonal[i] else sizes[i] ** 2 * (sizes[i] + around))

    while left:
        i = min(left, key=cost)
        work += cost(i)
        entries += sizes[i] * (sum(sizes[j] for j in ties[i]) + (0 if diagonal[i] else sizes[i]))
        steps.append(Step(i, diagonal[i], tuple(sorted(ties[i]))))
        left.remove(i)
        for j in ties[i]:
            diagonal[j] = False
            ties[j] = (ties[j] | ties[i]) - {i, j}
    return tuple(steps) if entries <= _MOST_ENTRIES and work <= _MOST_WORK else None


def factor(part: Component, held: gram.Data, arrays: Mapping[str, jax.Array], accurate: bool = False) -> Elimination:
    """Eliminate; `accurate` takes eigenvalues of every block, which counts the rank."""
    steps = plan(part)
    assert steps is not None
    blocks = _blocks(part, held, arrays)
    inverses, all_ties, rank = [], [], jnp.zeros((), int)
    for step in steps:
        i = step.index
        if step.diagonal:
            own = blocks.pop((i, i))
            inverse = closed_forms.reciprocal(own, jnp.finfo(own.dtype).tiny / jnp.finfo(own.dtype).eps)
            rank += jnp.sum(inverse > 0)
        elif accurate:
            inverse, alive = closed_forms.spectral_inverse(blocks.pop((i, i)))
            rank += alive
        else:
            inverse = _inverse(blocks.pop((i, i)))
        rows = {j: blocks.pop((i, j)) if (i, j) in blocks else blocks.pop((j, i)).T for j in step.ties}
        scaled = {j: inverse[:, None] * row if step.diagonal else inverse @ row for j, row in rows.items()}
        for j, k in itertools.combinations_with_replacement(step.ties, 2):
            fill = rows[j].T @ scaled[k]
            old = blocks.get((j, k))
            if old is not None and old.ndim == 1:
                old = jnp.diag(old)
            blocks[j, k] = -fill if old is None else old - fill
        inverses.append(inverse)
        all_ties.append(tuple(scaled[j] for j in step.ties))
    return Elimination(tuple(inverses), tuple(all_ties), rank)


def solve(part: Component, factored: Elimination, right: Mapping[str, jax.Array]) -> Named:
    """The coordinates by family, from forward and backward substitution."""
    steps = plan(part)
    assert steps is not None
    rest = [right[family.name].ravel() for family in part.families]
    for step, ties in zip(steps, factored.ties, strict=True):
        for j, tie in zip(step.ties, ties, strict=True):
            rest[j] = rest[j] - rest[step.index] @ tie
    found = list(rest)
    for step, inverse, ties in reversed(list(zip(steps, factored.inverses, factored.ties, strict=True))):
        i = step.index
        found[i] = inverse * rest[i] if step.diagonal else inverse @ rest[i]
        for j, tie in zip(step.ties, ties, strict=True):
            found[i] = found[i] - tie @ found[j]
    return {
        family.name: value.reshape(right[family.name].shape)
        for family, value in zip(part.families, found, strict=True)
    }


def _inverse(block: jax.Array) -> jax.Array:
    """The inverse by Cholesky's factorisation; by eigenvalues where the block is singular to rounding."""
    diagonal = jnp.diagonal(block)
    scale = jax.lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1))
    dead = jnp.where(diagonal > 0, 0, 1).astype(block.dtype)
    scaled = block * scale[:, None] * scale[None, :] + jnp.diag(dead)
    lower = jnp.linalg.cholesky(scaled)
    pivots = jnp.diagonal(lower) ** 2
    regular = jnp.all(pivots > 10 * len(block) * float(jnp.finfo(block.dtype).eps))

    def by_cholesky() -> jax.Array:
        inverse = jax.scipy.linalg.solve_triangular(lower, jnp.eye(len(block), dtype=block.dtype), lower=True)
        return scale[:, None] * (inverse.T @ inverse - jnp.diag(dead)) * scale[None, :]

    return jax.lax.cond(regular, by_cholesky, lambda: closed_forms.spectral_inverse(block)[0])


def _blocks(
    part: Component, held: gram.Data, arrays: Mapping[str, jax.Array]
) -> dict[tuple[int, int], jax.Array]:
    """The blocks of the Gram matrix: vectors where they are diagonal, on and above the diagonal."""
    blocks: dict[tuple[int, int], jax.Array] = {}
    pieces = gram.structure(part) or ()
    for i, family in enumerate(part.families):
        if closed_forms.block(part, i).kind == "numbers":
            inverse = [(p, t) for p, t in zip(pieces, held, strict=True) if p.row == p.column == i]
            shape = family.group.shape(family.sizes)
            blocks[i, i] = closed_forms.diagonal(inverse, shape).ravel()
        else:
            blocks[i, i] = closed_forms.own_matrix(part, held, arrays, i)
    for piece, tensor in zip(pieces, held, strict=True):
        if piece.row != piece.column:
            assert tensor is not None
            value = _matrix(piece, tensor)
            key = (piece.row, piece.column)
            blocks[key] = blocks[key] + value if key in blocks else value
    return blocks


def _matrix(piece: gram.Piece, tensor: jax.Array) -> jax.Array:
    """An off-diagonal piece as a matrix: entries where shared indices differ are zero."""
    order = "".join(dict.fromkeys(piece.row_labels + piece.column_labels))
    places = tuple(slice(None) if a in piece.tensor_labels else None for a in order)
    value = jnp.broadcast_to(tensor[places], [piece.sizes[a] for a in order])
    for a in piece.column_labels:
        if a in piece.row_labels:  # the column gets an index of its own, tied to the row's by a delta
            n = piece.sizes[a]
            delta = jnp.eye(n, dtype=value.dtype)
            shape = [n if label == a else 1 for label in order]
            value, order = value[..., None] * delta.reshape(*shape, n), order + a.upper()
    columns = "".join(a.upper() if a in piece.row_labels else a for a in piece.column_labels)
    value = jnp.transpose(value, [order.index(a) for a in piece.row_labels + columns])
    return value.reshape(math.prod(piece.sizes[a] for a in piece.row_labels), -1)

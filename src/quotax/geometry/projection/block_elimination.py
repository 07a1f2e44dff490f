"""Block elimination for families with elementwise algebras: scalings and shifts of neighbouring layers.

The Gram matrix has a block per family: diagonal for a scaling, and `-W^2` entrywise between the scalings of consecutive
layers. Families are eliminated where that costs least; a block that is still diagonal then costs a division, the others
are inverted once. A chain of four layers needs two inverses, and a solve reads eight blocks.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.geometry.families.component import Component
from quotax.geometry.linalg import inverse_roots
from quotax.geometry.linalg.named import Named
from quotax.geometry.projection import gram, one_family

_LARGEST_FAMILY = 8192
_MOST_ENTRIES = 2**27
_MOST_WORK = 2**39
_LITTLE_WORK = 2**31


@dataclass(frozen=True)
class Eliminated:
    """One elimination: the family, whether its block is a diagonal by then, and the families it is tied to by then."""

    index: int
    diagonal: bool
    ties: tuple[int, ...]


class Elimination(NamedTuple):
    """For every step the root `R` of the inverse of its block, and `R` times the blocks to the step's ties."""

    roots: tuple[jax.Array, ...]
    ties: tuple[tuple[jax.Array, ...], ...]
    rank: jax.Array


@dataclass(frozen=True)
class EliminationOrder:
    """The order of elimination, and about how many multiplications it takes."""

    steps: tuple[Eliminated, ...]
    work: int


def quick(part: Component) -> bool:
    """Whether eliminating is less work than finding out what an iteration needs: layers of up to some 500 units."""
    found = plan(part)
    return found is not None and found.work <= _LITTLE_WORK


@functools.lru_cache(maxsize=256)
def plan(part: Component) -> EliminationOrder | None:
    """A plan, or nothing where the component is not of this kind or the blocks would be too large."""
    pieces = gram.structure(part)
    sizes = [family.dimension for family in part.families]
    elementwise = all(family.group.shape(family.sizes) == part.shapes[family.name] for family in part.families)
    if pieces is None or not elementwise or max(sizes) > _LARGEST_FAMILY or not all(p.formed for p in pieces):
        return None
    if any(family.group.layout == "matrix" for family in part.families):
        return None
    diagonal = [one_family.block(part, i).kind == "numbers" for i in range(len(sizes))]
    ties: list[set[int]] = [set() for _ in sizes]
    for piece in pieces:
        if piece.row != piece.column:
            ties[piece.row].add(piece.column)
            ties[piece.column].add(piece.row)
    steps: list[Eliminated] = []
    left, entries, work = set(range(len(sizes))), 0, 0

    def cost(i: int) -> int:
        around = sum(sizes[j] for j in ties[i])
        return sizes[i] * around**2 + (0 if diagonal[i] else sizes[i] ** 2 * (sizes[i] + around))

    while left:
        i = min(left, key=cost)
        work += cost(i)
        entries += sizes[i] * (sum(sizes[j] for j in ties[i]) + (0 if diagonal[i] else sizes[i]))
        steps.append(Eliminated(i, diagonal[i], tuple(sorted(ties[i]))))
        left.remove(i)
        for j in ties[i]:
            diagonal[j] = False
            ties[j] = (ties[j] | ties[i]) - {i, j}
    return EliminationOrder(tuple(steps), work) if entries <= _MOST_ENTRIES and work <= _MOST_WORK else None


def factor(part: Component, held: gram.Data, arrays: Mapping[str, jax.Array], accurate: bool = False) -> Elimination:
    """Eliminate; `accurate` takes eigenvalues of every block, which counts the rank."""
    steps = _steps(part)
    blocks = _blocks(part, held, arrays)
    before = [jnp.diag(block) if block.ndim == 2 else block for block in (blocks[i, i] for i in range(len(steps)))]
    factors, all_ties, rank = [], [], jnp.zeros((), int)
    for step in steps:
        i = step.index
        own = blocks.pop((i, i))
        if step.diagonal:
            root = jnp.sqrt(inverse_roots.reciprocal(own, one_family.smallest(own)))
            alive = jnp.sum(root > 0)
        else:
            root, alive = (inverse_roots.spectral if accurate else inverse_roots.regular)(own, before[i])
            root = inverse_roots.triangular(root) if accurate else root
        rank += alive
        rows = {j: blocks.pop((i, j)) if (i, j) in blocks else blocks.pop((j, i)).T for j in step.ties}
        ties = {j: root[:, None] * row if step.diagonal else inverse_roots.times(root, row) for j, row in rows.items()}
        for j, k in itertools.combinations_with_replacement(step.ties, 2):
            old = blocks.get((j, k))
            if j == k:
                assert old is not None
                blocks[j, j] = inverse_roots.less_gram(jnp.diag(old) if old.ndim == 1 else old, ties[j])
            else:
                filled = ties[j].T @ ties[k]
                blocks[j, k] = -filled if old is None else old - filled
        factors.append(root)
        all_ties.append(tuple(ties[j] for j in step.ties))
    return Elimination(tuple(factors), tuple(all_ties), rank)


def solve(part: Component, factored: Elimination, right: Mapping[str, jax.Array]) -> Named:
    """The coordinates by family, from forward and backward substitution."""
    steps = _steps(part)
    found = [right[family.name].ravel() for family in part.families]
    for step, root, ties in zip(steps, factored.roots, factored.ties, strict=True):
        i = step.index
        found[i] = root * found[i] if step.diagonal else root @ found[i]
        for j, tie in zip(step.ties, ties, strict=True):
            found[j] = found[j] - found[i] @ tie
    for step, root, ties in reversed(list(zip(steps, factored.roots, factored.ties, strict=True))):
        i = step.index
        for j, tie in zip(step.ties, ties, strict=True):
            found[i] = found[i] - tie @ found[j]
        found[i] = root * found[i] if step.diagonal else found[i] @ root
    return {
        family.name: value.reshape(right[family.name].shape) for family, value in zip(part.families, found, strict=True)
    }


def _steps(part: Component) -> tuple[Eliminated, ...]:
    found = plan(part)
    assert found is not None
    return found.steps


def _blocks(part: Component, held: gram.Data, arrays: Mapping[str, jax.Array]) -> dict[tuple[int, int], jax.Array]:
    """The blocks of the Gram matrix: vectors where they are diagonal, on and above the diagonal."""
    blocks: dict[tuple[int, int], jax.Array] = {}
    pieces = gram.structure(part) or ()
    for i, family in enumerate(part.families):
        if one_family.block(part, i).kind == "numbers":
            inverse = [(p, t) for p, t in zip(pieces, held, strict=True) if p.row == p.column == i]
            shape = family.group.shape(family.sizes)
            blocks[i, i] = one_family.diagonal(inverse, shape).ravel()
        else:
            blocks[i, i] = one_family.own_matrix(part, held, arrays, i)
    for piece, tensor in zip(pieces, held, strict=True):
        if piece.row != piece.column:
            assert tensor is not None
            value = piece.matrix(tensor)
            key = (piece.row, piece.column)
            blocks[key] = blocks[key] + value if key in blocks else value
    return blocks

"""Orthogonal matrices that fix the vector of ones: what commutes with subtracting a mean."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from quotax.symmetry.groups import matrices
from quotax.symmetry.groups.base import Group
from quotax.symmetry.groups.discrete import Permutation
from quotax.symmetry.groups.exact import cayley, from_sympy, rationals, skew, stacked, symbols
from quotax.symmetry.groups.membership import no_matrix, skewed
from quotax.trees import AnyArray


@dataclass(frozen=True)
class OFixingOnes(Group):
    """Orthogonal matrices on an axis with `g 1 = 1`: turns of what has no mean along it.

    With `F` orthonormal columns across the vector of ones, they are `F h F^T + 1 1^T / n` for `h` orthogonal.
    """

    layout = "matrix"
    symbol = "O_1({axis})"
    kind = "fixing"
    verb = "rotate"
    orthogonal = True
    free = False
    freedom = "orthogonal"

    @property
    def subgroups(self) -> tuple[Group, ...]:
        """The permutations."""
        return (Permutation(self.axis, self.each),)

    def moved(self, n: int) -> np.ndarray:
        """The first columns of the reflection that exchanges the last unit vector and the unit vector along ones."""
        columns = np.eye(n, n - 1) - 1 / (n - n**0.5 or 1)
        columns[-1] = 1 / n**0.5
        return columns

    def log_volume(self, sizes: Mapping[str, int]) -> float:
        """That of `O(n-1)`."""
        return self.copies(sizes) * matrices.log_volume(self.shape(sizes)[-1] - 1)

    # --- algebra: skew matrices whose rows sum to zero

    def formula(self, n: sp.Expr) -> sp.Expr:
        """A rotation for every pair of directions across the vector of ones."""
        return (n - 1) * (n - 2) / 2

    def algebra(self, coordinates: AnyArray, sizes: Mapping[str, int]) -> AnyArray:
        """`F S F^T`, with these entries above the diagonal of the skew matrix `S`."""
        frame = self.moved(self.shape(sizes)[-1]).astype(coordinates.dtype)
        return frame @ matrices.skew(coordinates, frame.shape[-1]) @ frame.T

    def pairing(self, array: AnyArray) -> AnyArray:
        """The entries of `F^T A F` above the diagonal less those below it."""
        if np.issubdtype(array.dtype, np.integer):  # columns e_i - e_n are as good as F, and exact
            part = array[..., :-1, :-1] - array[..., :-1, -1:] - array[..., -1:, :-1] + array[..., -1:, -1:]
            return matrices.above(part)
        frame = self.moved(array.shape[-1]).astype(array.dtype)
        return matrices.above(frame.T @ array @ frame)

    def nearest(self, array: jax.Array, sizes: Mapping[str, int]) -> jax.Array:
        """The skew part, less the means of rows and columns."""
        part = (array - jnp.swapaxes(array, -1, -2)) / 2
        return part - jnp.mean(part, -1, keepdims=True) - jnp.mean(part, -2, keepdims=True)

    def basis(self, sizes: Mapping[str, int]) -> np.ndarray:
        """Those with one entry above the diagonal of the leading block, and what the sums ask for beside it."""
        shape = self.coordinate_shape(sizes)
        count = int(np.prod(shape))
        if not count:
            return np.zeros((0, *self.shape(sizes)), np.int64)
        eye = np.eye(count, dtype=np.int64).reshape(count, *shape)
        return _bordered(matrices.skew(eye, self.shape(sizes)[-1] - 1))

    # --- elements

    def _outside(self, g: np.ndarray, rounding: float) -> str | None:
        """Not orthogonal, or moving the vector of ones."""
        moved = np.maximum(skewed(g), np.abs(g.sum(-1) - 1).max(-1))
        members = "orthogonal matrices with g 1 = 1"
        hint = "`space.random_element(key)` has some, and permutation matrices are"
        return no_matrix(moved, rounding, members, "the largest entry of |g g.T - 1| or |g 1 - 1|", hint)

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Cayley's rotations, all but those with eigenvalue -1, and those times the exchange of two indices."""
        n = self.shape(sizes)[-1]
        rotations = [cayley(_bordered(skew(n - 1, symbols(copy)))) for copy in range(self.copies(sizes))]
        for swaps in itertools.product((False, True)[: min(n, 2)], repeat=self.copies(sizes)):
            g = stacked(
                [_swapped(block) if swap else block for block, swap in zip(rotations, swaps, strict=True)], self, sizes
            )
            yield g, np.swapaxes(g, -1, -2)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """A Cayley rotation of small rationals, two of its columns exchanged half of the time."""
        n = self.shape(sizes)[-1]
        blocks = [from_sympy(cayley(_bordered(skew(n - 1, rationals(rng))))) for _ in range(self.copies(sizes))]
        return stacked([_swapped(block) if n > 1 and rng.integers(2) else block for block in blocks], self, sizes)

    def telling(self, least: int) -> int:
        """One more: on an axis of two there are permutations alone."""
        return least + 1


def _bordered(block: np.ndarray) -> np.ndarray:
    """The skew matrices with rows that sum to zero of which these are the leading blocks."""
    last = -block.sum(-1, keepdims=True)
    corner = np.zeros((*block.shape[:-2], 1, 1), block.dtype)
    return np.block([[block, last], [-np.swapaxes(last, -1, -2), corner]])


def _swapped(block: np.ndarray) -> np.ndarray:
    return block[:, [1, 0, *range(2, len(block))]]

"""Matrices that fix what has no mean: what a reader of centred vectors may be multiplied by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import sympy as sp

from quotax.symmetry.groups.base import Group
from quotax.symmetry.groups.exact import fractions, objects, stacked
from quotax.symmetry.groups.membership import largest, no_matrix
from quotax.trees import AnyArray


@dataclass(frozen=True)
class FixingCentred(Group):
    r"""Matrices on an axis with `g z = z` for every `z` whose sum is zero, and a positive determinant.

    They are $1 + w \mathbf 1^T$ with $\mathbf 1^T w > -1$; the inverse is $1 - w \mathbf 1^T / (1 + \mathbf 1^T w)$.
    A reader `U` of `n + b`, where `n` has no mean, may become `U g` if `b` becomes `inv(g) b`.
    """

    layout = "matrix"
    symbol = "F_0({axis})"
    kind = "centred"
    verb = "shear"
    free = False
    selfadjoint = False

    # --- algebra: matrices whose columns are all the same

    def algebra(self, coordinates: AnyArray, sizes: Mapping[str, int]) -> AnyArray:
        """`w 1^T`."""
        return coordinates[..., None] * np.ones(coordinates.shape[-1], coordinates.dtype)

    def pairing(self, array: AnyArray) -> AnyArray:
        """The sums of the rows."""
        return array.sum(-1)

    def selfadjoint_dimension(self, sizes: Mapping[str, int]) -> int:
        """`1 1^T`."""
        return self.copies(sizes)

    # --- elements

    def _outside(self, g: np.ndarray, rounding: float) -> str | None:
        """Columns of `g - 1` that differ, or a determinant that is not positive."""
        rest = g - np.eye(g.shape[-1])
        w = rest.mean(-1)
        members, hint = "matrices 1 + w 1.T with 1 + sum(w) > 0", "`jnp.eye(n) + w[:, None]` is one"
        # an inverse loses digits by the condition, which is about (1 + |w|) (1 + |w| / det)
        longest, volume = np.abs(w).max(-1), np.abs(1 + w.sum(-1))
        condition = (1 + longest) * (1 + longest / np.maximum(volume, rounding))
        apart = largest(rest - w[..., None]) / (np.maximum(largest(g), 1) * condition)
        wrong = no_matrix(apart, rounding, members, "the difference of columns of g - 1", hint)
        return wrong or no_matrix(-w.sum(-1), 1 - rounding, members, "-sum(w)", hint)

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The determinant is a positive symbol, and all entries of `w` but one are free."""
        n = self.shape(sizes)[-1]
        blocks, inverses = [], []
        for copy in range(self.copies(sizes)):
            determinant = sp.Symbol(f"s[{copy}]", positive=True)
            w = [sp.Symbol(f"w[{copy},{i}]", real=True) for i in range(n - 1)]
            w = np.array([*w, determinant - 1 - sp.Add(*w)], dtype=object)
            blocks.append(_beside_one(w))
            inverses.append(_beside_one(np.array([sp.expand(-x / determinant) for x in w], dtype=object)))
        yield objects(stacked(blocks, self, sizes)), objects(stacked(inverses, self, sizes))

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Small rationals; the last one makes the determinant another."""
        n, blocks = self.shape(sizes)[-1], []
        for _ in range(self.copies(sizes)):
            w = fractions(rng.integers(-3, 4, n)) / 2
            w[-1] += fractions(rng.choice([1, 3, 4, 6])) / 2 - 1 - w.sum()
            blocks.append(_beside_one(w))
        return stacked(blocks, self, sizes)


def _beside_one(w: np.ndarray) -> np.ndarray:
    """`1 + w 1^T`."""
    one = np.eye(len(w), dtype=int)
    return fractions(one) + w[:, None] if not isinstance(w[0], sp.Expr) else one + w[:, None]

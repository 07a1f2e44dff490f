"""Every invertible matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import sympy as sp

from quotax.symmetry.groups.base import Group
from quotax.symmetry.groups.exact import cofactor_inverse, fractions, named, stacked
from quotax.symmetry.groups.orthogonal import O


@dataclass(frozen=True)
class GL(Group):
    """Every invertible matrix on an axis."""

    layout = "matrix"
    symbol = "GL({axis})"
    kind = "general"
    verb = "linear"
    freedom = "orthogonal"
    signs = "each"

    @property
    def compact(self) -> Group:
        """The orthogonal matrices."""
        return O(self.axis, self.each)

    @property
    def subgroups(self) -> tuple[Group, ...]:
        """The orthogonal matrices, and theirs."""
        return (self.compact, *self.compact.subgroups)

    def formula(self, n: sp.Expr) -> sp.Expr:
        """Every entry."""
        return n**2

    def selfadjoint_dimension(self, sizes: Mapping[str, int]) -> int:
        """The entries on and above the diagonal."""
        n = self.shape(sizes)[-1]
        return self.copies(sizes) * n * (n + 1) // 2

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """A matrix of free symbols; its inverse by cofactors."""
        g = named(self, sizes)
        yield g, cofactor_inverse(g)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """A random integer matrix with a determinant of at least one half of its size's scale."""
        n = self.shape(sizes)[-1]
        blocks = []
        while len(blocks) < self.copies(sizes):
            block = rng.integers(-2, 3, (n, n)) + np.diag(rng.choice([-2, 2, 3], n))
            if abs(np.linalg.det(block)) > 0.5 and np.linalg.cond(block) < 50:
                blocks.append(fractions(block))
        return stacked(blocks, self, sizes)

"""Orthogonal matrices."""

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
from quotax.symmetry.groups.fixing_ones import OFixingOnes
from quotax.symmetry.groups.membership import no_matrix, skewed
from quotax.trees import AnyArray


@dataclass(frozen=True)
class O(Group):  # noqa: E742 - the orthogonal group has no other name
    """Orthogonal matrices on an axis."""

    layout = "matrix"
    symbol = "O({axis})"
    kind = "orthogonal"
    verb = "rotate"
    orthogonal = True
    free = False
    freedom = "orthogonal"
    signs = "each"

    @property
    def subgroups(self) -> tuple[Group, ...]:
        """Those that fix the vector of ones, and the permutations."""
        return OFixingOnes(self.axis, self.each), Permutation(self.axis, self.each)

    def formula(self, n: sp.Expr) -> sp.Expr:
        """A rotation for every pair of indices."""
        return n * (n - 1) / 2

    def log_volume(self, sizes: Mapping[str, int]) -> float:
        """Spheres over one another: `O(n)` turns a unit vector to any place, and `O(n-1)` what is across it."""
        return self.copies(sizes) * matrices.log_volume(self.shape(sizes)[-1])

    def algebra(self, coordinates: AnyArray, sizes: Mapping[str, int]) -> AnyArray:
        """The skew matrix with these entries above its diagonal."""
        return matrices.skew(coordinates, self.shape(sizes)[-1])

    def pairing(self, array: AnyArray) -> AnyArray:
        """The entries above the diagonal less those below it."""
        return matrices.above(array)

    def nearest(self, array: jax.Array, sizes: Mapping[str, int]) -> jax.Array:
        """The skew part."""
        return (array - jnp.swapaxes(array, -1, -2)) / 2

    def _outside(self, g: np.ndarray, rounding: float) -> str | None:
        """Not orthogonal."""
        hint = "`jnp.linalg.qr(g)[0]` is one"
        return no_matrix(skewed(g), rounding, "orthogonal matrices", "the largest entry of |g g.T - 1|", hint)

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rotations `(I - S)(I + S)^-1` (Cayley: all but those with eigenvalue -1), and those times a reflection."""
        n = self.shape(sizes)[-1]
        rotations = [cayley(skew(n, symbols(copy))) for copy in range(self.copies(sizes))]
        for signs in itertools.product((1, -1), repeat=self.copies(sizes)):
            mirrors = [np.array([sign] + [1] * (n - 1), dtype=object) for sign in signs]
            g = stacked([block * mirror for block, mirror in zip(rotations, mirrors, strict=True)], self, sizes)
            yield g, np.swapaxes(g, -1, -2)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """A Cayley rotation of small rationals, reflected half of the time."""
        n = self.shape(sizes)[-1]
        blocks = []
        for _ in range(self.copies(sizes)):
            block = cayley(skew(n, rationals(rng)))
            block[:, 0] *= int(rng.choice([-1, 1]))
            blocks.append(from_sympy(block))
        return stacked(blocks, self, sizes)

"""Shifts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from quotax.symmetry.groups.base import Group
from quotax.symmetry.groups.exact import fractions, named, objects


@dataclass(frozen=True)
class Translation(Group):
    """Shifts along an axis by any vector; without an axis, by one number."""

    layout = "vector"
    symbol = "R^{axis}"
    kind = "vector"
    freedom = "shift"
    needs_axis = False

    def exponential(self, xi: jax.Array) -> jax.Array:
        """The vector itself."""
        return xi

    def inverse(self, g: jax.Array) -> jax.Array:
        """The opposite vector."""
        return -g

    def compose(self, g: jax.Array, k: jax.Array) -> jax.Array:
        """The sum."""
        return g + k

    def identity(self, sizes: Mapping[str, int], dtype: DTypeLike | None = None) -> jax.Array:
        """Zero."""
        return jnp.zeros(self.shape(sizes), dtype)

    def _outside(self, g: np.ndarray, rounding: float) -> str | None:
        """Every vector is a shift."""
        return None

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, None]]:
        """Real symbols."""
        yield named(self, sizes), None

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Small nonzero halves."""
        return objects(rng.choice(fractions([-2, -1, Fraction(-1, 2), Fraction(1, 2), 1, 2]), self.shape(sizes)))

"""Scalings of the indices of an axis, and by one factor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import jax
import numpy as np
from jax.typing import DTypeLike

from quotax.symmetry.groups.base import Group
from quotax.symmetry.groups.discrete import SignFlip
from quotax.symmetry.groups.exact import fractions, named, objects
from quotax.symmetry.groups.membership import no_entry


@dataclass(frozen=True)
class PositiveDiagonal(Group):
    """Positive scalings of the indices of an axis, each by its own factor (R+^n)."""

    layout = "diagonal"
    symbol = "R+^{axis}"
    kind = "positive"

    def _outside(self, g: np.ndarray, rounding: float) -> str | None:
        """Not positive."""
        hint = "`jnp.exp` of any numbers are elements, and `qx.Diagonal` and `qx.SignFlip` have signs"
        return no_entry(g, g <= 0, "positive numbers", hint)

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positive symbols."""
        g = named(self, sizes, positive=True)
        yield g, objects(1 / g)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Small positive rationals, none of them one."""
        choices = fractions([Fraction(1, 3), Fraction(1, 2), Fraction(3, 2), 2, 3])
        return objects(rng.choice(choices, self.shape(sizes)))


@dataclass(frozen=True)
class Diagonal(PositiveDiagonal):
    """Nonzero scalings of the indices of an axis (R*^n): the positive ones and their signs."""

    symbol = "R*^{axis}"
    kind = "nonzero"
    freedom = "sign"
    signs = "each"

    @property
    def compact(self) -> Group:
        """The signs."""
        return SignFlip(self.axis, self.each)

    @property
    def subgroups(self) -> tuple[Group, ...]:
        """The positive scalings, and the signs."""
        return PositiveDiagonal(self.axis, self.each), self.compact

    def _outside(self, g: np.ndarray, rounding: float) -> str | None:
        """Zero."""
        return no_entry(g, g == 0, "numbers other than zero", "a factor of zero cannot be undone")

    def random(
        self, key: jax.Array, sizes: Mapping[str, int], scale: float = 1.0, dtype: DTypeLike | None = None
    ) -> jax.Array:
        """Random factors with random signs."""
        key, signs = jax.random.split(key)
        g = super().random(key, sizes, scale, dtype)
        return g * jax.random.rademacher(signs, g.shape, g.dtype)

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Real symbols (of either sign)."""
        g = named(self, sizes)
        yield g, objects(1 / g)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Small rationals of both signs."""
        return objects(super().rational(rng, sizes) * rng.choice([-1, 1], self.shape(sizes)))


@dataclass(frozen=True)
class PositiveScalar(PositiveDiagonal):
    """One positive factor (or one per index of `each`)."""

    layout = "scalar"
    symbol = "R+"
    needs_axis = False

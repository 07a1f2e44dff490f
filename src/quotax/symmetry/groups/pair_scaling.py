"""Positive scalings of pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from quotax.kernel.elements import Element
from quotax.kernel.sizes import Size
from quotax.symmetry.groups.base import Group
from quotax.symmetry.groups.diagonal import PositiveDiagonal
from quotax.symmetry.groups.exact import named, objects
from quotax.symmetry.groups.membership import no_entry
from quotax.symmetry.groups.paired_indices import Pairs, check_pairs, places
from quotax.trees import AnyArray


@dataclass(frozen=True)
class PairScaling(Group):
    """Positive scalings of pairs of indices, both indices of a pair by one factor (R+^(n/2)).

    They are the positive diagonal matrices that commute with every rotation of the pairs: what two gains before a
    rotary position embedding can hand to one another. `pairs="adjacent"` pairs `(0, 1), (2, 3), ...`;
    `pairs="halves"` pairs `i` with `i + n/2`.
    """

    pairs: Pairs = "adjacent"

    layout = "diagonal"
    symbol = "R+^({axis}/2)"
    kind = "paired"
    verb = "scale pairs"
    divisor = 2
    free = False

    def __post_init__(self) -> None:
        """Refuse an unknown pairing."""
        super().__post_init__()
        check_pairs(type(self).__name__, self.pairs)

    def element(self, each: tuple[Size, ...], axis: Size | None) -> Element:
        """Which indices are pairs is part of it."""
        return Element(self.kind, each, axis, self.pairs)

    def formula(self, n: sp.Expr) -> sp.Expr:
        """A factor for every pair."""
        return n / 2

    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The logarithm of a factor for every pair."""
        shape = self.shape(sizes)
        return (*shape[:-1], shape[-1] // 2)

    def places(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The first and the second index of every pair, on an axis of `n`."""
        return places(self.pairs, n)

    def algebra(self, coordinates: AnyArray, sizes: Mapping[str, int]) -> AnyArray:
        """The same number at both indices of a pair."""
        pairs = coordinates.shape[-1]
        pair_of = np.empty(2 * pairs, int)
        for index in self.places(2 * pairs):
            pair_of[index] = np.arange(pairs)
        return coordinates[..., pair_of]

    def pairing(self, array: AnyArray) -> AnyArray:
        """The sum over each pair."""
        first, second = self.places(array.shape[-1])
        return array[..., first] + array[..., second]

    def nearest(self, array: jax.Array, sizes: Mapping[str, int]) -> jax.Array:
        """The mean over each pair."""
        return self.algebra(self.pairing(jnp.asarray(array)) / 2, sizes)

    def _outside(self, g: np.ndarray, rounding: float) -> str | None:
        """Not positive, or different within a pair."""
        first, second = self.places(g.shape[-1])
        unequal = np.zeros(g.shape, bool)
        unequal[..., second] = np.abs(g[..., first] - g[..., second]) > rounding * np.abs(g[..., first])
        pairs = f'pairs="{self.pairs}"'
        members = f"positive numbers, equal within each pair of indices ({pairs})"
        return no_entry(g, (g <= 0) | unequal, members, "`space.random_element(key)` has some")

    def _repeated(self, numbers: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
        """The numbers at the first indices, at both."""
        first, _ = self.places(numbers.shape[-1])
        return objects(self.algebra(numbers[..., first], sizes))

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """A positive symbol for every pair."""
        self.check_sizes(sizes)
        g = self._repeated(named(self, sizes, positive=True), sizes)
        yield g, objects(1 / g)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Small positive rationals, none of them one."""
        self.check_sizes(sizes)
        return self._repeated(PositiveDiagonal(self.axis, self.each).rational(rng, sizes), sizes)

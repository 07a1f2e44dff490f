"""Complex scalings of pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from quotax.kernel.elements import Element
from quotax.kernel.sizes import Size
from quotax.symmetry.groups import matrices
from quotax.symmetry.groups.base import Group
from quotax.symmetry.groups.exact import fractions, stacked
from quotax.symmetry.groups.membership import largest, no_entry, no_matrix
from quotax.symmetry.groups.orthogonal import O
from quotax.symmetry.groups.paired_indices import Pairs, check_pairs, places
from quotax.trees import AnyArray


@dataclass(frozen=True)
class ComplexScaling(Group):
    """C* on pairs of indices: each pair is rotated and scaled, the blocks `[[a, -b], [b, a]]`.

    `pairs="adjacent"` pairs `(0, 1), (2, 3), ...`; `pairs="halves"` pairs `i` with `i + n/2`: the two layouts of
    rotary position embeddings.
    """

    pairs: Pairs = "adjacent"

    layout = "matrix"
    symbol = "C*^({axis}/2)"
    kind = "complex"
    verb = "complex"
    divisor = 2
    paired = True
    free = False
    freedom = "rotation"
    signs = "all"

    def __post_init__(self) -> None:
        """Refuse an unknown pairing."""
        super().__post_init__()
        check_pairs(type(self).__name__, self.pairs)

    @property
    def compact(self) -> Group:
        """The rotations of pairs are orthogonal matrices."""
        return O(self.axis, self.each)

    @property
    def isometries(self) -> Group:
        """The rotations of pairs."""
        return PairRotation(self.axis, self.each, self.pairs)

    def element(self, each: tuple[Size, ...], axis: Size | None) -> Element:
        """Which indices are pairs is part of it."""
        return Element(self.kind, each, axis, self.pairs)

    def selfadjoint_dimension(self, sizes: Mapping[str, int]) -> int:
        """The moduli."""
        return self.copies(sizes) * self.shape(sizes)[-1] // 2

    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """A logarithm of the modulus and an angle per pair."""
        shape = self.shape(sizes)
        return (*shape[:-2], shape[-1] // 2, 2)

    def places(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The first and the second index of every pair, on an axis of `n`."""
        return places(self.pairs, n)

    def algebra(self, coordinates: AnyArray, sizes: Mapping[str, int]) -> AnyArray:
        """Blocks `[[a, -b], [b, a]]` at the places of the pairs."""
        pairs = coordinates.shape[-2]
        first, second = self.places(2 * pairs)
        place, sign = np.zeros((2 * pairs, 2 * pairs), int), np.zeros((2 * pairs, 2 * pairs), int)
        moduli = 2 * np.arange(pairs)
        place[first, first] = place[second, second] = moduli
        place[first, second] = place[second, first] = moduli + 1
        sign[first, first] = sign[second, second] = sign[second, first] = 1
        sign[first, second] = -1
        return matrices.spread(coordinates.reshape(*coordinates.shape[:-2], 2 * pairs), place, sign)

    def pairing(self, array: AnyArray) -> AnyArray:
        """For every pair, what multiplies `a` and `b`."""
        first, second = self.places(array.shape[-1])
        modulus = array[..., first, first] + array[..., second, second]
        angle = array[..., second, first] - array[..., first, second]
        return (jnp if isinstance(array, jax.Array) else np).stack([modulus, angle], -1)

    def _outside(self, g: np.ndarray, rounding: float) -> str | None:
        """Other blocks, or a modulus of zero."""
        numbers = self.pairing(g) / 2
        apart = largest(g - np.asarray(self.algebra(numbers, {}))) / np.maximum(largest(g), np.finfo(float).tiny)
        members = f'blocks [[a, -b], [b, a]] of pairs of indices (pairs="{self.pairs}")'
        wrong = no_matrix(
            apart, rounding, members, "the largest entry beside them", "`space.random_element(key)` has some"
        )
        squares = (numbers**2).sum(-1)
        return wrong or no_entry(
            squares, squares == 0, "blocks of a complex number that is not zero", "it cannot be undone"
        )

    def _blocks(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        n = 2 * len(a)
        first, second = self.places(n)
        block = np.zeros((n, n), dtype=object)
        block[first, first], block[second, second] = a, a
        block[first, second], block[second, first] = -b, b
        return block

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Two real symbols a pair."""
        self.check_sizes(sizes)
        pairs = self.shape(sizes)[-1] // 2
        elements, inverses = [], []
        for copy in range(self.copies(sizes)):
            a = np.array([sp.Symbol(f"a[{copy},{i}]", real=True) for i in range(pairs)], dtype=object)
            b = np.array([sp.Symbol(f"b[{copy},{i}]", real=True) for i in range(pairs)], dtype=object)
            modulus = a**2 + b**2
            elements.append(self._blocks(a, b))
            inverses.append(self._blocks(a / modulus, -b / modulus))
        yield stacked(elements, self, sizes), stacked(inverses, self, sizes)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Small integer moduli and angles."""
        self.check_sizes(sizes)
        pairs = self.shape(sizes)[-1] // 2
        draw = lambda: fractions(rng.choice([-2, -1, 1, 2], pairs))
        return stacked([self._blocks(draw(), draw()) for _ in range(self.copies(sizes))], self, sizes)


@dataclass(frozen=True)
class PairRotation(ComplexScaling):
    """Rotations of pairs, the complex scalings of modulus one: nobody states them, a volume asks for them."""

    symbol = "SO(2)^({axis}/2)"
    orthogonal = True

    @property
    def compact(self) -> Group:
        """Itself."""
        return self

    @property
    def isometries(self) -> Group:
        """Itself."""
        return self

    def log_volume(self, sizes: Mapping[str, int]) -> float:
        """A full turn for each pair."""
        return self.dimension(sizes) * math.log(2 * math.pi)

    def selfadjoint_dimension(self, sizes: Mapping[str, int]) -> int:
        """None."""
        return 0

    def formula(self, n: sp.Expr) -> sp.Expr:
        """An angle for every pair."""
        return n / 2

    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """An angle per pair."""
        return super().coordinate_shape(sizes)[:-1]

    def algebra(self, coordinates: AnyArray, sizes: Mapping[str, int]) -> AnyArray:
        """Blocks `[[0, -b], [b, 0]]` at the places of the pairs."""
        xp = jnp if isinstance(coordinates, jax.Array) else np
        return super().algebra(xp.stack([0 * coordinates, coordinates], -1), sizes)

    def pairing(self, array: AnyArray) -> AnyArray:
        """For every pair, what multiplies its angle."""
        return super().pairing(array)[..., 1]

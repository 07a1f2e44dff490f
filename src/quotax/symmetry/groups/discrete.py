"""Permutations and signs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp
from jax.typing import DTypeLike

from quotax.symmetry.groups.base import Group
from quotax.symmetry.groups.exact import fractions, objects, stacked
from quotax.symmetry.groups.membership import no_entry, no_matrix
from quotax.trees import AnyArray


@dataclass(frozen=True)
class _Discrete(Group):
    """Orthogonal elements, apart from one another."""

    continuous = False
    orthogonal = True
    free = False

    def formula(self, n: sp.Expr) -> sp.Expr:
        """There are no directions."""
        return 0

    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """A discrete group has no algebra."""
        return (0,)

    def algebra(self, coordinates: AnyArray, sizes: Mapping[str, int]) -> AnyArray:
        """Zero."""
        return jnp.zeros(self.shape(sizes), coordinates.dtype)

    def exponential(self, xi: jax.Array) -> jax.Array:
        """The neutral element."""
        if self.layout == "matrix":
            return jnp.broadcast_to(jnp.eye(xi.shape[-1], dtype=xi.dtype), xi.shape)
        return jnp.ones_like(xi)


@dataclass(frozen=True)
class Permutation(_Discrete):
    """Reorderings of an axis; an element is a permutation matrix."""

    layout = "matrix"
    symbol = "S({axis})"
    kind = "permutation"
    reorders = True
    freedom = "permutation"

    def log_volume(self, sizes: Mapping[str, int]) -> float:
        """All orders."""
        return self.copies(sizes) * math.lgamma(self.shape(sizes)[-1] + 1)

    def telling(self, least: int) -> int:
        """Three: the first at which an element is not its own inverse."""
        return 3

    def random(
        self, key: jax.Array, sizes: Mapping[str, int], scale: float = 1.0, dtype: DTypeLike | None = None
    ) -> jax.Array:
        """A uniformly random permutation for every copy."""
        n = self.shape(sizes)[-1]
        eye = jnp.eye(n, dtype=jnp.result_type(float if dtype is None else dtype))
        rows = jax.vmap(lambda k: jax.random.permutation(k, n))(jax.random.split(key, self.copies(sizes)))
        return eye[rows].reshape(self.shape(sizes))

    def _outside(self, g: np.ndarray, rounding: float) -> str | None:
        """Another entry than 0 and 1, or a row or column with another sum than 1."""
        sums = np.maximum(np.abs(g.sum(-1) - 1).max(-1), np.abs(g.sum(-2) - 1).max(-1))
        apart = np.maximum(sums, np.minimum(np.abs(g), np.abs(g - 1)).max((-1, -2)))
        members, hint = "permutation matrices", "`jnp.eye(n)[order]` is the one of an order of indices"
        return no_matrix(apart, rounding, members, "how far an entry is from 0 and 1, or a sum from 1,", hint)

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Every element: finitely many at a small size."""
        n = self.shape(sizes)[-1]
        matrices = [np.eye(n, dtype=int)[list(order)].astype(object) for order in itertools.permutations(range(n))]
        for blocks in itertools.product(matrices, repeat=self.copies(sizes)):
            g = stacked(list(blocks), self, sizes)
            yield g, np.swapaxes(g, -1, -2)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """A random permutation that is not the identity, if there is one."""
        n = self.shape(sizes)[-1]
        blocks = [np.roll(np.eye(n, dtype=int), int(rng.integers(1, max(n, 2))), 0) for _ in range(self.copies(sizes))]
        return stacked([fractions(b) for b in blocks], self, sizes)

    def attempt(self, number: int, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Every second one is any but the identity; the others are cyclic."""
        if number % 2 == 0:
            return self.rational(rng, sizes)
        n = self.shape(sizes)[-1]
        while True:
            orders = [rng.permutation(n) for _ in range(self.copies(sizes))]
            if n == 1 or any(np.any(order != np.arange(n)) for order in orders):
                return stacked([fractions(np.eye(n, dtype=int)[order]) for order in orders], self, sizes)


@dataclass(frozen=True)
class SignFlip(_Discrete):
    """Signs of the indices of an axis; without an axis, one sign."""

    layout = "diagonal"
    symbol = "Z2^{axis}"
    kind = "sign"
    signs = "each"
    freedom = "sign"
    needs_axis = False

    def log_volume(self, sizes: Mapping[str, int]) -> float:
        """Two signs for each."""
        return math.prod(self.shape(sizes)) * math.log(2)

    def inverse(self, g: jax.Array) -> jax.Array:
        """Every sign is its own inverse."""
        return g

    def random(
        self, key: jax.Array, sizes: Mapping[str, int], scale: float = 1.0, dtype: DTypeLike | None = None
    ) -> jax.Array:
        """Independent fair signs."""
        return jax.random.rademacher(key, self.shape(sizes), jnp.result_type(float if dtype is None else dtype))

    def _outside(self, g: np.ndarray, rounding: float) -> str | None:
        """Another number."""
        return no_entry(g, np.abs(np.abs(g) - 1) > rounding, "signs, 1 and -1", "`jnp.sign` gives those of numbers")

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Every element: finitely many at a small size."""
        shape = self.shape(sizes)
        for signs in itertools.product((1, -1), repeat=math.prod(shape)):
            g = objects(np.array([sp.Integer(sign) for sign in signs], dtype=object).reshape(shape))
            yield g, g

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Random signs, at least one of them negative."""
        g = rng.choice([-1, 1], self.shape(sizes))
        flat = np.atleast_1d(g).reshape(-1)
        flat[rng.integers(len(flat))] = -1
        return objects(fractions(flat.reshape(self.shape(sizes))))

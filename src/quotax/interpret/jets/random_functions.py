r"""Random values of nonlinearities modulo a prime that obey the relations of the real functions.

A value is a hash of the sample, the function and the argument, so that the same argument always meets the same value:
sigmoid and SiLU of one z agree without being told. Arguments that are small rational multiples of one another are
tied: the base argument z carries a number u with $e^{kz/12} = u^k$, and $[kz > 0]$ is $[z > 0]$ or its complement.
"""

from __future__ import annotations

import itertools
import zlib
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from quotax.interpret.jets.residues import PRIME, inverse

ROOT = 12
"""Exponentials of k/12 times a base argument are integer powers."""

_MULTIPLES = tuple(
    dict.fromkeys(
        Fraction(a * s, b) for a in (1, 2, 3, 4, 6) for b in (1, 2, 3, 4, 6) for s in (1, -1) if a != b or s < 0
    )
)

_PLACES = range(len(_MULTIPLES))
_BACKWARDS = np.array([pow(f.numerator, -1, PRIME) * f.denominator % PRIME for f in _MULTIPLES], np.int64)
"""What divides by each of them."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass
class RandomFunctions:
    """The random functions of one batch; `seeds` has one number per sample (equal where the parameters are equal)."""

    seeds: np.ndarray
    bases: dict[tuple[str, int], dict[int, tuple[int, int]]] = field(default_factory=dict)
    """By kind and sample: the base of an argument, and how many twelfths of it the argument is."""

    signs: dict[tuple[int, int], bool] = field(default_factory=dict)
    """The sign of a base argument, by sample, where an order decided it before it was drawn."""

    def free(self, function: str, argument: np.ndarray) -> np.ndarray:
        """A residue that depends on sample, function and argument, and on nothing else."""
        label = np.uint64(zlib.crc32(function.encode()))
        seeds = self.seeds.astype(np.uint64).reshape(-1, *(1,) * (argument.ndim - 1))
        with np.errstate(over="ignore"):
            key = _mixed(seeds * _GOLDEN + label)
            return (_mixed(key ^ _mixed(argument.astype(np.uint64) + label * _GOLDEN)) % np.uint64(PRIME - 1)).astype(
                np.int64
            ) + 1

    def positive(self, argument: np.ndarray) -> np.ndarray:
        """Indicator of argument > 0 (false at 0): opposite for opposite arguments, the same for positive multiples."""
        base, twelfths = self._based("sign", argument)
        drawn = self._sign(base)
        return np.where(twelfths > 0, drawn, ~drawn) & (argument != 0)

    def _sign(self, base: np.ndarray) -> np.ndarray:
        drawn = self.free("sign", base) % 2 == 0
        if self.signs:
            rows = drawn.reshape(len(drawn), -1), base.reshape(len(base), -1)
            for seed, own, numbers in zip(self.seeds.tolist(), *rows, strict=True):
                own[:] = [self.signs.get((seed, z), d) for z, d in zip(numbers.tolist(), own.tolist(), strict=True)]
        return drawn

    def order(self, values: np.ndarray, infinite: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the last axis from the largest on, and the samples in which signs drawn before allow none.

        The order is drawn, but keeps what is known of pairs; from then on their differences have signs that agree.
        """
        asked = {seed: set(seen) for (kind, seed), seen in self.bases.items() if kind == "sign"}
        rank, count = self.free("order", values), values.shape[-1]
        pairs = values[..., :, None].astype(np.int64) - values[..., None, :]
        base, twelfths = self._based("sign", pairs % PRIME)
        above = np.where(twelfths > 0, self._sign(base), ~self._sign(base))
        out, bad = np.zeros(values.shape, np.int64), np.zeros(len(values), bool)
        for at in np.ndindex(values.shape[:-1]):
            seed = int(self.seeds[at[0]])
            larger: dict[tuple[int, int], bool] = {}
            for i, j in itertools.permutations(range(count), 2):
                signs = (0, 0) if infinite is None else (infinite[(*at, i)], infinite[(*at, j)])
                if any(signs) or values[(*at, i)] == values[(*at, j)]:
                    larger[i, j] = signs[0] > signs[1] or (signs[0] == signs[1] and i < j)
                elif int(base[(*at, i, j)]) in asked.get(seed, ()):
                    larger[i, j] = bool(above[(*at, i, j)])
            left = sorted(range(count), key=lambda i: -int(rank[(*at, i)]))
            for place in range(count):
                free = [i for i in left if not any(larger.get((j, i), False) for j in left)]
                bad[at[0]] |= not free
                first = (free or left)[0]
                left.remove(first)
                out[(*at, place)] = first
                for j in left:
                    if (first, j) not in larger:
                        self.signs[seed, int(base[(*at, first, j)])] = bool(twelfths[(*at, first, j)] > 0)
        return out, bad

    def exponential(self, argument: np.ndarray) -> np.ndarray:
        """$e^z$: free, but $e^{kz}$ is the k-th power and $e^0 = 1$."""
        base, power = self._based("exp", argument)
        root = self.free("exp", base)
        value = _power(root, np.abs(power))
        value = np.where(power < 0, inverse(value), value)
        return np.where(argument == 0, 1, value)

    def _based(self, kind: str, argument: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each argument as so many twelfths of a base argument met before (or of itself)."""
        samples = len(self.seeds)
        full = np.broadcast_to(argument, (samples, *argument.shape[1:])) if len(argument) != samples else argument
        rows = full.reshape(samples, -1)
        # z = f * base for a base in the table: base = z / f
        over = (rows[..., None] * _BACKWARDS % PRIME).tolist()
        found = []
        for seed, row, quotients in zip(self.seeds.tolist(), rows.tolist(), over, strict=True):
            seen = self.bases.setdefault((kind, seed), {})
            for z, candidates in zip(row, quotients, strict=True):
                if z not in seen:
                    seen[z] = _related(z, candidates, seen)
                found.append(seen[z])
        base, twelfths = np.array(found, np.int64).reshape(-1, 2).T
        return base.reshape(full.shape), twelfths.reshape(full.shape)


def _related(z: int, candidates: list[int], seen: dict[int, tuple[int, int]]) -> tuple[int, int]:
    for place in itertools.compress(_PLACES, map(seen.__contains__, candidates)):
        base, twelfths = seen[candidates[place]]
        multiple = _MULTIPLES[place] * twelfths
        if multiple.denominator == 1:
            return base, int(multiple)
    return z, ROOT


def _power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Entrywise power by repeated squaring."""
    result, square, left = np.ones_like(base), base % PRIME, exponent.copy()
    while (left > 0).any():
        result = np.where(left & 1, result * square % PRIME, result)
        square = square * square % PRIME
        left >>= 1
    return result

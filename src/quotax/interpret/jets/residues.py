"""Arithmetic of residues modulo one prime."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from quotax.interpret.constants import simplest_rational

PRIME = 8388593
"""The largest prime below 2^23: a sum of 128 products is below 2^53, so matrix products are exact in float64."""

_CHUNK = 128


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Matrix product of residues, in float64 pieces that stay exact."""
    a, b = left.astype(np.float64), right.astype(np.float64)
    total: np.ndarray | None = None
    for start in range(0, a.shape[-1], _CHUNK):
        part = np.matmul(a[..., start : start + _CHUNK], b[..., start : start + _CHUNK, :]).astype(np.int64) % PRIME
        total = part if total is None else (total + part) % PRIME
    if total is None:
        return np.zeros(
            (*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1]), np.int64
        )
    return total


def inverse(values: np.ndarray) -> np.ndarray:
    """The inverses modulo the prime by Fermat: $a^{p-2}$ (zero goes to zero)."""
    result, base, exponent = np.ones_like(values), values % PRIME, PRIME - 2
    while exponent:
        if exponent & 1:
            result = result * base % PRIME
        base = base * base % PRIME
        exponent >>= 1
    return result


@lru_cache(maxsize=4096)
def residue(value: float | np.floating) -> int:
    """The residue of the rational that a constant stands for."""
    fraction = simplest_rational(value)
    return fraction.numerator % PRIME * pow(fraction.denominator % PRIME, -1, PRIME) % PRIME

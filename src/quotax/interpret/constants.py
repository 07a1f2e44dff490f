"""Floating-point constants as the simplest rational numbers that they can stand for."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np


@lru_cache(maxsize=4096, typed=True)  # float32 0.1 and its float64 equal compare equal
def simplest_rational(value: float | np.floating) -> Fraction:
    """The fraction of least denominator that rounds to this floating-point number (in its own precision).

    A finite float stands for the reals between the midpoints to its two neighbours. The simplest fraction strictly
    between them is found by continued fractions, so 0.1 is 1/10 and 1/3 computed in float64 is 1/3. Whole numbers are
    themselves.

    Example:
        >>> simplest_rational(0.1)
        Fraction(1, 10)
    """
    if value < 0:
        return -simplest_rational(-value)
    exact = Fraction(float(value))
    if exact.denominator == 1:
        return exact
    kind = np.float64 if isinstance(value, float) else type(value)
    below, above = (Fraction(float(np.nextafter(value, kind(end)))) for end in (-math.inf, math.inf))
    return _simplest_between((below + exact) / 2, (exact + above) / 2)


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Simplest fraction in the open interval, 0 <= low < high: strip the common whole part, invert, repeat."""
    whole = low.numerator // low.denominator
    if whole + 1 < high:
        return Fraction(whole + 1)
    low, high = low - whole, high - whole
    if low == 0:  # 1/n for the least n that fits below `high`
        return whole + Fraction(1, high.denominator // high.numerator + 1)
    return whole + 1 / _simplest_between(1 / high, 1 / low)

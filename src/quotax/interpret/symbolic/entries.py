"""Arrays of SymPy entries: NumPy object arrays, made from constants and computed with entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
import sympy as sp

from quotax.interpret.constants import simplest_rational
from quotax.interpret.domain import COMPLEX, Unreadable, is_known
from quotax.interpret.symbolic.scalars import FALSE, TRUE
from quotax.presenting.telling import in_time


def filled(shape: tuple[int, ...], values: Iterable[sp.Basic]) -> np.ndarray:
    """An object array of this shape with these entries in order."""
    out = np.empty(shape, dtype=object)
    flat = out.reshape(-1)
    for position, value in enumerate(values):
        flat[position] = value
        in_time()
    return flat.reshape(shape)


@lru_cache(maxsize=4096, typed=True)
def _number(value: float | np.floating) -> sp.Basic:
    if np.isnan(value):
        return sp.nan
    if np.isinf(value):
        return sp.oo if value > 0 else -sp.oo
    fraction = simplest_rational(value)
    return sp.Rational(fraction.numerator, fraction.denominator)


def lift(value: np.ndarray) -> np.ndarray:
    """A constant array as SymPy numbers (floats as the simplest rationals they stand for); others unchanged."""
    if not is_known(value):
        return value
    kind = value.dtype.kind
    if kind == "c":
        raise Unreadable(*COMPLEX)
    if kind == "b":
        return filled(value.shape, (TRUE if v else FALSE for v in value.flat))
    if kind in "iu":
        return filled(value.shape, map(sp.Integer, value.ravel().tolist()))
    if kind == "f":
        return filled(value.shape, map(_number, value.ravel().tolist() if value.dtype == np.float64 else value.flat))
    return lift(value.astype(np.float64))  # bfloat16 and other extension types: exact in float64


def settle(value: np.ndarray) -> np.ndarray:
    """Truth values that are all decided become a constant array of booleans; others stay."""
    flat = value.ravel()
    if all(v is TRUE or v is FALSE for v in flat):
        return np.array([v is TRUE for v in flat], dtype=bool).reshape(value.shape)
    return value


def concrete(value: np.ndarray) -> np.ndarray | None:
    """Entries that are all integers or decided truth values as a constant array, otherwise None."""
    if is_known(value):
        return value
    flat = value.ravel()
    if all(v is TRUE or v is FALSE for v in flat):
        return settle(value)
    if all(v.is_Integer for v in flat):
        return np.array([int(v) for v in flat], dtype=np.int64).reshape(value.shape)
    return None


def mapped(function: Callable[..., sp.Basic], *arrays: np.ndarray) -> np.ndarray:
    """Entrywise function with NumPy broadcasting; always an object array, also at rank 0."""
    lifted = np.broadcast_arrays(*map(lift, arrays))
    return filled(lifted[0].shape, map(function, *(a.ravel() for a in lifted)))

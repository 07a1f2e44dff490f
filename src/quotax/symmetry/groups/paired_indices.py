"""Which indices of an axis are pairs: the two layouts of rotary position embeddings."""

from __future__ import annotations

from typing import Literal

import numpy as np

from quotax.errors import SymmetryError

Pairs = Literal["adjacent", "halves"]
"""`(0, 1), (2, 3), ...`, or `i` with `i + n/2`."""


def places(pairs: Pairs, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the second index of every pair, on an axis of `n`."""
    first = np.arange(0, n, 2) if pairs == "adjacent" else np.arange(n // 2)
    return first, first + (1 if pairs == "adjacent" else n // 2)


def check_pairs(call: str, pairs: str) -> None:
    """Refuse an unknown pairing."""
    if pairs not in ("adjacent", "halves"):
        raise SymmetryError(f"`{call}`: pairs must be 'adjacent' or 'halves', got {pairs!r}.")

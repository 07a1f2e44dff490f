"""Random inputs of the kinds that a model declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from quotax.artifacts import ArraySpec
from quotax.trees import AnyArray


def random_input(
    spec: ArraySpec, sizes: Mapping[str, int], rng: np.random.Generator, real: Callable[[tuple[int, ...]], AnyArray],
    shown: float = 0.5,
) -> AnyArray:  # fmt: skip
    """Tokens below their bound, or a mask of zeros and ones, of which `shown` are ones; what is neither, `real` draws.

    Residues have no sign: of numbers that `real` draws, the magnitudes are positive.
    """
    shape = spec.shape(sizes)
    if spec.kind == "tokens":
        return rng.integers(0, spec.bound(sizes), shape).astype(np.int32)
    if spec.kind == "mask":
        return (rng.random(shape) < shown).astype(np.float64)
    drawn = real(shape)
    return np.abs(drawn) if spec.kind == "positive" and isinstance(drawn, np.ndarray) else drawn

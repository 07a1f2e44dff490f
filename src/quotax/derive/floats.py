"""The fields of actions at float64 points."""

from __future__ import annotations

from typing import Any

import numpy as np

from quotax.artifacts import Trace
from quotax.derive.moments import factors
from quotax.interpret.jets import PRIME
from quotax.symmetry import TANGENT, Action, Arrays, read, variable

FLOATS = Arrays(
    einsum=lambda subscripts, *arrays: np.einsum(subscripts, *arrays),
    constant=lambda value: np.asarray(float(value)),
    functions={},
    power=lambda base, exponent: np.asarray(base) ** float(exponent),
    eye=np.eye,
)
"""NumPy arrays of floats, as readers of actions see them."""


def float_fields(action: Action, trace: Trace, theta: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """The fields of these algebra elements (residues) at a flat point: `(basis, parameters)`."""
    environment: dict[str, Any] = {}
    starts, start = {}, 0
    for spec in trace.params:
        shape = [f if isinstance(f, int) else trace.sizes[f] for f in factors(spec)]
        size = int(np.prod(shape, dtype=np.int64))
        environment[variable(spec.name)] = theta[start : start + size].reshape(shape)
        starts[spec.name] = start, size, shape
        start += size
    signed = np.where(basis > PRIME // 2, basis - PRIME, basis).astype(np.float64)
    out = np.zeros((len(basis), len(theta)))
    for row, xi in zip(out, signed, strict=True):
        for entry in action.infinitesimal:
            begin, size, shape = starts[entry.name]
            row[begin : begin + size] = np.broadcast_to(
                read(entry, environment | {TANGENT: xi}, trace.sizes, FLOATS), shape
            ).reshape(-1)
    return out

"""The fields of actions at float64 points."""

from __future__ import annotations

from typing import Any

import numpy as np

from quotax.artifacts import Trace
from quotax.derive.sampling.moments import factors
from quotax.interpret.jets.domain import PRIME
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
    signed = np.where(basis > PRIME // 2, basis - PRIME, basis).astype(np.float64)
    rows = [field_along(action, trace, theta, xi) for xi in signed]
    return np.array(rows).reshape(len(basis), len(theta))


def field_along(action: Action, trace: Trace, theta: np.ndarray, xi: np.ndarray, arrays: Arrays = FLOATS) -> np.ndarray:
    """The field of one algebra element at a flat point."""
    environment: dict[str, Any] = {TANGENT: xi}
    starts, start = {}, 0
    for spec in trace.params:
        shape = [f if isinstance(f, int) else trace.sizes[f] for f in factors(spec)]
        size = int(np.prod(shape, dtype=np.int64))
        environment[variable(spec.name)] = theta[start : start + size].reshape(shape)
        starts[spec.name] = start, size, shape
        start += size
    out = np.zeros(len(theta))
    for entry in action.infinitesimal:
        begin, size, shape = starts[entry.name]
        value = read(entry, environment, trace.sizes, arrays)
        out[begin : begin + size] = np.broadcast_to(value, shape).reshape(-1)
    return out

"""What follows from constants alone is computed: by the primitive itself, or by NumPy where that is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quotax.interpret.shared.movement import PLAIN, bind, run_plain

_COMPUTED: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "and": np.bitwise_and,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "or": np.bitwise_or,
    "sub": np.subtract,
}
"""Operations on constants that NumPy rounds exactly as JAX does, so that no compilation is paid for them."""


def fold(primitive: Any, equation: Any, arguments: list[Any]) -> list[Any]:
    """What follows from constants: the primitive itself, or NumPy where that is the same and saves compiling."""
    avals = [atom.aval for atom in equation.outvars]
    name = primitive.name
    with np.errstate(all="ignore"):
        if name == "iota":
            shape, axis = avals[0].shape, equation.params["dimension"]
            ramp = np.arange(shape[axis], dtype=avals[0].dtype)
            outputs = [np.broadcast_to(ramp.reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape)]
        elif name in _COMPUTED:
            outputs = [_COMPUTED[name](*arguments)]
        elif name in PLAIN:
            outputs = run_plain(primitive, equation.params, arguments)
        elif name == "convert_element_type" and avals[0].dtype.kind == "f" and arguments[0].dtype.kind in "fiub":
            outputs = [arguments[0]]
        else:
            outputs = bind(primitive, equation.params, arguments)
        return [np.asarray(out, dtype=aval.dtype) for out, aval in zip(outputs, avals, strict=True)]

"""Integers that are known while tracing: an index at the border of parts takes one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike

from quotax.interpret.tracing.apart.concatenation import Concatenation, Divided, Positions
from quotax.programs.jaxprs import Settings
from quotax.trees import AnyArray, Dim

_MOST = 64
"""Integers that are followed as positions, in one array."""


def positions_of(value: Divided) -> np.ndarray | None:
    """An array of integers as it is known while tracing, or None."""
    if isinstance(value, Positions):
        return value.known
    if isinstance(value, (Concatenation, Tracer)) or not jnp.issubdtype(jnp.result_type(value), jnp.integer):
        return None
    return np.asarray(value).astype(object) if np.size(value) <= _MOST else None


def known(name: str, params: Settings, arguments: Sequence[Divided]) -> np.ndarray | None:
    """What an operation makes of positions."""
    function = _ON_PLACES.get(name)
    if name == "dim_as_value":
        return _scalar(params["dim"])
    if name == "convert_element_type" and not _holds_positions(params["new_dtype"]):
        return None
    found = [positions_of(a) for a in arguments]
    if function is None or not found or any(f is None for f in found):
        return None
    try:
        return np.asarray(function(params, *found), dtype=object)
    except Exception:  # an order that sizes leave open, a shape that is a symbol
        return None


def _holds_positions(dtype: DTypeLike) -> bool:
    """Shorter integers begin again where they end."""
    return jnp.issubdtype(dtype, jnp.integer) and jnp.iinfo(dtype).bits >= 32


def _scalar(value: Dim) -> np.ndarray:
    out = np.empty((), object)
    out[()] = value
    return out


def _spread(params: Settings, value: np.ndarray) -> np.ndarray:
    shape = params["shape"]
    if math.prod(shape) > _MOST:
        raise ValueError
    opened = [1] * len(shape)
    for axis, length in zip(params["broadcast_dimensions"], value.shape, strict=True):
        opened[axis] = length
    return np.broadcast_to(value.reshape(opened), shape)


_ON_PLACES: dict[str, Callable[..., AnyArray]] = {
    "broadcast_in_dim": _spread,
    "convert_element_type": lambda params, a: a,
    "reshape": lambda params, a: a.reshape(params["new_sizes"]),
    "squeeze": lambda params, a: a.squeeze(tuple(params["dimensions"])),
    "concatenate": lambda params, *all_: np.concatenate(all_, params["dimension"]),
    "add": lambda params, a, b: a + b,
    "sub": lambda params, a, b: a - b,
    "mul": lambda params, a, b: a * b,
    "neg": lambda params, a: -a,
    "lt": lambda params, a, b: a < b,
    "select_n": lambda params, which, *cases: np.choose(which.astype(int), cases),
}

"""Random arrays of any shape, without a program of their own for every shape."""

from __future__ import annotations

import math
import zlib

import jax
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike

from quotax.trees import AnyArray

_LEAST, _MOST = 4096, 2**20
"""Between these, numbers are drawn in powers of two; below the first as many as that, above the second as asked."""


def normal(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> AnyArray:
    """The numbers of `jax.random.normal(key, shape, dtype)`; in NumPy where the key is known and they are not many.

    Entry i of JAX's own generator depends on the key and on i alone: what is drawn beyond the shape is left away.
    """
    count = math.prod(shape)
    if isinstance(key, Tracer) or count > _MOST or not _counted(key) or dtype not in (np.float32, np.float64):
        return jax.random.normal(key, shape, dtype)
    drawn = jax.random.normal(key, (max(_LEAST, 1 << max(count - 1, 0).bit_length()),), dtype)
    return np.asarray(drawn)[:count].reshape(shape)


def fixed(name: str, shape: tuple[int, ...]) -> AnyArray:
    """Standard normal numbers in float32 that belong to a name: constants of a program, unless they are many."""
    seed = zlib.crc32(name.encode())
    if math.prod(shape) > _CONSTANTS:
        return jax.random.normal(jax.random.key(seed), shape, np.float32)
    return jax.numpy.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32))


_CONSTANTS = 2**16
"""More numbers than this are drawn where they are used."""


def _counted(key: jax.Array) -> bool:
    """Whether the key's numbers are made by counting (`threefry`), each by itself."""
    return bool(jax.config.values["jax_threefry_partitionable"]) and str(jax.random.key_impl(key)) == "threefry2x32"

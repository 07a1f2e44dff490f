"""Convolutions over a sequence, and batch norm over examples and places."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def convolved(x: Any, kernel: Any) -> Any:
    """`SAME` convolution of `(example, channel, place)`."""
    return jax.lax.conv(x, kernel, (1,), "SAME")


def batch_normed(z: Any, gain: Any, shift: Any, eps: float = 1e-5) -> Any:
    """Every channel without mean and deviation, with gain and shift."""
    z = z - jnp.mean(z, (0, 2), keepdims=True)
    z = z * jax.lax.rsqrt(jnp.mean(z**2, (0, 2), keepdims=True) + eps)
    return z * gain[:, None] + shift[:, None]

"""Convolutions over a sequence, and batch norm over examples and places."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from quotax.trees import AnyArray


def convolved(x: AnyArray, kernel: AnyArray) -> AnyArray:
    """`SAME` convolution of `(example, channel, place)`."""
    return jax.lax.conv(x, kernel, (1,), "SAME")


def batch_normed(z: AnyArray, gain: AnyArray, shift: AnyArray, eps: float = 1e-5) -> AnyArray:
    """Every channel without mean and deviation, with gain and shift."""
    z = z - jnp.mean(z, (0, 2), keepdims=True)
    z = z * jax.lax.rsqrt(jnp.mean(z**2, (0, 2), keepdims=True) + eps)
    return z * gain[:, None] + shift[:, None]

"""LayerNorm and RMSNorm over the last axis, with a gain and a shift where they have one."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from quotax.trees import AnyArray


def rms_norm(z: AnyArray, gain: AnyArray = None, eps: float = 0.0) -> AnyArray:
    """`z / sqrt(mean z^2 + eps)`, times a gain."""
    z = z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True) + eps)
    return z if gain is None else z * gain


def layer_norm(z: AnyArray, gain: AnyArray = None, shift: AnyArray = None, eps: float = 0.0) -> AnyArray:
    """What `rms_norm` gives of `z` without its mean, plus a shift."""
    z = rms_norm(z - z.mean(-1, keepdims=True), gain, eps)
    return z if shift is None else z + shift

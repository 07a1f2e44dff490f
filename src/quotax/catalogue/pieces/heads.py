"""What attention layers are made of: scores, masks, and the two conventions of rotary positions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from quotax.trees import AnyArray, Tree


def attend(q: AnyArray, k: AnyArray, v: Tree) -> AnyArray:
    """Scores, softmax over sources, values; leading axes are heads."""
    return jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2), -1) @ v


def attend_causally(q: AnyArray, k: AnyArray, v: Tree) -> AnyArray:
    """The same where a target sees itself and what is before it."""
    scores = q @ jnp.swapaxes(k, -1, -2)
    return jax.nn.softmax(causal(scores), -1) @ v


def causal(scores: AnyArray) -> AnyArray:
    """Scores with those of later sources at minus infinity."""
    return jnp.where(jnp.tril(jnp.ones(scores.shape[-2:])) > 0, scores, -jnp.inf)


def rotate_adjacent(z: AnyArray) -> AnyArray:
    """Rotary positions on the pairs `2 i, 2 i + 1`, as RoFormer has them."""
    t, k = z.shape[-2:]
    angle = jnp.arange(t)[:, None] / 10000 ** (jnp.arange(0, k, 2) / k)
    c, s = jnp.cos(angle), jnp.sin(angle)
    a, b = z[..., 0::2], z[..., 1::2]
    return jnp.stack([a * c - b * s, a * s + b * c], -1).reshape(z.shape)


def rotate_halves(z: AnyArray) -> AnyArray:
    """Rotary positions on the pairs `i, i + k/2`, as LLaMA's code has them: `z cos + rotate_half(z) sin`."""
    t, k = z.shape[-2:]
    angle = jnp.arange(t)[:, None] / 10000 ** (jnp.arange(0, k, 2) / k)
    angle = jnp.concatenate([angle, angle], -1)
    a, b = jnp.split(z, 2, -1)
    return z * jnp.cos(angle) + jnp.concatenate([-b, a], -1) * jnp.sin(angle)

"""Networks trained on scikit-learn's digits: the settings that the sharpness benchmark measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

Params = dict[str, jax.Array]


@dataclass(frozen=True)
class Setting:
    """A trained network: `loss(params, batch)` is the mean cross-entropy."""

    name: str
    loss: Callable[[Params, Any], jax.Array]
    params: Params
    batch: tuple[jax.Array, jax.Array]


def _normal(key: jax.Array, shapes: dict[str, tuple[int, ...]]) -> Params:
    """Normal entries of variance 1 / fan-in, biases (one axis) zero; the last axis is the input's."""
    keys = jax.random.split(key, len(shapes))
    drawn = {}
    for k, (name, shape) in zip(keys, shapes.items(), strict=True):
        fan_in = int(np.prod(shape[1:] if len(shape) == 4 else shape[-1:]))
        drawn[name] = jax.random.normal(k, shape) / fan_in**0.5 if len(shape) > 1 else jnp.zeros(shape)
    return drawn


def mlp(width: int, activation: Callable[[jax.Array], jax.Array]):
    """Two hidden layers."""
    hidden = {"W1": (width, 64), "b1": (width,), "W2": (width, width), "b2": (width,)}
    shapes = hidden | {"W3": (10, width), "b3": (10,)}

    def logits(p, x):
        z = x.reshape(-1, 64)
        z = activation(z @ p["W1"].T + p["b1"])
        z = activation(z @ p["W2"].T + p["b2"])
        return z @ p["W3"].T + p["b3"]

    return shapes, logits


def cnn(channels: int = 8):
    """Two convolutions with pooling, then a linear layer."""
    c = channels
    shapes = {"C1": (c, 1, 3, 3), "c1": (c,), "C2": (2 * c, c, 3, 3), "c2": (2 * c,), "W": (10, 8 * c), "b": (10,)}

    def logits(p, x):
        z = x[:, None]
        for kernel, bias in (("C1", "c1"), ("C2", "c2")):
            z = jax.lax.conv_general_dilated(z, p[kernel], (1, 1), "SAME")
            z = jax.nn.relu(z + p[bias][:, None, None])
            z = jax.lax.reduce_window(z, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return z.reshape(z.shape[0], -1) @ p["W"].T + p["b"]

    return shapes, logits


def _heads(p, i, h, causal):
    q, k, v = (jnp.einsum("ntd,hkd->nhtk", h, p[f"{name}{i}"]) for name in ("Wq", "Wk", "Wv"))
    scores = jnp.einsum("nhtk,nhsk->nhts", q, k) / q.shape[-1] ** 0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("nhts,nhsv,dhv->ntd", jax.nn.softmax(scores, -1), v, p[f"Wo{i}"])


def _head_shapes(i, d, heads, k):
    return {**{f"W{n}{i}": (heads, k, d) for n in "qkv"}, f"Wo{i}": (d, heads, k)}


def attention(layers: int, d: int, heads: int, k: int):
    """Attention over the rows of an image; with more than one layer, GELU blocks and layer norms between."""
    shapes = {"E": (d, 8), "P": (8, d)}
    for i in range(layers):
        shapes |= _head_shapes(i, d, heads, k)
        if layers > 1:
            shapes |= {f"U{i}": (2 * d, d), f"D{i}": (d, 2 * d)}
    shapes |= {"W": (10, d), "b": (10,)}

    def normal(h):
        return (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)

    def logits(p, x):
        h = x @ p["E"].T + p["P"]
        for i in range(layers):
            h = h + _heads(p, i, normal(h) if layers > 1 else h, causal=False)
            if layers > 1:
                h = h + jax.nn.gelu(normal(h) @ p[f"U{i}"].T) @ p[f"D{i}"].T
        return h.mean(1) @ p["W"].T + p["b"]

    return shapes, logits


def swiglu_decoder(d: int = 16, heads: int = 2, k: int = 8, layers: int = 2):
    """A causal decoder over the rows: RMS norms, SwiGLU blocks, the last position decides."""
    shapes = {"E": (d, 8), "P": (8, d)}
    for i in range(layers):
        shapes |= _head_shapes(i, d, heads, k) | {f"G{i}": (2 * d, d), f"U{i}": (2 * d, d), f"D{i}": (d, 2 * d)}
    shapes |= {"W": (10, d), "b": (10,)}

    def normal(h):
        return h / jnp.sqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-5)

    def logits(p, x):
        h = x @ p["E"].T + p["P"]
        for i in range(layers):
            h = h + _heads(p, i, normal(h), causal=True)
            z = normal(h)
            h = h + (jax.nn.silu(z @ p[f"G{i}"].T) * (z @ p[f"U{i}"].T)) @ p[f"D{i}"].T
        return normal(h)[:, -1] @ p["W"].T + p["b"]

    return shapes, logits


SETTINGS: dict[str, Callable[[], Any]] = {
    **{f"MLP {w} ReLU": lambda w=w: mlp(w, jax.nn.relu) for w in (16, 32, 64, 128)},
    **{f"MLP {w} GELU": lambda w=w: mlp(w, jax.nn.gelu) for w in (16, 32, 64, 128)},
    "CNN": cnn,
    "attention, 1 layer": lambda: attention(1, 16, 2, 8),
    "attention, 2 layers": lambda: attention(2, 16, 2, 8),
    "SwiGLU decoder": swiglu_decoder,
}

HELD_OUT: dict[str, Callable[[], Any]] = {
    **{f"MLP {w} ReLU": lambda w=w: mlp(w, jax.nn.relu) for w in (24, 96)},
    **{f"MLP {w} GELU": lambda w=w: mlp(w, jax.nn.gelu) for w in (24, 96)},
    "MLP 48 tanh": lambda: mlp(48, jax.nn.tanh),
    "CNN, 6 channels": lambda: cnn(6),
    "attention, 1 layer of 24": lambda: attention(1, 24, 3, 8),
    "attention, 2 layers of 24": lambda: attention(2, 24, 3, 8),
    "SwiGLU decoder of 24": lambda: swiglu_decoder(24, 3, 8),
    "attention, 1 layer of 8": lambda: attention(1, 8, 1, 8),
}
"""Of other sizes, never looked at while the search was made; trained from other seeds."""


def digits() -> tuple[jax.Array, jax.Array]:
    """All images, 8 x 8 in [0, 1], in a fixed random order, and their labels."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    return jnp.asarray(data.images[order] / 16.0, jnp.float32), jnp.asarray(data.target[order], jnp.int32)


def trained(name: str, steps: int = 300, examples: int = 512, seed: int = 1) -> Setting:
    """The network after `steps` of Adam on batches of 256; sharpness is measured on the first `examples` images."""
    shapes, logits = (SETTINGS | HELD_OUT)[name]()
    images, labels = digits()

    def loss(p: Params, batch: Any) -> jax.Array:
        x, y = batch
        return optax.softmax_cross_entropy_with_integer_labels(logits(p, x), y).mean()

    params = adam(loss, _normal(jax.random.key(seed), shapes), steps, images, labels)
    return Setting(name, loss, params, (images[:examples], labels[:examples]))


def adam(loss: Callable[[Any, Any], jax.Array], params: Any, steps: int, images: jax.Array, labels: jax.Array) -> Any:
    """The parameters after so many steps of Adam on batches of 256, in one program."""
    optimiser = optax.adam(3e-3)
    state = optimiser.init(params)

    @jax.jit
    def train(params: Params, state: Any) -> Params:
        def step(carry: Any, i: jax.Array) -> Any:
            params, state = carry
            start = (i * 256) % (len(labels) - 256)
            part = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, 256), (images, labels))
            updates, state = optimiser.update(jax.grad(loss)(params, part), state)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, (params, state), jnp.arange(steps))[0][0]

    return train(params, state)

"""Blocks as people write them, with what a float64 Jacobian says of each at two assignments of sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

import quotax as qx
from derive.rows import attend


@dataclass(frozen=True)
class Block:
    """A model, and at each of two assignments of sizes the number of its flat directions."""

    name: str
    model: Any
    flat: tuple[tuple[dict[str, int], int], ...]
    slow: bool = False


def layer_norm(z, eps, gain=None, bias=None):
    z = z - z.mean(-1, keepdims=True)
    n = z * jax.lax.rsqrt((z**2).mean(-1, keepdims=True) + eps)
    n = n if gain is None else n * gain
    return n if bias is None else n + bias


@qx.architecture(params={"W": "h x", "A": "y h"}, inputs={"x": "x"})
def normed(p, x):
    return p["A"] @ layer_norm(p["W"] @ x, 0.0)


@qx.architecture(
    params={
        "R": "d x", "r": "d", "g1": "d", "b1": "d", "U": "f d", "u": "f", "D": "d f", "e": "d",
        "g2": "d", "b2": "d", "H": "y d", "c": "y",
    },
    inputs={"x": "t x"},
)  # fmt: skip
def stream(p, x):
    """A residual stream with gains, biases, a gated branch and a head, every norm with its eps."""
    z = x @ p["R"].T + p["r"]
    z = z + jax.nn.gelu(layer_norm(z, 1e-5, p["g1"], p["b1"]) @ p["U"].T + p["u"]) @ p["D"].T + p["e"]
    return layer_norm(z, 1e-5, p["g2"], p["b2"]) @ p["H"].T + p["c"]


@qx.architecture(params={"W": "h x", "b": "h", "A": "y h"}, inputs={"x": "x"})
def by_variance(p, x):
    z = p["W"] @ x + p["b"]
    return p["A"] @ jnp.tanh((z - jnp.mean(z)) / jnp.sqrt(jnp.var(z) + 1e-5))


@qx.architecture(params={"W": "h x", "b": "h", "A": "y h"}, inputs={"x": "x"})
def by_deviation(p, x):
    z = p["W"] @ x + p["b"]
    return p["A"] @ jnp.tanh((z - jnp.mean(z)) / jnp.std(z))


def rotate_half(z):
    """`z cos + rotate_half(z) sin`, as LLaMA's code has it: pairs are `i` and `i + k/2`."""
    t, k = z.shape[-2:]
    angle = jnp.arange(t)[:, None] / 10000 ** (jnp.arange(0, k, 2) / k)
    angle = jnp.concatenate([angle, angle], -1)
    a, b = jnp.split(z, 2, -1)
    return z * jnp.cos(angle) + jnp.concatenate([-b, a], -1) * jnp.sin(angle)


@qx.architecture(params={"Q": "k d", "K": "k d", "V": "v d", "O": "d v"}, inputs={"x": "t d"})
def rotated_head(p, x):
    q, k, v = (x @ p[n].T for n in "QKV")
    return attend(rotate_half(q), rotate_half(k), v) @ p["O"].T


@qx.architecture(params={"Q": "head k d", "K": "head k d", "V": "head v d", "O": "d head v"}, inputs={"x": "t d"})
def rotated_heads(p, x):
    q, k, v = (jnp.einsum("hkd,td->htk", p[n], x) for n in "QKV")
    return jnp.einsum("htv,dhv->td", attend(rotate_half(q), rotate_half(k), v), p["O"])


@qx.architecture(params={"A": "y h", "W": "h x"}, inputs={"x": "x"})
def cast_norm(p, x):
    z = (p["W"] @ x).astype(jnp.bfloat16)
    n = z.astype(jnp.float32)
    n = n * jax.lax.rsqrt(jnp.mean(n**2, -1, keepdims=True))
    return p["A"] @ n.astype(z.dtype)


@qx.architecture(
    params={"g": "c", "s": "c", "W": "c x", "b": "c", "A": "y c"},
    inputs={"x": "x", "mean": "c", "var": qx.Positive("c")},
)
def batch_norm_in_use(p, x, mean, var):
    z = (p["W"] @ x + p["b"] - mean) / jnp.sqrt(var + 1e-5)
    return p["A"] @ jax.nn.leaky_relu(z * p["g"] + p["s"])


@qx.architecture(
    params={
        "E": "vocab d", "P": "t d", "Q": "head k d", "K": "head k d", "V": "head k d", "O": "d head k",
        "W1": "f d", "W2": "d f", "U": "vocab d",
    },
    inputs={"tokens": qx.Tokens("t", below="vocab")},
)  # fmt: skip
def decoder(p, tokens):
    """A decoder that reads its stream through LayerNorms."""
    x = p["E"][tokens] + p["P"]
    z = layer_norm(x, 0.0)
    q, k, v = (jnp.einsum("hkd,td->htk", p[n], z) for n in "QKV")
    scores = jnp.einsum("htk,hsk->hts", q, k)
    causal = jnp.tril(jnp.ones(scores.shape[1:]))
    a = jax.nn.softmax(jnp.where(causal > 0, scores, -jnp.inf), -1)
    x = x + jnp.einsum("hts,hsk,dhk->td", a, v, p["O"])
    x = x + jax.nn.gelu(layer_norm(x, 0.0) @ p["W1"].T) @ p["W2"].T
    return layer_norm(x, 0.0) @ p["U"].T


def rms_norm(z, gain):
    return z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True) + 1e-6) * gain


def llama(layers):
    """A decoder as LLaMA has it: gains and eps, rotary embeddings over whole rows, gated units, no biases."""
    layer = {
        "n1": "d", "Q": "head k d", "K": "head k d", "V": "head k d", "O": "d head k",
        "n2": "d", "gate": "f d", "up": "f d", "down": "d f",
    }  # fmt: skip
    names = [f"layer{i}" for i in range(layers)]

    @qx.architecture(
        params={"E": "vocab d", **dict.fromkeys(names, layer), "n": "d", "head": "vocab d"},
        inputs={"tokens": qx.Tokens("t", below="vocab")},
    )
    def model(p, tokens):
        x = p["E"][tokens]
        causal = jnp.tril(jnp.ones((tokens.shape[0], tokens.shape[0]))) > 0
        for name in names:
            w = p[name]
            z = rms_norm(x, w["n1"])
            q, k, v = (jnp.einsum("hkd,td->htk", w[m], z) for m in "QKV")
            scores = jnp.einsum("htk,hsk->hts", rotate_half(q), rotate_half(k))
            a = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), -1)
            x = x + jnp.einsum("hts,hsk,dhk->td", a, v, w["O"])
            z = rms_norm(x, w["n2"])
            x = x + (jax.nn.silu(z @ w["gate"].T) * (z @ w["up"].T)) @ w["down"].T
        return rms_norm(x, p["n"]) @ p["head"].T

    return model


BLOCKS = [
    Block("norm", normed, (({"x": 3, "h": 4, "y": 2}, 9), ({"x": 2, "h": 3, "y": 4}, 8))),
    Block(
        "residual stream",
        stream,
        (({"t": 3, "x": 5, "d": 4, "f": 3, "y": 6}, 38), ({"t": 4, "x": 5, "d": 3, "f": 4, "y": 6}, 34)),
        slow=True,
    ),
    Block("variance", by_variance, (({"x": 3, "h": 4, "y": 2}, 4), ({"x": 2, "h": 5, "y": 3}, 3))),
    Block("deviation", by_deviation, (({"x": 3, "h": 4, "y": 2}, 5), ({"x": 2, "h": 5, "y": 3}, 4))),
    Block(
        "rotate half",
        rotated_head,
        (({"d": 6, "k": 4, "v": 2, "t": 5}, 8), ({"d": 5, "k": 2, "v": 3, "t": 6}, 11)),
        True,
    ),
    Block(
        "rotate half, heads",
        rotated_heads,
        (({"head": 2, "k": 4, "v": 2, "d": 4, "t": 5}, 16), ({"head": 3, "k": 2, "v": 2, "d": 5, "t": 4}, 18)),
        slow=True,
    ),
    Block("casts", cast_norm, (({"x": 5, "h": 3, "y": 4}, 4), ({"x": 4, "h": 4, "y": 5}, 7))),
    Block("batch norm in use", batch_norm_in_use, (({"c": 3, "x": 2, "y": 2}, 3), ({"c": 2, "x": 3, "y": 4}, 2))),
    Block(
        "decoder with layer norms",
        decoder,
        (
            ({"vocab": 6, "d": 4, "head": 2, "k": 2, "t": 3, "f": 3}, 60),
            ({"vocab": 5, "d": 5, "head": 2, "k": 2, "t": 4, "f": 2}, 61),
        ),
        slow=True,
    ),
    Block(
        "llama",
        llama(1),
        (
            ({"vocab": 7, "d": 4, "head": 2, "k": 2, "f": 3}, 33),
            ({"vocab": 6, "d": 5, "head": 1, "k": 4, "f": 4}, 49),
        ),
        slow=True,
    ),
]

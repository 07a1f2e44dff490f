"""Architectures, declared here once, with what theory says of the symmetries of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

import quotax as qx


@dataclass(frozen=True)
class Row:
    """One row: the model, the sizes of its example, (parameters, rank, flat, orbit), and the orbit's formula."""

    name: str
    model: Any
    sizes: dict[str, int]
    numbers: tuple[int, int, int, int]
    orbit: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    slow: bool = False
    proved: bool = True


def _two_layer(activation, bias=False, out_bias=False, name="two_layer"):
    params = {"W1": "h x", "W2": "y h"} | ({"b1": "h"} if bias else {}) | ({"b2": "y"} if out_bias else {})

    @qx.architecture(params=params, inputs={"x": "x"})
    def model(p, x):
        z = p["W1"] @ x + (p["b1"] if bias else 0)
        return p["W2"] @ activation(z) + (p["b2"] if out_bias else 0)

    return model


def _vector_output(activation):
    @qx.architecture(params={"W": "h x", "a": "h"}, inputs={"x": "x"})
    def model(p, x):
        return p["a"] @ activation(p["W"] @ x)

    return model


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "k h", "b2": "k", "W3": "y k", "b3": "y"}, inputs={"x": "x"})
def leaky(p, x):
    z = jax.nn.leaky_relu(p["W1"] @ x + p["b1"])
    return p["W3"] @ jax.nn.leaky_relu(p["W2"] @ z + p["b2"]) + p["b3"]


@qx.architecture(params={"W": "y x", "b": "y"}, inputs={"x": "x"})
def softmax_bias(p, x):
    return jax.nn.softmax(p["W"] @ x + p["b"])


@qx.architecture(params={"W": "y x"}, inputs={"x": "x"})
def softmax(p, x):
    return jax.nn.softmax(p["W"] @ x)


@qx.architecture(params={"u": "x", "v": "x"}, inputs={"x": "x"})
def diagonal_net(p, x):
    return jnp.sum(p["u"] * p["v"] * x)


@qx.architecture(params={"u": "x", "v": "x"}, inputs={"x": "x"})
def difference_of_squares(p, x):
    return jnp.sum((p["u"] ** 2 - p["v"] ** 2) * x)


@qx.architecture(params={"W": "h x"}, inputs={"x": "x"})
def tied(p, x):
    return p["W"].T @ (p["W"] @ x)


def batch_norm(eps):
    @qx.architecture(params={"W": "h x", "b": "h"}, inputs={"x": "n x"})
    def model(p, x):
        z = x @ p["W"].T + p["b"]
        z = z - z.mean(0)
        return z * jax.lax.rsqrt((z**2).mean(0) + eps)

    return model


def layer_norm(eps):
    @qx.architecture(params={"W": "h x", "b": "h"}, inputs={"x": "x"})
    def model(p, x):
        z = p["W"] @ x + p["b"]
        z = z - z.mean()
        return z * jax.lax.rsqrt((z**2).mean() + eps)

    return model


def rms_norm(z, eps=0.0):
    return z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True) + eps)


@qx.architecture(params={"A": "y h", "W": "h x"}, inputs={"x": "x"})
def after_rms_norm(p, x):
    return p["A"] @ rms_norm(p["W"] @ x)


def gated(activation):
    @qx.architecture(params={"W": "h x", "V": "h x", "O": "y h"}, inputs={"x": "x"})
    def model(p, x):
        return p["O"] @ (activation(p["W"] @ x) * (p["V"] @ x))

    return model


@qx.architecture(params={"B": "y r", "A": "r x"}, inputs={"x": "x"})
def lora(p, x):
    fixed = jnp.arange(1.0, x.shape[0] * p["B"].shape[0] + 1).reshape(p["B"].shape[0], x.shape[0])
    return (fixed + p["B"] @ p["A"]) @ x


def convolution(activation, bias):
    @qx.architecture(params={"K": "c 1 3", "L": "o c 3"} | ({"b": "c"} if bias else {}), inputs={"x": "n"})
    def model(p, x):
        z = jax.lax.conv(x[None, None], p["K"], (1,), "SAME")
        z = activation(z + (p["b"][:, None] if bias else 0))
        return jax.lax.conv(z, p["L"], (1,), "SAME")

    return model


def recurrent(activation):
    @qx.architecture(params={"U": "h x", "R": "h h", "C": "y h"}, inputs={"x": "t x"})
    def model(p, x):
        def step(state, now):
            state = activation(p["R"] @ state + p["U"] @ now)
            return state, p["C"] @ state

        return jax.lax.scan(step, jnp.zeros(p["R"].shape[0]), x)[1]

    return model


@qx.architecture(params={"a": "h", "B": "h x", "C": "y h"}, inputs={"x": "t x"})
def diagonal_state_space(p, x):
    def step(state, now):
        state = p["a"] * state + p["B"] @ now
        return state, p["C"] @ state

    return jax.lax.scan(step, jnp.zeros(p["a"].shape[0]), x)[1]


def rotary(z):
    t, k = z.shape[-2:]
    angle = jnp.arange(t)[:, None] * jnp.asarray([0.5**i for i in range(k // 2)])
    c, s = jnp.cos(angle), jnp.sin(angle)
    a, b = z[..., 0::2], z[..., 1::2]
    return jnp.stack([a * c - b * s, a * s + b * c], -1).reshape(z.shape)


def attend(q, k, v):
    """Scores, softmax over sources, values; leading axes are heads."""
    return jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2), -1) @ v


@qx.architecture(params={"Q": "head k d", "K": "head k d", "V": "head k d", "O": "d head k"}, inputs={"x": "t d"})
def attention(p, x):
    q, k, v = (jnp.einsum("hkd,td->htk", p[n], x) for n in "QKV")
    return jnp.einsum("htk,dhk->td", attend(q, k, v), p["O"])


@qx.architecture(
    params={
        **dict.fromkeys("QKV", "head k d"),
        **{f"b{n}": "head k" for n in "QKV"},
        "O": "d head k",
        "bO": "d",
    },
    inputs={"x": "t d"},
)
def attention_biases(p, x):
    q, k, v = (jnp.einsum("hkd,td->htk", p[n], x) + p[f"b{n}"][:, None] for n in "QKV")
    return jnp.einsum("htk,dhk->td", attend(q, k, v), p["O"]) + p["bO"]


@qx.architecture(params={"Q": "kv group k d", "K": "kv k d", "V": "kv k d", "O": "d kv group k"}, inputs={"x": "t d"})
def grouped(p, x):
    q = jnp.einsum("hgkd,td->hgtk", p["Q"], x)
    k, v = (jnp.einsum("hkd,td->htk", p[n], x)[:, None] for n in "KV")
    return jnp.einsum("hgtk,dhgk->td", attend(q, k, v), p["O"])


@qx.architecture(params={"Q": "head k d", "K": "k d", "V": "k d", "O": "d head k"}, inputs={"x": "t d"})
def multi_query(p, x):
    q = jnp.einsum("hkd,td->htk", p["Q"], x)
    k, v = x @ p["K"].T, x @ p["V"].T
    return jnp.einsum("htk,dhk->td", attend(q, k, v), p["O"])


@qx.architecture(params={"Q": "k d", "K": "k d", "V": "v d", "O": "d v"}, inputs={"x": "t d"})
def rope(p, x):
    q, k = rotary(x @ p["Q"].T), rotary(x @ p["K"].T)
    return attend(q, k, x @ p["V"].T) @ p["O"].T


def qk_norm(eps):
    """Queries and keys behind norms with gains, turned by halves."""

    def turned(z):
        angle = jnp.arange(z.shape[0])[:, None] / 10000 ** (jnp.arange(0, z.shape[1], 2) / z.shape[1])
        angle = jnp.concatenate([angle, angle], -1)
        a, b = jnp.split(z, 2, -1)
        return z * jnp.cos(angle) + jnp.concatenate([-b, a], -1) * jnp.sin(angle)

    def norm(z, gain):
        return gain * z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True) + eps)

    shapes = {"Q": "k d", "K": "k d", "V": "v d", "O": "d v", "gq": "k", "gk": "k"}

    @qx.architecture(params=shapes, inputs={"x": "t d"})
    def model(p, x):
        q, k, v = (x @ p[name].T for name in "QKV")
        return attend(turned(norm(q, p["gq"])), turned(norm(k, p["gk"])), v) @ p["O"].T

    return model


def decoder(blocks, eps=0.0):
    block = {"Q": "head k d", "K": "head k d", "V": "head k d", "O": "d head k", "W1": "f d", "W2": "d f"}
    names = [f"block{i}" for i in range(blocks)]
    params = {"E": "vocab d", "P": "t d", **dict.fromkeys(names, block), "U": "vocab d"}

    @qx.architecture(params=params, inputs={"tokens": qx.Tokens("t", below="vocab")})
    def model(p, tokens):
        x = p["E"][tokens] + p["P"]
        for n in names:
            w = p[n]
            z = rms_norm(x, eps)
            q, k, v = (jnp.einsum("hkd,td->htk", w[m], z) for m in "QKV")
            scores = jnp.einsum("htk,hsk->hts", q, k)
            causal = jnp.tril(jnp.ones(scores.shape[1:]))
            a = jax.nn.softmax(jnp.where(causal > 0, scores, -jnp.inf), -1)
            x = x + jnp.einsum("hts,hsk,dhk->td", a, v, w["O"])
            x = x + jax.nn.gelu(rms_norm(x, eps) @ w["W1"].T) @ w["W2"].T
        return rms_norm(x, eps) @ p["U"].T

    return model


HEADS = {"d": 4, "head": 2, "k": 2, "t": 5}

ROWS = [
    Row("linear", _two_layer(lambda z: z), {"x": 4, "h": 2, "y": 3}, (14, 10, 4, 4), "h**2"),
    Row("linear wide-narrow", _two_layer(lambda z: z), {"x": 1, "h": 2, "y": 3}, (8, 3, 5, 4), "h**2"),
    Row("linear overcomplete", _two_layer(lambda z: z), {"x": 2, "h": 4, "y": 3}, (20, 6, 14, 14), "h*(x+y)-x*y"),
    Row("linear biases", _two_layer(lambda z: z, True, True), {"x": 4, "h": 2, "y": 3}, (19, 13, 6, 6), "h**2+h"),
    Row("relu", _two_layer(jax.nn.relu, True, True), {"x": 3, "h": 4, "y": 2}, (26, 22, 4, 4), "h"),
    Row("leaky", leaky, {"x": 3, "h": 4, "k": 3, "y": 2}, (39, 32, 7, 7), "h+k"),
    Row("abs", _two_layer(jnp.abs, True), {"x": 3, "h": 4, "y": 2}, (24, 20, 4, 4), "h"),
    Row("relu squared", _two_layer(lambda z: jax.nn.relu(z) ** 2, True), {"x": 3, "h": 4, "y": 2}, (24, 20, 4, 4), "h"),
    Row("exp", _two_layer(jnp.exp, True), {"x": 2, "h": 3, "y": 2}, (15, 12, 3, 3), "h"),
    Row("square", _vector_output(lambda z: z**2), {"x": 3, "h": 3}, (12, 6, 6, 6), None, {"ansatz": "quadratic"}),
    Row("cube", _vector_output(lambda z: z**3), {"x": 3, "h": 3}, (12, 9, 3, 3), "h"),
    Row("softmax", softmax, {"x": 3, "y": 3}, (9, 6, 3, 3), "x"),
    Row("softmax bias", softmax_bias, {"x": 3, "y": 3}, (12, 8, 4, 4), "x+1"),
    Row("u*v", diagonal_net, {"x": 3}, (6, 3, 3, 3), "x"),
    Row("u^2-v^2", difference_of_squares, {"x": 3}, (6, 3, 3, 3), "x"),
    Row("tied", tied, {"x": 4, "h": 2}, (8, 7, 1, 1), "h*(h-1)/2"),
    Row("batch norm", batch_norm(0.0), {"x": 3, "h": 2, "n": 6}, (8, 4, 4, 4), "2*h"),
    Row("batch norm eps", batch_norm(0.1), {"x": 3, "h": 2, "n": 6}, (8, 6, 2, 2), "h"),
    Row("layer norm", layer_norm(0.0), {"x": 3, "h": 4}, (16, 11, 5, 5), "x+2"),
    Row("layer norm eps", layer_norm(0.1), {"x": 3, "h": 4}, (16, 12, 4, 4), "x+1"),
    Row("rms norm", after_rms_norm, {"x": 5, "h": 3, "y": 4}, (27, 23, 4, 4), "1+h*(h-1)/2"),
    Row("swiglu", gated(jax.nn.silu), {"x": 3, "h": 3, "y": 2}, (24, 21, 3, 3), "h"),
    Row("geglu", gated(jax.nn.gelu), {"x": 3, "h": 3, "y": 2}, (24, 21, 3, 3), "h"),
    Row("reglu", gated(jax.nn.relu), {"x": 3, "h": 3, "y": 2}, (24, 18, 6, 6), "2*h"),
    Row("bilinear", gated(lambda z: z), {"x": 5, "h": 2, "y": 3}, (26, 22, 4, 4), "2*h"),
    Row("lora", lora, {"x": 5, "r": 2, "y": 4}, (18, 14, 4, 4), "r**2"),
    Row("conv relu", convolution(jax.nn.relu, True), {"c": 3, "o": 2, "n": 7}, (30, 27, 3, 3), "c"),
    Row("conv linear", convolution(lambda z: z, False), {"c": 2, "o": 2, "n": 7}, (18, None, None, 4), "c**2"),
    Row("relu rnn", recurrent(jax.nn.relu), {"x": 3, "h": 3, "y": 2, "t": 5}, (24, 21, 3, 3), "h"),
    Row("tanh rnn", recurrent(jnp.tanh), {"x": 3, "h": 3, "y": 2, "t": 5}, (24, 24, 0, 0), "0"),
    Row("state space", recurrent(lambda z: z), {"x": 2, "h": 3, "y": 2, "t": 8}, (21, 12, 9, 9), "h**2"),
    Row("diagonal state space", diagonal_state_space, {"x": 2, "h": 3, "y": 2, "t": 8}, (15, 12, 3, 3), "h"),
    Row("attention", attention, HEADS, (64, 48, 16, 16), "2*head*k**2", slow=True),
    Row("attention biases", attention_biases, HEADS, (80, 56, 24, 24), "2*head*k**2+2*head*k", slow=True),
    Row(
        "grouped query",
        grouped,
        {"d": 4, "kv": 2, "group": 2, "k": 2, "t": 5},
        (96, 80, 16, 16),
        "2*kv*k**2",
        slow=True,
    ),
    Row("multi query", multi_query, HEADS, (48, 40, 8, 8), "2*k**2", slow=True),
    Row("rope", rope, {"d": 6, "k": 4, "v": 2, "t": 5}, (72, 64, 8, 8), "k+v**2", slow=True),
    Row("qk norm", qk_norm(0), {"d": 6, "k": 4, "v": 2, "t": 5}, (80, 72, 8, 8), "k/2+v**2+2"),
    Row("qk norm, eps", qk_norm(1e-6), {"d": 6, "k": 4, "v": 2, "t": 5}, (80, 74, 6, 6), "k/2+v**2"),
    Row(
        "decoder",
        decoder(1),
        {"vocab": 6, "d": 4, "head": 2, "k": 2, "t": 3, "f": 3},
        (148, 121, 27, 27),
        "2*head*k**2+d*(d-1)/2+1+d",
        slow=True,
    ),
]

"""Blocks whose arrays hold several, in the layouts of the code that people load: each with what is flat of it.

Three layouts of queries, keys and values in one array: one after another (GPT-2, torch's `in_proj`, ViT), in turns for
every head (GPT-NeoX, Megatron), and of unequal sizes (grouped queries). Gates of cells, gates of gated layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.pieces.heads import rotate_halves
from quotax.catalogue.pieces.normalisation import layer_norm
from quotax.catalogue.recurrences.lstm import fused_lstm


@dataclass(frozen=True)
class Block:
    """A model, and at each of two assignments of sizes the number of its flat directions."""

    name: str
    model: Any
    flat: tuple[tuple[dict[str, int], int], ...]
    slow: bool = False


def attend(q, k, v):
    """Causal attention; leading axes are heads."""
    scores = q @ jnp.swapaxes(k, -1, -2) / jnp.sqrt(q.shape[-1])
    causal = jnp.tril(jnp.ones(scores.shape[-2:]))
    return jax.nn.softmax(jnp.where(causal > 0, scores, -jnp.inf), -1) @ v


def merged(heads):
    """Heads side by side."""
    n, t, k = heads.shape
    return jnp.swapaxes(heads, 0, 1).reshape(t, n * k)


PARTS = {"c_attn/w": "q k v", "c_attn/b": "q k v"}
ATTENTION = {"c_attn": {"w": "d 3*head*k", "b": "3*head*k"}, "c_proj": {"w": "head*k d", "b": "d"}}


def attention(layout, shapes=ATTENTION, parts=PARTS):
    """Attention as GPT-2 has it; `layout` takes what `c_attn` computes to q, k, v, each of shape (head, t, k)."""

    @qx.architecture(params=shapes, inputs={"x": "t d"}, parts=parts)
    def model(p, x, *, sizes):
        z = jnp.einsum("td,...dk->...tk", x, p["c_attn"]["w"])
        q, k, v = layout(z + p["c_attn"]["b"][..., None, :], sizes["head"])
        return merged(attend(q, k, v)) @ p["c_proj"]["w"] + p["c_proj"]["b"]

    return model


def split_in_three(z, head):
    return [jnp.swapaxes(one.reshape(z.shape[0], head, -1), 0, 1) for one in jnp.split(z, 3, -1)]


def reshaped(z, head):
    z = z.reshape(z.shape[0], 3, head, -1)
    return [jnp.swapaxes(z[:, i], 0, 1) for i in range(3)]


def transposed_and_unpacked(z, head):
    q, k, v = z.reshape(z.shape[0], 3, head, -1).transpose(1, 2, 0, 3)
    return q, k, v


def in_turns(z, head):
    z = z.reshape(z.shape[0], head, -1)
    return [jnp.swapaxes(one, 0, 1) for one in jnp.split(z, 3, -1)]


def in_turns_sliced(z, head):
    k = z.shape[-1] // head // 3
    z = z.reshape(z.shape[0], head, 3 * k)
    return [jnp.swapaxes(one, 0, 1) for one in (z[..., :k], z[..., k : 2 * k], z[..., 2 * k :])]


def stacked(z, head):
    return [jnp.swapaxes(one.reshape(one.shape[0], head, -1), 0, 1) for one in z]


TURNS = {"c_attn": {"w": "d head*3*k", "b": "head*3*k"}, "c_proj": {"w": "head*k d", "b": "d"}}

gpt2 = attention(split_in_three)
neox = attention(in_turns, TURNS)


@qx.architecture(
    params={"in_proj_weight": "3*head*k d", "in_proj_bias": "3*head*k", "out": "d head*k", "bias": "d"},
    inputs={"x": "t d"},
)
def in_proj(p, x, *, sizes):
    """torch.nn.MultiheadAttention, with the rows of `in_proj` taken one after another."""
    w, b, n = p["in_proj_weight"], p["in_proj_bias"], sizes["head"] * sizes["k"]
    heads = lambda z: jnp.swapaxes(z.reshape(z.shape[0], sizes["head"], -1), 0, 1)
    q, k, v = (heads(x @ w[i * n : (i + 1) * n].T + b[i * n : (i + 1) * n]) for i in range(3))
    return merged(attend(q, k, v)) @ p["out"].T + p["bias"]


@qx.architecture(
    params={"qkv": "d (group+2)*head*k", "o": "head*group*k d"}, inputs={"x": "t d"}, parts={"qkv": "q k v"}
)
def grouped(p, x, *, sizes):
    """Grouped queries with rotary embeddings; queries of all groups first, then keys, then values."""
    t, k, kv, n = x.shape[0], sizes["k"], sizes["head"], sizes["group"]
    z = x @ p["qkv"]
    q, key, v = z[:, : n * kv * k], z[:, n * kv * k : (n + 1) * kv * k], z[:, (n + 1) * kv * k :]
    q = q.reshape(t, n, kv, k).transpose(2, 1, 0, 3)
    key, v = (one.reshape(t, 1, kv, k).transpose(2, 1, 0, 3) for one in (key, v))
    out = attend(rotate_halves(q), rotate_halves(key), v)
    return out.transpose(2, 0, 1, 3).reshape(t, kv * n * k) @ p["o"]


@qx.architecture(params={"W": "3*h x", "U": "3*h h", "b": "3*h", "c": "3*h", "C": "y h"}, inputs={"x": "t x"})
def gru(p, x):
    """A GRU as torch has it: reset, update and new in one array, two biases."""

    def step(h, now):
        given, held = p["W"] @ now + p["b"], p["U"] @ h + p["c"]
        (ri, zi, ni), (rh, zh, nh) = jnp.split(given, 3), jnp.split(held, 3)
        r, z = jax.nn.sigmoid(ri + rh), jax.nn.sigmoid(zi + zh)
        h = (1 - z) * jnp.tanh(ni + r * nh) + z * h
        return h, p["C"] @ h

    return jax.lax.scan(step, jnp.zeros(p["U"].shape[1]), x)[1]


@qx.architecture(params={"W": "x+h 4*h", "b": "4*h", "C": "y h"}, inputs={"x": "t x"})
def joined_lstm(p, x):
    """An LSTM whose weights are one array for gates, inputs and states (TensorFlow's, haiku's)."""

    def step(state, now):
        h, c = state
        i, g, f, o = jnp.split(jnp.concatenate([now, h]) @ p["W"] + p["b"], 4)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), p["C"] @ h

    zero = jnp.zeros(p["C"].shape[1])
    return jax.lax.scan(step, (zero, zero), x)[1]


def gated(axes, halves):
    @qx.architecture(params={"gate_up": axes, "down": "d f"}, inputs={"x": "t d"}, parts={"gate_up": "gate up"})
    def model(p, x):
        gate, up = halves(x @ p["gate_up"].T)
        return (jax.nn.silu(gate) * up) @ p["down"].T

    return model


gate_up = gated("2*f d", lambda z: jnp.split(z, 2, -1))
gate_up_in_turns = gated("f*2 d", lambda z: (z[..., ::2], z[..., 1::2]))
gate_up_reshaped = gated("f*2 d", lambda z: jnp.moveaxis(z.reshape(z.shape[0], -1, 2), -1, 0))


@qx.architecture(params={"gate": "f d", "up": "f d", "down": "d f"}, inputs={"x": "t d"})
def fused_by_the_model(p, x):
    """Two arrays that the model multiplies as one."""
    gate, up = jnp.split(x @ jnp.concatenate([p["gate"], p["up"]]).T, 2, -1)
    return (jax.nn.silu(gate) * up) @ p["down"].T


def rms_norm(z, gain):
    return z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True) + 1e-6) * gain


@qx.architecture(
    params={
        "E": "vocab d", "n1": "d", "qkv": "head*3*k d", "O": "d head*k",
        "n2": "d", "gate_up": "2*f d", "down": "d f", "n": "d", "head": "vocab d",
    },
    inputs={"tokens": qx.Tokens("t", below="vocab")},
    parts={"qkv": "q k v", "gate_up": "gate up"},
)  # fmt: skip
def decoder(p, tokens, *, sizes):
    """A decoder with everything fused that is: queries, keys and values in turns, rotary, gated units."""
    x = p["E"][tokens]
    z = (rms_norm(x, p["n1"]) @ p["qkv"].T).reshape(x.shape[0], sizes["head"], 3, -1)
    q, k, v = jnp.moveaxis(z, 2, 0).swapaxes(1, 2)
    x = x + merged(attend(rotate_halves(q), rotate_halves(k), v)) @ p["O"].T
    gate, up = jnp.split(rms_norm(x, p["n2"]) @ p["gate_up"].T, 2, -1)
    x = x + (jax.nn.silu(gate) * up) @ p["down"].T
    return rms_norm(x, p["n"]) @ p["head"].T


def gpt2_layer(shape):
    """A layer of GPT-2: norms with gains, biases and an eps; every array as its checkpoint has it."""
    norm = {"g": "d", "b": "d"}
    attn = {"c_attn": {"w": shape, "b": "3*head*k"}, "c_proj": {"w": "head*k d", "b": "d"}}
    mlp = {"c_fc": {"w": "d f", "b": "f"}, "c_proj": {"w": "f d", "b": "d"}}
    return {"ln_1": norm, "attn": attn, "ln_2": norm, "mlp": mlp}


def gpt2_model(layers):
    names = [f"h{i}" for i in range(layers)]
    parts = {f"{name}/attn/c_attn/{array}": "q k v" for name in names for array in "wb"}

    @qx.architecture(
        params={
            "wte": "vocab d",
            "wpe": "t d",
            **dict.fromkeys(names, gpt2_layer("d 3*head*k")),
            "ln_f": {"g": "d", "b": "d"},
        },
        inputs={"tokens": qx.Tokens("t", below="vocab")},
        parts=parts,
    )
    def model(p, tokens, *, sizes):
        x = p["wte"][tokens] + p["wpe"]
        norm = lambda z, w: layer_norm(z, 1e-5, w["g"], w["b"])
        linear = lambda z, w: z @ w["w"] + w["b"]
        for name in names:
            w = p[name]
            q, k, v = split_in_three(linear(norm(x, w["ln_1"]), w["attn"]["c_attn"]), sizes["head"])
            x = x + linear(merged(attend(q, k, v)), w["attn"]["c_proj"])
            x = x + linear(jax.nn.gelu(linear(norm(x, w["ln_2"]), w["mlp"]["c_fc"])), w["mlp"]["c_proj"])
        return norm(x, p["ln_f"]) @ p["wte"].T

    return model


A, B = {"d": 5, "head": 2, "k": 3, "t": 6}, {"d": 6, "head": 3, "k": 2, "t": 5}
CELL_A, CELL_B = {"h": 2, "x": 3, "y": 4, "t": 5}, {"h": 3, "x": 2, "y": 5, "t": 4}
GATED_A, GATED_B = {"d": 4, "f": 3, "t": 5}, {"d": 3, "f": 5, "t": 4}

FUSED = [
    Block("c_attn", gpt2, ((A, 48), (B, 36)), slow=True),
    Block("in_proj", in_proj, ((A, 48), (B, 36)), slow=True),
    Block(
        "grouped qkv, rotary",
        grouped,
        (({"d": 9, "head": 2, "group": 2, "k": 2, "t": 5}, 12), ({"d": 7, "head": 1, "group": 3, "k": 4, "t": 5}, 20)),
        slow=True,
    ),
    Block("gru, fused", gru, ((CELL_A, 4), (CELL_B, 6)), slow=True),
    Block("lstm, fused", fused_lstm, ((CELL_A, 0), (CELL_B, 0)), slow=True),
    Block("gate_up", gate_up, ((GATED_A, 3), (GATED_B, 5))),
    Block("gate_up, fused by the model", fused_by_the_model, ((GATED_A, 3), (GATED_B, 5))),
    Block("gate_up, in turns", gate_up_in_turns, ((GATED_A, 3), (GATED_B, 5))),
    Block(
        "decoder, fused",
        decoder,
        (
            ({"vocab": 7, "d": 4, "head": 2, "k": 2, "f": 3, "t": 4}, 33),
            ({"vocab": 6, "d": 5, "head": 1, "k": 4, "f": 4, "t": 3}, 49),
        ),
        slow=True,
    ),
]
GPT2 = Block(
    "gpt2, a layer",
    gpt2_model(1),
    (
        ({"vocab": 6, "d": 4, "head": 2, "k": 2, "f": 3, "t": 3}, 67),
        ({"vocab": 7, "d": 5, "head": 1, "k": 3, "f": 4, "t": 4}, 70),
    ),
)


LAYOUTS = {
    "reshaped": attention(reshaped),
    "unpacked": attention(transposed_and_unpacked),
    "in turns": neox,
    "in turns, sliced": attention(in_turns_sliced, TURNS),
    "an axis of their own": attention(
        stacked, {"c_attn": {"w": "3 d head*k", "b": "3 head*k"}, "c_proj": {"w": "head*k d", "b": "d"}}
    ),
}
"""`gpt2` in other layouts: what is found of one holds of all, word for word."""

"""A block with a bias and a LayerNorm with gain and shift wherever GPT-2 has one, and what its symmetries are.

Norms are `g1, s1` and `g2, s2`. Of attention: `GL(k)` twice for each head, the inert key bias, the value bias into
the output bias. Of each norm: its gain against its readers with its shift, its shift into their biases, and a
multiple of `1/g` in every row of a reader, which the mean hides (of a key's row also without the biases: softmax
hides what they add). And what writes to the stream may add a multiple of the ones.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import Fact
from quotax.catalogue.pieces.normalisation import layer_norm
from quotax.trees import AnyArray, Tree

EPS = 1e-5
SHAPES = {
    "g1": "d", "s1": "d", **dict.fromkeys("QKV", "head k d"), **dict.fromkeys(("bQ", "bK", "bV"), "head k"),
    "O": "d head k", "bO": "d", "g2": "d", "s2": "d", "W1": "f d", "b1": "f", "W2": "d f", "b2": "d",
}  # fmt: skip
ORBIT = "2*head*k**2 + 6*head*k + 2*f + 4*d + 2"
MATRICES, SHIFTS = qx.GL("k", each="head"), qx.Translation("k", each="head")
FAMILIES = (
    Fact(MATRICES, "Q K bQ"),
    Fact(MATRICES, "V O bV"),
    Fact(SHIFTS, "bK"),
    Fact(SHIFTS, "bV bO"),
    Fact(qx.Diagonal("d"), "g1 s1 Q K V"),
    Fact(qx.Diagonal("d"), "g2 s2 W1"),
    Fact(qx.Translation("d"), "s1 bQ bV"),
    Fact(qx.Translation("d"), "s2 b1"),
    Fact(SHIFTS, "Q bQ"),
    Fact(SHIFTS, "K bK"),
    Fact(SHIFTS, "V bV"),
    Fact(qx.Translation("f"), "W1 b1"),
    Fact(SHIFTS, "O"),
    Fact(qx.Translation("f"), "W2"),
    Fact(qx.Translation(), "bO"),
    Fact(qx.Translation(), "b2"),
)
DISCRETE = (Fact(qx.Permutation("head"), "Q K V O bQ bV"), Fact(qx.Permutation("f"), "W1 b1 W2"))


def block(p: Tree, x: AnyArray, attend: Callable[..., AnyArray]) -> AnyArray:
    """The stream after attention and MLP."""
    z = layer_norm(x, p["g1"], p["s1"], EPS)
    q, k, v = (jnp.einsum("hkd,td->htk", p[n], z) + p["b" + n][:, None] for n in "QKV")
    x = x + jnp.einsum("htk,dhk->td", attend(q, k, v), p["O"]) + p["bO"]
    z = layer_norm(x, p["g2"], p["s2"], EPS)
    return x + jax.nn.gelu(z @ p["W1"].T + p["b1"]) @ p["W2"].T + p["b2"]

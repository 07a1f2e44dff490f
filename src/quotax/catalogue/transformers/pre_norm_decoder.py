"""A decoder of one block that reads its stream through norms without gains, with learned positions.

Heads have `GL(k)` twice. Nothing but the norms sees the stream's coordinates: with RMSNorms they are turned by `O(d)`
and, without eps, scaled; with LayerNorms by the rotations that fix the ones. `E + 1 v^T` with `P - 1 v^T` is no
change, since every position holds one token. What LayerNorms' mean takes away may be added by whatever writes, a
number for every row of `E`, of `P`, for every coordinate of every head, and for every unit of the MLP; readers of a
norm may add a multiple of the ones to every row: `3 head k + f + vocab` of these, of which softmax hides nothing
more. A multiple of the ones in `E` against one in `P` is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.heads import attend_causally
from quotax.catalogue.pieces.normalisation import layer_norm, rms_norm
from quotax.declare import Architecture
from quotax.trees import AnyArray

BLOCK = {"Q": "head k d", "K": "head k d", "V": "head k d", "O": "d head k", "W1": "f d", "W2": "d f"}


def decoder(blocks: int, norm: Callable[..., AnyArray] = rms_norm) -> Architecture:
    """The declaration, for any number of blocks."""
    names = [f"block{i}" for i in range(blocks)]
    params = {"E": "vocab d", "P": "t d", **dict.fromkeys(names, BLOCK), "U": "vocab d"}

    @qx.architecture(params=params, inputs={"tokens": qx.Tokens("t", below="vocab")})
    def decoder(p, tokens):
        x = p["E"][tokens] + p["P"]
        for name in names:
            w = p[name]
            z = norm(x)
            q, k, v = (jnp.einsum("hkd,td->htk", w[m], z) for m in "QKV")
            x = x + jnp.einsum("htk,dhk->td", attend_causally(q, k, v), w["O"])
            x = x + jax.nn.gelu(norm(x) @ w["W1"].T) @ w["W2"].T
        return norm(x) @ p["U"].T

    return decoder


MATRICES = qx.GL("k", each="head")
HEADS = Fact(MATRICES, "block0/Q block0/K"), Fact(MATRICES, "block0/V block0/O")
STREAM = "E P U " + " ".join(f"block0/{n}" for n in BLOCK)
DISCRETE = (
    Fact(qx.Permutation("head"), "block0/Q block0/K block0/V block0/O"),
    Fact(qx.Permutation("f"), "block0/W1 block0/W2"),
)
MODEST = {"vocab": 32, "d": 16, "head": 2, "k": 8, "f": 32, "t": 12}
REALISTIC = {"vocab": 1024, "d": 128, "head": 4, "k": 32, "f": 512, "t": 32}
PER_HEAD = qx.Translation("k", each="head")

ENTRIES = {
    "rms": CatalogueEntry(
        architecture=decoder(1),
        families=(
            *HEADS,
            Fact(qx.O("d"), STREAM),
            Fact(qx.Translation("d"), "E P"),
            Fact(qx.PositiveScalar(), "E P block0/O block0/W2"),
        ),
        discrete=DISCRETE,
        orbit="2*head*k**2 + d*(d - 1)/2 + 1 + d",
        flat=(
            ({"vocab": 6, "d": 4, "head": 2, "k": 2, "t": 3, "f": 3}, 27),
            ({"vocab": 5, "d": 3, "head": 2, "k": 2, "t": 4, "f": 2}, 23),
        ),
        modest=MODEST,
        realistic=REALISTIC,
        reference="Ashkboos et al. 2024, SliceGPT, arXiv:2401.15024",
    ),
    "layer": CatalogueEntry(
        architecture=decoder(1, layer_norm),
        families=(
            *HEADS,
            Fact(qx.OFixingOnes("d"), STREAM),
            Fact(qx.Translation("d"), "E P"),
            Fact(qx.PositiveScalar(), "E P block0/O block0/W2"),
            Fact(qx.Translation("vocab"), "E"),
            Fact(qx.Translation("t"), "P"),
            Fact(qx.Translation("vocab"), "U"),
            Fact(qx.Translation("f"), "block0/W2"),
            Fact(qx.Translation("f"), "block0/W1"),
            *(Fact(PER_HEAD, f"block0/{n}") for n in "QKVO"),
        ),
        discrete=DISCRETE,
        orbit="2*head*k**2 + (d - 1)*(d - 2)/2 + 1 + d + 2*vocab + t - 1 + 2*f + 4*head*k",
        flat=(
            ({"vocab": 6, "d": 4, "head": 2, "k": 2, "t": 3, "f": 3}, 60),
            ({"vocab": 5, "d": 5, "head": 2, "k": 2, "t": 4, "f": 2}, 61),
        ),
        modest=MODEST,
        realistic=REALISTIC,
        reference="Xiong et al. 2020, On layer normalization in the Transformer architecture, arXiv:2002.04745",
    ),
}

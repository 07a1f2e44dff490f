"""A decoder as Qwen3 has it: RMSNorms with gains, queries and keys behind norms of their own, grouped heads, SwiGLU.

As LLaMA's but for the heads: the norms of queries and keys, whose gains all heads share, leave of `C*` a number for
every pair of coordinates that one gain hands to the other, a sign of every coordinate between a matrix and its gain,
and one of all queries and keys of a group.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.heads import attend_causally, rotate_halves
from quotax.catalogue.pieces.normalisation import rms_norm


@qx.architecture(
    params={
        "E": "vocab d", "n1": "d", "Q": "kv r k d", "K": "kv k d", "V": "kv v d", "O": "d kv r v", "gq": "k", "gk": "k",
        "n2": "d", "gate": "f d", "up": "f d", "down": "d f", "n": "d", "head": "vocab d",
    },
    inputs={"tokens": qx.Tokens("t", below="vocab")},
)  # fmt: skip
def qwen3(p, tokens):
    """One layer."""
    x = p["E"][tokens]
    z = rms_norm(x, p["n1"], 1e-6)
    q = rotate_halves(rms_norm(jnp.einsum("td,grkd->grtk", z, p["Q"]), p["gq"], 1e-6))
    k = rotate_halves(rms_norm(jnp.einsum("td,gkd->gtk", z, p["K"]), p["gk"], 1e-6))
    v = jnp.einsum("td,gvd->gtv", z, p["V"])
    x = x + jnp.einsum("grtv,dgrv->td", attend_causally(q, k[:, None], v[:, None]), p["O"])
    z = rms_norm(x, p["n2"], 1e-6)
    x = x + (jax.nn.silu(z @ p["gate"].T) * (z @ p["up"].T)) @ p["down"].T
    return rms_norm(x, p["n"], 1e-6) @ p["head"].T


STREAM = "E Q K V O gate up down head"

ENTRIES = {
    "": CatalogueEntry(
        architecture=qwen3,
        families=(
            Fact(qx.PairScaling("k", pairs="halves"), "gq gk"),
            Fact(qx.GL("v", each="kv"), "V O"),
            Fact(qx.Diagonal("f"), "up down"),
            Fact(qx.Diagonal("d"), "n1 Q K V"),
            Fact(qx.Diagonal("d"), "n2 gate up"),
            Fact(qx.Diagonal("d"), "n head"),
            Fact(qx.O("d"), STREAM),
        ),
        discrete=(
            Fact(qx.Permutation("kv"), "Q K V O"),
            Fact(qx.Permutation("r", each="kv"), "Q O"),
            Fact(qx.Permutation("f"), "gate up down"),
            Fact(qx.Permutation("d"), f"{STREAM} n1 n2 n"),
            Fact(qx.SignFlip("k"), "Q gq"),
            Fact(qx.SignFlip("k"), "K gk"),
            Fact(qx.SignFlip("kv"), "Q K"),
        ),
        orbit="k/2 + kv*v**2 + f + 3*d + d*(d - 1)/2",
        flat=(
            ({"vocab": 7, "d": 4, "kv": 2, "r": 2, "k": 2, "v": 2, "f": 3}, 30),
            ({"vocab": 6, "d": 5, "kv": 1, "r": 2, "k": 2, "v": 3, "f": 4}, 39),
        ),
        modest={"vocab": 32, "d": 16, "kv": 2, "r": 2, "k": 4, "v": 4, "f": 32},
        realistic={"vocab": 1024, "d": 128, "kv": 2, "r": 2, "k": 32, "v": 32, "f": 384},
        reference="Qwen team 2025, Qwen3 technical report, arXiv:2505.09388",
    )
}

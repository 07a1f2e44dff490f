"""A decoder as LLaMA has it: RMSNorms with gains and eps, rotary positions by halves, gated units, no biases.

Of each layer: `C*` on pairs of queries and keys and `GL(k)` on values and output for each head, a factor of every
unit from `up` to `down`, and two gains into what reads them; of the whole the rotations of the stream, seen through
the gains, and the last gain. The published fusions have the gains and the rotations alone.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.heads import attend_causally, rotate_halves
from quotax.catalogue.pieces.normalisation import rms_norm
from quotax.declare import Architecture

LAYER = {
    "n1": "d", "Q": "head k d", "K": "head k d", "V": "head k d", "O": "d head k",
    "n2": "d", "gate": "f d", "up": "f d", "down": "d f",
}  # fmt: skip


def llama(layers: int) -> Architecture:
    """The declaration, for any number of layers."""
    names = [f"layer{i}" for i in range(layers)]

    @qx.architecture(
        params={"E": "vocab d", **dict.fromkeys(names, LAYER), "n": "d", "head": "vocab d"},
        inputs={"tokens": qx.Tokens("t", below="vocab")},
    )
    def llama(p, tokens):
        x = p["E"][tokens]
        for name in names:
            w = p[name]
            z = rms_norm(x, w["n1"], 1e-6)
            q, k, v = (jnp.einsum("hkd,td->htk", w[m], z) for m in "QKV")
            heads = attend_causally(rotate_halves(q), rotate_halves(k), v)
            x = x + jnp.einsum("htk,dhk->td", heads, w["O"])
            z = rms_norm(x, w["n2"], 1e-6)
            x = x + (jax.nn.silu(z @ w["gate"].T) * (z @ w["up"].T)) @ w["down"].T
        return rms_norm(x, p["n"], 1e-6) @ p["head"].T

    return llama


def facts(layers: int) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Continuous and discrete ones."""
    at = lambda i, names: " ".join(f"layer{i}/{n}" for n in names.split())
    each, units = [], []
    for i in range(layers):
        each += [
            Fact(qx.ComplexScaling("k", each="head", pairs="halves"), at(i, "Q K")),
            Fact(qx.GL("k", each="head"), at(i, "V O")),
            Fact(qx.Diagonal("f"), at(i, "up down")),
            Fact(qx.Diagonal("d"), at(i, "n1 Q K V")),
            Fact(qx.Diagonal("d"), at(i, "n2 gate up")),
        ]
        units += [
            Fact(qx.Permutation("head"), at(i, "Q K V O")),
            Fact(qx.Permutation("f"), at(i, "gate up down")),
        ]
    matrices = " ".join(at(i, "Q K V O gate up down") for i in range(layers))
    gains = " ".join(at(i, "n1 n2") for i in range(layers))
    each += [Fact(qx.Diagonal("d"), "n head"), Fact(qx.O("d"), f"E {matrices} head")]
    return tuple(each), (*units, Fact(qx.Permutation("d"), f"E {matrices} {gains} n head"))


FAMILIES, DISCRETE = facts(1)
ENTRIES = {
    "": CatalogueEntry(
        architecture=llama(1),
        families=FAMILIES,
        discrete=DISCRETE,
        orbit="head*k + head*k**2 + f + 3*d + d*(d - 1)/2",
        flat=(
            ({"vocab": 7, "d": 4, "head": 2, "k": 2, "f": 3}, 33),
            ({"vocab": 6, "d": 5, "head": 1, "k": 4, "f": 4}, 49),
        ),
        modest={"vocab": 32, "d": 16, "head": 2, "k": 8, "f": 32},
        realistic={"vocab": 1024, "d": 128, "head": 4, "k": 32, "f": 384},
        reference="Touvron et al. 2023, LLaMA, arXiv:2302.13971",
    )
}

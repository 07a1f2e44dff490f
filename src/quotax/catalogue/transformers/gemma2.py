"""A decoder as Gemma 2 has it: norms before and after each branch with gains `1 + w`, soft caps, GeGLU, a tied head.

What stands behind a branch's last norm is not read by a matrix, so the norm's gain fixes the coordinates of the
stream: orders of them are left, and signs. A gain `1 + w` is scaled against its readers all the same,
`w -> g (1 + w) - 1`. Capped scores are functions of scores: heads keep `C*` on pairs and `GL(v)` by groups. Tied, the
last gain has no reader of its own.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.heads import causal, rotate_halves
from quotax.catalogue.pieces.normalisation import rms_norm


@qx.architecture(
    params={
        "E": "vocab d", "n1": "d", "Q": "kv r k d", "K": "kv k d", "V": "kv v d", "O": "d kv r v", "p1": "d",
        "n2": "d", "gate": "f d", "up": "f d", "down": "d f", "p2": "d", "n": "d",
    },
    inputs={"tokens": qx.Tokens("t", below="vocab")},
)  # fmt: skip
def gemma2(p, tokens):
    """One layer."""
    normed = lambda z, name: rms_norm(z, 1 + p[name], 1e-6)
    x = p["E"][tokens]
    z = normed(x, "n1")
    q = rotate_halves(jnp.einsum("td,grkd->grtk", z, p["Q"]))
    k = rotate_halves(jnp.einsum("td,gkd->gtk", z, p["K"]))
    v = jnp.einsum("td,gvd->gtv", z, p["V"])
    scores = 50 * jnp.tanh(jnp.einsum("grtk,gsk->grts", q, k) / 50)
    heads = jnp.einsum("grts,gsv->grtv", jax.nn.softmax(causal(scores), -1), v)
    x = x + normed(jnp.einsum("grtv,dgrv->td", heads, p["O"]), "p1")
    z = normed(x, "n2")
    x = x + normed((jax.nn.gelu(z @ p["gate"].T) * (z @ p["up"].T)) @ p["down"].T, "p2")
    return 30 * jnp.tanh(normed(x, "n") @ p["E"].T / 30)


ENTRIES = {
    "": CatalogueEntry(
        architecture=gemma2,
        families=(
            Fact(qx.ComplexScaling("k", each="kv", pairs="halves"), "Q K"),
            Fact(qx.GL("v", each="kv"), "V O"),
            Fact(qx.Diagonal("f"), "up down"),
            Fact(qx.Diagonal("d"), "n1 Q K V"),
            Fact(qx.Diagonal("d"), "n2 gate up"),
        ),
        discrete=(
            Fact(qx.Permutation("kv"), "Q K V O"),
            Fact(qx.Permutation("r", each="kv"), "Q O"),
            Fact(qx.Permutation("f"), "gate up down"),
            Fact(qx.Permutation("d"), "E n1 Q K V O p1 n2 gate up down p2 n"),
            Fact(qx.SignFlip("d"), "E Q K V O gate up down"),
        ),
        orbit="kv*k + kv*v**2 + f + 2*d",
        flat=(
            ({"vocab": 7, "d": 4, "kv": 2, "r": 2, "k": 2, "v": 2, "f": 3}, 23),
            ({"vocab": 6, "d": 5, "kv": 1, "r": 2, "k": 4, "v": 2, "f": 4}, 22),
        ),
        modest={"vocab": 32, "d": 16, "kv": 2, "r": 2, "k": 4, "v": 4, "f": 32},
        realistic={"vocab": 1024, "d": 128, "kv": 2, "r": 2, "k": 32, "v": 32, "f": 512},
        reference="Gemma team 2024, Gemma 2, arXiv:2408.00118",
    )
}

"""Multi-head attention, without biases and with all four.

Scores see `Q^T K` of each head, outputs `O V`: `GL(k)` twice for each head. A key bias adds one number to all scores
of a target, which softmax does not see: it is inert. Weights sum to one, so a value bias `t` is an output bias `O t`.
"""

from __future__ import annotations

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.heads import attend


@qx.architecture(params={"Q": "head k d", "K": "head k d", "V": "head k d", "O": "d head k"}, inputs={"x": "t d"})
def attention(p, x):
    """Without biases."""
    q, k, v = (jnp.einsum("hkd,td->htk", p[n], x) for n in "QKV")
    return jnp.einsum("htk,dhk->td", attend(q, k, v), p["O"])


@qx.architecture(
    params={**dict.fromkeys("QKV", "head k d"), **{f"b{n}": "head k" for n in "QKV"}, "O": "d head k", "bO": "d"},
    inputs={"x": "t d"},
)
def attention_biases(p, x):
    """With biases of queries, keys, values and output."""
    q, k, v = (jnp.einsum("hkd,td->htk", p[n], x) + p[f"b{n}"][:, None] for n in "QKV")
    return jnp.einsum("htk,dhk->td", attend(q, k, v), p["O"]) + p["bO"]


MATRICES, SHIFTS = qx.GL("k", each="head"), qx.Translation("k", each="head")
HEADS = Fact(qx.Permutation("head"), "Q K V O")
REFERENCE = "Vaswani et al. 2017, arXiv:1706.03762; da Silva et al. 2025, Hide & Seek, arXiv:2505.05409"

ENTRIES = {
    "": CatalogueEntry(
        architecture=attention,
        families=(Fact(MATRICES, "Q K"), Fact(MATRICES, "V O")),
        discrete=(HEADS,),
        orbit="2*head*k**2",
        flat=(({"d": 4, "head": 2, "k": 2, "t": 5}, 16), ({"d": 5, "head": 3, "k": 2, "t": 4}, 24)),
        modest={"d": 32, "head": 4, "k": 8},
        realistic={"d": 256, "head": 8, "k": 32},
        reference=REFERENCE,
    ),
    "biases": CatalogueEntry(
        architecture=attention_biases,
        families=(Fact(MATRICES, "Q K bQ"), Fact(MATRICES, "V O bV"), Fact(SHIFTS, "bK"), Fact(SHIFTS, "bV bO")),
        discrete=(Fact(qx.Permutation("head"), "Q K V O bQ bV"),),
        orbit="2*head*k**2 + 2*head*k",
        flat=(({"d": 4, "head": 2, "k": 2, "t": 5}, 24), ({"d": 5, "head": 3, "k": 2, "t": 4}, 36)),
        modest={"d": 32, "head": 4, "k": 8},
        realistic={"d": 256, "head": 8, "k": 32},
        reference=REFERENCE,
    ),
}

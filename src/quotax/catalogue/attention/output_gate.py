"""Attention whose heads are multiplied by a sigmoid of the input before the output matrix.

`GL(k)` of queries and keys stays. A gate multiplies every coordinate of a head by a number of its own, and what
commutes with such diagonals is diagonal: of `GL(v)` on values and output `R*^v` is left.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.heads import attend_causally

SHAPES = {"Q": "head k d", "K": "head k d", "V": "head v d", "S": "head v d", "O": "d head v"}


@qx.architecture(params=SHAPES, inputs={"x": "t d"})
def output_gate(p, x):
    """Causal."""
    q, k, v, s = (jnp.einsum("hkd,td->htk", p[n], x) for n in "QKVS")
    return jnp.einsum("htv,dhv->td", attend_causally(q, k, v) * jax.nn.sigmoid(s), p["O"])


ENTRIES = {
    "": CatalogueEntry(
        architecture=output_gate,
        families=(Fact(qx.GL("k", each="head"), "Q K"), Fact(qx.Diagonal("v", each="head"), "V O")),
        discrete=(Fact(qx.Permutation("head"), "Q K V S O"), Fact(qx.Permutation("v", each="head"), "V S O")),
        orbit="head*k**2 + head*v",
        flat=(({"head": 2, "k": 2, "v": 3, "d": 5, "t": 4}, 14), ({"head": 2, "k": 3, "v": 2, "d": 4, "t": 5}, 22)),
        modest={"head": 4, "k": 8, "v": 8, "d": 32},
        realistic={"head": 8, "k": 32, "v": 32, "d": 256},
        reference="Qiu et al. 2025, Gated attention for large language models, arXiv:2505.06708",
    )
}

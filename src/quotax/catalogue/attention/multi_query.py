"""Multi-query attention: all heads share one key and one value, so one pair of general linear groups is left."""

from __future__ import annotations

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.heads import attend


@qx.architecture(params={"Q": "head k d", "K": "k d", "V": "k d", "O": "d head k"}, inputs={"x": "t d"})
def multi_query(p, x):
    """One key and one value."""
    q = jnp.einsum("hkd,td->htk", p["Q"], x)
    k, v = x @ p["K"].T, x @ p["V"].T
    return jnp.einsum("htk,dhk->td", attend(q, k, v), p["O"])


ENTRIES = {
    "": CatalogueEntry(
        architecture=multi_query,
        families=(Fact(qx.GL("k"), "Q K"), Fact(qx.GL("k"), "V O")),
        discrete=(Fact(qx.Permutation("head"), "Q O"),),
        orbit="2*k**2",
        flat=(({"d": 4, "head": 2, "k": 2, "t": 5}, 8), ({"d": 5, "head": 2, "k": 3, "t": 4}, 18)),
        modest={"d": 32, "head": 4, "k": 8},
        realistic={"d": 256, "head": 8, "k": 32},
        reference="Shazeer 2019, Fast Transformer decoding, arXiv:1911.02150",
    )
}

"""Grouped queries: the heads of a group share keys and values, and with them one pair of general linear groups."""

from __future__ import annotations

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.heads import attend


@qx.architecture(params={"Q": "kv group k d", "K": "kv k d", "V": "kv k d", "O": "d kv group k"}, inputs={"x": "t d"})
def grouped(p, x):
    """`group` queries for each pair of keys and values."""
    q = jnp.einsum("hgkd,td->hgtk", p["Q"], x)
    k, v = (jnp.einsum("hkd,td->htk", p[n], x)[:, None] for n in "KV")
    return jnp.einsum("hgtk,dhgk->td", attend(q, k, v), p["O"])


MATRICES = qx.GL("k", each="kv")

ENTRIES = {
    "": CatalogueEntry(
        architecture=grouped,
        families=(Fact(MATRICES, "Q K"), Fact(MATRICES, "V O")),
        discrete=(Fact(qx.Permutation("kv"), "Q K V O"), Fact(qx.Permutation("group", each="kv"), "Q O")),
        orbit="2*kv*k**2",
        flat=(
            ({"d": 4, "kv": 2, "group": 2, "k": 2, "t": 5}, 16),
            ({"d": 5, "kv": 1, "group": 3, "k": 2, "t": 6}, 8),
        ),
        modest={"d": 32, "kv": 2, "group": 2, "k": 8},
        realistic={"d": 256, "kv": 4, "group": 2, "k": 32},
        reference="Ainslie et al. 2023, GQA, arXiv:2305.13245",
    )
}

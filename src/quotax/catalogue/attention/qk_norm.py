"""Queries and keys behind RMSNorms with gains, then rotary positions by halves.

The norms commute with orthogonal matrices only, the positions with complex scalings only, and the gains stand
between: what is left is a number for each pair that one gain hands to the other, `k/2`, and the sign of every
coordinate between `Q` or `K` and its gain. Without eps the norms also take the scales of `Q` and of `K`.
"""

from __future__ import annotations

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.heads import attend, rotate_halves
from quotax.catalogue.pieces.normalisation import rms_norm
from quotax.declare import Architecture


def qk_norm(eps: float) -> Architecture:
    """The declaration."""
    shapes = {"Q": "k d", "K": "k d", "V": "v d", "O": "d v", "gq": "k", "gk": "k"}

    @qx.architecture(params=shapes, inputs={"x": "t d"})
    def qk_norm(p, x):
        q, k, v = (x @ p[name].T for name in "QKV")
        q, k = rotate_halves(rms_norm(q, p["gq"], eps)), rotate_halves(rms_norm(k, p["gk"], eps))
        return attend(q, k, v) @ p["O"].T

    return qk_norm


FAMILIES = (Fact(qx.PairScaling("k", pairs="halves"), "gq gk"), Fact(qx.GL("v"), "V O"))
FLIPS = (Fact(qx.SignFlip("k"), "Q gq"), Fact(qx.SignFlip("k"), "K gk"))
SIZES = {"d": 6, "k": 4, "v": 2, "t": 5}, {"d": 5, "k": 2, "v": 3, "t": 6}
MODEST = {"d": 32, "k": 8, "v": 8}
REALISTIC = {"d": 256, "k": 64, "v": 64}
REFERENCE = "Henry et al. 2020, arXiv:2010.04245; with rotary positions: Qwen3 technical report 2025, arXiv:2505.09388"

ENTRIES = {
    "": CatalogueEntry(
        architecture=qk_norm(0.0),
        families=(*FAMILIES, Fact(qx.PositiveScalar(), "Q"), Fact(qx.PositiveScalar(), "K")),
        discrete=FLIPS,
        orbit="k/2 + v**2 + 2",
        flat=tuple(zip(SIZES, (8, 12), strict=True)),
        modest=MODEST,
        realistic=REALISTIC,
        reference=REFERENCE,
    ),
    "eps": CatalogueEntry(
        architecture=qk_norm(1e-6),
        families=FAMILIES,
        discrete=FLIPS,
        orbit="k/2 + v**2",
        flat=tuple(zip(SIZES, (6, 10), strict=True)),
        modest=MODEST,
        realistic=REALISTIC,
        reference=REFERENCE,
    ),
}

"""Fourier features with frequencies that are learned, `C cos(B x) + S sin(B x)`.

Cosines and sines of distinct frequencies are independent, so nothing is flat; a frequency is known up to its sign,
which the sine hands on, and frequencies up to their order.
"""

from __future__ import annotations

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"B": "h x", "C": "y h", "S": "y h"}, inputs={"x": "x"})
def fourier_features(p, x):
    """Linear in the features."""
    z = p["B"] @ x
    return p["C"] @ jnp.cos(z) + p["S"] @ jnp.sin(z)


ENTRIES = {
    "": CatalogueEntry(
        architecture=fourier_features,
        families=(),
        discrete=(Fact(qx.Permutation("h"), "B C S"), Fact(qx.SignFlip("h"), "B S")),
        orbit="0",
        flat=(({"x": 3, "h": 2, "y": 2}, 0), ({"x": 2, "h": 4, "y": 3}, 0)),
        modest={"x": 4, "h": 32, "y": 3},
        realistic={"x": 16, "h": 4096, "y": 10},
        reference="Rahimi and Recht 2007; Tancik et al. 2020, arXiv:2006.10739",
    )
}

"""DoRA: the rows of `W0 + B A` at length one, times magnitudes that are learned apart.

A row's length is taken out of `W0 + B A` as a whole; `W0` is frozen, so `B` and `A` have no scale of their own, and
`GL(r)` between them is all.
"""

from __future__ import annotations

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"B": "y r", "A": "r x", "m": "y"}, inputs={"x": "x", "W0": "y x"})
def dora(p, x, W0):
    """`m (W0 + B A) / |W0 + B A| x`, lengths by row."""
    W = W0 + p["B"] @ p["A"]
    return p["m"] * (W @ x) / jnp.sqrt(jnp.sum(W**2, 1))


ENTRIES = {
    "": CatalogueEntry(
        architecture=dora,
        families=(Fact(qx.GL("r"), "B A"),),
        discrete=(),
        orbit="r**2",
        flat=(({"x": 5, "r": 2, "y": 4}, 4), ({"x": 4, "r": 3, "y": 5}, 9)),
        modest={"x": 64, "r": 4, "y": 32},
        realistic={"x": 768, "r": 16, "y": 768},
        reference="Liu et al. 2024, DoRA, arXiv:2402.09353",
    )
}

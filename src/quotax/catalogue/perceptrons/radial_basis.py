"""Radial basis functions with centres and widths that are learned, `sum_j a_j exp(-w_j |x - c_j|^2)`.

Gaussians of distinct centres and widths are independent: units are known up to order, and nothing else is free.
"""

from __future__ import annotations

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"c": "h x", "w": "h", "A": "y h"}, inputs={"x": "x"})
def radial_basis(p, x):
    """Gaussians."""
    distances = jnp.sum((x - p["c"]) ** 2, 1)
    return p["A"] @ jnp.exp(-p["w"] * distances)


ENTRIES = {
    "": CatalogueEntry(
        architecture=radial_basis,
        families=(),
        discrete=(Fact(qx.Permutation("h"), "c w A"),),
        orbit="0",
        flat=(({"x": 3, "h": 2, "y": 2}, 0), ({"x": 2, "h": 4, "y": 3}, 0)),
        modest={"x": 4, "h": 32, "y": 3},
        realistic={"x": 64, "h": 1024, "y": 10},
        reference="Broomhead and Lowe 1988; Kurkova and Neruda 1994, Uniqueness of functional representations by "
        "Gaussian basis function networks",
    )
}

"""One hidden layer of squares or cubes, `a^T (W x)^2` and `a^T (W x)^3`.

A power is scaled by `R*` in every unit. A sum of squares is the quadratic form of `W^T diag(a) W`, whose factors
`O(p, q)` turns into one another: besides the scalings, `h (h - 1) / 2` fields `a_j w_j d/dw_i - a_i w_i d/dw_j`,
quadratic in the parameters. Cubes are a decomposition into tensors of rank one, which is unique in general.
"""

from __future__ import annotations

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.declare import Architecture


def polynomial(power: int) -> Architecture:
    """The declaration."""

    @qx.architecture(params={"W": "h x", "a": "h"}, inputs={"x": "x"})
    def powers(p, x):
        return p["a"] @ (p["W"] @ x) ** power

    return powers


UNITS = Fact(qx.Permutation("h"), "W a")
SCALE = Fact(qx.Diagonal("h"), "W a")

ENTRIES = {
    "quadratic": CatalogueEntry(
        architecture=polynomial(2),
        families=(SCALE,),
        discrete=(UNITS,),
        orbit="h + h*(h - 1)/2",
        flat=(({"x": 3, "h": 3}, 6), ({"x": 4, "h": 2}, 3)),
        modest={"x": 32, "h": 16},
        realistic={"x": 784, "h": 256},
        reference="Soltanolkotabi, Javanmard and Lee 2018, arXiv:1707.04926",
        fields="O(p, q) between the rows of W, by fields that are quadratic",
        ansatz="quadratic",
    ),
    "cubic": CatalogueEntry(
        architecture=polynomial(3),
        families=(SCALE,),
        discrete=(UNITS,),
        orbit="h",
        flat=(({"x": 3, "h": 3}, 3), ({"x": 4, "h": 2}, 2)),
        modest={"x": 32, "h": 16},
        realistic={"x": 784, "h": 256},
        reference="Kruskal 1977, Three-way arrays: rank and uniqueness of trilinear decompositions",
    ),
}

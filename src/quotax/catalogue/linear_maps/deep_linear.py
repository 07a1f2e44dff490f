"""Three linear layers, `W3 W2 W1 x`: a general linear group between any two of them."""

from __future__ import annotations

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"W1": "h x", "W2": "k h", "W3": "y k"}, inputs={"x": "x"})
def deep_linear(p, x):
    """Without biases."""
    return p["W3"] @ (p["W2"] @ (p["W1"] @ x))


ENTRIES = {
    "": CatalogueEntry(
        architecture=deep_linear,
        families=(Fact(qx.GL("h"), "W1 W2"), Fact(qx.GL("k"), "W2 W3")),
        discrete=(),
        orbit="h**2 + k**2",
        flat=(({"x": 4, "h": 2, "k": 2, "y": 3}, 8), ({"x": 4, "h": 3, "k": 3, "y": 4}, 18)),
        modest={"x": 64, "h": 16, "k": 16, "y": 24},
        realistic={"x": 256, "h": 128, "k": 128, "y": 128},
        reference="Saxe, McClelland and Ganguli 2014, arXiv:1312.6120; Trager, Kohn and Bruna 2020, arXiv:1910.01671",
    )
}

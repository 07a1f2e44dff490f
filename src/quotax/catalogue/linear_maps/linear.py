"""Two linear layers, `W2 W1 x`.

The product is all that is seen: `(g W1, W2 g^-1)` for every invertible `g`. Where `h <= min(x, y)` the factors of a
matrix of rank `h` are exactly one orbit; `(h - min)(max - h)` further directions are flat where `min < h < max`,
because the larger factor then has directions that the product does not see and no element of `GL(h)` leads to; where
`h >= max(x, y)` the product is any matrix, and `(h - x)(h - y)` elements leave a generic point in place. With biases,
`b1 + t` is undone by `b2 - W2 t`.
"""

from __future__ import annotations

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
def linear(p, x):
    """Without biases."""
    return p["W2"] @ (p["W1"] @ x)


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h", "b2": "y"}, inputs={"x": "x"})
def affine(p, x):
    """With biases."""
    return p["W2"] @ (p["W1"] @ x + p["b1"]) + p["b2"]


REFERENCE = "Baldi and Hornik 1989, Neural networks and principal component analysis"

ENTRIES = {
    "": CatalogueEntry(
        architecture=linear,
        families=(Fact(qx.GL("h"), "W1 W2"),),
        discrete=(),
        orbit="h**2",
        flat=(({"x": 4, "h": 2, "y": 3}, 4), ({"x": 3, "h": 3, "y": 5}, 9)),
        modest={"x": 64, "h": 16, "y": 10},
        realistic={"x": 784, "h": 64, "y": 10},
        reference=REFERENCE,
    ),
    "biases": CatalogueEntry(
        architecture=affine,
        families=(Fact(qx.GL("h"), "W1 b1 W2"), Fact(qx.Translation("h"), "b1 b2")),
        discrete=(),
        orbit="h**2 + h",
        flat=(({"x": 4, "h": 2, "y": 3}, 6), ({"x": 3, "h": 3, "y": 5}, 12)),
        modest={"x": 64, "h": 16, "y": 10},
        realistic={"x": 784, "h": 64, "y": 10},
        reference=REFERENCE,
    ),
    "overcomplete": CatalogueEntry(
        architecture=linear,
        families=(Fact(qx.GL("h"), "W1 W2"),),
        discrete=(),
        orbit="h*(x + y) - x*y",
        flat=(({"x": 2, "h": 4, "y": 3}, 14), ({"x": 3, "h": 3, "y": 2}, 9)),
        modest={"x": 8, "h": 32, "y": 4},
        realistic={"x": 64, "h": 96, "y": 64},
        reference=REFERENCE,
    ),
    "narrow": CatalogueEntry(
        architecture=linear,
        families=(Fact(qx.GL("h"), "W1 W2"),),
        discrete=(),
        orbit="h**2",
        flat=(({"x": 1, "h": 2, "y": 3}, 5), ({"x": 4, "h": 3, "y": 1}, 11)),
        modest={"x": 1, "h": 8, "y": 32},
        realistic={"x": 1, "h": 64, "y": 512},
        reference=REFERENCE,
        surplus="the wider factor has directions that vanish on the narrow one's range: (h - min)(max - h) of them",
    ),
}

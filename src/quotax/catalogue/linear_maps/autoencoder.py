"""Autoencoders, tied (`W^T W x`) and untied (`D (E x + b) + c`), and a tied one with tanh between.

Untied, the code is known up to an affine map. Tied, `g` acts on both factors at once: `W^T g^T g W = W^T W` for
orthogonal `g` alone, of which a nonlinearity leaves permutations, and an odd one signs.
"""

from __future__ import annotations

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"W": "h x"}, inputs={"x": "x"})
def tied(p, x):
    """Linear, the decoder is the encoder's transpose."""
    return p["W"].T @ (p["W"] @ x)


@qx.architecture(params={"W": "h x", "b": "h", "c": "x"}, inputs={"x": "x"})
def tied_tanh(p, x):
    """The same with biases and tanh."""
    return p["W"].T @ jnp.tanh(p["W"] @ x + p["b"]) + p["c"]


@qx.architecture(params={"E": "h x", "b": "h", "D": "x h", "c": "x"}, inputs={"x": "x"})
def untied(p, x):
    """Linear with biases, encoder and decoder apart."""
    return p["D"] @ (p["E"] @ x + p["b"]) + p["c"]


REFERENCE = "Bourlard and Kamp 1988, Auto-association by multilayer perceptrons and singular value decomposition"

ENTRIES = {
    "tied": CatalogueEntry(
        architecture=tied,
        families=(Fact(qx.O("h"), "W"),),
        discrete=(),
        orbit="h*(h - 1)/2",
        flat=(({"x": 4, "h": 2}, 1), ({"x": 5, "h": 3}, 3)),
        modest={"x": 64, "h": 8},
        realistic={"x": 784, "h": 64},
        reference=REFERENCE,
    ),
    "tied_tanh": CatalogueEntry(
        architecture=tied_tanh,
        families=(),
        discrete=(Fact(qx.Permutation("h"), "W b"), Fact(qx.SignFlip("h"), "W b")),
        orbit="0",
        flat=(({"x": 4, "h": 2}, 0), ({"x": 5, "h": 3}, 0)),
        modest={"x": 64, "h": 8},
        realistic={"x": 784, "h": 64},
        reference="Vincent et al. 2010, Stacked denoising autoencoders",
    ),
    "untied": CatalogueEntry(
        architecture=untied,
        families=(Fact(qx.GL("h"), "E b D"), Fact(qx.Translation("h"), "b c")),
        discrete=(),
        orbit="h**2 + h",
        flat=(({"x": 4, "h": 2}, 6), ({"x": 5, "h": 3}, 12)),
        modest={"x": 64, "h": 8},
        realistic={"x": 784, "h": 64},
        reference=REFERENCE,
    ),
}

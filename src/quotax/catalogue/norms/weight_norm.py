"""Weight norm: rows are a direction and a length, `g v / |v|`, before a ReLU.

The length of `v` is seen nowhere, and its sign goes to `g`; the factor of a ReLU unit is on `g`, the bias and the
reader.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"V": "h x", "g": "h", "b": "h", "A": "y h"}, inputs={"x": "x"})
def weight_norm(p, x):
    """Two layers."""
    z = p["g"] * (p["V"] @ x) / jnp.sqrt(jnp.sum(p["V"] ** 2, 1)) + p["b"]
    return p["A"] @ jax.nn.relu(z)


ENTRIES = {
    "": CatalogueEntry(
        architecture=weight_norm,
        families=(Fact(qx.PositiveDiagonal("h"), "V"), Fact(qx.PositiveDiagonal("h"), "g b A")),
        discrete=(Fact(qx.Permutation("h"), "V g b A"), Fact(qx.SignFlip("h"), "V g")),
        orbit="2*h",
        flat=(({"x": 3, "h": 4, "y": 2}, 8), ({"x": 4, "h": 3, "y": 3}, 6)),
        modest={"x": 32, "h": 16, "y": 10},
        realistic={"x": 784, "h": 256, "y": 10},
        reference="Salimans and Kingma 2016, Weight normalization, arXiv:1602.07868",
    )
}

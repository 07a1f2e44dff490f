"""Three layers with biases and leaky ReLU: a positive factor for every hidden unit of either layer.

Leaky ReLU and not ReLU, of which deep networks have hidden flat directions on open sets of parameters (a unit that is
never active), so that their rank differs from point to point.
"""

from __future__ import annotations

import jax

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "k h", "b2": "k", "W3": "y k", "b3": "y"}, inputs={"x": "x"})
def deep_mlp(p, x):
    """Two hidden layers."""
    z = jax.nn.leaky_relu(p["W1"] @ x + p["b1"])
    return p["W3"] @ jax.nn.leaky_relu(p["W2"] @ z + p["b2"]) + p["b3"]


ENTRIES = {
    "": CatalogueEntry(
        architecture=deep_mlp,
        families=(Fact(qx.PositiveDiagonal("h"), "W1 b1 W2"), Fact(qx.PositiveDiagonal("k"), "W2 b2 W3")),
        discrete=(Fact(qx.Permutation("h"), "W1 b1 W2"), Fact(qx.Permutation("k"), "W2 b2 W3")),
        orbit="h + k",
        flat=(({"x": 3, "h": 4, "k": 3, "y": 2}, 7), ({"x": 4, "h": 3, "k": 5, "y": 4}, 8)),
        modest={"x": 64, "h": 32, "k": 32, "y": 10},
        realistic={"x": 784, "h": 256, "k": 256, "y": 10},
        reference="Phuong and Lampert 2020, Functional vs. parametric equivalence of ReLU networks",
    )
}

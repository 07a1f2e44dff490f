"""A layer of a graph isomorphism network: `(1 + e) x_i + sum_j x_j` over neighbours, an MLP, a sum over the nodes.

The aggregation has no channel of its own; ReLU units of the MLP, and those that are summed, have their factors.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(
    params={"e": "", "W1": "h x", "b1": "h", "W2": "k h", "b2": "k", "R": "y k"},
    inputs={"x": "n x", "edges": qx.Mask("n n")},
)
def graph_isomorphism(p, x, edges):
    """`edges[i, j]` is one where `j` is a neighbour of `i`."""
    z = (1 + p["e"]) * x + edges @ x
    z = jax.nn.relu(z @ p["W1"].T + p["b1"])
    return p["R"] @ jnp.sum(jax.nn.relu(z @ p["W2"].T + p["b2"]), 0)


ENTRIES = {
    "": CatalogueEntry(
        architecture=graph_isomorphism,
        families=(Fact(qx.PositiveDiagonal("h"), "W1 b1 W2"), Fact(qx.PositiveDiagonal("k"), "W2 b2 R")),
        discrete=(Fact(qx.Permutation("h"), "W1 b1 W2"), Fact(qx.Permutation("k"), "W2 b2 R")),
        orbit="h + k",
        flat=(({"x": 3, "h": 4, "k": 3, "y": 2, "n": 4}, 7), ({"x": 4, "h": 3, "k": 2, "y": 3, "n": 4}, 5)),
        modest={"x": 8, "h": 16, "k": 8, "y": 4, "n": 6},
        realistic={"x": 64, "h": 256, "k": 256, "y": 10, "n": 12},
        reference="Xu, Hu, Leskovec and Jegelka 2019, How powerful are graph neural networks?, arXiv:1810.00826",
    )
}

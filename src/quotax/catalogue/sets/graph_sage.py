"""GraphSAGE with the mean of neighbours: a unit adds what it reads of its node and of the mean; ReLU scales both."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"S": "h x", "N": "h x", "b": "h", "R": "y h"}, inputs={"x": "n x", "edges": qx.Mask("n n")})
def graph_sage(p, x, edges):
    """A node is among its neighbours, so that there is a mean."""
    mean = (x + edges @ x) / (1 + jnp.sum(edges, 1, keepdims=True))
    return jax.nn.relu(x @ p["S"].T + mean @ p["N"].T + p["b"]) @ p["R"].T


ENTRIES = {
    "": CatalogueEntry(
        architecture=graph_sage,
        families=(Fact(qx.PositiveDiagonal("h"), "S N b R"),),
        discrete=(Fact(qx.Permutation("h"), "S N b R"),),
        orbit="h",
        flat=(({"x": 3, "h": 4, "y": 2, "n": 4}, 4), ({"x": 2, "h": 3, "y": 4, "n": 5}, 3)),
        modest={"x": 8, "h": 16, "y": 4, "n": 6},
        realistic={"x": 64, "h": 256, "y": 10, "n": 12},
        reference="Hamilton, Ying and Leskovec 2017, Inductive learning on large graphs, arXiv:1706.02216",
    )
}

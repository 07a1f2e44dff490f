"""DeepSets: a sum over a set of what a network makes of each element, read by another network.

The sum is linear, so between the two networks any basis will do, `GL(k)`; ReLU units inside either have their factors.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"W1": "h x", "b1": "h", "V": "k h", "W2": "m k", "b2": "m", "W3": "y m"}, inputs={"x": "n x"})
def deep_sets(p, x):
    """`n` elements."""
    pooled = jnp.sum(jax.nn.relu(x @ p["W1"].T + p["b1"]) @ p["V"].T, 0)
    return p["W3"] @ jax.nn.relu(p["W2"] @ pooled + p["b2"])


ENTRIES = {
    "": CatalogueEntry(
        architecture=deep_sets,
        families=(
            Fact(qx.PositiveDiagonal("h"), "W1 b1 V"),
            Fact(qx.GL("k"), "V W2"),
            Fact(qx.PositiveDiagonal("m"), "W2 b2 W3"),
        ),
        discrete=(Fact(qx.Permutation("h"), "W1 b1 V"), Fact(qx.Permutation("m"), "W2 b2 W3")),
        orbit="h + k**2 + m",
        flat=(
            ({"x": 2, "h": 4, "k": 2, "m": 3, "y": 2, "n": 3}, 11),
            ({"x": 3, "h": 3, "k": 2, "m": 4, "y": 3, "n": 4}, 11),
        ),
        modest={"x": 8, "h": 16, "k": 8, "m": 16, "y": 4},
        realistic={"x": 64, "h": 256, "k": 256, "m": 256, "y": 10},
        reference="Zaheer et al. 2017, Deep sets, arXiv:1703.06114",
    )
}

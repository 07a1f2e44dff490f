"""Mixtures of ReLU experts: weighed by softmax, and the first alone with its weight, as in the Switch Transformer.

The gate's scores count up to what all experts share, `G + 1 v^T`; that keeps the order of scores too. Every expert
has the factors of its own units.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact

SHAPES = {"G": "e x", "W1": "e h x", "W2": "e y h"}


@qx.architecture(params=SHAPES, inputs={"x": "x"})
def soft(p, x):
    """All experts."""
    experts = jnp.einsum("eyh,eh->ey", p["W2"], jax.nn.relu(p["W1"] @ x))
    return jax.nn.softmax(p["G"] @ x) @ experts


@qx.architecture(params=SHAPES, inputs={"x": "x"})
def first(p, x):
    """The expert of the largest score."""
    scores = p["G"] @ x
    weights = jnp.where(scores == jnp.max(scores), jax.nn.softmax(scores), 0.0)
    return weights @ jnp.einsum("eyh,eh->ey", p["W2"], jax.nn.relu(p["W1"] @ x))


def entry(model, reference):
    """The same facts for both."""
    return CatalogueEntry(
        architecture=model,
        families=(Fact(qx.Translation("x"), "G"), Fact(qx.PositiveDiagonal("h", each="e"), "W1 W2")),
        discrete=(Fact(qx.Permutation("e"), "G W1 W2"), Fact(qx.Permutation("h", each="e"), "W1 W2")),
        orbit="x + e*h",
        flat=(({"e": 2, "h": 3, "x": 3, "y": 2}, 9), ({"e": 3, "h": 2, "x": 2, "y": 4}, 8)),
        modest={"e": 4, "h": 16, "x": 16, "y": 4},
        realistic={"e": 8, "h": 128, "x": 128, "y": 64},
        reference=reference,
    )


ENTRIES = {
    "soft": entry(soft, "Jacobs, Jordan, Nowlan and Hinton 1991, Adaptive mixtures of local experts"),
    "first": entry(first, "Fedus, Zoph and Shazeer 2022, Switch Transformers, arXiv:2101.03961"),
}

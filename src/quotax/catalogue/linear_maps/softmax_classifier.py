"""Softmax of a linear map: logits count up to a number that all classes share, so `W + 1 v^T` and `b + c 1`."""

from __future__ import annotations

import jax

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"W": "y x"}, inputs={"x": "x"})
def softmax(p, x):
    """Without a bias."""
    return jax.nn.softmax(p["W"] @ x)


@qx.architecture(params={"W": "y x", "b": "y"}, inputs={"x": "x"})
def softmax_bias(p, x):
    """With one."""
    return jax.nn.softmax(p["W"] @ x + p["b"])


REFERENCE = "Agresti 2002, Categorical data analysis: baseline-category logits"

ENTRIES = {
    "": CatalogueEntry(
        architecture=softmax,
        families=(Fact(qx.Translation("x"), "W"),),
        discrete=(),
        orbit="x",
        flat=(({"x": 3, "y": 3}, 3), ({"x": 4, "y": 2}, 4)),
        modest={"x": 64, "y": 10},
        realistic={"x": 784, "y": 100},
        reference=REFERENCE,
    ),
    "biases": CatalogueEntry(
        architecture=softmax_bias,
        families=(Fact(qx.Translation("x"), "W"), Fact(qx.Translation(), "b")),
        discrete=(),
        orbit="x + 1",
        flat=(({"x": 3, "y": 3}, 4), ({"x": 4, "y": 2}, 5)),
        modest={"x": 64, "y": 10},
        realistic={"x": 784, "y": 100},
        reference=REFERENCE,
    ),
}

"""Batch norm of `W x + b`: over the batch, with eps and without; and in use, with statistics that are given.

The mean takes `b` away, the deviation the scale of a row of `W`; an eps keeps that scale. With statistics that are
inputs the norm is an affine map: leaky ReLU's factors pass through gain and shift.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.declare import Architecture


def batch_norm(eps: float) -> Architecture:
    """The declaration."""

    @qx.architecture(params={"W": "h x", "b": "h"}, inputs={"x": "n x"})
    def batch_norm(p, x):
        z = x @ p["W"].T + p["b"]
        z = z - z.mean(0)
        return z * jax.lax.rsqrt((z**2).mean(0) + eps)

    return batch_norm


@qx.architecture(
    params={"g": "c", "s": "c", "W": "c x", "b": "c", "A": "y c"},
    inputs={"x": "x", "mean": "c", "var": qx.Positive("c")},
)
def batch_norm_in_use(p, x, mean, var):
    """With running statistics, before a leaky ReLU."""
    z = (p["W"] @ x + p["b"] - mean) / jnp.sqrt(var + 1e-5)
    return p["A"] @ jax.nn.leaky_relu(z * p["g"] + p["s"])


SHIFT = Fact(qx.Translation("h"), "b")
REFERENCE = "Ioffe and Szegedy 2015, arXiv:1502.03167; van Laarhoven 2017, arXiv:1706.05350"

ENTRIES = {
    "": CatalogueEntry(
        architecture=batch_norm(0.0),
        families=(SHIFT, Fact(qx.PositiveDiagonal("h"), "W")),
        discrete=(),
        orbit="2*h",
        flat=(({"x": 3, "h": 2, "n": 6}, 4), ({"x": 4, "h": 3, "n": 8}, 6)),
        modest={"x": 32, "h": 16, "n": 64},
        realistic={"x": 784, "h": 256, "n": 64},
        reference=REFERENCE,
    ),
    "eps": CatalogueEntry(
        architecture=batch_norm(0.1),
        families=(SHIFT,),
        discrete=(),
        orbit="h",
        flat=(({"x": 3, "h": 2, "n": 6}, 2), ({"x": 4, "h": 3, "n": 8}, 3)),
        modest={"x": 32, "h": 16, "n": 64},
        realistic={"x": 784, "h": 256, "n": 64},
        reference=REFERENCE,
    ),
    "in_use": CatalogueEntry(
        architecture=batch_norm_in_use,
        families=(Fact(qx.PositiveDiagonal("c"), "g s A"),),
        discrete=(),
        orbit="c",
        flat=(({"c": 3, "x": 2, "y": 2}, 3), ({"c": 2, "x": 3, "y": 4}, 2)),
        modest={"c": 16, "x": 32, "y": 10},
        realistic={"c": 256, "x": 784, "y": 10},
        reference=REFERENCE,
    ),
}

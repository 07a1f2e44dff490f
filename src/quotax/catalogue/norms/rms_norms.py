"""RMSNorm between two linear layers, `A norm(W x)`: it commutes with orthogonal matrices, and takes the scale.

An eps keeps the scale; a gain that is fused neither way, `A (g * norm(W x))`, is scaled against `A` and rotated
through; computed in bfloat16 and cast back, the function that is meant is the same.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.normalisation import rms_norm
from quotax.declare import Architecture


def between(eps: float, gain: bool) -> Architecture:
    """The declaration."""

    @qx.architecture(params={"A": "y h", "W": "h x"} | ({"g": "h"} if gain else {}), inputs={"x": "x"})
    def normed(p, x):
        return p["A"] @ rms_norm(p["W"] @ x, p["g"] if gain else None, eps)

    return normed


@qx.architecture(params={"A": "y h", "W": "h x"}, inputs={"x": "x"})
def cast(p, x):
    """With the casts of mixed precision."""
    z = (p["W"] @ x).astype(jnp.bfloat16)
    n = z.astype(jnp.float32)
    n = n * jax.lax.rsqrt(jnp.mean(n**2, -1, keepdims=True))
    return p["A"] @ n.astype(z.dtype)


TURN, SCALE = Fact(qx.O("h"), "A W"), Fact(qx.PositiveScalar(), "W")
ASSIGNED = {"x": 5, "h": 3, "y": 4}, {"x": 4, "h": 4, "y": 5}
MODEST = {"x": 32, "h": 8, "y": 10}
REALISTIC = {"x": 784, "h": 256, "y": 10}
REFERENCE = "Zhang and Sennrich 2019, arXiv:1910.07467; rotations: Ashkboos et al. 2024, SliceGPT, arXiv:2401.15024"

ENTRIES = {
    "": CatalogueEntry(
        architecture=between(0.0, False),
        families=(TURN, SCALE),
        discrete=(),
        orbit="1 + h*(h - 1)/2",
        flat=tuple(zip(ASSIGNED, (4, 7), strict=True)),
        modest=MODEST,
        realistic=REALISTIC,
        reference=REFERENCE,
    ),
    "eps": CatalogueEntry(
        architecture=between(0.1, False),
        families=(TURN,),
        discrete=(),
        orbit="h*(h - 1)/2",
        flat=tuple(zip(ASSIGNED, (3, 6), strict=True)),
        modest=MODEST,
        realistic=REALISTIC,
        reference=REFERENCE,
    ),
    "gain": CatalogueEntry(
        architecture=between(0.1, True),
        families=(Fact(qx.Diagonal("h"), "A g"), TURN),
        discrete=(Fact(qx.Permutation("h"), "A W g"),),
        orbit="h + h*(h - 1)/2",
        flat=tuple(zip(ASSIGNED, (6, 10), strict=True)),
        modest=MODEST,
        realistic=REALISTIC,
        reference=REFERENCE,
    ),
    "casts": CatalogueEntry(
        architecture=cast,
        families=(TURN, SCALE),
        discrete=(),
        orbit="1 + h*(h - 1)/2",
        flat=tuple(zip(ASSIGNED, (4, 7), strict=True)),
        modest=MODEST,
        realistic=REALISTIC,
        reference=REFERENCE,
    ),
}

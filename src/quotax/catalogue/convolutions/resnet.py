"""Residual blocks of convolutions and batch norms: one block on its own, and a small network with a stem and a head.

Within a block ReLU hands a factor from the first norm's gain and shift to the second kernel. The stream of the
network has one for every channel as well: `relu(g z) = g relu(z)` for both branches, written by gains and shifts,
read by kernels and the head. A sign passes from a kernel's channel to its norm's gain. No kernel is scaled, because
of eps.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.batch_normalisation import batch_normed, convolved

BLOCK = {"K1": "h c 3", "g1": "h", "s1": "h", "K2": "c h 3", "g2": "c", "s2": "c"}


def block(p, z):
    """Two convolutions beside the stream."""
    inner = jax.nn.relu(batch_normed(convolved(z, p["K1"]), p["g1"], p["s1"]))
    return jax.nn.relu(z + batch_normed(convolved(inner, p["K2"]), p["g2"], p["s2"]))


@qx.architecture(params=BLOCK, inputs={"x": "n c l"})
def resnet_block(p, x):
    """One block."""
    return block(p, x)


@qx.architecture(params={"K0": "c i 3", "g0": "c", "s0": "c"} | BLOCK | {"H": "y c", "b": "y"}, inputs={"x": "n i l"})
def small_resnet(p, x):
    """A stem, a block, the mean over places, a head."""
    z = jax.nn.relu(batch_normed(convolved(x, p["K0"]), p["g0"], p["s0"]))
    return jnp.mean(block(p, z), 2) @ p["H"].T + p["b"]


INNER, CHANNELS = Fact(qx.PositiveDiagonal("h"), "g1 s1 K2"), Fact(qx.Permutation("h"), "K1 g1 s1 K2")
SIGNS = Fact(qx.SignFlip("h"), "K1 g1"), Fact(qx.SignFlip("c"), "K2 g2")
REFERENCE = "He, Zhang, Ren and Sun 2016, Deep residual learning, arXiv:1512.03385"

ENTRIES = {
    "block": CatalogueEntry(
        architecture=resnet_block,
        families=(INNER,),
        discrete=(CHANNELS, *SIGNS),
        orbit="h",
        flat=(({"c": 2, "h": 3, "n": 4, "l": 5}, 3), ({"c": 3, "h": 2, "n": 5, "l": 4}, 2)),
        modest={"c": 4, "h": 8, "n": 8, "l": 12},
        realistic={"c": 64, "h": 128, "n": 8, "l": 12},
        reference=REFERENCE,
    ),
    "small": CatalogueEntry(
        architecture=small_resnet,
        families=(INNER, Fact(qx.PositiveDiagonal("c"), "g0 s0 K1 g2 s2 H")),
        discrete=(
            CHANNELS,
            *SIGNS,
            Fact(qx.SignFlip("c"), "K0 g0"),
            Fact(qx.Permutation("c"), "K0 g0 s0 K1 K2 g2 s2 H"),
        ),
        orbit="h + c",
        flat=(
            ({"c": 2, "h": 3, "i": 2, "y": 3, "n": 4, "l": 5}, 5),
            ({"c": 3, "h": 2, "i": 1, "y": 4, "n": 5, "l": 4}, 5),
        ),
        modest={"c": 4, "h": 8, "i": 2, "y": 4, "n": 8, "l": 12},
        realistic={"c": 64, "h": 128, "i": 3, "y": 10, "n": 8, "l": 12},
        reference=REFERENCE,
    ),
}

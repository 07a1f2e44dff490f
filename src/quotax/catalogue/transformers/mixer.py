"""MLP-Mixer: an MLP over positions and one over channels, each behind a LayerNorm, then a mean and a head.

The MLP over positions acts on every channel alike and reads no channel against another, so the stream is turned by
orders of channels alone, and the first norm's gain is free up to one number (against `U1`), its shift up to another
(against `u1`). What that MLP adds as a bias `u2` is the same in all channels: the next norm's mean hides it. Also
hidden are multiples of the ones in `W`, `b`, `W2` and `b2`. The second and the last norm have a reader each: gain,
shift, and null direction.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.normalisation import layer_norm


@qx.architecture(
    params={
        "W": "d x", "b": "d", "g1": "d", "s1": "d", "U1": "s t", "u1": "s", "U2": "t s", "u2": "t",
        "g2": "d", "s2": "d", "W1": "f d", "b1": "f", "W2": "d f", "b2": "d", "g": "d", "s": "d", "H": "y d", "c": "y",
    },
    inputs={"x": "t x"},
)  # fmt: skip
def mixer(p, x):
    """One layer; `x` holds a patch at each position."""
    z = x @ p["W"].T + p["b"]
    n = layer_norm(z, p["g1"], p["s1"], 1e-5)
    z = z + p["U2"] @ jax.nn.gelu(p["U1"] @ n + p["u1"][:, None]) + p["u2"][:, None]
    n = layer_norm(z, p["g2"], p["s2"], 1e-5)
    z = z + jax.nn.gelu(n @ p["W1"].T + p["b1"]) @ p["W2"].T + p["b2"]
    return p["H"] @ jnp.mean(layer_norm(z, p["g"], p["s"], 1e-5), 0) + p["c"]


ENTRIES = {
    "": CatalogueEntry(
        architecture=mixer,
        families=(
            Fact(qx.Translation("x"), "W"),
            Fact(qx.Translation(), "b"),
            Fact(qx.Translation("t"), "u2"),
            Fact(qx.Translation("f"), "W2"),
            Fact(qx.Translation(), "b2"),
            Fact(qx.PositiveScalar(), "g1 s1 U1"),
            Fact(qx.Diagonal("d"), "g2 s2 W1"),
            Fact(qx.Translation("d"), "s2 b1"),
            Fact(qx.Diagonal("d"), "g s H"),
            Fact(qx.Translation("d"), "s c"),
            Fact(qx.Translation("f"), "W1 b1"),
            Fact(qx.Translation("y"), "H c"),
        ),
        discrete=(
            Fact(qx.Permutation("d"), "W b g1 s1 g2 s2 W1 W2 b2 g s H"),
            Fact(qx.Permutation("s"), "U1 u1 U2"),
            Fact(qx.Permutation("f"), "W1 b1 W2"),
        ),
        orbit="x + 3 + t + 2*f + 4*d + y",
        flat=(
            ({"x": 5, "d": 3, "s": 2, "t": 4, "f": 4, "y": 6}, 39),
            ({"x": 4, "d": 4, "s": 3, "t": 5, "f": 2, "y": 3}, 36),
        ),
        modest={"x": 12, "d": 16, "s": 8, "t": 9, "f": 32, "y": 10},
        realistic={"x": 48, "d": 128, "s": 64, "t": 64, "f": 512, "y": 10},
        surplus="s1 + c 1 with u1 - c U1 1, which the language of actions has no words for",
        reference="Tolstikhin et al. 2021, MLP-Mixer, arXiv:2105.01601",
    )
}

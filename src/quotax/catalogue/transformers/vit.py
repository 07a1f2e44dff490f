"""A vision transformer: patches, learned positions, a block with LayerNorms and biases, a mean and a head.

Beside what `pieces/biased_block.py` counts: `b + w` with `P - 1 w^T` (`d`); multiples of the ones in `W` (`x`) and in
`P` (`t`; those of `b` are among both); the last norm's gain (`d`), shift (`d`) and null direction (`y`) into the
head; and the rotations of the stream that fix the ones, seen through the gains, `(d - 1)(d - 2) / 2`.
"""

from __future__ import annotations

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces import biased_block
from quotax.catalogue.pieces.heads import attend
from quotax.catalogue.pieces.normalisation import layer_norm


@qx.architecture(
    params={"W": "d x", "b": "d", "P": "t d", **biased_block.SHAPES, "g": "d", "s": "d", "H": "y d", "c": "y"},
    inputs={"x": "t x"},
)
def vit(p, x):
    """One layer; `x` holds a patch at each position."""
    z = biased_block.block(p, x @ p["W"].T + p["b"] + p["P"], attend)
    return p["H"] @ jnp.mean(layer_norm(z, p["g"], p["s"], biased_block.EPS), 0) + p["c"]


STREAM = "W b P Q K V O bO W1 W2 b2 H"

ENTRIES = {
    "": CatalogueEntry(
        architecture=vit,
        families=(
            *biased_block.FAMILIES,
            Fact(qx.Translation("d"), "b P"),
            Fact(qx.Translation("x"), "W"),
            Fact(qx.Translation("t"), "P"),
            Fact(qx.Diagonal("d"), "g s H"),
            Fact(qx.Translation("d"), "s c"),
            Fact(qx.Translation("y"), "H c"),
            Fact(qx.OFixingOnes("d"), f"{STREAM} s1 s2 s"),
        ),
        discrete=(*biased_block.DISCRETE, Fact(qx.Permutation("d"), f"{STREAM} g1 s1 g2 s2 g s")),
        orbit=f"{biased_block.ORBIT} + d + x + t + 2*d + y + (d - 1)*(d - 2)/2",
        flat=(
            ({"x": 5, "t": 3, "d": 4, "head": 2, "k": 2, "f": 3, "y": 6}, 93),
            ({"x": 6, "t": 4, "d": 5, "head": 1, "k": 2, "f": 4, "y": 3}, 84),
        ),
        modest={"x": 12, "t": 9, "d": 16, "head": 2, "k": 8, "f": 32, "y": 10},
        realistic={"x": 48, "t": 64, "d": 128, "head": 4, "k": 32, "f": 512, "y": 10},
        reference="Dosovitskiy et al. 2021, An image is worth 16x16 words, arXiv:2010.11929",
    )
}

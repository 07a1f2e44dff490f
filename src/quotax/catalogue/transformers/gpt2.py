"""A decoder as GPT-2 has it: learned positions, LayerNorms, biases, and a head that is the embedding.

The block has what `pieces/biased_block.py` counts. Tied, `E` writes to the stream and reads the last norm: nothing
turns both but orders of coordinates, and its rows may not be shifted. Positions may be, by multiples of the ones
(`t`).
"""

from __future__ import annotations

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces import biased_block
from quotax.catalogue.pieces.heads import attend_causally
from quotax.catalogue.pieces.normalisation import layer_norm


@qx.architecture(
    params={"E": "vocab d", "P": "t d", **biased_block.SHAPES, "g": "d", "s": "d"},
    inputs={"tokens": qx.Tokens("t", below="vocab")},
)
def gpt2(p, tokens):
    """One layer."""
    x = biased_block.block(p, p["E"][tokens] + p["P"], attend_causally)
    return layer_norm(x, p["g"], p["s"], biased_block.EPS) @ p["E"].T


ENTRIES = {
    "": CatalogueEntry(
        architecture=gpt2,
        families=(*biased_block.FAMILIES, Fact(qx.Translation("t"), "P")),
        discrete=(
            *biased_block.DISCRETE,
            Fact(qx.Permutation("d"), "E P g1 s1 Q K V O bO g2 s2 W1 W2 b2 g s"),
        ),
        orbit=f"{biased_block.ORBIT} + t",
        flat=(
            ({"vocab": 7, "t": 3, "d": 4, "head": 2, "k": 2, "f": 3}, 67),
            ({"vocab": 6, "t": 4, "d": 5, "head": 1, "k": 2, "f": 4}, 54),
        ),
        modest={"vocab": 32, "t": 8, "d": 16, "head": 2, "k": 8, "f": 32},
        realistic={"vocab": 1024, "t": 32, "d": 128, "head": 4, "k": 32, "f": 512},
        reference="Radford et al. 2019, Language models are unsupervised multitask learners",
    )
}

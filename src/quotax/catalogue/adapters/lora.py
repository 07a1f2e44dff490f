"""LoRA: a frozen matrix plus `B A`, of which the product alone is seen."""

from __future__ import annotations

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"B": "y r", "A": "r x"}, inputs={"x": "x", "W0": "y x"})
def lora(p, x, W0):
    """`(W0 + B A) x`; what is frozen is an input."""
    return (W0 + p["B"] @ p["A"]) @ x


ENTRIES = {
    "": CatalogueEntry(
        architecture=lora,
        families=(Fact(qx.GL("r"), "B A"),),
        discrete=(),
        orbit="r**2",
        flat=(({"x": 5, "r": 2, "y": 4}, 4), ({"x": 4, "r": 3, "y": 5}, 9)),
        modest={"x": 64, "r": 4, "y": 32},
        realistic={"x": 768, "r": 16, "y": 768},
        reference="Hu et al. 2021, LoRA, arXiv:2106.09685",
    )
}

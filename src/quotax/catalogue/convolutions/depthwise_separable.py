"""A depthwise separable convolution behind an expansion: pointwise, depthwise, ReLU, pointwise.

Between the expansion and the depthwise kernel every channel is linear, `R*^c`: a positive
factor and a sign. A ReLU behind it leaves `R+^c`.
"""

from __future__ import annotations

import jax

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"E": "c i", "D": "c 1 3", "b": "c", "P": "o c"}, inputs={"x": "i n"})
def depthwise_separable(p, x):
    """Over a sequence."""
    z = (p["E"] @ x)[None]
    z = jax.lax.conv_general_dilated(z, p["D"], (1,), "SAME", feature_group_count=z.shape[1])[0]
    return p["P"] @ jax.nn.relu(z + p["b"][:, None])


ENTRIES = {
    "": CatalogueEntry(
        architecture=depthwise_separable,
        families=(Fact(qx.PositiveDiagonal("c"), "E b P"), Fact(qx.PositiveDiagonal("c"), "D b P")),
        discrete=(Fact(qx.Permutation("c"), "E D b P"), Fact(qx.SignFlip("c"), "E D")),
        orbit="2*c",
        flat=(({"c": 3, "i": 2, "o": 2, "n": 7}, 6), ({"c": 2, "i": 3, "o": 4, "n": 6}, 4)),
        modest={"c": 16, "i": 4, "o": 4, "n": 32},
        realistic={"c": 384, "i": 128, "o": 128, "n": 32},
        reference="Howard et al. 2017, MobileNets, arXiv:1704.04861; Sandler et al. 2018, arXiv:1801.04381",
    )
}

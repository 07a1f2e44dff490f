"""Two convolutional layers over a sequence, with ReLU between and without: channels are what units are elsewhere.

Positive factors of channels with a ReLU, any invertible matrix between channels without one. Of two linear layers
only the composed kernel is seen, and kernels compose as polynomials in the shift: where matrices of polynomials
factor in more than one way, or the composed kernel is shorter than its factors have room for, more is flat at some
sizes.
"""

from __future__ import annotations

from collections.abc import Callable

import jax

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.declare import Architecture
from quotax.trees import AnyArray


def convolution(activation: Callable[..., AnyArray], bias: bool) -> Architecture:
    """The declaration."""

    @qx.architecture(params={"K": "c 1 3", "L": "o c 3"} | ({"b": "c"} if bias else {}), inputs={"x": "n"})
    def convolution(p, x):
        z = jax.lax.conv(x[None, None], p["K"], (1,), "SAME")
        z = activation(z + (p["b"][:, None] if bias else 0))
        return jax.lax.conv(z, p["L"], (1,), "SAME")

    return convolution


REFERENCE = "LeCun et al. 1989, Backpropagation applied to handwritten zip code recognition"

ENTRIES = {
    "": CatalogueEntry(
        architecture=convolution(jax.nn.relu, True),
        families=(Fact(qx.PositiveDiagonal("c"), "K L b"),),
        discrete=(Fact(qx.Permutation("c"), "K L b"),),
        orbit="c",
        flat=(({"c": 3, "o": 2, "n": 7}, 3), ({"c": 2, "o": 3, "n": 8}, 2)),
        modest={"c": 16, "o": 4, "n": 32},
        realistic={"c": 128, "o": 128, "n": 32},
        reference=REFERENCE,
    ),
    "linear": CatalogueEntry(
        architecture=convolution(lambda z: z, False),
        families=(Fact(qx.GL("c"), "K L"),),
        discrete=(),
        orbit="c**2",
        flat=(({"c": 2, "o": 2, "n": 7}, 4), ({"c": 2, "o": 3, "n": 8}, 4)),
        modest={"c": 8, "o": 16, "n": 32},
        realistic={"c": 128, "o": 128, "n": 32},
        reference="Kohn et al. 2022, Geometry of linear convolutional networks, arXiv:2108.01538",
    ),
}

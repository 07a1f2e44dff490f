"""Maxout: units are the largest of `p` affine functions, read by a linear layer with a bias.

A unit is homogeneous, so it has a positive factor; a number added to all of its pieces comes out as that number,
which the output bias takes back. A linear function `v^T x` added to all pieces of every unit comes out too: `A V = 0`
is flat, for which more units than outputs are needed. `V` is any matrix behind the projector onto the kernel of `A`.
"""

from __future__ import annotations

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"W": "p h x", "b": "p h", "A": "y h", "c": "y"}, inputs={"x": "x"})
def maxout(p, x):
    """The largest over the first axis."""
    return p["A"] @ jnp.max(p["W"] @ x + p["b"], 0) + p["c"]


ENTRIES = {
    "": CatalogueEntry(
        architecture=maxout,
        families=(
            Fact(qx.PositiveDiagonal("h"), "W b A"),
            Fact(qx.Translation("h"), "b c"),
            Fact(qx.Translation("h", each="x"), "W"),
        ),
        discrete=(Fact(qx.Permutation("h"), "W b A"), Fact(qx.Permutation("p", each="h"), "W b")),
        orbit="2*h + Max(h - y, 0)*x",
        flat=(({"x": 3, "h": 2, "y": 3, "p": 3}, 4), ({"x": 2, "h": 4, "y": 2, "p": 3}, 12)),
        modest={"x": 32, "h": 10, "y": 10, "p": 3},
        realistic={"x": 784, "h": 64, "y": 10, "p": 5},
        reference="Goodfellow et al. 2013, Maxout networks, arXiv:1302.4389",
    )
}

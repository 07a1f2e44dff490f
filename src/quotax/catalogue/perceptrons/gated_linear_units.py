"""Gated linear units, `O (s(W x) * V x)`: the branch without activation is scaled against what reads the product.

`R*` on the linear branch; a gate that is homogeneous itself is scaled beside it, a ReLU by positive numbers, a linear
one by all.
"""

from __future__ import annotations

from collections.abc import Callable

import jax

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.declare import Architecture
from quotax.trees import AnyArray

GATES: dict[str, Callable[..., AnyArray]] = {
    "swiglu": jax.nn.silu,
    "geglu": jax.nn.gelu,
    "reglu": jax.nn.relu,
    "bilinear": lambda z: z,
}


def gated(gate: str) -> Architecture:
    """The declaration."""
    activation = GATES[gate]

    @qx.architecture(params={"W": "h x", "V": "h x", "O": "y h"}, inputs={"x": "x"})
    def glu(p, x):
        return p["O"] @ (activation(p["W"] @ x) * (p["V"] @ x))

    return glu


def entry(gate: str) -> CatalogueEntry:
    """With the scalings of its gate."""
    own = {"reglu": qx.PositiveDiagonal("h"), "bilinear": qx.Diagonal("h")}.get(gate)
    copies = 1 if own is None else 2
    return CatalogueEntry(
        architecture=gated(gate),
        families=(Fact(qx.Diagonal("h"), "V O"), *((Fact(own, "W O"),) if own else ())),
        discrete=(Fact(qx.Permutation("h"), "W V O"),),
        orbit="h" if own is None else "2*h",
        flat=(({"x": 5, "h": 2, "y": 3}, 2 * copies), ({"x": 6, "h": 3, "y": 4}, 3 * copies)),
        modest={"x": 64, "h": 32, "y": 10},
        realistic={"x": 256, "h": 512, "y": 10},
        reference="Shazeer 2020, GLU variants improve Transformer, arXiv:2002.05202",
    )


ENTRIES = {gate: entry(gate) for gate in GATES}

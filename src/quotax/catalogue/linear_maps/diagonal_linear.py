"""Diagonal linear networks: `sum_i u_i v_i x_i`, and the same in the coordinates `u^2 - v^2`.

Every coordinate sees the product `u_i v_i` alone: `R*`. In `u_i^2 - v_i^2 = (u_i + v_i)(u_i - v_i)` the same group is
`SO(1, 1)`, the hyperbolic rotations of `(u_i, v_i)`, a flow that mixes two parameters.
"""

from __future__ import annotations

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"u": "x", "v": "x"}, inputs={"x": "x"})
def products(p, x):
    """`<u v, x>`."""
    return jnp.sum(p["u"] * p["v"] * x)


@qx.architecture(params={"u": "x", "v": "x"}, inputs={"x": "x"})
def squares(p, x):
    """`<u^2 - v^2, x>`."""
    return jnp.sum((p["u"] ** 2 - p["v"] ** 2) * x)


REFERENCE = "Woodworth et al. 2020, Kernel and rich regimes in overparametrized models, arXiv:2002.09277"

ENTRIES = {
    "": CatalogueEntry(
        architecture=products,
        families=(Fact(qx.Diagonal("x"), "u v"),),
        discrete=(),
        orbit="x",
        flat=(({"x": 3}, 3), ({"x": 5}, 5)),
        modest={"x": 100},
        realistic={"x": 10000},
        reference=REFERENCE,
    ),
    "squares": CatalogueEntry(
        architecture=squares,
        families=(Fact(qx.Translation("x"), "u v"),),
        discrete=(Fact(qx.SignFlip("x"), "u"), Fact(qx.SignFlip("x"), "v")),
        orbit="x",
        flat=(({"x": 3}, 3), ({"x": 5}, 5)),
        modest={"x": 100},
        realistic={"x": 10000},
        reference=REFERENCE,
    ),
}

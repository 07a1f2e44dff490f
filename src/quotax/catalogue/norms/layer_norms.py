"""LayerNorm of what a layer writes, with eps and without, and of what another layer reads.

The mean takes away whatever a writer adds to all units alike, `W + 1 v^T` and `b + c`; without eps the norm takes the
scale. A reader sees `n` with `1^T n = 0`, so `A + q 1^T` is the same reader; and mean and norm commute with every
orthogonal `R` with `R 1 = 1`, a group of dimension `(h - 1)(h - 2) / 2`. With tanh behind the norm units are known up
to order, and up to the sign of all of them together.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.normalisation import layer_norm
from quotax.declare import Architecture
from quotax.trees import AnyArray


def written(eps: float) -> Architecture:
    """The declaration of a norm that is the output."""

    @qx.architecture(params={"W": "h x", "b": "h"}, inputs={"x": "x"})
    def written(p, x):
        return layer_norm(p["W"] @ x + p["b"], eps=eps)

    return written


@qx.architecture(params={"W": "h x", "A": "y h"}, inputs={"x": "x"})
def read(p, x):
    """A norm that another layer reads."""
    return p["A"] @ layer_norm(p["W"] @ x)


def by(deviation: Callable[..., AnyArray]) -> Architecture:
    """The declaration of a layer with the norm written out, before tanh."""

    @qx.architecture(params={"W": "h x", "b": "h", "A": "y h"}, inputs={"x": "x"})
    def normed(p, x):
        z = p["W"] @ x + p["b"]
        return p["A"] @ jnp.tanh((z - jnp.mean(z)) / deviation(z))

    return normed


ONES, BIAS = Fact(qx.Translation("x"), "W"), Fact(qx.Translation(), "b")
SCALE = Fact(qx.PositiveScalar(), "W b")
UNITS = (Fact(qx.Permutation("h"), "W b A"),)
REFERENCE = "Ba, Kiros and Hinton 2016, arXiv:1607.06450"

ENTRIES = {
    "": CatalogueEntry(
        architecture=written(0.0),
        families=(ONES, BIAS, SCALE),
        discrete=(),
        orbit="x + 2",
        flat=(({"x": 3, "h": 4}, 5), ({"x": 2, "h": 5}, 4)),
        modest={"x": 32, "h": 16},
        realistic={"x": 784, "h": 256},
        reference=REFERENCE,
    ),
    "eps": CatalogueEntry(
        architecture=written(0.1),
        families=(ONES, BIAS),
        discrete=(),
        orbit="x + 1",
        flat=(({"x": 3, "h": 4}, 4), ({"x": 2, "h": 5}, 3)),
        modest={"x": 32, "h": 16},
        realistic={"x": 784, "h": 256},
        reference=REFERENCE,
    ),
    "read": CatalogueEntry(
        architecture=read,
        families=(
            ONES,
            Fact(qx.PositiveScalar(), "W"),
            Fact(qx.Translation("y"), "A"),
            Fact(qx.OFixingOnes("h"), "W A"),
        ),
        discrete=(),
        orbit="x + 1 + y + (h - 1)*(h - 2)/2",
        flat=(({"x": 3, "h": 4, "y": 2}, 9), ({"x": 2, "h": 3, "y": 4}, 8)),
        modest={"x": 32, "h": 16, "y": 10},
        realistic={"x": 784, "h": 256, "y": 10},
        reference="Ashkboos et al. 2024, SliceGPT, arXiv:2401.15024",
    ),
    "variance": CatalogueEntry(
        architecture=by(lambda z: jnp.sqrt(jnp.var(z) + 1e-5)),
        families=(ONES, BIAS),
        discrete=UNITS,
        orbit="x + 1",
        flat=(({"x": 3, "h": 4, "y": 2}, 4), ({"x": 2, "h": 5, "y": 3}, 3)),
        modest={"x": 32, "h": 16, "y": 10},
        realistic={"x": 784, "h": 256, "y": 10},
        reference=REFERENCE,
    ),
    "deviation": CatalogueEntry(
        architecture=by(jnp.std),
        families=(ONES, BIAS, SCALE),
        discrete=UNITS,
        orbit="x + 2",
        flat=(({"x": 3, "h": 4, "y": 2}, 5), ({"x": 2, "h": 5, "y": 3}, 4)),
        modest={"x": 32, "h": 16, "y": 10},
        realistic={"x": 784, "h": 256, "y": 10},
        reference=REFERENCE,
    ),
}

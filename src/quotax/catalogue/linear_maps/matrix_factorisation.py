"""Matrix factorisation: the entry `(i, j)` of `U V^T`, with and without weight decay.

Entries see `U V^T` alone: `(U g, V g^-T)`, all of `GL(r)`. A penalty `|U|^2 + |V|^2` is kept by `g` where `U^T U` and
`V^T V` are: by the orthogonal matrices. But it is one number: on the orbits of `GL(r)` its level sets have dimension
`r^2 - 1`, and what they have beyond `r (r - 1) / 2` is flat without being the orbit of a group.
"""

from __future__ import annotations

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact

PLACE = {"i": qx.Tokens("", below="m"), "j": qx.Tokens("", below="n")}


@qx.architecture(params={"U": "m r", "V": "n r"}, inputs=PLACE)
def factorisation(p, i, j):
    """An entry."""
    return jnp.sum(p["U"][i] * p["V"][j])


@qx.architecture(params={"U": "m r", "V": "n r"}, inputs=PLACE)
def with_weight_decay(p, i, j):
    """An entry, and the penalty."""
    return jnp.sum(p["U"][i] * p["V"][j]), jnp.sum(p["U"] ** 2) + jnp.sum(p["V"] ** 2)


REFERENCE = "Koren, Bell and Volinsky 2009, Matrix factorization techniques for recommender systems"

ENTRIES = {
    "": CatalogueEntry(
        architecture=factorisation,
        families=(Fact(qx.GL("r"), "U V"),),
        discrete=(),
        orbit="r**2",
        flat=(({"m": 4, "n": 3, "r": 2}, 4), ({"m": 4, "n": 5, "r": 3}, 9)),
        modest={"m": 60, "n": 40, "r": 5},
        realistic={"m": 1000, "n": 800, "r": 20},
        reference=REFERENCE,
    ),
    "weight_decay": CatalogueEntry(
        architecture=with_weight_decay,
        families=(Fact(qx.O("r"), "U V"),),
        discrete=(),
        orbit="r*(r - 1)/2",
        flat=(({"m": 4, "n": 3, "r": 2}, 3), ({"m": 4, "n": 5, "r": 3}, 8)),
        modest={"m": 60, "n": 40, "r": 5},
        realistic={"m": 1000, "n": 800, "r": 20},
        reference=REFERENCE,
        surplus="the penalty is one number and takes one dimension from orbits of GL(r); its group is O(r)",
    ),
}

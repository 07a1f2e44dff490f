"""ALiBi: scores fall linearly with the distance, with a slope of each head that is not learned.

The distances are added to scores and touch no parameter, so `GL(k)` of queries and keys and of values and output
stay; but heads have different slopes and may not be exchanged.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.heads import causal


@qx.architecture(params={"Q": "head k d", "K": "head k d", "V": "head v d", "O": "d head v"}, inputs={"x": "t d"})
def alibi(p, x):
    """Causal."""
    q, k, v = (jnp.einsum("hkd,td->htk", p[n], x) for n in "QKV")
    heads, t, _ = q.shape
    slopes = 0.5 ** jnp.arange(1, heads + 1)
    distance = jnp.arange(t)[:, None] - jnp.arange(t)
    scores = jnp.einsum("htk,hsk->hts", q, k) - slopes[:, None, None] * distance
    return jnp.einsum("hts,hsv,dhv->td", jax.nn.softmax(causal(scores), -1), v, p["O"])


ENTRIES = {
    "": CatalogueEntry(
        architecture=alibi,
        families=(Fact(qx.GL("k", each="head"), "Q K"), Fact(qx.GL("v", each="head"), "V O")),
        discrete=(),
        orbit="head*k**2 + head*v**2",
        flat=(({"head": 2, "k": 2, "v": 2, "d": 4, "t": 5}, 16), ({"head": 2, "k": 3, "v": 2, "d": 5, "t": 6}, 26)),
        modest={"head": 4, "k": 8, "v": 8, "d": 32},
        realistic={"head": 8, "k": 32, "v": 32, "d": 256},
        reference="Press, Smith and Lewis 2022, Train short, test long, arXiv:2108.12409",
    )
}

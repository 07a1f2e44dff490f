"""An LSTM with one array for each gate: units are ordered, and flipped.

A unit's cell and state change sign together, `tanh` of both being odd: its candidate changes sign, and whatever reads
the state. Sigmoids do not, so there is no flip without the recurrent matrices of all four gates; and nothing is
scaled. With the gates in one array `W`, a gate is a part of it, `W.3`.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.declare import Architecture
from quotax.trees import AnyArray


def lstm(
    gate: Callable[..., AnyArray] = jax.nn.sigmoid, cell: Callable[..., AnyArray] = jnp.tanh, out_bias: bool = False
) -> Architecture:
    """The declaration, also for cells that are not odd."""
    params = {f"{kind}{n}": axes for n in "ifog" for kind, axes in (("W", "h x"), ("U", "h h"), ("b", "h"))}

    @qx.architecture(params=params | {"C": "y h"} | ({"c": "y"} if out_bias else {}), inputs={"x": "t x"})
    def lstm(p, x):
        def step(state, now):
            h, c = state
            i, f, o = (gate(p["W" + n] @ now + p["U" + n] @ h + p["b" + n]) for n in "ifo")
            c = f * c + i * cell(p["Wg"] @ now + p["Ug"] @ h + p["bg"])
            h = o * cell(c)
            return (h, c), p["C"] @ h + (p["c"] if out_bias else 0)

        zero = jnp.zeros(p["bi"].shape)
        return jax.lax.scan(step, (zero, zero), x)[1]

    return lstm


@qx.architecture(params={"W": "4*h x", "U": "4*h h", "b": "4*h", "C": "y h"}, inputs={"x": "t x"})
def fused_lstm(p, x):
    """The gates in one array."""

    def step(state, now):
        h, c = state
        i, f, o, g = jnp.split(p["W"] @ now + p["U"] @ h + p["b"], 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), p["C"] @ h

    zero = jnp.zeros(p["U"].shape[1])
    return jax.lax.scan(step, (zero, zero), x)[1]


ARRAYS = " ".join(f"{kind}{n}" for n in "ifog" for kind in "WUb")
FLIPPED = Fact(qx.SignFlip("h"), "Ui Uf Uo Ug Wg bg C")
FLAT = (({"h": 2, "x": 3, "y": 4, "t": 5}, 0), ({"h": 3, "x": 2, "y": 5, "t": 4}, 0))
REFERENCE = "Hochreiter and Schmidhuber 1997, Long short-term memory"

ENTRIES = {
    "": CatalogueEntry(
        architecture=lstm(),
        families=(),
        discrete=(Fact(qx.Permutation("h"), f"{ARRAYS} C"), FLIPPED),
        orbit="0",
        flat=FLAT,
        modest={"x": 8, "h": 16, "y": 4},
        realistic={"x": 64, "h": 128, "y": 10},
        reference=REFERENCE,
    ),
    "out_bias": CatalogueEntry(
        architecture=lstm(out_bias=True),
        families=(),
        discrete=(Fact(qx.Permutation("h"), f"{ARRAYS} C"), FLIPPED),
        orbit="0",
        flat=FLAT,
        modest={"x": 8, "h": 16, "y": 4},
        realistic={"x": 64, "h": 128, "y": 10},
        reference=REFERENCE,
    ),
    "fused": CatalogueEntry(
        architecture=fused_lstm,
        families=(),
        discrete=(
            Fact(qx.Permutation("h"), " ".join(f"{n}.{i}" for n in "WUb" for i in range(4)) + " C"),
            Fact(qx.SignFlip("h"), "W.3 U.0 U.1 U.2 U.3 b.3 C"),
        ),
        orbit="0",
        flat=FLAT,
        modest={"x": 8, "h": 16, "y": 4},
        realistic={"x": 64, "h": 128, "y": 10},
        reference=REFERENCE,
    ),
}

"""A selective state space, as Mamba has it: step, input and output matrices are read off the input.

The state is linear in what is written to it: every state index has a factor between `B` and `C`, every channel one
between its input and its reader; what all states hold may be handed to the reader, if the skip `D` follows. Steps are
softplus, and decays are exponentials of them, which leaves no factor between the two.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(
    params={
        "U": "c x", "S": "c x", "s": "c", "a": "c n", "B": "n x", "C": "n x", "D": "c", "O": "y c",
    },
    inputs={"x": "t x"},
)  # fmt: skip
def selective(p, x):
    """A scan over the sequence."""

    def step(state, now):
        u, size = p["U"] @ now, jax.nn.softplus(p["S"] @ now + p["s"])
        kept = jnp.exp(-size[:, None] * jnp.exp(p["a"]))
        state = kept * state + (size * u)[:, None] * (p["B"] @ now)
        return state, p["O"] @ (state @ (p["C"] @ now) + p["D"] * u)

    return jax.lax.scan(step, jnp.zeros(p["a"].shape), x)[1]


ENTRIES = {
    "": CatalogueEntry(
        architecture=selective,
        families=(
            Fact(qx.Diagonal("n"), "B C"),
            Fact(qx.Diagonal("c"), "U O"),
            Fact(qx.PositiveScalar(), "B D O"),
        ),
        discrete=(Fact(qx.Permutation("c"), "U S s a D O"), Fact(qx.Permutation("n"), "a B C")),
        orbit="n + c + 1",
        flat=(
            ({"c": 3, "n": 2, "x": 3, "y": 2, "t": 5}, 6),
            ({"c": 2, "n": 3, "x": 4, "y": 3, "t": 5}, 6),
        ),
        modest={"c": 8, "n": 4, "x": 8, "y": 4},
        realistic={"c": 256, "n": 16, "x": 128, "y": 128},
        reference="Gu and Dao 2023, Mamba, arXiv:2312.00752",
    )
}

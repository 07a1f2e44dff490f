"""Linear state spaces, `h' = A h + B x`, read by `C h`: with a full matrix and with a diagonal one.

Outputs see the Markov parameters `C A^k B` alone. Where the system is minimal, any two systems with the same ones
differ by a change of basis of the state (Kalman): `GL(h)`, of which a diagonal `A` with distinct entries leaves the
diagonal matrices.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"U": "h x", "R": "h h", "C": "y h"}, inputs={"x": "t x"})
def linear_state_space(p, x):
    """A full matrix `R`, and `U` for `B`."""

    def step(state, now):
        state = p["R"] @ state + p["U"] @ now
        return state, p["C"] @ state

    return jax.lax.scan(step, jnp.zeros(p["R"].shape[0]), x)[1]


@qx.architecture(params={"a": "h", "B": "h x", "C": "y h"}, inputs={"x": "t x"})
def diagonal_state_space(p, x):
    """A diagonal one."""

    def step(state, now):
        state = p["a"] * state + p["B"] @ now
        return state, p["C"] @ state

    return jax.lax.scan(step, jnp.zeros(p["a"].shape[0]), x)[1]


ENTRIES = {
    "linear": CatalogueEntry(
        architecture=linear_state_space,
        families=(Fact(qx.GL("h"), "U R C"),),
        discrete=(),
        orbit="h**2",
        flat=(({"x": 2, "h": 3, "y": 2, "t": 8}, 9), ({"x": 3, "h": 2, "y": 1, "t": 7}, 4)),
        modest={"x": 8, "h": 16, "y": 4},
        # GL(256): a random element has condition 1e5, from which no float32 representative is balanced in two minutes
        realistic={"x": 64, "h": 128, "y": 64},
        reference="Kalman 1963, Mathematical description of linear dynamical systems",
    ),
    "diagonal": CatalogueEntry(
        architecture=diagonal_state_space,
        families=(Fact(qx.Diagonal("h"), "B C"),),
        discrete=(Fact(qx.Permutation("h"), "a B C"),),
        orbit="h",
        flat=(({"x": 2, "h": 3, "y": 2, "t": 8}, 3), ({"x": 3, "h": 2, "y": 1, "t": 7}, 2)),
        modest={"x": 8, "h": 16, "y": 4},
        realistic={"x": 64, "h": 256, "y": 64},
        reference="Gupta, Gu and Berant 2022, Diagonal state spaces, arXiv:2203.14343",
    ),
}

"""A plain recurrent network, `h' = s(R h + U x)`: units are scaled and ordered on both sides of the recurrent matrix.

ReLU leaves a positive factor for every unit, tanh an order and a sign.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.declare import Architecture
from quotax.trees import AnyArray


def recurrent(activation: Callable[..., AnyArray]) -> Architecture:
    """The declaration; the state is read at every step."""

    @qx.architecture(params={"U": "h x", "R": "h h", "C": "y h"}, inputs={"x": "t x"})
    def recurrent(p, x):
        def step(state, now):
            state = activation(p["R"] @ state + p["U"] @ now)
            return state, p["C"] @ state

        return jax.lax.scan(step, jnp.zeros(p["R"].shape[0]), x)[1]

    return recurrent


SIZES = {"x": 3, "h": 3, "y": 2, "t": 5}, {"x": 2, "h": 4, "y": 3, "t": 6}
MODEST = {"x": 8, "h": 32, "y": 4}
REALISTIC = {"x": 64, "h": 256, "y": 10}
UNITS = Fact(qx.Permutation("h"), "U R C")

ENTRIES = {
    "relu": CatalogueEntry(
        architecture=recurrent(jax.nn.relu),
        families=(Fact(qx.PositiveDiagonal("h"), "U R C"),),
        discrete=(UNITS,),
        orbit="h",
        flat=tuple((sizes, sizes["h"]) for sizes in SIZES),
        modest=MODEST,
        realistic=REALISTIC,
        reference="Neyshabur et al. 2016, Path-normalized optimization of recurrent neural networks, arXiv:1605.07154",
    ),
    "tanh": CatalogueEntry(
        architecture=recurrent(jnp.tanh),
        families=(),
        discrete=(UNITS, Fact(qx.SignFlip("h"), "U R C")),
        orbit="0",
        flat=tuple((sizes, 0) for sizes in SIZES),
        modest=MODEST,
        realistic=REALISTIC,
        reference="Albertini and Sontag 1993, For neural networks, function determines form",
    ),
}

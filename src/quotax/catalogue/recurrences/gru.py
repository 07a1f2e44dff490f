"""A GRU with one array for each gate: units are ordered, and flipped where the candidate is odd."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.declare import Architecture
from quotax.trees import AnyArray


def gru(candidate: Callable[..., AnyArray] = jnp.tanh) -> Architecture:
    """The declaration, also for candidates that are not odd."""
    params = {f"{kind}{n}": axes for n in "zrn" for kind, axes in (("W", "h x"), ("U", "h h"), ("b", "h"))}

    @qx.architecture(params=params | {"C": "y h", "c": "y"}, inputs={"x": "t x"})
    def gru(p, x):
        def step(h, now):
            z, r = (jax.nn.sigmoid(p["W" + n] @ now + p["U" + n] @ h + p["b" + n]) for n in "zr")
            new = candidate(p["Wn"] @ now + p["Un"] @ (r * h) + p["bn"])
            h = (1 - z) * new + z * h
            return h, p["C"] @ h + p["c"]

        return jax.lax.scan(step, jnp.zeros(p["bz"].shape), x)[1]

    return gru


ENTRIES = {
    "": CatalogueEntry(
        architecture=gru(),
        families=(),
        discrete=(
            Fact(qx.Permutation("h"), "Wz Uz bz Wr Ur br Wn Un bn C"),
            Fact(qx.SignFlip("h"), "Uz Ur Un Wn bn C"),
        ),
        orbit="0",
        flat=(({"h": 2, "x": 3, "y": 4, "t": 5}, 0), ({"h": 3, "x": 2, "y": 5, "t": 4}, 0)),
        modest={"x": 8, "h": 16, "y": 4},
        realistic={"x": 64, "h": 128, "y": 10},
        reference="Cho et al. 2014, arXiv:1406.1078",
    )
}

"""Rotary positions, in both conventions: pairs `2 i, 2 i + 1`, and pairs `i, i + k/2`.

A position turns every pair of coordinates by its own angle. What commutes with turns of distinct frequencies is complex
multiplication of pairs, so `GL(k)` of queries and keys shrinks to `C*^(k/2)`, of dimension `k`; values are not turned.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.heads import attend, rotate_adjacent, rotate_halves
from quotax.declare import Architecture
from quotax.trees import AnyArray


def rotary(turn: Callable[..., AnyArray]) -> Architecture:
    """The declaration of one head."""

    @qx.architecture(params={"Q": "k d", "K": "k d", "V": "v d", "O": "d v"}, inputs={"x": "t d"})
    def rotary(p, x):
        q, k, v = (x @ p[n].T for n in "QKV")
        return attend(turn(q), turn(k), v) @ p["O"].T

    return rotary


@qx.architecture(params={"Q": "head k d", "K": "head k d", "V": "head v d", "O": "d head v"}, inputs={"x": "t d"})
def rotary_heads(p, x):
    """Several heads, halves."""
    q, k, v = (jnp.einsum("hkd,td->htk", p[n], x) for n in "QKV")
    return jnp.einsum("htv,dhv->td", attend(rotate_halves(q), rotate_halves(k), v), p["O"])


ASSIGNED = (({"d": 6, "k": 4, "v": 2, "t": 5}, 8), ({"d": 5, "k": 2, "v": 3, "t": 6}, 11))
MODEST = {"d": 32, "k": 8, "v": 8}
REALISTIC = {"d": 256, "k": 64, "v": 64}
VALUES = Fact(qx.GL("v"), "V O")
REFERENCE = "Su et al. 2021, RoFormer, arXiv:2104.09864"
LLAMA = "Touvron et al. 2023, LLaMA, arXiv:2302.13971"

ENTRIES = {
    "adjacent": CatalogueEntry(
        architecture=rotary(rotate_adjacent),
        families=(Fact(qx.ComplexScaling("k", pairs="adjacent"), "Q K"), VALUES),
        discrete=(),
        orbit="k + v**2",
        flat=ASSIGNED,
        modest=MODEST,
        realistic=REALISTIC,
        reference=REFERENCE,
    ),
    "halves": CatalogueEntry(
        architecture=rotary(rotate_halves),
        families=(Fact(qx.ComplexScaling("k", pairs="halves"), "Q K"), VALUES),
        discrete=(),
        orbit="k + v**2",
        flat=ASSIGNED,
        modest=MODEST,
        realistic=REALISTIC,
        reference=LLAMA,
    ),
    "heads": CatalogueEntry(
        architecture=rotary_heads,
        families=(
            Fact(qx.ComplexScaling("k", each="head", pairs="halves"), "Q K"),
            Fact(qx.GL("v", each="head"), "V O"),
        ),
        discrete=(Fact(qx.Permutation("head"), "Q K V O"),),
        orbit="head*k + head*v**2",
        flat=(({"head": 2, "k": 4, "v": 2, "d": 4, "t": 5}, 16), ({"head": 3, "k": 2, "v": 2, "d": 5, "t": 4}, 18)),
        modest={"head": 4, "k": 8, "v": 8, "d": 32},
        realistic={"head": 8, "k": 32, "v": 32, "d": 256},
        reference=LLAMA,
    ),
}

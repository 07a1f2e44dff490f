"""A residual stream that is written by a layer and an MLP and read through norms, with gains, shifts and a head.

With LayerNorms: everything that writes may add a multiple of the ones (`x + 1` numbers of the first layer, `f + 1` of
the MLP); a gain of either norm is scaled against its reader with the norm's shift (`d` each); the shift of a norm is
taken over by its reader's bias (`d` each); rotations that fix the ones (`(d - 1)(d - 2) / 2`); and a reader may add a
multiple of `1/g` to each of its rows (`f` and `y` numbers), which the norm's mean hides. With RMSNorms and no biases:
gains and rotations alone.
"""

from __future__ import annotations

import jax

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.catalogue.pieces.normalisation import layer_norm, rms_norm


@qx.architecture(
    params={
        "R": "d x", "r": "d", "g1": "d", "b1": "d", "U": "f d", "u": "f", "D": "d f", "e": "d",
        "g2": "d", "b2": "d", "H": "y d", "c": "y",
    },
    inputs={"x": "t x"},
)  # fmt: skip
def stream(p, x):
    """LayerNorms with their eps, a GELU between them, every bias."""
    z = x @ p["R"].T + p["r"]
    z = z + jax.nn.gelu(layer_norm(z, p["g1"], p["b1"], 1e-5) @ p["U"].T + p["u"]) @ p["D"].T + p["e"]
    return layer_norm(z, p["g2"], p["b2"], 1e-5) @ p["H"].T + p["c"]


GAINS = {f"g{k}": "d" for k in (1, 2, 3)}
MLPS = {"U1": "f d", "D1": "d f", "U2": "f d", "D2": "d f"}


@qx.architecture(params={"R": "d x", "H": "y d"} | GAINS | MLPS, inputs={"x": "t x"})
def rms_stream(p, x):
    """Two MLPs, each behind an RMSNorm with gains."""
    z = x @ p["R"].T
    for k in "12":
        z = z + jax.nn.gelu(rms_norm(z, p["g" + k], 1e-5) @ p["U" + k].T) @ p["D" + k].T
    return rms_norm(z, p["g3"], 1e-5) @ p["H"].T


NULL = Fact(qx.Translation("f"), "U u"), Fact(qx.Translation("y"), "H c")
WRITTEN = (
    Fact(qx.Translation("x"), "R"),
    Fact(qx.Translation("f"), "D"),
    Fact(qx.Translation(), "r"),
    Fact(qx.Translation(), "e"),
)
REFERENCE = "Xiong et al. 2020, On layer normalization in the Transformer architecture, arXiv:2002.04745"

ENTRIES = {
    "": CatalogueEntry(
        architecture=stream,
        families=(
            *WRITTEN,
            Fact(qx.Diagonal("d"), "g1 b1 U"),
            Fact(qx.Diagonal("d"), "g2 b2 H"),
            Fact(qx.Translation("d"), "b1 u"),
            Fact(qx.Translation("d"), "b2 c"),
            Fact(qx.OFixingOnes("d"), "R r U D e H b1 b2"),
            *NULL,
        ),
        discrete=(Fact(qx.Permutation("f"), "U u D"), Fact(qx.Permutation("d"), "R r g1 b1 U D e g2 b2 H")),
        orbit="x + f + 2 + 4*d + (d - 1)*(d - 2)/2 + f + y",
        flat=(({"t": 3, "x": 5, "d": 4, "f": 3, "y": 6}, 38), ({"t": 4, "x": 5, "d": 3, "f": 4, "y": 6}, 34)),
        modest={"x": 32, "d": 16, "f": 32, "y": 10},
        realistic={"x": 784, "d": 256, "f": 512, "y": 10},
        reference=REFERENCE,
    ),
    "rms": CatalogueEntry(
        architecture=rms_stream,
        families=(
            Fact(qx.Diagonal("d"), "g1 U1"),
            Fact(qx.Diagonal("d"), "g2 U2"),
            Fact(qx.Diagonal("d"), "g3 H"),
            Fact(qx.O("d"), "R U1 D1 U2 D2 H"),
        ),
        discrete=(
            Fact(qx.Permutation("f"), "U1 D1"),
            Fact(qx.Permutation("f"), "U2 D2"),
            Fact(qx.Permutation("d"), "R g1 U1 D1 g2 U2 D2 g3 H"),
        ),
        orbit="3*d + d*(d - 1)/2",
        flat=(
            ({"x": 5, "d": 4, "f": 3, "y": 6, "t": 7}, 18),
            ({"x": 4, "d": 3, "f": 5, "y": 6, "t": 8}, 12),
        ),
        modest={"x": 32, "d": 16, "f": 32, "y": 10},
        realistic={"x": 784, "d": 256, "f": 512, "y": 10},
        reference=REFERENCE,
    ),
}

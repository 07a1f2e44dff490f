"""Two layers with an activation between them, with and without biases.

`a s(z) = s(c z)` needs a power: of ReLU, leaky ReLU and the absolute value the first, of the squared ReLU the second,
each for positive `c`; an exponential turns shifts into factors, `exp(z + t) = e^t exp(z)`. Every other activation
here is no piecewise power about a point, no exponential and no logarithm, and has no continuous symmetry: units are
known up to order, up to sign where the activation is odd (or even), and of sigmoid, `s(-z) = 1 - s(z)`, up to sign
with an output bias.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.declare import Architecture
from quotax.trees import AnyArray

ACTIVATIONS: dict[str, Callable[..., AnyArray]] = {
    "relu": jax.nn.relu,
    "leaky_relu": jax.nn.leaky_relu,
    "abs": jnp.abs,
    "relu_squared": lambda z: jax.nn.relu(z) ** 2,
    "exp": jnp.exp,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "gelu": jax.nn.gelu,
    "exact_gelu": lambda z: jax.nn.gelu(z, approximate=False),
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "sin": jnp.sin,
    "erf": jax.scipy.special.erf,
    "elu": jax.nn.elu,
    "mish": jax.nn.mish,
}
REFERENCE = {
    "relu": "Neyshabur, Salakhutdinov and Srebro 2015, Path-SGD, arXiv:1506.02617",
    "tanh": "Sussmann 1992, Uniqueness of the weights for minimal feedforward nets with a given input-output map",
    "sigmoid": "Kurkova and Kainen 1994, Functionally equivalent feedforward neural networks",
    "relu_squared": "So et al. 2021, Primer, arXiv:2109.08668",
}
ELSE = "Albertini, Sontag and Maillot 1993, Uniqueness of weights for neural networks"


def mlp(activation: str, biases: bool) -> Architecture:
    """The declaration."""
    between = ACTIVATIONS[activation]
    params = {"W1": "h x", "W2": "y h"} | ({"b1": "h", "b2": "y"} if biases else {})

    @qx.architecture(params=params, inputs={"x": "x"})
    def mlp(p, x):
        if not biases:
            return p["W2"] @ between(p["W1"] @ x)
        return p["W2"] @ between(p["W1"] @ x + p["b1"]) + p["b2"]

    return mlp


def entry(activation: str, biases: bool) -> CatalogueEntry:
    """With what is known of the activation."""
    first = "W1 b1" if biases else "W1"
    units = Fact(qx.Permutation("h"), f"{first} W2")
    families, flips = [], []
    if activation in ("relu", "leaky_relu", "abs", "relu_squared"):
        families = [Fact(qx.PositiveDiagonal("h"), f"{first} W2")]
    if activation == "exp" and biases:
        families = [Fact(qx.Translation("h"), "b1 W2")]
    if activation == "abs":
        flips = [Fact(qx.SignFlip("h"), first)]
    if activation in ("tanh", "sin", "erf"):
        flips = [Fact(qx.SignFlip("h"), f"{first} W2")]
    if activation == "sigmoid" and biases:
        flips = [Fact(qx.SignFlip("h"), f"{first} W2 b2")]
    assigned = {"x": 3, "h": 4, "y": 2}, {"x": 2, "h": 3, "y": 4}
    return CatalogueEntry(
        architecture=mlp(activation, biases),
        families=tuple(families),
        discrete=(units, *flips),
        orbit="h" if families else "0",
        flat=tuple((sizes, sizes["h"] if families else 0) for sizes in assigned),
        modest={"x": 64, "h": 32, "y": 10},
        realistic={"x": 784, "h": 256, "y": 10},
        reference=REFERENCE.get(activation, ELSE),
    )


ENTRIES = {
    f"{activation}{'' if biases else '_without_biases'}": entry(activation, biases)
    for activation in ACTIVATIONS
    for biases in (True, False)
}

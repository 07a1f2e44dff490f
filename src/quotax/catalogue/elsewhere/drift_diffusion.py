"""A drift-diffusion readout: evidence drifts to one of two thresholds, and choice and mean time of it are seen.

With drift `v = w^T x + b`, thresholds `-a` and `a` and noise `s`, a choice has the odds `exp(2 a v / s^2)`, and takes
the mean time `a / v tanh(a v / s^2) + t0`. Evidence has no unit: drift, thresholds and noise share a factor.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry, Fact


@qx.architecture(params={"w": "x", "b": "", "a": "", "s": "", "t0": ""}, inputs={"x": "x"})
def drift_diffusion(p, x):
    """The probability of a choice, and the mean time."""
    v = p["w"] @ x + p["b"]
    reach = p["a"] * v / p["s"] ** 2
    return jax.nn.sigmoid(2 * reach), p["a"] / v * jnp.tanh(reach) + p["t0"]


ENTRIES = {
    "": CatalogueEntry(
        architecture=drift_diffusion,
        families=(Fact(qx.PositiveScalar(), "w b a s"),),
        discrete=(),
        orbit="1",
        flat=(({"x": 2}, 1), ({"x": 4}, 1)),
        modest={"x": 100},
        realistic={"x": 1000},
        reference="Ratcliff 1978; Bogacz et al. 2006, The physics of optimal decision making",
    )
}

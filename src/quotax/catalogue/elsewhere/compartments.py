"""Two compartments with elimination from both, dosed and observed in the first: Euler steps through `lax.scan`.

The transfer function has `k10 + k12`, `k20 + k21`, `k12 k21` and the volume: four numbers of five parameters. What
flows to the second compartment and what flows back are scaled against one another, and elimination makes up for both:
`k12 -> g k12`, `k21 -> k21 / g`,
`k10 -> k10 + (1 - g) k12`, `k20 -> k20 + (1 - 1/g) k21`. A field of two parameters that are mixed has no
name in `derive`; `qx.verify` proves the action as it stands.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.entry import CatalogueEntry


@qx.architecture(params=dict.fromkeys(("k10", "k20", "k12", "k21", "V"), ""), inputs={"dose": "t"})
def compartments(p, dose):
    """Concentrations in the first compartment."""

    def step(amounts, now):
        first, second = amounts
        there, back = p["k12"] * first, p["k21"] * second
        first = first + 0.1 * (now - p["k10"] * first - there + back)
        second = second + 0.1 * (there - back - p["k20"] * second)
        return (first, second), first / p["V"]

    nothing = jnp.zeros(())
    return jax.lax.scan(step, (nothing, nothing), dose)[1]


ENTRIES = {
    "": CatalogueEntry(
        architecture=compartments,
        families=(),
        discrete=(),
        orbit="1",
        flat=(({"t": 4}, 1), ({"t": 5}, 1)),
        modest={"t": 30},
        realistic={"t": 30},
        fields="k12 d/dk12 - k21 d/dk21 - k12 d/dk10 + k21 d/dk20",
        reference="Bellman and Astrom 1970, On structural identifiability",
    )
}

r"""Gains absorbed into what reads them: coordinates in which other symmetries do not depend on a gain.

Behind a norm with gain `s` a rotation `R` of the stream moves the reader `U` to `U S R^T S^-1`, which is no isometry of
anything simple. With $U' = U S$ and $\log |s|$ as coordinates the gain's own scaling is a shift of $\log |s|$ alone,
and every other family acts on $U'$ and the other parameters as it would if there were no gain.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.symmetry import Gain, gain_of, reads, without


@dataclass(frozen=True)
class Absorption:
    """The scalings with their gains, and the other families on what is left."""

    scalings: tuple[tuple[Family, Gain], ...]
    families: tuple[Family, ...]

    @property
    def gains(self) -> tuple[str, ...]:
        """The parameters that are absorbed."""
        return tuple(gain.name for _, gain in self.scalings)

    @functools.partial(jax.jit, static_argnums=0)
    def apart(self, arrays: Named) -> tuple[Named, Named]:
        """The other parameters with the gains absorbed, and the logarithms of the gains' sizes."""
        logs = {name: jnp.log(jnp.abs(arrays[name])) for name in self.gains}
        for family, gain in self.scalings:
            arrays = family.act(arrays, arrays[gain.name] ** -gain.power)
        return {name: array for name, array in arrays.items() if name not in logs}, logs

    def together(self, gains: Named, rest: Named) -> Named:
        """The parameters with these gains."""
        arrays = rest | {name: jnp.ones_like(array) for name, array in gains.items()}
        for family, gain in self.scalings:
            arrays = family.act(arrays, gains[gain.name] ** gain.power)
        return arrays

    def held(self, arrays: Named) -> Named:
        """The gains themselves."""
        return {name: arrays[name] for name in self.gains}


def absorption(families: Sequence[Family], unsettled: Mapping[str, str]) -> Absorption | None:
    """How to absorb the gains that unsettled families depend on; nothing where there are none, or it does not help."""
    wanted = {name for family in families if family.name in unsettled for name in reads(family.action)}
    scalings: list[tuple[Family, Gain]] = []
    for family in families:
        found = next((g for name in sorted(wanted) if (g := gain_of(family.action, name)) is not None), None)
        if found is not None and found.name not in {g.name for _, g in scalings}:
            scalings.append((family, found))
    if not scalings:
        return None
    absorbing = {family.name for family, _ in scalings}
    gains = [found for _, found in scalings]
    if any(found.name in other.weights for found in gains for other in gains):
        return None
    rest, absorbed = [], {found.name for found in gains}
    for family in families:
        if family.name not in absorbing:
            action = without(family.action, gains)
            if action is None:
                return None
            if action.entries:
                specs = tuple(spec for spec in family.specs if spec.name not in absorbed)
                rest.append(Family.of(action, specs, family.sizes, family.programs))
    return Absorption(tuple(scalings), tuple(rest))

r"""Gains absorbed into what reads them: the invariant metric where other symmetries depend on a gain.

Behind a norm with gain `s` a rotation `R` of the stream moves the reader `U` to `U S R^T S^-1`, which is no isometry of
anything simple. With $U' = U S$ and $\log |s|$ as coordinates the gain's own scaling is a shift of $\log |s|$ alone,
and every other family acts on $U'$ and the other parameters as it would if there were no gain. The metric is the sum of
that of a moving frame on those and of the squares of $d \log |s|$; the directions of the gain are vertical.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from quotax.artifacts import ArraySpec
from quotax.geometry.canonical.gauge import gauge
from quotax.geometry.families.component import Family, components
from quotax.geometry.footing import Leading
from quotax.geometry.linalg.named import Named
from quotax.geometry.metrics.metric import Metric, MovingFrame, Oriented
from quotax.geometry.paths.path import Path, moved
from quotax.symmetry import Gain, gain_of, reads, without


@dataclass(frozen=True, eq=False)
class Absorption:
    """The scalings with their gains, and the other families on what is left; compared by identity."""

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
    rest = []
    for family in families:
        if family.name not in absorbing:
            action = without(family.action, gains)
            if action is None:
                return None
            if action.entries:
                rest.append(_on(family, action, {found.name for found in gains}))
    return Absorption(tuple(scalings), tuple(rest))


def _on(family: Any, action: Any, gains: set[str]) -> Family:
    specs: tuple[ArraySpec, ...] = tuple(spec for spec in family.specs if spec.name not in gains)
    return replace(family, action=action, specs=specs)


class Absorbed(Metric):
    """A moving frame in the coordinates that absorb the gains, and the squares of the gains' relative changes."""

    def __init__(self, families: Sequence[Family], absorbed: Absorption, *, pullback: bool) -> None:
        """Keep what is static."""
        others = absorbed.families
        self.absorbed = absorbed
        self.frame = MovingFrame(others, gauge(others, unique=True), pullback=pullback)
        self.name = self.frame.name
        self.families = tuple(families)
        self.parts = components(families)

    def prepare(self, arrays: Named) -> Any:
        """The frame of the other parameters."""
        return self.frame.prepare(self.absorbed.apart(arrays)[0])

    def whiten(self, data: Any, arrays: Named, v: Named) -> Named:
        """In the coordinates: by the frame, and the gains' relative changes as they are."""
        (rest, _), (along, logs) = jax.jvp(self.absorbed.apart, (arrays,), (v,))
        return self.frame.whiten(data, rest, along) | logs

    def unwhiten(self, data: Any, arrays: Named, e: Named) -> Named:
        """The inverse of `whiten`."""
        rest, _ = self.absorbed.apart(arrays)
        gains = self.absorbed.held(arrays)
        along = self.frame.unwhiten(data, rest, {name: e[name] for name in rest})
        return self._back(gains, rest, {name: gains[name] * e[name] for name in gains}, along)

    def vertical(self, data: Any, arrays: Named, v: Named) -> Named:
        """All of the gains' directions, and the orbits of the other families."""
        (rest, _), (along, _) = jax.jvp(self.absorbed.apart, (arrays,), (v,))
        gains = self.absorbed.held(arrays)
        change = self.absorbed.held(v)
        return self._back(gains, rest, change, self.frame.vertical(data, rest, along))

    def level(self, data: Any, arrays: Named, e: Named) -> Named:
        """That of the other parameters; the gains stay."""
        rest, gains = self.absorbed.apart(arrays)[0], self.absorbed.held(arrays)
        still = {name: jnp.zeros_like(e[name]) for name in gains}
        return self.frame.level(data, rest, {name: e[name] for name in rest}) | still

    def path(self, data: Any, arrays: Named, v: Named, *, forward: bool = False) -> Path:
        """Of a horizontal vector: that of the other parameters, at constant gains."""
        (rest, _), (along, _) = jax.jvp(self.absorbed.apart, (arrays,), (v,))
        inner = self.frame.path(data, rest, along, forward=forward)
        return moved(inner, self.absorbed.together, self.absorbed.held(arrays))

    def ray(self, data: Any, arrays: Named, e: Named) -> Path:
        """As `path`."""
        rest, _ = self.absorbed.apart(arrays)
        inner = self.frame.ray(data, rest, {name: e[name] for name in rest})
        return moved(inner, self.absorbed.together, self.absorbed.held(arrays))

    def reach(self, data: Any, arrays: Named) -> jax.Array:
        """That of the other parameters."""
        return self.frame.reach(data, self.absorbed.apart(arrays)[0])

    def curvature(self, data: Any, arrays: Named, x: Named, y: Named, z: Named) -> Named:
        """That of the other parameters."""
        rest, vectors = self._apart(arrays, x, y, z)
        found = self.frame.curvature(data, rest, *vectors)
        gains = self.absorbed.held(arrays)
        still = {name: jnp.zeros_like(array) for name, array in gains.items()}
        return self._back(gains, rest, still, found)

    def sectional(self, data: Any, arrays: Named, x: Named, y: Named) -> jax.Array:
        """That of the other parameters."""
        rest, vectors = self._apart(arrays, x, y)
        return self.frame.sectional(data, rest, *vectors)

    def oriented(self, data: Any) -> Oriented | None:
        """That of the other parameters."""
        return self.frame.oriented(data)

    def verticality(self, data: Any, arrays: Named, v: Named) -> jax.Array:
        """That of the other parameters."""
        return self.frame.verticality(data, arrays, {name: v[name] for name in v if name not in self.absorbed.gains})

    def leading(self, data: Any) -> Leading:
        """That of the other parameters; the gains become signs."""
        return Leading(self.frame.gauge, data.canonical, self.absorbed)

    def _apart(self, arrays: Named, *vectors: Named) -> tuple[Named, list[Named]]:
        rest, push = jax.linearize(lambda a: self.absorbed.apart(a)[0], arrays)
        return rest, [push(v) for v in vectors]

    def _back(self, gains: Named, rest: Named, change: Named, along: Named) -> Named:
        """A vector in the coordinates, `change` in the gains themselves, as one at the parameters."""
        return jax.jvp(self.absorbed.together, (gains, rest), (change, along))[1]

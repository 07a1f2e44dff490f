r"""The invariant metric where other symmetries depend on a gain: in the coordinates that absorb it (`absorption`).

It is the sum of the metric of a moving frame on the other parameters and of the squares of $d \log |s|$; the directions
of the gain are vertical.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from quotax.geometry.canonical.absorption import Absorption, absorption
from quotax.geometry.canonical.gauge import gauge
from quotax.geometry.canonical.leading import Leading
from quotax.geometry.families.component import components
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.geometry.metrics.metric import Metric, Oriented
from quotax.geometry.metrics.moving_frame import CanonicalFrame, MovingFrame
from quotax.geometry.paths.path import Path, moved


class Absorbed(Metric[CanonicalFrame]):
    """A moving frame in the coordinates that absorb the gains, and the squares of the gains' relative changes."""

    absorbed: Absorption

    def __init__(self, families: Sequence[Family], absorbed: Absorption, *, pullback: bool) -> None:
        """Keep what is static."""
        others = absorbed.families
        self.absorbed = absorbed
        self.frame = MovingFrame(others, gauge(others, unique=True), pullback=pullback)
        self.name = self.frame.name
        self.families = tuple(families)
        self.parts = components(families)

    @property
    def core(self) -> MovingFrame:
        """The frame of the other parameters."""
        return self.frame

    def suspects(self, families: Sequence[Family]) -> list[str]:
        """Those of the frame."""
        return self.frame.suspects(self.frame.families)

    @property
    def absorbing(self) -> tuple[str, ...]:
        """The steps for the gains, and what the others are in the coordinates that absorb them."""
        steps = [
            "lemma (gains): with a gain s -> g s absorbed into what its scaling moves besides, and log |s| beside it, "
            "as coordinates, the scaling adds to log |s| alone; the others act on the rest as below: s cancels there"
        ]
        for family, gain in self.absorbed.scalings:
            steps.append(f"{family.name}: {gain.name} is absorbed into {', '.join(gain.weights) or 'nothing'}")
        for family in self.absorbed.families:
            entries = family.action.entries
            texts = ", ".join(f"{e.name}[{','.join(map(str, e.indices))}] -> {e.expression}" for e in entries)
            if any(gain.weights.keys() & set(family.moved) for _, gain in self.absorbed.scalings):
                steps.append(f"{family.name}: there {texts}")
        return tuple(steps)

    def prepare(self, arrays: Named) -> CanonicalFrame:
        """The frame of the other parameters."""
        return self.frame.prepare(self.absorbed.apart(arrays)[0])

    def whiten(self, data: CanonicalFrame, arrays: Named, v: Named) -> Named:
        """In the coordinates: by the frame, and the gains' relative changes as they are."""
        (rest, _), (along, logs) = jax.jvp(self.absorbed.apart, (arrays,), (v,))
        return self.frame.whiten(data, rest, along) | logs

    def unwhiten(self, data: CanonicalFrame, arrays: Named, e: Named) -> Named:
        """The inverse of `whiten`."""
        rest, _ = self.absorbed.apart(arrays)
        gains = self.absorbed.held(arrays)
        along = self.frame.unwhiten(data, rest, {name: e[name] for name in rest})
        return self._back(gains, rest, {name: gains[name] * e[name] for name in gains}, along)

    def vertical(self, data: CanonicalFrame, arrays: Named, v: Named) -> Named:
        """All of the gains' directions, and the orbits of the other families."""
        (rest, _), (along, _) = jax.jvp(self.absorbed.apart, (arrays,), (v,))
        gains = self.absorbed.held(arrays)
        change = self.absorbed.held(v)
        return self._back(gains, rest, change, self.frame.vertical(data, rest, along))

    def level(self, data: CanonicalFrame, arrays: Named, e: Named) -> Named:
        """That of the other parameters; the gains stay."""
        rest, gains = self.absorbed.apart(arrays)[0], self.absorbed.held(arrays)
        still = {name: jnp.zeros_like(e[name]) for name in gains}
        return self.frame.level(data, rest, {name: e[name] for name in rest}) | still

    def path(self, data: CanonicalFrame, arrays: Named, v: Named, *, forward: bool = False) -> Path:
        """Of a horizontal vector: that of the other parameters, at constant gains."""
        (rest, _), (along, _) = jax.jvp(self.absorbed.apart, (arrays,), (v,))
        inner = self.frame.path(data, rest, along, forward=forward)
        return moved(inner, self.absorbed.together, self.absorbed.held(arrays))

    def ray(self, data: CanonicalFrame, arrays: Named, e: Named) -> Path:
        """As `path`."""
        rest, _ = self.absorbed.apart(arrays)
        inner = self.frame.ray(data, rest, {name: e[name] for name in rest})
        return moved(inner, self.absorbed.together, self.absorbed.held(arrays))

    def reach(self, data: CanonicalFrame, arrays: Named) -> jax.Array:
        """That of the other parameters."""
        return self.frame.reach(data, self.absorbed.apart(arrays)[0])

    def curvature(self, data: CanonicalFrame, arrays: Named, x: Named, y: Named, z: Named) -> Named:
        """That of the other parameters."""
        rest, vectors = self._apart(arrays, x, y, z)
        found = self.frame.curvature(data, rest, *vectors)
        gains = self.absorbed.held(arrays)
        still = {name: jnp.zeros_like(array) for name, array in gains.items()}
        return self._back(gains, rest, still, found)

    def sectional(self, data: CanonicalFrame, arrays: Named, x: Named, y: Named) -> jax.Array:
        """That of the other parameters."""
        rest, vectors = self._apart(arrays, x, y)
        return self.frame.sectional(data, rest, *vectors)

    def oriented(self, data: CanonicalFrame) -> Oriented | None:
        """That of the other parameters."""
        return self.frame.oriented(data)

    def verticality(self, data: CanonicalFrame, arrays: Named, v: Named) -> jax.Array:
        """That of the other parameters."""
        return self.frame.verticality(data, arrays, {name: v[name] for name in v if name not in self.absorbed.gains})

    def leading(self, data: CanonicalFrame) -> Leading:
        """That of the other parameters; the gains become signs."""
        return Leading(self.frame.gauge, data.canonical, self.absorbed)

    def _apart(self, arrays: Named, *vectors: Named) -> tuple[Named, list[Named]]:
        rest, push = jax.linearize(lambda a: self.absorbed.apart(a)[0], arrays)
        return rest, [push(v) for v in vectors]

    def _back(self, gains: Named, rest: Named, change: Named, along: Named) -> Named:
        """A vector in the coordinates, `change` in the gains themselves, as one at the parameters."""
        return jax.jvp(self.absorbed.together, (gains, rest), (change, along))[1]


def invariant(families: Sequence[Family], *, pullback: bool) -> Metric:
    """The moving frame; in coordinates that absorb gains, where families depend on these."""
    found = gauge(families, unique=True)
    absorbed = absorption(families, found.unsettled) if found.unsettled else None
    if absorbed is not None and len(gauge(absorbed.families, unique=True).unsettled) < len(found.unsettled):
        return Absorbed(families, absorbed, pullback=pullback)
    return MovingFrame(families, found, pullback=pullback)

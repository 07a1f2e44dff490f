"""The element that leads from a point to its canonical representative, and what it does to rounding."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from quotax.geometry.canonical.absorption import Absorption
from quotax.geometry.canonical.gauge import Gauge
from quotax.geometry.canonical.representative import Canonical
from quotax.trees import AnyArray


class Leading(NamedTuple):
    """The element that leads from a point to its canonical representative; gains that are absorbed become signs."""

    gauge: Gauge
    found: Canonical
    absorbed: Absorption | None = None

    @property
    def reached(self) -> bool:
        """Whether that representative exists and was reached."""
        return bool(self.found.reached)

    @property
    def condition(self) -> float:
        """The largest condition number of a family's element."""
        return max(self._conditions(), default=1.0)

    @property
    def amplification(self) -> float:
        """What relative rounding of an array is multiplied by, at most."""
        largest = 1.0
        conditions = dict(zip(self.found.scalings, self._conditions(), strict=True))
        matrices = [f for f in self.gauge.linear if f.group.layout == "matrix"]
        for name, shrunk in self.found.shrunk.items():
            product = math.prod(conditions[f.name] for f in matrices if name in f.action.moved)
            largest = max(largest, float(shrunk) * product)
        return largest

    def _conditions(self) -> list[float]:
        families = {family.name: family for family in self.gauge.linear}
        return [_condition(families[name].group.layout, g) for name, g in self.found.scalings.items()]


def _condition(layout: str, g: AnyArray) -> float:
    g = np.asarray(g, np.float64)
    if not np.all(np.isfinite(g)):
        return float("inf")
    if layout == "matrix":
        return float(np.max(np.linalg.cond(g), initial=1.0))
    sizes = np.abs(g)
    return float(np.max(sizes) / np.min(sizes)) if sizes.size and np.min(sizes) > 0 else 1.0

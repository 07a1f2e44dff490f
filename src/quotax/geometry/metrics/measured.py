"""Whether a metric is invariant, measured: inner products at a point and at the point moved, at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.geometry.metrics.metric import Metric
from quotax.trees import AnyArray

_POINTS = 2


@dataclass(frozen=True)
class Defect:
    """The largest relative change of an inner product along one family, and where it was seen."""

    family: Family
    size: float
    params: Named
    element: AnyArray
    before: float
    after: float


def defects(metric: Metric, families: Sequence[Family], shapes: Mapping[str, tuple[int, ...]]) -> list[Defect]:
    """For every family, the largest change of `<u, v>` relative to `|u| |v|`, in float64."""
    found = []
    with jax.enable_x64(True):
        for number, family in enumerate(families):
            worst: Defect | None = None
            for point in range(_POINTS):
                rng = np.random.default_rng([0, number, point])
                arrays, u, v = ({n: jnp.asarray(rng.normal(size=s)) for n, s in shapes.items()} for _ in range(3))
                key = jax.random.key(int(rng.integers(2**31)))
                element = family.group.random(key, family.sizes, 0.7)
                seen = _change(metric, family, arrays, element, u, v)
                if worst is None or not seen.size <= worst.size:
                    worst = seen
            assert worst is not None
            found.append(worst)
    return found


def _change(metric: Metric, family: Family, arrays: Named, element: AnyArray, u: Named, v: Named) -> Defect:
    move = lambda a: family.act(a, element)
    there = move(arrays)
    pushed = [jax.jvp(move, (arrays,), (w,))[1] for w in (u, v)]
    here, moved = metric.prepare(arrays), metric.prepare(there)
    before = float(metric.inner(here, arrays, u, v))
    after = float(metric.inner(moved, there, *pushed))
    scale = np.sqrt(float(metric.inner(here, arrays, u, u)) * float(metric.inner(here, arrays, v, v)))
    size = abs(after - before) / scale if np.isfinite(after) and scale > 0 else np.inf
    return Defect(family, float(size), arrays, element, before, after)

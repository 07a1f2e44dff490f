r"""The volume of an orbit: what its fields span at a point, and what the whole of it measures where it is compact.

With $V$ the fields of a basis of the algebra, $\nu(\theta) = \sqrt{\det V^T M V}$ is the volume of the orbit for every
unit of volume of the group. In an invariant metric it is the same all along the orbit (of a unimodular group with a
discrete stabiliser). Another basis, $B$ of the old one, multiplies it by $|\det B|$: it is a number to compare points
of one quotient by, and not one to compare architectures by.

$\log \nu$ is minus the potential that noise sees beside the loss (`langevin`), and what an orbit adds to evidence
(`laplace_evidence`). An orbit that is not compact has no finite volume.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from quotax.landscape.demands import quotient_of
from quotax.landscape.whole_orbits import whole_orbit
from quotax.presenting import Result
from quotax.trees import AnyPoint, AnySpace, Tree

CALL = "quotax.orbit_volume"


@dataclass(frozen=True, repr=False)
class OrbitVolume(Result):
    """The volume of the orbit through a point; all numbers are natural logarithms or dimensions.

    Attributes:
        log_density: of the volume that the fields of all families span, in coordinates of the algebras.
        rank: the dimension of the orbit.
        stabiliser: how many directions of the algebra move nothing.
        families: the same of each family alone. They add up only where families move different parameters.
        ranks: the dimensions of their own orbits.
        log_volume: of the whole orbit of the continuous group with its reflections: infinite where it is not compact,
            NaN where it is not known, and `reason` then says why.
        log_copies: how many copies permutations and signs make of it.
        unbounded: the families along which the orbit is not compact.
        metric: the metric in which this is.
        reason: why `log_volume` is not a finite number.
    """

    log_density: float
    rank: int
    stabiliser: int
    families: Mapping[str, float]
    ranks: Mapping[str, int]
    log_volume: float
    log_copies: float
    unbounded: tuple[str, ...]
    metric: str
    reason: str = ""

    def __str__(self) -> str:
        """Readable lines."""
        stays = f", {self.stabiliser} directions of the algebra stay" if self.stabiliser else ""
        whole = f"the whole orbit {self.log_volume:.6g}" if math.isfinite(self.log_volume) else self.reason
        rows = [
            f"{name}: log density {value:.6g} in {self.ranks[name]} dimensions" for name, value in self.families.items()
        ]
        return "\n".join(
            [
                f"log density {self.log_density:.6g} in {self.rank} dimensions ({self.metric} metric{stays})",
                *(rows if len(rows) > 1 else []),
                f"log volume: {whole}; log of the number of copies {self.log_copies:.6g}",
            ]
        )


def orbit_volume(space: AnySpace, params: Tree) -> OrbitVolume:
    """The volume of the orbit through `params`, by family and in all.

    In the Euclidean metric it is found by structure, and costs about what factoring a projection costs; in another one
    it is the Gram matrix of all fields, column by column, for up to 4,096 of them.

    Args:
        space: a quotient, which says in which metric.
        params: where.

    Example:
        A vector of length 3 in space, up to rotations: a sphere of area 36 pi.

        >>> import math, jax.numpy as jnp, quotax as qx
        >>> net = qx.architecture(params={"w": "n"}, inputs={"x": ""})(lambda p, x: jnp.sum(p["w"] ** 2) * x)
        >>> turn = qx.Symmetry("turn", qx.O("n"), {"w": "g @ w"})
        >>> found = orbit_volume(qx.quotient(net.at(n=3), turn, metric="euclidean"), {"w": jnp.array([1.0, 2.0, 2.0])})
        >>> round(math.exp(found.log_volume) / math.pi, 4), found.rank, round(math.exp(found.log_density), 4)
        (36.0, 2, 9.0)
    """
    space = quotient_of(CALL, space)
    point = space.at(params)
    found, orbit = point.volumes(), compact_orbit(point)
    moving = [family.name for family in space.families if family.dimension]
    here, volume, reason = found.total, orbit.log_volume, orbit.reason
    if orbit.unbounded:
        volume, reason = math.inf, f"the orbit is not compact: {', '.join(orbit.unbounded)}"
    elif not reason and not point.euclidean:
        volume += here.value - orbit.log_density
    return OrbitVolume(
        here.value,
        here.rank,
        here.dimension - here.rank,
        {name: found.families[name].value for name in moving},
        {name: found.families[name].rank for name in moving},
        volume,
        orbit.log_copies,
        orbit.unbounded,
        space.metric_name,
        reason,
    )


class CompactOrbit(NamedTuple):
    """The orbit of all orthogonal elements, measured in the Euclidean metric; `unbounded` is what else moves."""

    log_density: float
    rank: int
    log_volume: float
    log_copies: float
    reason: str
    unbounded: tuple[str, ...]


def compact_orbit(point: AnyPoint, resolution: float = 0.0) -> CompactOrbit:
    """The part of the orbit through a factored point that is compact; the point is known up to a relative number."""
    asked = {"euclidean": True, "resolution": resolution}
    all_of, turning = (point.volumes(only_compact=compact, **asked) for compact in (False, True))
    ranks = {name: own.rank for name, own in turning.families.items()}
    unbounded = tuple(name for name, own in all_of.families.items() if own.rank > ranks.get(name, 0))
    total = turning.total
    whole = whole_orbit(point.space.families, point.arrays, total.value, total.rank, resolution)
    return CompactOrbit(total.value, total.rank, whole.log_volume, whole.log_copies, whole.reason, unbounded)

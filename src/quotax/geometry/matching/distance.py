r"""What is known of a distance: a bound below, the length of a path, and the geodesic where one was shot.

The distance of two orbits is the least length of all paths between them, lengths being those of the horizontal part.

*Below.* Let $C$ be the canonical representatives, and horizontal vectors there be tangent to $C$, as they are where
every generator is self-adjoint, skew or a constant (`MovingFrame.tangent`). The metric on $C$ is the Euclidean one.
The horizontal lift of any path, from a canonical representative $c$ on, stays in $C$ and ends at a canonical
representative of the other orbit, which is $k d$ with $k$ orthogonal or discrete (Kempf-Ness); so the path is no
shorter than $|c - k d|$, and the distance is at least $\min_k |c - k d|$. A search for $k$ gives more than that
minimum; what is used is the bound that the alignment has below it, which holds for every $k$. In the Euclidean metric
$C$ is everything. Other metrics do not measure $C$ by its chords, and there the bound is zero.

*Above.* The length of any path will do: of the straight segment between aligned representatives,
$\int |H_t v|\, dt$ with $H_t$ the horizontal part in the metric at time $t$, by 7 points of Kronrod. How far 3 points
of Gauss are from that is added, hundreds of times the error of a smooth integrand.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from quotax.geometry.matching.logarithm import Log, unfinished
from quotax.presenting import Result, shown

_HALF = np.array(
    [
        [0.960491268708020, 0.104656226026467, 0],
        [0.774596669241483, 0.268488089868333, 0.555555555555556],
        [0.434243749346803, 0.401397414775962, 0],
        [0, 0.450916538658474, 0.888888888888889],
    ]
)
"""Places, weights of Kronrod, weights of Gauss: the pair of 3 and 7 points on [-1, 1], one half of it."""

TIMES, _KRONROD, _GAUSS = np.concatenate([_HALF * [-1, 1, 1], _HALF[-2::-1]]).T / 2 + [[0.5], [0], [0]]


MISSED = "a canonical representative was not reached, without which this means little"


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["lower", "upper", "value", "chord", "geodesic", "attained"],
    meta_fields=["reason"],
)
@dataclass(frozen=True, repr=False)
class Distance(Result):
    """A distance between two orbits, as far as it is known: `lower <= distance <= upper`.

    - `value`: the length of the shortest path found; with `geodesic` true that of a geodesic from orbit to orbit.
    - `upper`: `value` and the error of measuring it.
    - `lower`: what no path is shorter than; zero where no bound is known.
    - `chord`: between the aligned canonical representatives; this is `lower`, if no element aligns them better.
    - `attained`: whether both canonical representatives exist and were reached: without them the numbers mean little.
    - `reason`: what `lower` and `value` rest on.
    """

    lower: jax.Array
    upper: jax.Array
    value: jax.Array
    chord: jax.Array
    geodesic: jax.Array
    attained: jax.Array
    reason: str

    def __str__(self) -> str:
        """One readable line."""
        kind = "a geodesic's length" if shown(self.geodesic) == "True" else "a path's length"
        text = (
            f"distance {shown(self.value)} ({kind}), between {shown(self.lower)} and {shown(self.upper)}: {self.reason}"
        )
        return text if shown(self.attained) != "False" else f"{text}; {MISSED}"

    def __float__(self) -> float:
        """The value."""
        return float(self.value)


def nothing_to_shoot_for(known: Distance, flat: jax.Array) -> bool:
    """Above a flat space, and on one orbit."""
    return bool(known.geodesic | (known.upper <= 1e3 * jnp.finfo(flat.dtype).eps * jnp.linalg.norm(flat)))


def with_geodesic(known: Distance, found: Log, length: jax.Array, flat: jax.Array, budget: float) -> Distance:
    """What is known once geodesics were shot: the length of one that arrived, if it is shorter."""
    upper = length + (1e3 * jnp.finfo(length.dtype).eps + 2 * found.residual) * jnp.linalg.norm(flat)
    shorter = found.ok & (length < known.upper)
    arrived = isinstance(found.ok, Tracer) or bool(found.ok)
    return replace(
        known,
        value=jnp.where(shorter, jnp.minimum(length, known.value), known.value),
        upper=jnp.where(shorter, jnp.minimum(upper, known.upper), known.upper),
        geodesic=shorter,
        reason=known.reason if arrived else f"{known.reason}; {unfinished(found, budget)}",
    )


class Length(NamedTuple):
    """The length of a path, and how far it may be off: infinitely where the metric was not found on all of it.

    `rounding` is that of numbers as large as the length.
    """

    value: jax.Array
    margin: jax.Array
    rounding: jax.Array


def exactly(length: jax.Array) -> Length:
    """A length that needs no quadrature."""
    rounding = 1e3 * float(jnp.finfo(length.dtype).eps) * length
    return Length(length, rounding, rounding)


def integrated(speeds: jax.Array, sound: jax.Array) -> Length:
    """The length of a path with these speeds at `TIMES`, each with whether it is to be trusted."""
    kronrod, gauss = (jnp.asarray(w, speeds.dtype) @ speeds for w in (_KRONROD, _GAUSS))
    length = exactly(kronrod)
    margin = length.rounding + jnp.where(jnp.all(sound), jnp.abs(kronrod - gauss), jnp.inf)
    return length._replace(margin=margin)

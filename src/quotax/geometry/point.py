"""A base point with everything computed that its tangent vectors share."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.geometry.footing import Footing, Ground, footing, grounded, verticality
from quotax.geometry.geodesic import Geodesic
from quotax.geometry.linalg.named import Named
from quotax.geometry.metrics.metric import Metric, compiled, seldom
from quotax.geometry.quotient import Based
from quotax.geometry.volume import Volumes, slope, volumes
from quotax.trees import Tree


@functools.partial(jax.tree_util.register_dataclass, data_fields=["arrays", "data"], meta_fields=["space"])
@dataclass(frozen=True, repr=False)
class Point(Based):
    """A factored base point: projections here cost a few passes over the parameters. Trees in, trees out."""

    def _presented(self) -> Iterator[tuple[str, object]]:
        yield from (("params", self.params), ("space", repr(self.space)))

    @property
    def params(self) -> Tree:
        """The parameters as a pytree."""
        return self.space.network.tree(self.arrays)

    @property
    def euclidean(self) -> bool:
        """Whether the metric is the Euclidean one, which needs no whitening."""
        return self._metric.euclidean

    @property
    def rank(self) -> jax.Array:
        """The dimension of the orbit through this point; below `space.fiber_dim` where a stabiliser is larger."""
        return self.space.rank_at(self.params)

    # --- projections

    def vertical(self, v: Tree) -> Tree:
        """The part of `v` along the orbit."""
        return self.space.network.tree(self._run("vertical", self._vectors(v, "v", "vertical(v)")))

    def horizontal(self, v: Tree) -> Tree:
        """The part of `v` that leaves the orbit; of a tangent vector: for derivatives of a loss there is `gradient`."""
        return self.space.network.tree(self._run("horizontal", self._vectors(v, "v", "horizontal(v)")))

    # --- the metric

    def inner(self, u: Tree, v: Tree) -> jax.Array:
        """The inner product of two tangent vectors."""
        left, right = self._vectors(u, "u", "inner(u, v)"), self._vectors(v, "v", "inner(u, v)")
        return self._run("inner", left, right)

    def norm(self, v: Tree) -> jax.Array:
        """The length of a tangent vector."""
        return self._run("norm", self._vectors(v, "v", "norm(v)"))

    def flat(self, v: Tree) -> Tree:
        """The covector `<v, .>`, as a tree of its entries."""
        return self.space.network.tree(self._run("flat", self._vectors(v, "v", "flat(v)")))

    def sharp(self, covector: Tree) -> Tree:
        """The tangent vector that a covector (such as `jax.grad` of a loss) stands for: the metric's gradient."""
        return self.space.network.tree(self._run("sharp", self._vectors(covector, "covector", "sharp(covector)")))

    def gradient(self, slope: Tree) -> Tree:
        """The gradient on the quotient of what has the derivatives `slope` (`jax.grad` of a loss).

        The horizontal `n` with `inner(n, h)` the derivative along `h`, for every horizontal `h`; for every tangent
        vector at all where the loss does not change along orbits.
        """
        return self.space.network.tree(self._run("gradient", self._vectors(slope, "slope", "gradient(slope)")))

    def whiten(self, v: Tree) -> Tree:
        """`A v`, where `<u, v> = (A u) . (A v)`."""
        return self.space.network.tree(self._run("whiten", self._vectors(v, "v", "whiten(v)")))

    def unwhiten(self, e: Tree) -> Tree:
        """`A^-1 e`: of a standard normal `e`, the metric's standard normal vector."""
        return self.space.network.tree(self._run("unwhiten", self._vectors(e, "e", "unwhiten(e)")))

    def level(self, e: Tree) -> Tree:
        """The horizontal part in whitened coordinates: `whiten(horizontal(unwhiten(e)))`, in fewer steps."""
        return self.space.network.tree(self._run("level", self._vectors(e, "e", "level(e)")))

    def oriented(self) -> OrientedPoint | None:
        """The same point with a whitening that follows the group, so that the same `e` is the same vector everywhere.

        `unwhiten` at `g . theta` is then `g` after `unwhiten` at `theta`, where `fixed` holds. Nothing where the metric
        knows no such whitening.
        """
        found = self._metric.oriented(self.data)
        if found is None:
            return None
        return OrientedPoint(Point(self.arrays, found.data, self.space), found.margin, found.loose)

    # --- the orbit's volume

    def volumes(self, *, only_compact: bool = False, euclidean: bool = False, resolution: float = 0.0) -> Volumes:
        """How much room the fields of all families span, and of each: half the logarithm of a Gram determinant.

        `only_compact` asks it of every family's orthogonal elements alone, `euclidean` in the Euclidean metric;
        `resolution` is how well the parameters are known, relative, if worse than rounding. Outside of jit.
        """
        return volumes(self, only_compact=only_compact, euclidean=euclidean, resolution=resolution)

    def volume_slope(self) -> Tree:
        """The Euclidean gradient of the logarithm of that volume: minus the mean curvature vector of the orbit."""
        return self.space.network.tree(slope(self.space.families, self.arrays))

    # --- rounding

    def footing(self) -> Footing:
        """What rounding leaves of this point; outside of jit."""
        return footing(self)

    def verticality(self) -> float:
        """How much of a random vector's vertical part its projection leaves: zero but for rounding; outside of jit."""
        return verticality(self)

    def grounded(self) -> Ground:
        """A balanced representative of the orbit, found in float64, where rounding takes less; outside of jit."""
        return grounded(self)

    # --- geodesics

    def geodesic(self, v: Tree) -> Geodesic:
        """The geodesic along the horizontal part of `v`."""
        return Geodesic(self._run("geodesic", self._vectors(v, "v", "geodesic(v)")), self.space.network)

    def ray(self, e: Tree) -> Geodesic:
        """The geodesic of `unwhiten(e)`, which is taken to be horizontal: `geodesic` projects."""
        return Geodesic(self._run("ray", self._vectors(e, "e", "ray(e)")), self.space.network)

    @property
    def reach(self) -> jax.Array:
        """A length within which no horizontal geodesic leaves its domain; zero where nothing is known."""
        return self._once("reach")

    @property
    def bends_vertically(self) -> bool:
        """Whether horizontal geodesics are known to bend along orbits alone: straight lines are then as good as they.

        To second order, of what they are on the quotient.
        """
        return self.euclidean or self._metric.tangent

    def bends_along(self, slope: Tree) -> bool:
        """Whether horizontal geodesics bend only in directions along which a function of this slope does not change.

        They bend along orbits where they stay among canonical representatives; an invariant function has a slope that
        vanishes there. Its second derivative along a geodesic is then that along the straight line. Outside of jit.
        """
        if not self._metric.tangent:
            return False
        share = self._once("share_along", self._vectors(slope, "slope", "bends_along(slope)"))
        return float(share) <= _ROUNDING * float(jnp.finfo(share.dtype).eps)

    # --- inside

    @property
    def _metric(self) -> Metric:
        return self.space._metric

    def _run(self, operation: str, *vectors: Named) -> Tree:
        """In one program; blocks of a network that are alike are projected by one that they share."""
        if operation in ("vertical", "horizontal", "gradient") and self._metric.alike:
            return getattr(self._metric, operation)(self.data, self.arrays, *vectors)
        return compiled(self._metric, operation, self.data, self.arrays, *vectors)

    def _once(self, operation: str, *vectors: Named) -> Tree:
        """What is asked for once."""
        return seldom((self._metric, operation), self.data, self.arrays, *vectors)

    def _vectors(self, v: Tree, label: str, call: str) -> Named:
        return self.space._vectors(v, label, f"point.{call}")


_ROUNDING = 1e3
"""What rounding leaves of a slope along orbits, in units of its own."""


class OrientedPoint(NamedTuple):
    """A point whose whitening follows the group.

    `margin` is how well it is determined: rounding is amplified by up to its inverse. `loose` holds the families that
    it does not follow, and why.
    """

    point: Point
    margin: jax.Array
    loose: Mapping[str, str]

    @property
    def fixed(self) -> bool:
        """Whether it follows all families, with half of the digits to spare."""
        return not self.loose and float(self.margin) > float(jnp.finfo(self.margin.dtype).eps) ** 0.5

    @property
    def reason(self) -> str:
        """Why it is not fixed."""
        if self.loose:
            return "; ".join(f"{name}: {why}" for name, why in self.loose.items())
        if not float(self.margin):
            return "the canonical representative was not reached, or its orientation is not unique"
        return f"its orientation is hardly determined (margin {self.margin:.1e})"

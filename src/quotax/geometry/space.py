"""`QuotientSpace`: parameter space divided by symmetries, pytrees in and out."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec

from quotax.artifacts import ArraySpec, Certificate
from quotax.errors import ConvergenceError, DomainError, GeometryError, InvarianceError, MetricWarning
from quotax.geometry.canonical.gauge import Gauge, gauge
from quotax.geometry.canonical.representative import canonical_of, represented
from quotax.geometry.families.component import components
from quotax.geometry.families.conserved import Drift, charges, drift, formulas
from quotax.geometry.families.splitting import split_axes
from quotax.geometry.families.velocities import Family
from quotax.geometry.geodesic import Geodesic
from quotax.geometry.linalg.named import Named, ravel, unravel
from quotax.geometry.matching.distance import Distance, nothing_to_shoot_for, with_geodesic
from quotax.geometry.matching.logarithm import DENSE, Log, unfinished
from quotax.geometry.matching.patience import Patience
from quotax.geometry.matching.two_points import Alignment, Between, BetweenAbsorbed, between
from quotax.geometry.memory import Memory
from quotax.geometry.metrics.metric import Metric
from quotax.geometry.point import Point
from quotax.geometry.projection.vertical import coordinates, dimensions, factors_at
from quotax.geometry.quotient import SizedModel
from quotax.geometry.tree_arguments import checked_tree, elements_by_family, solvable
from quotax.presenting import Result
from quotax.programs.compiling import beside, once
from quotax.programs.draws import normal
from quotax.programs.processes import share_no_programs
from quotax.programs.threads import one_thread
from quotax.trees import AnyArray, Tree


class QuotientSpace(Result):
    """Theta/G: what is left of a network's parameter space once its symmetries are divided out.

    A tangent vector is a pytree like the parameters. `vertical` is its part along the orbit, `horizontal` the rest,
    orthogonal in the metric. Everything here is a pure function of pytrees: jit, vmap and grad apply.
    """

    def __init__(
        self,
        network: SizedModel,
        specs: tuple[ArraySpec, ...],
        families: Sequence[Family],
        certificates: Sequence[Certificate],
        metric: Metric,
        certify_metric: Callable[[], Certificate],
        *,
        left_out: Mapping[str, str] | None = None,
    ) -> None:
        """Use `quotax.quotient`, which lowers and certifies the symmetries and the metric first."""
        names = [family.name for family in families]
        for name in names:
            if names.count(name) > 1:
                raise GeometryError(f"`quotient`: two symmetries are called {name!r}; give each its own name.")
        self.network = network
        self.specs = specs
        self.families = tuple(families)
        self.certificates = tuple(certificates)
        self.left_out = dict(left_out or {})  # what a derived group holds and this space does not divide by, and why
        self._certify_metric = certify_metric
        self._metric = metric
        self._parts = components(families)
        self._last = Memory()

    def __reduce__(self) -> tuple[object, ...]:
        """What it was made of, and the certificate of its metric if that was asked for; nothing that was compiled."""
        given = (self.network, self.specs, self.families, self.certificates, self._metric, self._certify_metric)
        known = {name: self.__dict__[name] for name in ("metric_certificate",) if name in self.__dict__}
        return QuotientSpace, given, {"left_out": self.left_out, **known}

    @functools.cached_property
    def metric_certificate(self) -> Certificate:
        """Whether the metric is invariant, so that the quotient has a metric at all; established when first asked."""
        return self._certify_metric()

    @property
    def metric_name(self) -> str:
        """What the metric is called."""
        return self._metric.name

    # --- dimensions

    @functools.cached_property
    def fiber_dim(self) -> int:
        """The dimension of a generic orbit: the rank of the fields at random parameters, in float64."""
        rng = np.random.default_rng(0)
        with jax.enable_x64(True):
            arrays = jax.device_put({name: rng.normal(size=shape) for name, shape in self.network.shapes.items()})
            return sum(map(int, dimensions(self._parts, arrays)))

    @property
    def algebra_dim(self) -> int:
        """The dimension of the group; it exceeds `fiber_dim` by that of the stabiliser."""
        return sum(family.dimension for family in self.families)

    @property
    def dim(self) -> int:
        """The dimension of the quotient."""
        return self.network.num_parameters - self.fiber_dim

    def rank_at(self, params: Tree) -> jax.Array:
        """The dimension of the orbit through `params`; below `fiber_dim` where a stabiliser is larger (dead units)."""
        found = dimensions(self._parts, self._arrays(params, "space.rank_at(params)"))
        return functools.reduce(jnp.add, found, jnp.zeros((), int))

    # --- devices

    def shard(self, params: Tree, mesh: jax.sharding.Mesh, *, over: str | Sequence[str] | None = None) -> Tree:
        """The parameters split over the devices of a mesh (over its axes `over`: all of them, unless told otherwise).

        Each array along its longest axis that no family of matrices mixes, so that moving and projecting it exchange
        no more than Gram matrices; an array that has none which the devices divide is on each of them.
        """
        call = "space.shard(params, mesh)"
        names = tuple(mesh.axis_names) if over is None else (over,) if isinstance(over, str) else tuple(over)
        if unknown := [name for name in names if name not in mesh.axis_names]:
            raise GeometryError(f"`{call}`: the mesh has the axes {', '.join(mesh.axis_names)}, not {unknown[0]!r}.")
        share_no_programs(mesh.devices.flat)
        devices = math.prod(mesh.shape[name] for name in names)
        axes = split_axes(self.families, self.specs, self.network.sizes, devices)
        placed = {}
        for name, array in checked_tree(self.network, params, "params", call, True).items():
            place = axes.get(name)
            spec = (*(None,) * place, names) if place is not None else ()
            placed[id(array)] = jax.device_put(array, NamedSharding(mesh, PartitionSpec(*spec)))
        return jax.tree.map(lambda leaf: placed.get(id(leaf), leaf), params)

    # --- one base point

    def at(self, params: Tree) -> Point:
        """The parameters with everything factored that projections there share.

        Its `footing()` says whether the canonical representative was reached, which elsewhere is a warning.
        """
        return self._point(params, "space.at(params)", warn=False)

    def vertical(self, params: Tree, v: Tree) -> Tree:
        """The part of `v` along the orbit through `params`."""
        return self._point(params, "space.vertical(params, v)").vertical(v)

    def horizontal(self, params: Tree, v: Tree) -> Tree:
        """The part of `v` that leaves the orbit through `params`.

        Of a tangent vector. `jax.grad(loss)(params)` is one in the Euclidean metric alone; in every metric `gradient`
        is the direction of steepest ascent.
        """
        return self._point(params, "space.horizontal(params, v)").horizontal(v)

    def gradient(self, loss: Callable[..., Tree], params: Tree, *data: Tree) -> Tree:
        r"""The gradient of `loss(params, *data)` on the quotient: horizontal, and as long as the loss is steep.

        With $G$ the matrix of the metric it is the horizontal part of $G^{-1} \, dL$, the vector $n$ with
        $\langle n, h \rangle = dL(h)$ for all horizontal $h$. A loss that does not change along orbits has
        $dL = 0$ there, so that $G^{-1} \, dL$ is horizontal by itself, $\langle n, v \rangle = dL(v)$ for all $v$,
        and $n$ at $g \theta$ is $n$ at $\theta$ moved by $g$ where the metric is invariant.

        The loss is compiled once, and kept compiled as long as it lives.
        """
        call = "space.gradient(loss, params)"
        if not callable(loss):
            raise GeometryError(f"`{call}`: loss must be a function of the parameters, got {loss!r}.")
        point = self._point(params, call)
        return point.gradient(beside(loss, _slope, _slope)(params, *data))

    def inner(self, params: Tree, u: Tree, v: Tree) -> jax.Array:
        """The inner product of two tangent vectors at `params`."""
        return self._point(params, "space.inner(params, u, v)").inner(u, v)

    def norm(self, params: Tree, v: Tree) -> jax.Array:
        """The length of a tangent vector at `params`."""
        return self._point(params, "space.norm(params, v)").norm(v)

    def connection(self, params: Tree, v: Tree) -> dict[str, jax.Array]:
        """The connection form: the algebra element by family whose fields add up to the vertical part of `v`.

        Where the action is not free it is the least one.
        """
        call = "space.connection(params, v)"
        point = self._point(params, call)
        along = self._metric.vertical(point.data, point.arrays, self._vectors(v, "v", call))
        return coordinates(self._parts, factors_at(self._parts, point.arrays), point.arrays, along)

    # --- geodesics

    def geodesic(self, params: Tree, v: Tree) -> Geodesic:
        """The geodesic from `params` along the horizontal part of `v`: `.at(t)`, `.exit_time`, `.ok`."""
        return self._point(params, "space.geodesic(params, v)").geodesic(v)

    def exp(self, params: Tree, v: Tree) -> Tree:
        """The end of the geodesic, of the quotient; raises `DomainError` when it leaves the domain before.

        Under jit, where nothing can be raised, ask `geodesic` for `.ok`.
        """
        call = "space.exp(params, v)"
        self._needs_invariance(call)
        path = self._point(params, call).geodesic(v)
        if not isinstance(path.ok, Tracer) and not path.ok:
            raise DomainError(
                f"`{call}`: the geodesic leaves the domain of the {self.metric_name} metric at t = "
                f"{float(path.exit_time):.6g}, before t = 1. `space.geodesic` gives the path up to there.",
                float(path.exit_time),
            )
        return self.network.tree(path.path.end, params)

    def _point(self, params: Tree, call: str, *, warn: bool = True) -> Point:
        given, known = self._last.recalled(self._checked(params, "params", call))
        if known is None:
            arrays = self._arrays(params, call)
            own = {name: array for name, array in arrays.items() if array is not given.get(name)}
            known = own, self._metric.prepare(arrays)
            self._last.remember(given, known)
        own, data = known
        arrays = {name: own[name] if name in own else given[name] for name in self.network.shapes}
        leading = self._metric.leading(data) if warn else None
        if leading is not None:
            self._warn_unless(leading.found.reached, call)
        return Point(arrays, data, self)

    def _warn_unless(self, attained: object, call: str) -> None:
        """Say that a canonical representative is missing; under jit nothing can be said."""
        if not isinstance(attained, Tracer) and not attained:
            warnings.warn(
                f"`{call}`: the canonical representative was not reached, which the {self.metric_name} metric and "
                "comparisons are made with: the orbit only comes near its least norm (a factor of lower rank than its "
                "partner), or rounding lost it; `space.at(params).footing()` has the condition. "
                "What follows depends on where the iteration stopped.",
                MetricWarning,
                stacklevel=4,
            )

    # --- the group

    def field(self, params: Tree, xi: Mapping[str, AnyArray]) -> Tree:
        """The velocity of `params` along algebra elements, one per family name (shapes as group elements)."""
        call = "space.field(params, xi)"
        arrays = self._arrays(params, call, solved=False)
        total = {name: jnp.zeros_like(array) for name, array in arrays.items()}
        for family, element in elements_by_family(self.families, xi, "xi", call):
            if family.dimension:
                for name, value in family.field(arrays, element).items():
                    total[name] = total[name] + value
        return self.network.tree(total)

    def act(self, params: Tree, g: Mapping[str, AnyArray]) -> Tree:
        """The parameters moved by group elements, one per family name; families act in their order.

        Numbers that are no element are refused, up to rounding; what is traced cannot be looked at.
        """
        call = "space.act(params, g)"
        arrays = self._arrays(params, call, solved=False)
        for family, element in elements_by_family(self.families, g, "g", call, members=True):
            arrays = family.act(arrays, element)
        return self.network.tree(arrays, params)

    @functools.cached_property
    def affine(self) -> bool:
        """Whether every action is affine in the parameters, by its formula: lines are moved to lines."""
        return all(family.action.affine for family in self.families)

    def random_element(self, key: jax.Array, scale: float = 1.0) -> dict[str, jax.Array]:
        """A random group element by family name: exponentials of normal coordinates times `scale`."""
        keys = jax.random.split(key, max(len(self.families), 1))
        pairs = zip(self.families, keys, strict=False)
        return {family.name: family.group.random(k, family.sizes, scale) for family, k in pairs}

    def element(self, xi: Mapping[str, Any]) -> dict[str, jax.Array]:
        """The group element by family name that algebra elements lead to: their exponentials.

        `t -> space.act(params, space.element({name: t * x for name, x in xi.items()}))` stays in the orbit for every
        t, and leaves `params` with the velocity `space.field(params, xi)`, whose straight line does not.
        """
        found = elements_by_family(self.families, xi, "xi", "space.element(xi)")
        for family, _ in found:
            if not family.group.continuous:
                raise GeometryError(
                    f"`space.element(xi)`: xi names {family.name!r}, whose group {family.group} is discrete: nothing "
                    "leads from one of its elements to the next."
                )
        return {family.name: family.group.exponential(each) for family, each in found}

    def random_algebra(self, key: jax.Array, scale: float = 1.0) -> dict[str, jax.Array]:
        """Random algebra elements of the continuous families by name: normal coordinates times `scale`."""
        moving = [family for family in self.families if family.group.continuous and family.dimension]
        pairs, real = zip(moving, jax.random.split(key, max(len(moving), 1)), strict=False), jnp.result_type(float)
        return {
            family.name: scale
            * jnp.asarray(
                family.group.algebra(normal(k, family.group.coordinate_shape(family.sizes), real), family.sizes), real
            )
            for family, k in pairs
        }

    def nudged(self, params: Any, scale: float = 0.1) -> Any:
        """The parameters moved by one fixed element near the identity, by a program that is not compiled."""
        arrays, rng = self._arrays(params, "space.nudged(params)", solved=False), np.random.default_rng(0)
        moving = tuple(family for family in self.families if family.dimension)
        dtype = jnp.result_type(float)
        draw = lambda family: scale * rng.standard_normal(family.group.coordinate_shape(family.sizes)).astype(dtype)
        return self.network.tree(_nudged(moving, arrays, [draw(family) for family in moving]), params)

    # --- the canonical representative

    @functools.cached_property
    def _gauge(self) -> Gauge:
        return gauge(self.families, unique=False)

    def canonical(self, params: Tree) -> Representative:
        """The balanced representative: shifts removed, then the least norm on the orbit.

        Where the orbit only comes near its least norm (a factor of lower rank than its partner, a scaling without a
        counterpart) `attained` is false, and `params` is the last point reached, or one of unit scale.
        """
        arrays = self._arrays(params, "space.canonical(params)")
        found = canonical_of(self._gauge, arrays)
        there, element = represented(self._gauge, self.families, arrays, found)
        return Representative(self.network.tree(there, params), element, found.attained)

    # --- between two points

    @functools.cached_property
    def _between(self) -> Between | BetweenAbsorbed:
        return between(self._metric)

    def align(self, params: Tree, reference: Tree) -> Tree:
        """The representative of `params` that is closest to `reference`, over the continuous and the discrete group."""
        found = self.alignment(params, reference)
        self._warn_unless(found.attained, "space.align(params, reference)")
        return found.params

    @one_thread
    def alignment(self, params: Tree, reference: Tree, *, starts: int = 8) -> Alignment:
        """`align`, with the element found, the distance that is left, and a bound below which no element goes."""
        call = "space.align(params, reference)"
        arrays, goal = self._arrays(params, call), self._arrays(reference, call, "reference")
        moved, found, attained = self._between.aligned(arrays, goal, starts)
        there = self.network.tree(moved, params)
        return Alignment(there, dict(found.elements), found.distance, found.lower_bound, found.starts, attained)

    @one_thread
    def logarithm(
        self, params: Tree, other: Tree, *, budget: float = 60.0, progress: Callable[[str], object] | None = None
    ) -> Log:
        """The horizontal vector that leads from `params` into the orbit of `other`, as a record with `.ok`.

        Geodesics are shot until one arrives, for `budget` seconds at most (under jit to the end). What is left is told
        to `progress`, or to standard error once two seconds have passed.
        """
        call = "space.log(params, other)"
        self._needs_invariance(call)
        return self._logarithm(call, params, other, budget, progress)

    def _logarithm(
        self, call: str, params: Tree, other: Tree, budget: float, progress: Callable[[str], object] | None
    ) -> Log:
        if not budget > 0:
            raise GeometryError(f"`{call}`: budget is in seconds and must be positive, got {budget!r}.")
        arrays, goal = self._arrays(params, call), self._arrays(other, call, "other")
        found = self._between.logarithm(arrays, goal, Patience(call.partition("(")[0], budget, progress))
        return found._replace(vector=self.network.tree(found.vector))

    def log(
        self, params: Tree, other: Tree, *, budget: float = 60.0, progress: Callable[[str], object] | None = None
    ) -> Tree:
        """The horizontal vector whose geodesic leads from `params` into the orbit of `other`.

        Raises `ConvergenceError` when none is found within `budget` seconds; under jit, where nothing can be raised,
        ask `logarithm` for `.ok`.
        """
        found = self.logarithm(params, other, budget=budget, progress=progress)
        if not isinstance(found.ok, Tracer) and not found.ok:
            raise ConvergenceError(f"`space.log(params, other)`: {unfinished(found, budget)}")
        self._warn_unless(found.attained, "space.log(params, other)")
        return found.vector

    @one_thread
    def distance(
        self,
        params: Tree,
        other: Tree,
        *,
        method: Literal["bracket", "geodesic"] = "bracket",
        budget: float = 60.0,
        progress: Callable[[str], object] | None = None,
    ) -> Distance:
        """What is known of the distance of two orbits: `lower <= distance <= upper`, and what that rests on.

        The bracket comes from the alignment, in the time of that and of seven projections. `method="geodesic"` shoots
        besides, for `budget` seconds at most, and `value` is then the length of the geodesic, if one arrives.
        """
        return self._distance("space.distance(params, other)", params, other, method, budget, progress)

    def _distance(
        self, call: str, params: Tree, other: Tree, method: str, budget: float, progress: Callable[[str], object] | None
    ) -> Distance:
        self._needs_invariance(call)
        if method not in ("bracket", "geodesic"):
            raise GeometryError(f"`{call}`: method must be 'bracket' or 'geodesic', got {method!r}.")
        arrays, goal = self._arrays(params, call), self._arrays(other, call, "other")
        known = self._between.bracket(arrays, goal)
        self._warn_unless(known.attained, call)
        if method == "bracket" or (
            not isinstance(known.value, Tracer) and nothing_to_shoot_for(known, self.ravel(params))
        ):
            return known
        found = self._logarithm(call, params, other, budget, progress)
        length = self.norm(params, found.vector)
        return with_geodesic(known, found, length, self.ravel(params), budget)

    @one_thread
    def dist(
        self,
        params: Tree,
        other: Tree,
        *,
        method: Literal["bracket", "geodesic"] | None = None,
        budget: float = 60.0,
        progress: Callable[[str], object] | None = None,
    ) -> jax.Array:
        """The distance of two orbits, as one number: the `value` of `distance`.

        With up to 300 parameters that is the length of `log`, by default. With more it is the length of the shortest
        path found, unless `method="geodesic"` asks for a geodesic: never below the distance, and zero on one orbit;
        `distance` says by how much it may be above. Where no geodesic arrives within the budget, the path's length is
        all there is, and a warning says so; under jit the result is then infinite.
        """
        method = method or ("geodesic" if self.network.num_parameters <= DENSE else "bracket")
        call = "space.dist(params, other)"
        if method == "geodesic" and any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((params, other))):
            self._needs_invariance(call)
            shot = self._logarithm(call, params, other, budget, progress)
            return jnp.where(shot.ok, self.norm(params, shot.vector), jnp.inf)
        found = self._distance(call, params, other, method, budget, progress)
        if method == "geodesic" and not found.geodesic and not nothing_to_shoot_for(found, self.ravel(params)):
            warnings.warn(f"`{call}`: {found.reason}.", MetricWarning, stacklevel=2)
        return found.value

    # --- conserved quantities

    def conserved(self, params: Tree) -> dict[str, jax.Array]:
        """The Noether charges by family: constant along the gradient flow of every invariant loss.

        `W1 W1^T - W2^T W2` for GL, `|row|^2 - |column|^2` for scalings, sums for shifts; nothing for rotations.
        """
        return charges(self.families, self._arrays(params, "space.conserved(params)", solved=False))

    def charge_formulas(self) -> dict[str, AnyArray]:
        """The general entry of every charge, as SymPy expressions."""
        return formulas(self.families)

    def charge_drift(self, params: Tree, update: Tree) -> dict[str, Drift]:
        """What a finite step `params + update` adds to the charges: first and second order; there is no third."""
        call = "space.charge_drift(params, update)"
        return drift(self.families, self._arrays(params, call, solved=False), self._vectors(update, "update", call))

    # --- curvature

    def curvature(self, params: Tree, x: Tree, y: Tree, z: Tree) -> Tree:
        """`R(x, y) z` of the quotient, by O'Neill's formula (and Gauss's, for canonical representatives)."""
        call = "space.curvature(params, x, y, z)"
        self._needs_invariance(call)
        point = self._point(params, call)
        vectors = [self._vectors(v, n, call) for v, n in ((x, "x"), (y, "y"), (z, "z"))]
        return self.network.tree(self._metric.curvature(point.data, point.arrays, *vectors))

    def sectional_curvature(self, params: Tree, x: Tree, y: Tree) -> jax.Array:
        """The curvature of the plane that `x` and `y` span in the quotient; zero where they span none."""
        call = "space.sectional_curvature(params, x, y)"
        self._needs_invariance(call)
        point = self._point(params, call)
        vectors = [self._vectors(v, n, call) for v, n in ((x, "x"), (y, "y"))]
        return self._metric.sectional(point.data, point.arrays, *vectors)

    def _needs_invariance(self, call: str) -> None:
        # Where structure says that the metric is invariant, nothing waits for the numbers that might refute it.
        known = "metric_certificate" in self.__dict__ or self._metric.suspects(self.families)
        if known and not self.metric_certificate:
            raise InvarianceError(
                f"`{call}` is a quantity of the quotient, and the {self.metric_name} metric has none: it is not "
                f"invariant ({self.metric_certificate.status}: {'; '.join(self.metric_certificate.steps)}). "
                "Use `qx.quotient(..., metric='invariant')`."
            )

    # --- geomstats

    @functools.cached_property
    def _geomstats(self) -> Tree:
        from quotax.geometry.geomstats.objects import build

        return build(self)

    @property
    def bundle(self) -> Tree:
        """The geomstats `FiberBundle` over flat parameter vectors (`ravel`)."""
        return self._geomstats.fiber_bundle

    @property
    def metric(self) -> Tree:
        """The geomstats `QuotientMetric` of the base."""
        return self._geomstats.quotient.metric

    def ravel(self, tree: Tree) -> jax.Array:
        """A pytree as the flat vector that geomstats sees."""
        return ravel(self._vectors(tree, "tree", "space.ravel(tree)"), self.network.shapes)

    def unravel(self, vector: Tree) -> Tree:
        """A flat vector as a pytree."""
        return self.network.tree(unravel(self.network.shapes, vector, self.network.shapes))

    # --- checks

    def _arrays(self, params: Any, call: str, label: str = "params", *, solved: bool = True) -> Named:
        checked = self._checked(params, label, call, finite=True)
        return self._taken_apart(solvable(checked, label, call) if solved else checked)

    def _vectors(self, v: Tree, label: str, call: str) -> Named:
        return self._taken_apart(self._checked(v, label, call))

    def _taken_apart(self, checked: Mapping[str, AnyArray]) -> Named:
        """As every room below sees them: fused arrays by their parts."""
        return self.network.taken_apart({name: jnp.asarray(array) for name, array in checked.items()})

    def _checked(self, tree: Tree, label: str, call: str, *, finite: bool = False) -> dict[str, AnyArray]:
        return checked_tree(self.network, tree, label, call, finite)

    def _presented(self) -> Iterator[tuple[str, object]]:
        families = {family.name: str(family.group) for family in self.families}
        yield from (("network", repr(self.network)), ("parameters", self.network.num_parameters), ("dim", self.dim))
        yield from (("fiber_dim", self.fiber_dim), ("metric", self.metric_name), ("families", families))
        yield "left_out", self.left_out

    def __repr__(self) -> str:
        """Dimensions and families."""
        names = ", ".join(f"{family.name}: {family.group}" for family in self.families)
        left = "; ".join(f"{name}, as {reason}" for name, reason in self.left_out.items())
        missing = f", without {left}" if left else ""
        return f"QuotientSpace of {self.network!r} by {names or 'nothing'} ({self.metric_name} metric){missing}"


@functools.partial(jax.tree_util.register_dataclass, data_fields=["params", "element", "attained"], meta_fields=[])
@dataclass(frozen=True, repr=False)
class Representative(Result):
    """A canonical representative: `space.act(params, element)` is it; `attained` says whether the least norm is."""

    params: Tree
    element: dict[str, jax.Array]
    attained: jax.Array


def _slope(alive: Callable[[], Callable[..., Tree]]) -> Callable[..., Tree]:
    """The derivatives of a loss, as a program that holds it once and does not keep it alive."""

    def value(params: Tree, *data: Tree) -> jax.Array:
        found = jnp.asarray(alive()(params, *data))
        if found.shape or not jnp.issubdtype(found.dtype, jnp.floating):
            raise GeometryError(
                f"`space.gradient(loss, params)`: loss must return one real number, got {found.dtype} of shape "
                f"{found.shape}; average over a batch inside of it."
            )
        return found

    return jax.jit(jax.grad(value))


@once
def _nudged(families: tuple[Any, ...], arrays: Named, coordinates: list[Any]) -> Named:
    for family, own in zip(families, coordinates, strict=True):
        arrays = family.act(arrays, family.group.exponential(jnp.asarray(family.group.algebra(own, family.sizes))))
    return arrays

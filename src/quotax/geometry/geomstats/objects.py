"""The geomstats objects of a quotient: total space, fiber bundle, group action and metrics, over flat vectors.

Imported only when `space.bundle` or `space.metric` is first asked for: importing this module loads geomstats.

A point of the quotient is represented by any point of its orbit, and a tangent vector by the horizontal one there, so
that two points are equal when `dist` between them is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array
from jax.core import Tracer

from quotax import geomstats_jax
from quotax.errors import ConvergenceError, DomainError
from quotax.geometry.geomstats.calculus import Above, Below, GroupElements
from quotax.geometry.quotient import Quotient
from quotax.trees import AnyArray, AnySpace, Tree

gs: Any = geomstats_jax.activate()

from geomstats.geometry.base import VectorSpace  # noqa: E402 - the backend must be active first
from geomstats.geometry.fiber_bundle import FiberBundle  # noqa: E402
from geomstats.geometry.group_action import GroupAction  # noqa: E402
from geomstats.geometry.quotient_metric import QuotientMetric  # noqa: E402
from geomstats.geometry.riemannian_metric import RiemannianMetric  # noqa: E402

from quotax.geomstats_jax.corrections import FlatBundle  # noqa: E402

_CHUNK = 64
"""Batches of at most this many points are computed one point after the other, larger ones so many at a time.

Whatever its shape, a batch needs no program that has not been compiled before.
"""


Calculus: TypeAlias = Any
"""`Above`, `Below` or `GroupElements`: what is asked of one is a method's name."""


class Batches:
    """Functions of one point made functions of batches; geomstats calls them eagerly, with many shapes."""

    def __init__(self, calculus: Calculus) -> None:
        """Of a calculus."""
        self.calculus = calculus
        self._single: dict[str, Callable[..., Tree]] = {}
        self._many: dict[str, Callable[..., Tree]] = {}

    def __call__(self, name: str, signature: str, *arguments: AnyArray) -> Tree:
        """The method `name`, with the core dimensions of NumPy's `vectorize`; every argument is a vector."""
        with jax.ensure_compile_time_eval():
            self.calculus.require(name)
        if name not in self._single:
            function = getattr(self.calculus, name)
            self._single[name] = jax.jit(function)
            self._many[name] = jax.jit(jnp.vectorize(function, signature=signature))
        arrays = [jnp.asarray(argument) for argument in arguments]
        batch = jnp.broadcast_shapes(*(array.shape[:-1] for array in arrays))
        if not batch:
            return self._single[name](*arrays)
        count = math.prod(batch)
        if count == 0 or any(isinstance(array, Tracer) for array in arrays):
            return self._many[name](*arrays)
        rows = [jnp.broadcast_to(array, (*batch, array.shape[-1])).reshape(count, -1) for array in arrays]
        if count <= _CHUNK:
            results = [self._single[name](*(row[i] for row in rows)) for i in range(count)]
            return jax.tree.map(lambda *parts: jnp.stack(parts).reshape(*batch, *parts[0].shape), *results)
        chunks = -(-count // _CHUNK)
        fill = ((0, chunks * _CHUNK - count), (0, 0))
        rows = [jnp.pad(row, fill, mode="edge").reshape(chunks, _CHUNK, -1) for row in rows]
        results = [self._many[name](*(row[i] for row in rows)) for i in range(chunks)]
        return jax.tree.map(
            lambda *parts: jnp.concatenate(parts)[:count].reshape(*batch, *parts[0].shape[1:]), *results
        )


class Operations:
    """What the spaces, the metrics and the bundle of one quotient compute, compiled once for all of them."""

    def __init__(self, quotient: Quotient) -> None:
        """Nothing is compiled before it is asked for."""
        self.quotient = quotient
        self.above = Batches(Above(quotient))
        self.below = Batches(Below(quotient))


# --- spaces


class ParameterSpace(VectorSpace):
    """Flat parameter vectors of a network."""

    def __init__(self, operations: Operations, equip: bool = True) -> None:
        """Take the dimension from the network."""
        self._operations = operations
        self._quotient = operations.quotient
        super().__init__(shape=(self._quotient.network.num_parameters,), equip=equip)

    def new(self, equip: bool = True) -> ParameterSpace:
        """The same space, not equipped with a quotient."""
        return ParameterSpace(self._operations, equip)

    @staticmethod
    def default_metric() -> type:
        """The metric of the quotient's making."""
        return TotalMetric

    def random_point(self, n_samples: int = 1, bound: float = 1.0) -> Array:
        """Normal parameters: uniform ones of the same size are closer to weights of low rank."""
        size = (n_samples, *self.shape) if n_samples > 1 else self.shape
        return bound * gs.random.normal(size=size)

    def _create_basis(self) -> Array:
        return gs.eye(self.shape[0])


class OrbitSpace(ParameterSpace):
    """The base: orbits, each represented by one of its points; tangent vectors are horizontal."""

    def __init__(self, operations: Operations, equip: bool = False) -> None:
        """Of the quotient's dimension, in the coordinates of the total space."""
        super().__init__(operations, equip)
        self.dim = self._quotient.dim

    def new(self, equip: bool = False) -> OrbitSpace:
        """The same space without its metric."""
        return OrbitSpace(self._operations, equip)

    def is_tangent(self, vector: Array, base_point: Array | None = None, atol: float = 1e-6) -> Array:
        """Whether a vector is horizontal."""
        return jnp.all(jnp.isclose(vector, self.to_tangent(vector, base_point), atol=atol), axis=-1)

    def to_tangent(self, vector: Array, base_point: Array | None = None) -> Array:
        """The horizontal part."""
        if base_point is None:
            raise ValueError(f"`{type(self).__name__}`: which vectors are horizontal depends on base_point, got None.")
        return self._operations.below("horizontal", "(d),(d)->(d)", vector, base_point)

    def random_tangent_vec(self, base_point: AnyArray = None, n_samples: int = 1) -> Array:
        """A normal horizontal vector, at every base point."""
        shape = jnp.shape(base_point)
        return self.to_tangent(gs.random.normal(size=(n_samples, *shape) if n_samples > 1 else shape), base_point)


# --- metrics


class PointwiseMetric(RiemannianMetric):
    """A metric whose operations are those of a calculus."""

    batches: Batches

    def inner_product(self, tangent_vec_a: Array, tangent_vec_b: Array, base_point: Array | None = None) -> Array:
        """The inner product of two vectors."""
        return self.batches("inner", "(d),(d),(d)->()", tangent_vec_a, tangent_vec_b, self._at(base_point))

    def inner_coproduct(self, cotangent_vec_a: Array, cotangent_vec_b: Array, base_point: Array) -> Array:
        """The inner product of two covectors."""
        raised = self.batches("sharp", "(d),(d)->(d)", cotangent_vec_a, base_point)
        return jnp.sum(raised * cotangent_vec_b, -1)

    def metric_matrix(self, base_point: Array | None = None) -> Array:
        """The matrix of the inner product; of rank `dim` for a quotient, whose coordinates are redundant."""
        basis, point = jnp.eye(self._space.shape[0]), self._at(base_point)
        return self.inner_product(basis[:, None], basis[None, :], jnp.asarray(point)[..., None, None, :])

    def cometric_matrix(self, base_point: Array | None = None) -> Array:
        """The matrix of the inner product of covectors: the (pseudo-)inverse of `metric_matrix`."""
        basis, point = jnp.eye(self._space.shape[0]), self._at(base_point)
        return self.batches("sharp", "(d),(d)->(d)", basis, jnp.asarray(point)[..., None, :])

    def christoffels(self, base_point: Array | None = None) -> Array:
        """The Christoffel symbols above; along horizontal vectors they give the geodesics of the quotient."""
        basis, point = jnp.eye(self._space.shape[0]), jnp.asarray(self._at(base_point))[..., None, None, :]
        symbols = self.batches("christoffel", "(d),(d),(d)->(d)", basis[:, None], basis[None, :], point)
        return jnp.moveaxis(symbols, -1, -3)

    def geodesic_equation(self, state: Array) -> Array:
        """The derivative of position and velocity."""
        position, velocity = state[..., 0, :], state[..., 1, :]
        bend = self.batches("christoffel", "(d),(d),(d)->(d)", velocity, velocity, position)
        return jnp.stack([jnp.asarray(velocity), -bend], axis=-2)

    def exp(self, tangent_vec: Array, base_point: Array) -> Array:
        """The end of the geodesic; `DomainError` when it leaves the domain before."""
        end, exit_time = self.batches("exp", "(d),(d)->(d),()", tangent_vec, base_point)
        if not isinstance(exit_time, Tracer) and not bool(jnp.all(exit_time > 1)):
            first = float(jnp.min(exit_time))
            raise DomainError(f"`metric.exp`: the geodesic leaves the domain of the metric at t = {first:.6g}.", first)
        return end

    def log(self, point: Array, base_point: Array) -> Array:
        """The vector of the geodesic to `point`; `ConvergenceError` when none was found."""
        vector, ok = self.batches("log", "(d),(d)->(d),()", point, base_point)
        _check(ok, "`metric.log`: no geodesic was found that ends at the point.")
        return vector

    def squared_dist(self, point_a: Array, point_b: Array) -> Array:
        """The square of the length of the logarithm."""
        return self.squared_norm(self.log(point_b, point_a), point_a)

    def dist(self, point_a: Array, point_b: Array) -> Array:
        """The length of the logarithm."""
        return self.norm(self.log(point_b, point_a), point_a)

    def geodesic(
        self, initial_point: Array, end_point: Array | None = None, initial_tangent_vec: Array | None = None
    ) -> Callable[[Array], Array]:
        """The geodesic to a point or along a vector, as a function of times; times are the second last axis."""
        if (end_point is None) == (initial_tangent_vec is None):
            raise ValueError("`metric.geodesic`: give either end_point or initial_tangent_vec.")
        if end_point is not None:
            initial_tangent_vec = self.log(end_point, initial_point)
        point = jnp.asarray(initial_point)[..., None, :]
        vector = jnp.asarray(initial_tangent_vec)[..., None, :]

        def path(t: Array) -> Array:
            # By homogeneity, gamma(t; v) = exp(t v): each time is one solution, all in one batch.
            return self.exp(jnp.atleast_1d(jnp.asarray(t, vector.dtype))[:, None] * vector, point)

        return path

    def curvature(
        self, tangent_vec_a: Array, tangent_vec_b: Array, tangent_vec_c: Array, base_point: Array | None = None
    ) -> Array:
        """`R(a, b) c`."""
        vectors = (tangent_vec_a, tangent_vec_b, tangent_vec_c, self._at(base_point))
        return self.batches("curvature", "(d),(d),(d),(d)->(d)", *vectors)

    def riemann_tensor(self, base_point: Array | None = None) -> Array:
        """The components of the curvature, geomstats' way: `[i, j, k, l]` is entry `l` of `R(e_j, e_k) e_i`."""
        basis, point = jnp.eye(self._space.shape[0]), jnp.asarray(self._at(base_point))[..., None, None, None, :]
        return self.curvature(basis[:, None], basis[None, :], basis[:, None, None], point)

    def curvature_derivative(
        self, tangent_vec_a: Array, tangent_vec_b: Array, tangent_vec_c: Array, tangent_vec_d: Array, base_point: Array
    ) -> Array:
        r"""$(\nabla_a R)(b, c) d$."""
        vectors = (tangent_vec_a, tangent_vec_b, tangent_vec_c, tangent_vec_d, base_point)
        return self.batches("curvature_derivative", "(d),(d),(d),(d),(d)->(d)", *vectors)

    def directional_curvature_derivative(self, tangent_vec_a: Array, tangent_vec_b: Array, base_point: Array) -> Array:
        r"""$(\nabla_a R)(b, a) b$."""
        return self.curvature_derivative(tangent_vec_a, tangent_vec_b, tangent_vec_a, tangent_vec_b, base_point)

    def parallel_transport(
        self, tangent_vec: Array, base_point: Array, direction: Array | None = None, end_point: Array | None = None
    ) -> Array:
        """Parallel transport along a geodesic: to its end along `direction`, or to `end_point`."""
        if (direction is None) == (end_point is None):
            raise ValueError("`metric.parallel_transport`: give either direction or end_point.")
        if end_point is None:
            return self.batches("transport", "(d),(d),(d)->(d)", tangent_vec, direction, base_point)
        return self._transport_to(tangent_vec, end_point, base_point)

    def _transport_to(self, tangent_vec: Array, end_point: Array, base_point: Array) -> Array:
        direction = self._direction(end_point, base_point)
        return self.batches("transport", "(d),(d),(d)->(d)", tangent_vec, direction, base_point)

    def _direction(self, end_point: Array, base_point: Array) -> Array:
        direction, ok = self.batches("log", "(d),(d)->(d),()", end_point, base_point)
        _check(ok, "`metric.parallel_transport`: no geodesic was found that ends at end_point.")
        return direction

    def _at(self, base_point: Array | None) -> Array:
        if base_point is None:
            raise ValueError(f"`{type(self).__name__}`: the metric depends on base_point, got None.")
        return base_point


class TotalMetric(PointwiseMetric):
    """The metric of the parameters."""

    def __init__(self, space: AnySpace) -> None:
        """Of a `ParameterSpace`."""
        super().__init__(space)
        self.batches = space._operations.above

    def _at(self, base_point: Array | None) -> Array:
        flat = self.batches.calculus.metric.euclidean
        return jnp.zeros(self._space.shape) if base_point is None and flat else super()._at(base_point)


class OrbitMetric(PointwiseMetric, QuotientMetric):
    """The metric of the quotient."""

    def __init__(self, space: AnySpace, total_space: AnySpace) -> None:
        """Of the base of `total_space.fiber_bundle`."""
        QuotientMetric.__init__(self, space, total_space)
        self.batches = space._operations.below

    def inner_product(
        self,
        tangent_vec_a: Array,
        tangent_vec_b: Array,
        base_point: Array | None = None,
        fiber_point: Array | None = None,
    ) -> Array:
        """The inner product of the horizontal parts."""
        return super().inner_product(tangent_vec_a, tangent_vec_b, base_point if fiber_point is None else fiber_point)

    def _transport_to(self, tangent_vec: Array, end_point: Array, base_point: Array) -> Array:
        """As a vector at `end_point`: the geodesic is found from there, and followed back to there.

        From operations that are compiled by themselves, not as one program that would hold them all again. The
        velocity of a geodesic is parallel along it.
        """
        back = self._direction(base_point, end_point)
        start, _ = self.batches("exp", "(d),(d)->(d),()", back, end_point)
        velocity = self.batches("transport", "(d),(d),(d)->(d)", back, back, end_point)
        moved = self.batches("carried", "(d),(d),(d)->(d)", tangent_vec, start, base_point)
        return self.batches("transport", "(d),(d),(d)->(d)", moved, -velocity, start)

    def sectional_curvature(self, tangent_vec_a: Array, tangent_vec_b: Array, base_point: Array | None = None) -> Array:
        """The curvature of a plane, zero where the vectors span none."""
        return self.batches("sectional", "(d),(d),(d)->()", tangent_vec_a, tangent_vec_b, self._at(base_point))


# --- the bundle


class SymmetryBundle(FlatBundle, FiberBundle):
    """The bundle of a network's parameters over its quotient; points of the base are represented by points above."""

    def __init__(self, total_space: ParameterSpace) -> None:
        """Of the total space, whose operations it shares."""
        FiberBundle.__init__(self, total_space)
        self._batches = total_space._operations.below

    @staticmethod
    def riemannian_submersion(point: Array) -> Array:
        """A point stands for its orbit."""
        return point

    @staticmethod
    def lift(point: Array) -> Array:
        """A point stands for its orbit."""
        return point

    def tangent_riemannian_submersion(self, tangent_vec: Array, base_point: Array) -> Array:
        """The horizontal part stands for the tangent vector of the base."""
        return self.horizontal_projection(tangent_vec, base_point)

    def vertical_projection(self, tangent_vec: Array, base_point: Array) -> Array:
        """The part along the orbit."""
        return jnp.asarray(tangent_vec) - self.horizontal_projection(tangent_vec, base_point)

    def horizontal_projection(self, tangent_vec: Array, base_point: Array) -> Array:
        """The part that leaves the orbit."""
        return self._batches("horizontal", "(d),(d)->(d)", tangent_vec, base_point)

    def horizontal_lift(
        self, tangent_vec: Array, base_point: Array | None = None, fiber_point: Array | None = None
    ) -> Array:
        """The horizontal part at `fiber_point`; carried there by the group from `base_point` when both are given."""
        point = base_point if fiber_point is None else fiber_point
        if point is None:
            raise ValueError("`bundle.horizontal_lift`: give base_point or fiber_point.")
        if base_point is not None and fiber_point is not None and base_point is not fiber_point:
            tangent_vec = self._batches("carried", "(d),(d),(d)->(d)", tangent_vec, fiber_point, base_point)
        return self.horizontal_projection(tangent_vec, point)

    def align(self, point: Array, base_point: Array) -> Array:
        """The point of the orbit of `point` where the shortest geodesic from `base_point` ends."""
        if self._batches.calculus.metric.euclidean:
            return self._batches("align", "(d),(d)->(d)", point, base_point)
        vector, ok = self._batches("log", "(d),(d)->(d),()", point, base_point)
        end, exit_time = self._batches("exp", "(d),(d)->(d),()", vector, base_point)
        ok = jnp.logical_and(ok, exit_time > 1)
        _check(ok, "`bundle.align`: no geodesic was found that ends in the orbit of the point.")
        return end

    def integrability_tensor(self, tangent_vec_a: Array, tangent_vec_b: Array, base_point: Array) -> Array:
        """O'Neill's tensor $A$."""
        return self._batches("integrability", "(d),(d),(d)->(d)", tangent_vec_a, tangent_vec_b, base_point)

    def integrability_tensor_derivative(
        self,
        horizontal_vec_x: Array,
        horizontal_vec_y: Array,
        nabla_x_y: Array,
        tangent_vec_e: Array,
        nabla_x_e: Array,
        base_point: Array,
    ) -> tuple[Array, Array]:
        r"""$\nabla_X(A_Y E)$ and $A_Y E$."""
        vectors = (horizontal_vec_x, horizontal_vec_y, nabla_x_y, tangent_vec_e, nabla_x_e, base_point)
        return self._batches("integrability_derivative", "(d),(d),(d),(d),(d),(d)->(d),(d)", *vectors)


# --- the group


class SymmetryGroupElements:
    """Elements of all families together as flat vectors: see `calculus.GroupElements`."""

    def __init__(self, quotient: Quotient) -> None:
        """Lay the families out one after the other."""
        self.elements = GroupElements(quotient)
        self.shape = (self.elements.size,)
        self.point_ndim = 1

    @property
    def identity(self) -> Array:
        """The neutral element."""
        return self.elements.identity()

    def random_point(self, n_samples: int = 1) -> Array:
        """Random elements of every family."""
        seed = int(gs.random.randint(0, 2**31 - 1))
        keys = jax.random.split(jax.random.key(seed), n_samples)
        points = jnp.stack([self.elements.random(key) for key in keys])
        return points if n_samples > 1 else points[0]

    def inverse(self, group_elem: Array) -> Array:
        """The inverse element."""
        return jnp.vectorize(self.elements.inverse, signature="(g)->(g)")(jnp.asarray(group_elem))


class SymmetryAction(GroupAction):
    """The families acting on flat parameter vectors, one after the other."""

    def __init__(self, operations: Operations) -> None:
        """Compile the action once."""
        self.group = SymmetryGroupElements(operations.quotient)
        self.group_elem_shape = self.group.shape
        calculus = operations.above.calculus
        elements = self.group.elements
        act = lambda element, point: calculus.flat(elements.act(element, calculus.named(point)))
        self._act = jax.jit(jnp.vectorize(act, signature="(g),(d)->(d)"))

    def __call__(self, group_elem: Array, point: Array) -> Array:
        """The points moved."""
        return self._act(jnp.asarray(group_elem), jnp.asarray(point))


def build(quotient: Quotient) -> ParameterSpace:
    """The total space, with `.fiber_bundle`, `.group_action` and `.quotient` equipped."""
    operations = Operations(quotient)
    total = ParameterSpace(operations)
    total.group_action = SymmetryAction(operations)
    total.fiber_bundle = SymmetryBundle(total)
    total.quotient = OrbitSpace(operations)
    total.quotient.equip_with_metric(OrbitMetric, total_space=total)
    return total


def _check(ok: AnyArray, message: str) -> None:
    """Raise what geomstats has no named result for; under jit nothing can be raised, and the numbers say nothing."""
    if not isinstance(ok, Tracer) and not bool(jnp.all(ok)):
        raise ConvergenceError(message)

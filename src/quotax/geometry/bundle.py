"""The geomstats objects of a quotient: total space, fiber bundle and quotient metric, over flat vectors.

Imported only when `space.bundle` or `space.metric` is first asked for: importing this module loads geomstats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from quotax import geomstats_jax

gs: Any = geomstats_jax.activate()

from geomstats.geometry.base import VectorSpace  # noqa: E402 - the backend must be active first
from geomstats.geometry.euclidean import CanonicalEuclideanMetric, EuclideanMetric  # noqa: E402
from geomstats.geometry.fiber_bundle import FiberBundle  # noqa: E402

from quotax.geomstats_jax.corrections import FlatBundle, corrected_quotient_metric  # noqa: E402

if TYPE_CHECKING:
    from quotax.geometry.space import QuotientSpace


class ParameterMetric(CanonicalEuclideanMetric):
    """The Euclidean metric on flat parameter vectors."""

    def __init__(self, space: Any) -> None:
        """Skip `EuclideanMetric.__init__`, which allocates the identity matrix of the whole parameter space."""
        super(EuclideanMetric, self).__init__(space)
        self.metric_matrix_ = None

    def metric_matrix(self, base_point: Any = None) -> Any:
        """The identity; made on request only."""
        return gs.eye(self._space.dim)


class ParameterSpace(VectorSpace):
    """Flat parameter vectors of a network."""

    def __init__(self, quotient: QuotientSpace) -> None:
        """Take the dimension from the network."""
        self._quotient = quotient
        super().__init__(shape=(quotient.network.num_parameters,), equip=True)

    def new(self, equip: bool = True) -> ParameterSpace:
        """The same space, not equipped with a quotient."""
        return ParameterSpace(self._quotient)

    @staticmethod
    def default_metric() -> type:
        """Euclidean."""
        return ParameterMetric

    def _create_basis(self) -> Any:
        return gs.eye(self.dim)


class SymmetryBundle(FlatBundle, FiberBundle):
    """The bundle of a network's parameters over its quotient; points of the base are represented by points above."""

    def __init__(self, total_space: ParameterSpace, quotient: QuotientSpace) -> None:
        """Compile the projection once; geomstats calls it eagerly."""
        super().__init__(total_space)
        self._quotient = quotient

        def project(vector: jax.Array, point: jax.Array) -> jax.Array:
            params, tangent = quotient.unravel(point), quotient.unravel(vector)
            return quotient.ravel(quotient.vertical(params, tangent))

        self._project = jax.jit(jnp.vectorize(project, signature="(d),(d)->(d)"))

    @staticmethod
    def riemannian_submersion(point: Any) -> Any:
        """A point stands for its orbit."""
        return point

    @staticmethod
    def lift(point: Any) -> Any:
        """A point stands for its orbit."""
        return point

    def tangent_riemannian_submersion(self, tangent_vec: Any, base_point: Any) -> Any:
        """The horizontal part stands for the tangent vector of the base."""
        return self.horizontal_projection(tangent_vec, base_point)

    def vertical_projection(self, tangent_vec: Any, base_point: Any) -> Any:
        """The part along the orbit."""
        return self._project(jnp.asarray(tangent_vec), jnp.asarray(base_point))


def build(quotient: QuotientSpace) -> ParameterSpace:
    """The total space, with `.fiber_bundle` and `.quotient` equipped."""
    total = ParameterSpace(quotient)
    total.fiber_bundle = SymmetryBundle(total, quotient)
    total.quotient = total.new(equip=False)
    total.quotient.equip_with_metric(corrected_quotient_metric(), total_space=total)
    return total

"""What geomstats 2.8 computes wrongly, or cannot trace, put right.

The classes are mixins that name no class of geomstats, so this module can be imported before geomstats is. Put them
in front of geomstats' own: `class Metric(ONeillCurvature, QuotientMetric)`.
"""

from typing import Any

import jax
import jax.numpy as jnp

from quotax.geomstats_jax.matrix_equations import nearest_rotation


class ONeillCurvature:
    r"""A quotient metric with the curvature of O'Neill's formula.

    With $R(X,Y)Z = \nabla_X \nabla_Y Z - \nabla_Y \nabla_X Z - \nabla_{[X,Y]} Z$, for horizontal vectors,
    $$R^B(X,Y)Z = \mathrm{hor}\, R(X,Y)Z + 2 A_Z A_X Y - A_X A_Y Z + A_Y A_X Z.$$
    `QuotientMetric.curvature` has the opposite signs in its terms in $A$, a rest of the opposite convention for $R$:
    its curvature of planar triangles is -2, not 4.
    """

    _fiber_bundle: Any
    _total_space: Any

    def curvature(self, tangent_vec_a: Any, tangent_vec_b: Any, tangent_vec_c: Any, base_point: Any) -> jax.Array:
        """The curvature tensor $R(a, b) c$ of the quotient."""
        bundle, point = self._fiber_bundle, self._fiber_bundle.lift(base_point)
        x, y, z = self._lifts(base_point, point, tangent_vec_a, tangent_vec_b, tangent_vec_c)

        def a(u: Any, v: Any) -> Any:
            return bundle.integrability_tensor(u, v, point)

        above = self._total_space.metric.curvature(x, y, z, point)
        lifted = above + 2 * a(z, a(x, y)) - a(x, a(y, z)) + a(y, a(x, z))
        return bundle.tangent_riemannian_submersion(lifted, point)

    def curvature_derivative(
        self, tangent_vec_a: Any, tangent_vec_b: Any, tangent_vec_c: Any, tangent_vec_d: Any, base_point: Any
    ) -> jax.Array:
        r"""The covariant derivative $(\nabla_a R)(b, c) d$ of the curvature of the quotient.

        With $X, Y, Z$ horizontal lifts of fields that are parallel along $H$, $\nabla_H X = A_H X$ is vertical, and
        the horizontal part of $\nabla_H U$ is $\nabla_H U - A_H U$ for $U$ horizontal; O'Neill's formula is
        differentiated with these two rules.
        """
        bundle, metric = self._fiber_bundle, self._total_space.metric
        point = bundle.lift(base_point)
        h, x, y, z = self._lifts(base_point, point, tangent_vec_a, tangent_vec_b, tangent_vec_c, tangent_vec_d)

        def a(u: Any, v: Any) -> Any:
            return bundle.integrability_tensor(u, v, point)

        def derivative(u: Any, dv: Any, v: Any, de: Any, e: Any) -> tuple[Any, Any]:
            return bundle.integrability_tensor_derivative(u, v, dv, e, de, point)

        dx, dy, dz = a(h, x), a(h, y), a(h, z)
        curvature = metric.curvature(x, y, z, point)
        total = (
            metric.curvature_derivative(h, x, y, z, point)
            + metric.curvature(dx, y, z, point)
            + metric.curvature(x, dy, z, point)
            + metric.curvature(x, y, dz, point)
            - a(h, bundle.vertical_projection(curvature, point))
        )
        for factor, (du, u), (dv, v), (dw, w) in (
            (2, (dz, z), (dx, x), (dy, y)),
            (-1, (dx, x), (dy, y), (dz, z)),
            (1, (dy, y), (dx, x), (dz, z)),
        ):
            d_inner, inner = derivative(h, dv, v, dw, w)
            d_outer, outer = derivative(h, du, u, d_inner, inner)
            total = total + factor * (d_outer - a(h, outer))
        return bundle.tangent_riemannian_submersion(total, point)

    def directional_curvature_derivative(self, tangent_vec_a: Any, tangent_vec_b: Any, base_point: Any) -> jax.Array:
        r"""The derivative $(\nabla_a R)(b, a) b$ of the directional curvature."""
        return self.curvature_derivative(tangent_vec_a, tangent_vec_b, tangent_vec_a, tangent_vec_b, base_point)

    def _lifts(self, base_point: Any, point: Any, *vectors: Any) -> list[Any]:
        lift = self._fiber_bundle.horizontal_lift
        return [lift(vector, base_point=base_point, fiber_point=point) for vector in vectors]


class FlatBundle:
    r"""A fiber bundle over points of any shape, whose total space is flat with constant coordinates.

    There $A_X E = \mathrm{ver}\, D_{hX}(hE) + \mathrm{hor}\, D_{hX}(vE)$, where $D$ differentiates the projections
    $h$ and $v = 1 - h$ with respect to the point: one forward derivative gives both. geomstats' own tests of vectors
    reduce over two axes; these reduce over the axes of a point.
    """

    _total_space: Any
    horizontal_projection: Any
    vertical_projection: Any

    def is_horizontal(self, tangent_vec: Any, base_point: Any, atol: float = 1e-6) -> jax.Array:
        """Whether a vector equals its horizontal projection."""
        return self._close(tangent_vec, self.horizontal_projection(tangent_vec, base_point), atol)

    def is_vertical(self, tangent_vec: Any, base_point: Any, atol: float = 1e-6) -> jax.Array:
        """Whether a vector equals its vertical projection."""
        return self._close(tangent_vec, self.vertical_projection(tangent_vec, base_point), atol)

    def integrability_tensor(self, tangent_vec_a: Any, tangent_vec_b: Any, base_point: Any) -> jax.Array:
        """O'Neill's tensor $A$."""
        along = self.horizontal_projection(tangent_vec_a, base_point)
        shape = jnp.broadcast_shapes(along.shape, tangent_vec_b.shape, base_point.shape)
        point, along, vector = (jnp.broadcast_to(v, shape) for v in (base_point, along, tangent_vec_b))
        _, change = jax.jvp(lambda p: self.horizontal_projection(vector, p), (point,), (along,))
        return self.vertical_projection(change, point) - self.horizontal_projection(change, point)

    def _close(self, a: Any, b: Any, atol: float) -> jax.Array:
        axes = tuple(range(-self._total_space.point_ndim, 0))
        return jnp.all(jnp.isclose(a, b, atol=atol), axis=axes)


def corrected_quotient_metric() -> type:
    """The `QuotientMetric` of geomstats with `ONeillCurvature` in front; geomstats is loaded when it is not."""
    from quotax.geomstats_jax.registration import activate

    activate()
    from geomstats.geometry.quotient_metric import QuotientMetric

    return type("CorrectedQuotientMetric", (ONeillCurvature, QuotientMetric), {"__doc__": ONeillCurvature.__doc__})


def align_matrices(point: jax.Array, base_point: jax.Array) -> jax.Array:
    r"""`point @ R` with the rotation $R$ that brings it nearest to `base_point`; no branch on values."""
    return point @ nearest_rotation(point.mT @ base_point)


def install() -> None:
    """Replace `Matrices.align_matrices` of geomstats by one that can be traced.

    geomstats' own warns about ill-conditioned alignments, which is a branch on values: with it, the alignment of
    shapes and of PSD matrices of fixed rank cannot be jitted. Changes geomstats' class, for this process.
    """
    from quotax.geomstats_jax.registration import activate

    gs = activate()
    from geomstats.geometry.matrices import Matrices

    def aligned(cls: type, point: Any, base_point: Any) -> jax.Array:
        return align_matrices(gs.array(point), gs.array(base_point))

    setattr(Matrices, "align_matrices", classmethod(aligned))  # noqa: B010 (a class attribute of another package)

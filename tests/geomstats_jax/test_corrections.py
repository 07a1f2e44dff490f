"""Curvature of quotients where it is known in closed form, and its derivative where it can be measured."""

import jax.numpy as jnp
import numpy as np
import pytest

from quotax.geomstats_jax import activate
from quotax.geomstats_jax.corrections import FlatBundle, ONeillCurvature, corrected_quotient_metric

gs = activate()


def shapes(landmarks, dimension, seed=0):
    from geomstats.geometry.pre_shape import KendallShapeMetric, PreShapeSpace

    class Metric(ONeillCurvature, KendallShapeMetric):
        pass

    space = PreShapeSpace(landmarks, dimension)
    space.equip_with_group_action("rotations")
    space.equip_with_quotient()
    gs.random.seed(seed)
    point = space.random_point()
    vectors = [
        space.fiber_bundle.horizontal_projection(space.to_tangent(gs.random.normal(size=point.shape), point), point)
        for _ in range(4)
    ]
    vectors = [vector / gs.linalg.norm(vector) for vector in vectors]
    return space, Metric(space.quotient, space), point, vectors


# The shapes of planar triangles are a sphere of radius 1/2 (Kendall).
@pytest.mark.parametrize("seed", range(3))
def test_planar_triangles_have_curvature_four(seed):
    space, metric, point, (x, y, *_) = shapes(3, 2, seed)
    assert metric.sectional_curvature(x, y, point) == pytest.approx(4, abs=1e-10)
    wrong = space.quotient.metric.sectional_curvature(x, y, point)
    assert wrong == pytest.approx(-2, abs=1e-10), "geomstats' sign error is gone: the correction can go, too"


# Planar shapes are complex projective space, whose curvature is 1 + 3 <x, i y>^2 for orthonormal horizontal x, y.
def test_planar_shapes_are_complex_projective():
    _, metric, point, (x, y, *_) = shapes(5, 2)
    y = y - gs.sum(x * y) * x
    y = y / gs.linalg.norm(y)
    rotated = jnp.stack([-y[:, 1], y[:, 0]], axis=1)
    assert metric.sectional_curvature(x, y, point) == pytest.approx(1 + 3 * float(gs.sum(x * rotated)) ** 2)


def test_curvature_has_the_symmetries_of_a_curvature_tensor():
    space, metric, point, (x, y, z, w) = shapes(4, 3)

    def r(a, b, c, d):
        return space.metric.inner_product(metric.curvature(a, b, c, point), d, point)

    value = r(x, y, z, w)
    assert abs(value) > 1e-3
    np.testing.assert_allclose([-r(y, x, z, w), -r(x, y, w, z), r(z, w, x, y)], [value] * 3, atol=1e-12)
    np.testing.assert_allclose(r(x, y, z, w) + r(y, z, x, w) + r(z, x, y, w), 0, atol=1e-12)


def test_curvature_of_batches():
    _, metric, point, (x, y, z, _) = shapes(4, 3)
    expected = metric.curvature(x, y, z, point)
    stacked = [gs.stack([v, v]) for v in (x, y, z, point)]
    np.testing.assert_allclose(metric.curvature(*stacked), gs.stack([expected, expected]), atol=1e-12)


# Along a geodesic, the components of R in a parallel frame change at the rate of the covariant derivative.
def test_curvature_derivative_is_the_rate_of_change_in_a_parallel_frame():
    space, metric, point, (h, x, y, z) = shapes(4, 3)
    inner = space.metric.inner_product

    def components(t):
        at = space.metric.exp(t * h, point)
        frame = [metric.parallel_transport(v, point, direction=t * h, n_steps=2) for v in (x, y, z)]
        curvature = metric.curvature(*frame, at)
        return np.array([inner(curvature, v, at) for v in frame])

    step = 1e-3
    measured = (components(step) - components(-step)) / (2 * step)
    derivative = metric.curvature_derivative(h, x, y, z, point)
    np.testing.assert_allclose([inner(derivative, v, point) for v in (x, y, z)], measured, atol=2e-4)
    assert np.max(np.abs(measured)) > 0.1
    directional = metric.directional_curvature_derivative(x, y, point)
    np.testing.assert_allclose(directional, metric.curvature_derivative(x, y, x, y, point), atol=1e-12)


def circles():
    """C^2 without 0, points flat in R^4, divided by the unit complex numbers."""
    from geomstats.geometry.euclidean import Euclidean
    from geomstats.geometry.fiber_bundle import FiberBundle

    turn = np.kron(np.eye(2), np.array([[0.0, -1.0], [1.0, 0.0]]))

    class Bundle(FlatBundle, FiberBundle):
        def vertical_projection(self, tangent_vec, base_point):
            direction = base_point @ turn.T
            size = jnp.sum(direction**2, -1, keepdims=True)
            return jnp.sum(tangent_vec * direction, -1, keepdims=True) * direction / size

    total = Euclidean(4)
    total.fiber_bundle = Bundle(total)
    return total, corrected_quotient_metric()(Euclidean(4, equip=False), total), turn


# C^2 / U(1) is the cone over a sphere of radius 1/2: at distance r from the tip, the plane orthogonal to the ray has
# curvature (4 - 1) / r^2, a plane through the ray has none.
def test_flat_bundle_and_corrected_metric_on_a_cone():
    total, metric, turn = circles()
    rng = np.random.default_rng(0)
    point = jnp.asarray(rng.normal(size=4))
    radius = float(jnp.linalg.norm(point))
    bundle = total.fiber_bundle
    basis = np.linalg.svd(np.stack([point, turn @ point]))[2][2:]
    assert metric.sectional_curvature(*basis, point) == pytest.approx(3 / radius**2)
    assert metric.sectional_curvature(basis[0], point, point) == pytest.approx(0, abs=1e-12)
    a_xy = bundle.integrability_tensor(basis[0], basis[1], point)
    assert bundle.is_vertical(a_xy, point)
    np.testing.assert_allclose(a_xy, -bundle.integrability_tensor(basis[1], basis[0], point), atol=1e-14)
    assert jnp.linalg.norm(a_xy) == pytest.approx(1 / radius)


def test_vectors_of_flat_bundles_are_classified_one_by_one():
    total, _, turn = circles()
    points = jnp.asarray(np.random.default_rng(1).normal(size=(3, 4)))
    vertical = points @ turn.T
    bundle = total.fiber_bundle
    np.testing.assert_array_equal(bundle.is_vertical(vertical, points), [True] * 3)
    np.testing.assert_array_equal(bundle.is_horizontal(vertical, points), [False] * 3)
    np.testing.assert_array_equal(bundle.is_horizontal(points, points), [True] * 3)
    assert bundle.is_horizontal(points[0], points[0]).shape == ()

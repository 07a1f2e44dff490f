"""geomstats' own test cases of bundles and metrics, on built-in quotients: the backend and the harness at once."""

import pytest

from geomstats_jax import harness
from quotax.geomstats_jax import activate
from quotax.geomstats_jax.corrections import ONeillCurvature

pytestmark = pytest.mark.slow

gs = activate()
random = harness.load("geomstats.test.random")


@pytest.fixture(scope="module")
def planar_shapes():
    from geomstats.geometry.pre_shape import KendallShapeMetric, PreShapeSpace

    class Metric(ONeillCurvature, KendallShapeMetric):
        pass

    space = PreShapeSpace(4, 2)
    space.equip_with_group_action("rotations")
    space.equip_with_quotient()
    space.quotient.metric = Metric(space.quotient, space)
    return space


# The base of shapes is represented by pre-shapes: the tangent vectors of the base are the horizontal ones.
class HorizontalVectors(random.KendalShapeRandomDataGenerator):
    def random_tangent_vec(self, base_point):
        vector = super().random_tangent_vec(base_point)
        return self.space.fiber_bundle.horizontal_projection(vector, base_point)


BUNDLE = harness.checks(
    "fiber_bundle",
    "FiberBundleTestCase",
    # Of a vector and its horizontal lifts' derivatives: checked against finite differences in test_corrections.py.
    skip={"test_integrability_tensor_derivative_vec"},
)


@pytest.mark.parametrize("check", BUNDLE, ids=str)
def test_bundle_of_shapes(check, planar_shapes):
    check.run(
        total_space=planar_shapes,
        base=planar_shapes,
        data_generator=random.KendalShapeRandomDataGenerator(planar_shapes),
        base_data_generator=HorizontalVectors(planar_shapes),
    )


# geomstats has no metric matrix for points that are matrices, and compares points here as if they were not aligned.
METRIC = harness.checks(
    "quotient_metric",
    "QuotientMetricTestCase",
    only={
        *("test_inner_product_vec", "test_inner_product_is_symmetric", "test_norm_vec", "test_sectional_curvature_vec"),
        *("test_exp_vec", "test_exp_belongs", "test_log_after_exp", "test_log_is_tangent", "test_dist_is_log_norm"),
        *("test_dist_is_symmetric", "test_dist_triangle_inequality", "test_exp_geodesic_ivp", "test_curvature_vec"),
    },
)


@pytest.mark.parametrize("check", METRIC, ids=str)
def test_metric_of_shapes(check, planar_shapes):
    check.run(space=planar_shapes.quotient, data_generator=HorizontalVectors(planar_shapes))


def test_the_harness_finds_the_checks():
    assert len(BUNDLE) > 20
    assert {check.vectorised is None for check in METRIC} == {True, False}
    with pytest.raises(ValueError, match=r"FiberBundleTestCase has no checks named .*test_unknown"):
        harness.checks("fiber_bundle", "FiberBundleTestCase", skip={"test_unknown"})


def test_a_method_that_is_not_implemented_is_a_failure(planar_shapes):
    from geomstats.geometry.fiber_bundle import FiberBundle

    class Broken:
        fiber_bundle = FiberBundle(planar_shapes)

    check = next(c for c in BUNDLE if c.name == "test_integrability_tensor_vec")
    with pytest.raises(NotImplementedError):
        check.run(
            total_space=Broken,
            base=planar_shapes,
            data_generator=random.KendalShapeRandomDataGenerator(planar_shapes),
            base_data_generator=HorizontalVectors(planar_shapes),
        )

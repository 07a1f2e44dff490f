"""geomstats' own shipped test cases, run on our bundles, actions and metrics."""

import functools
import re
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from geometry.table import CASES, certificates
from geomstats_jax import harness
from quotax.errors import DomainError, InvarianceError, MetricWarning

random = harness.load("geomstats.test.random")

# A row of the table, sizes, metric, whether with the discrete part: isometries, shifts, scalings with permutations, GL.
SPACES = {
    "rotation": ("tied", {"h": 2, "x": 3}, "euclidean", False),
    "shift": ("softmax bias", {"x": 2, "y": 2}, "euclidean", False),
    "scaling and permutation": ("abs", {"x": 1, "h": 2, "y": 1}, "invariant", True),
    "general linear": ("linear", {"x": 2, "h": 2, "y": 2}, "invariant", False),
}


@functools.cache
def total(name):
    """The total space, with its bundle, its action, and the quotient."""
    row, sizes, metric, discrete = SPACES[name]
    case = CASES[row]
    claims = case.symmetries(discrete)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MetricWarning)  # every metric here is invariant
        space = qx.quotient(case.model.at(**sizes), claims, metric, verified=certificates(claims))
    assert space.bundle is not None
    return space._geomstats


def test_a_metric_that_is_not_invariant_is_refused():
    space = CASES["linear"].space()
    point, vector = np.random.default_rng(0).normal(size=(2, 14))
    assert float(space.metric.squared_norm(vector, point)) > 0  # a number at one representative
    for call in (space.metric.exp, space.metric.log):
        with pytest.raises(InvarianceError, match="not invariant"):
            call(vector, point)
    with pytest.raises(InvarianceError, match=r"space\.metric: sectional"):
        space.metric.sectional_curvature(vector, point, point)


# u and v move as u0 sqrt(1 + 2 b t): with b = -1 until t = 1/2.
def test_a_geodesic_that_leaves_its_domain_is_named():
    space = CASES["u*v"].space("mix")
    point = np.random.default_rng(0).normal(size=6)
    np.testing.assert_allclose(space.metric.exp(-0.2 * point, point), point * np.sqrt(1 - 0.4), atol=1e-10)
    with pytest.raises(DomainError, match=r"leaves the domain of the metric at t = 0\.5") as caught:
        space.metric.exp(-point, point)
    assert caught.value.exit_time == pytest.approx(0.5)


def test_vectors_are_lifted_to_other_representatives():
    space = total("rotation")
    point, vector = np.random.default_rng(0).normal(size=(2, 6))
    element = space.group_action.group.random_point()
    moved = space.group_action(element, point)
    lifted = space.fiber_bundle.horizontal_lift(vector, base_point=point, fiber_point=moved)
    horizontal = space.fiber_bundle.horizontal_projection(vector, point)
    np.testing.assert_allclose(lifted, space.group_action(element, horizontal), atol=1e-10)


class NearPoints(random.RandomDataGenerator):
    """Points near one point, and short vectors: logarithms are asked for below the injectivity radius only.

    The point is the one of many draws that is farthest from dead units and matrices of lower rank, where the quotient
    has its edge.
    """

    def __init__(self, space):
        super().__init__(space, amplitude=8.0)
        draws = np.random.default_rng(3).normal(size=(50, *space.shape))
        self.centre = max(draws, key=lambda draw: self.smallest(space._quotient.unravel(draw)))

    def smallest(self, params):
        return min(min(np.linalg.svd(np.atleast_2d(a))[1][-1], 2 * np.min(np.abs(a))) for a in params.values())

    def random_point(self, n_points=1):
        return self.centre + 0.1 * self.space.random_point(n_points)


# On curved quotients nearly all of the time is compiling: a minute for logarithms above, seconds for other operations.
# The sample needs few programs besides those of `FiberBundle.align`; all other checks there are `-m long`.
GEODESICS = {
    *("test_exp_vec", "test_exp_belongs", "test_exp_geodesic_ivp", "test_exp_after_log", "test_log_after_exp"),
    *("test_log_vec", "test_log_is_tangent", "test_geodesic_boundary_points", "test_geodesic_bvp_reverse"),
    *("test_dist_vec", "test_dist_is_log_norm", "test_dist_is_symmetric", "test_dist_triangle_inequality"),
    *("test_dist_is_positive", "test_dist_point_to_itself_is_zero", "test_squared_dist_vec"),
}
CURVATURE = {"test_curvature_vec", "test_sectional_curvature_vec"}
SAMPLE = {
    ("quotient_metric", "scaling and permutation"): GEODESICS,
    ("quotient_metric", "general linear"): CURVATURE,
    ("riemannian_metric", "scaling and permutation"): {"test_metric_matrix_is_spd", "test_inner_product_is_symmetric"},
    ("fiber_bundle", "scaling and permutation"): {"test_align_vec"},
    ("fiber_bundle", "general linear"): {f"test_integrability_tensor_{what}vec" for what in ("", "derivative_")},
}
# Derivatives of the metric's matrix that geomstats takes itself: of our bundles they see inner products alone, and
# where the quotient is flat they are seen by default.
DERIVATIVES = "covariant_riemann|curvature_derivative|derivative_matrix"


def parameters(case_module, case_name, *, skip=(), only=(), quick=()):
    """Every check on every space; those on `quick` spaces by default, the others with `-m slow`.

    On curved quotients a sample with `-m slow`, the rest with `-m long`.
    """
    out = []
    for name in SPACES:
        for check in harness.checks(case_module, case_name, skip=skip, only=only):
            large = "metric" in case_module or re.search("log|align|tensor", check.name)
            curved = SPACES[name][2] == "invariant" and large
            curved = curved or (name == "rotation" and re.search(DERIVATIVES, check.name))
            sampled = check.name in SAMPLE.get((case_module, name), ())
            marks = [pytest.mark.long] if curved and not sampled else [] if name in quick else [pytest.mark.slow]
            out.append(pytest.param(name, check, marks=marks, id=f"{name}-{check}"))
    return out


# The coordinates of a quotient are those of the total space, so that its matrix is singular; no formula is known for
# the injectivity radius of these quotients. `test_parallel_transport_vec` has neither a direction nor an end point.
NOT_FOR_QUOTIENTS = {"test_metric_matrix_is_spd", "test_injectivity_radius_vec", "test_parallel_transport_vec"}

# These compare points, and points of the quotient are equal when their orbits are.
UP_TO_THE_GROUP = {"test_exp_after_log", "test_geodesic_boundary_points", "test_geodesic_bvp_reverse"}


@pytest.mark.parametrize(
    ("name", "check"),
    parameters("quotient_metric", "QuotientMetricTestCase", skip=NOT_FOR_QUOTIENTS | UP_TO_THE_GROUP, quick=["shift"]),
)
def test_quotient_metrics_pass_the_cases_of_geomstats(name, check):
    base = total(name).quotient
    check.run(space=base, data_generator=NearPoints(base))


@pytest.mark.parametrize(
    ("name", "check"), parameters("quotient_metric", "QuotientMetricTestCase", only=UP_TO_THE_GROUP, quick=["shift"])
)
def test_quotient_metrics_up_to_the_group(name, check):
    base = total(name).quotient

    def same_orbits(left, right, rtol=None, atol=1e-6):
        left, right = jnp.broadcast_arrays(left, right)
        np.testing.assert_allclose(base.metric.dist(left, right), 0, atol=1e-6)

    check.run(space=base, data_generator=NearPoints(base), assertAllClose=same_orbits)


@pytest.mark.parametrize(
    ("name", "check"),
    parameters(
        "riemannian_metric",
        "RiemannianMetricTestCase",
        skip={"test_injectivity_radius_vec", "test_parallel_transport_vec"},
        quick=["shift"],
    ),
)
def test_metrics_of_the_parameters(name, check):
    space = total(name)
    check.run(space=space, data_generator=NearPoints(space))


@pytest.mark.parametrize(("name", "check"), parameters("group_action", "GroupActionTestCase", quick=["shift"]))
def test_actions_pass_the_cases_of_geomstats(name, check):
    space = total(name)
    group = space.group_action.group
    check.run(
        space=space,
        group=group,
        group_action=space.group_action,
        data_generator=random.RandomDataGenerator(space),
        group_data_generator=random.RandomDataGenerator(group),
    )


# Last: the programs of the integrability tensor are so large that others are forgotten for them (tests/conftest.py).
@pytest.mark.parametrize(("name", "check"), parameters("fiber_bundle", "FiberBundleTestCase", quick=["shift"]))
def test_bundles_pass_the_cases_of_geomstats(name, check):
    space = total(name)
    check.run(
        total_space=space,
        base=space.quotient,
        data_generator=NearPoints(space),
        base_data_generator=NearPoints(space.quotient),
    )

"""`space.bundle` and `space.metric` are geomstats' own classes, and agree with the pytree methods."""

import jax
import numpy as np
import pytest

import quotax as qx
from models import symmetry


@pytest.fixture(scope="module")
def space():
    model, claim = symmetry("linear GL")
    net = model.at(h=2, x=3, y=4)
    return qx.quotient(net, claim, verified=[qx.Certificate("taken as read here", "proved", "tests")])


@pytest.fixture
def vectors(space):
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, space.network.num_parameters))


def test_they_are_geomstats_objects(space):
    bundle, metric = space.bundle, space.metric  # loads geomstats with our backend
    from geomstats.geometry.fiber_bundle import FiberBundle
    from geomstats.geometry.quotient_metric import QuotientMetric

    assert isinstance(bundle, FiberBundle)
    assert isinstance(metric, QuotientMetric)


def test_projections_agree_with_the_pytree_methods(space, vectors):
    point, u, _v = vectors
    vertical = space.bundle.vertical_projection(u, point)
    np.testing.assert_allclose(
        vertical, space.ravel(space.vertical(space.unravel(point), space.unravel(u))), atol=1e-12
    )
    horizontal = space.bundle.horizontal_projection(u, point)
    np.testing.assert_allclose(vertical + horizontal, u, atol=1e-12)
    assert space.bundle.is_horizontal(horizontal, point)
    assert space.bundle.is_vertical(vertical, point)
    assert not space.bundle.is_horizontal(u, point)
    assert not space.bundle.is_vertical(u, point)


def test_the_quotient_metric_sees_horizontal_parts_only(space, vectors):
    point, u, v = vectors
    parts = [np.asarray(space.bundle.horizontal_projection(w, point)) for w in (u, v)]
    assert float(space.metric.inner_product(u, v, fiber_point=point)) == pytest.approx(parts[0] @ parts[1])
    assert float(space.metric.squared_norm(u, point)) == pytest.approx(parts[0] @ parts[0])


def test_lift_after_submersion(space, vectors):
    point, u, _ = vectors
    base = space.bundle.riemannian_submersion(point)
    lifted = space.bundle.horizontal_lift(u, base_point=base)
    np.testing.assert_allclose(space.bundle.tangent_riemannian_submersion(lifted, point), lifted, atol=1e-12)


@pytest.mark.slow
def test_curvature_is_that_of_a_submersion():
    # R^{n x r} / O(r): sectional curvature 3 c^T Gram^-1 c / area, c_i = <X B_i, Y> (O'Neill); r = 2 has one c.
    @qx.architecture(params={"W": "n r"}, inputs={"x": "n"})
    def tied(p, x):
        return p["W"] @ (p["W"].T @ x)

    rotate = qx.Symmetry("rotate", qx.O("r"), {"W": "W @ inv(g)"})
    space = qx.quotient(tied.at(n=3, r=2), rotate)
    rng = np.random.default_rng(1)
    point = rng.normal(size=6)
    x, y = (np.asarray(space.bundle.horizontal_projection(rng.normal(size=6), point)) for _ in range(2))
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    c = np.sum((x.reshape(3, 2) @ turn) * y.reshape(3, 2))
    gram = np.sum((point.reshape(3, 2) @ turn) ** 2)
    area = (x @ x) * (y @ y) - (x @ y) ** 2
    curvature = space.metric.curvature(x, y, y, point)
    assert float(np.asarray(curvature) @ x) == pytest.approx(3 * c**2 / gram, rel=1e-9)
    assert float(space.metric.sectional_curvature(x, y, point)) == pytest.approx(3 * c**2 / gram / area, rel=1e-9)


def test_batches_of_points(space, vectors):
    one = [space.bundle.vertical_projection(v, vectors[0]) for v in vectors]
    np.testing.assert_allclose(space.bundle.vertical_projection(vectors, vectors[0]), one, atol=1e-12)


def test_flat_vectors_are_the_parameters(space):
    params = space.network.init(jax.random.key(0))
    again = space.unravel(space.ravel(params))
    assert jax.tree.structure(again) == jax.tree.structure(params)
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(params), strict=True))

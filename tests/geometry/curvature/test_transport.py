"""Parallel transport on a sphere, by ladders, and around small squares; the derivative of the curvature in a frame."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geometry.table import CASES
from quotax.geometry.geomstats.calculus import Below


def dot(u, v):
    return sum(float(jnp.vdot(u[n], v[n])) for n in u)


# The directions of the rows of a batch-normalised layer are spheres of radius one, whose transport is a rotation.
@pytest.mark.slow
def test_transport_along_a_great_circle():
    case = CASES["batch norm"]
    metric = case.space("invariant")._metric
    rows = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    point, along, across = (jnp.asarray(row) for row in rows)
    still = {"b": jnp.zeros(2)}
    vector = lambda first: {"W": jnp.stack([first, jnp.zeros(3)]), **still}
    params = {"W": jnp.stack([point, point]), **still}
    angle = 0.7
    found = metric.transport(params, vector(angle * along), vector(2 * along + across))
    turned = jnp.cos(angle) * along - jnp.sin(angle) * point
    np.testing.assert_allclose(found["W"][0], 2 * turned + across, atol=1e-9)
    np.testing.assert_allclose(found["W"][1], 0, atol=1e-12)


@pytest.mark.slow
def test_transport_to_another_point_of_the_orbit():
    case = CASES["batch norm"]
    rows = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    point, along, across = (jnp.asarray(row) for row in rows)
    still = {"b": jnp.zeros(2)}
    vector = {"W": jnp.stack([2 * along + across, jnp.zeros(3)]), **still}
    params = {"W": jnp.stack([point, point]), **still}
    angle = 0.7
    turned = jnp.cos(angle) * along - jnp.sin(angle) * point
    end = {"W": jnp.stack([jnp.cos(angle) * point + jnp.sin(angle) * along, point]), **still}
    scaled = {"W": end["W"] * 3.0, **still}  # another point of the same orbit: its vectors are three times as long
    space = case.space("invariant")
    below = Below(space)
    start, last = below.flat(params), below.flat(scaled)
    there = below.named(space.metric.parallel_transport(below.flat(vector), start, end_point=last))
    np.testing.assert_allclose(there["W"][0], 3 * (2 * turned + across), atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "metric"), [("tied", "euclidean"), pytest.param("linear", "invariant", marks=pytest.mark.slow)]
)
def test_transport_keeps_inner_products_and_moves_the_velocity(name, metric):
    case, space = CASES[name], CASES[name].space(metric)
    p, v, x, y = (case.draw(seed) for seed in range(4))
    v = {n: 0.3 * a for n, a in space.horizontal(p, v).items()}
    path = space.geodesic(p, v)
    carried = [space._metric.transport(p, v, w) for w in (v, x, y)]
    for name_, array in path.velocity(1.0).items():
        np.testing.assert_allclose(carried[0][name_], array, atol=1e-9)
    x, y = space.horizontal(p, x), space.horizontal(p, y)
    before, after = space.inner(p, x, y), space.inner(path.end, carried[1], carried[2])
    assert float(after) == pytest.approx(float(before), abs=1e-9)
    for w in carried:
        along = space.vertical(path.end, w)
        assert max(float(jnp.max(jnp.abs(a))) for a in along.values()) < 1e-9


# The same by Christoffel symbols and derivatives of the projection: what serves where no flat formula holds.
@pytest.mark.slow
def test_the_general_equation_agrees_with_the_flat_one():
    from quotax.geometry.curvature.transport import derivative_above

    case = CASES["tied"]
    metric = case.space()._metric
    p, v, x, y, z = (case.draw(seed) for seed in range(5))
    v, x, y, z = (case.space().horizontal(p, w) for w in (v, x, y, z))
    general = metric._riemannian
    found, expected = metric.transport_above(general, p, v, x), metric.transport(p, v, x)
    np.testing.assert_allclose(found["W"], expected["W"], atol=1e-8)
    derivative = metric.curvature_derivative(p, v, x, y, z)
    np.testing.assert_allclose(derivative_above(general, p, v, x, y, z)["W"], derivative["W"], atol=1e-9)


# Along a geodesic, the components of R in a parallel frame change at the rate of the covariant derivative.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "metric"), [("tied", "euclidean"), pytest.param("linear", "invariant", marks=pytest.mark.slow)]
)
def test_the_derivative_of_the_curvature_in_a_parallel_frame(name, metric):
    case, space = CASES[name], CASES[name].space(metric)
    p, *vectors = (case.draw(seed) for seed in range(5))
    h, x, y, z = (space.horizontal(p, v) for v in vectors)

    def component(t):
        along = jax.tree.map(lambda a: t * a, h)
        at = space.geodesic(p, along).end
        a, b, c = (space._metric.transport(p, along, v) for v in (x, y, z))
        return float(space.inner(at, space.curvature(at, a, b, c), space._metric.transport(p, along, x)))

    step = 1e-4
    measured = (component(step) - component(-step)) / (2 * step)
    derivative = space._metric.curvature_derivative(p, h, x, y, z)
    assert abs(measured) > 1e-3
    assert float(space.inner(p, derivative, x)) == pytest.approx(measured, rel=1e-5)

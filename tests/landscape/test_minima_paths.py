"""Paths between minima of losses whose passes are known."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx


@qx.architecture(params={"A": "h x", "B": "y h"}, inputs={"x": "x"})
def linear(p, x):
    return p["B"] @ (p["A"] @ x)


MIX = qx.Symmetry("mix", qx.GL("h"), {"A": "g @ A", "B": "B @ inv(g)"})


def pair(h, sign):
    """Two points of one orbit, in one component or in two, and the distance of the product from what it is."""
    net = linear.at(x=2, h=h, y=2)
    params = net.init(jax.random.key(0))
    target = params["B"] @ params["A"]
    loss = lambda p: jnp.sum((p["B"] @ p["A"] - target) ** 2)
    space = qx.quotient(net, MIX, metric="invariant")
    g = space.random_element(jax.random.key(1))["mix"].at[0].multiply(sign)
    return loss, params, space.act(params, {"mix": g}), space


@pytest.mark.slow
def test_an_orbit_joins_within_a_component():
    loss, one, two, space = pair(2, 1)
    found = qx.minima_paths(loss, one, two, space=space, bends=0)
    assert not found.blocked
    assert found.curve is None
    assert found.orbit.highest < 1e-20
    assert found.segment.highest > 1e-3
    for end, time in ((one, 0.0), (two, 1.0)):
        assert np.allclose(found.orbit.at(time)["A"], end["A"], atol=1e-12)
    steps = [found.orbit.at(t) for t in np.linspace(0, 1, 400)]
    jumps = [float(jnp.linalg.norm(a["A"] - b["A"])) for a, b in itertools.pairwise(steps)]
    whole = sum(jumps)
    assert max(jumps) < 0.05 * whole  # a path, and no hops
    assert all(np.linalg.det(p["A"]) * np.linalg.det(one["A"]) > 0 for p in steps)


@pytest.mark.slow
def test_an_element_that_moves_nothing_joins_the_components():
    """With A of smaller rank than h there is one of negative determinant; no alignment is needed to find the way."""
    loss, one, two, space = pair(3, -1)
    found = qx.minima_paths(loss, one, two, space=space, bends=0)
    assert not found.blocked
    assert found.orbit.highest < 1e-8


@pytest.mark.slow
def test_a_curve_goes_round_and_says_where_it_is_highest():
    well = lambda p: (jnp.sum(p**2) - 1) ** 2 + 3 * jnp.exp(-50 * jnp.sum((p - jnp.array([0.0, 1.0])) ** 2))
    one, two = jnp.array([1.0, 0.0]), jnp.array([-1.0, 0.0])
    found = qx.minima_paths(well, one, two, bends=3, steps=300, points=41)
    assert found.segment.highest == pytest.approx(1.0, abs=1e-6)
    assert found.segment.place == pytest.approx(0.5, abs=1e-3)
    assert found.curve.highest < 0.1
    assert found.curve.at(0.5)[1] < 0  # there is a hill above
    assert float(well(found.curve.at(found.curve.place))) == pytest.approx(found.curve.highest, rel=1e-12)
    again = qx.minima_paths(well, one, two, bends=3, steps=300, points=41)
    assert np.array_equal(again.curve.losses, found.curve.losses)
    assert "segment: highest 1 at 0.500" in str(found)
    for wrong, said in (
        (lambda: qx.minima_paths(well, one, jnp.ones(3)), "shapes"),
        (lambda: qx.minima_paths(well, one, two, bends=-1), "bends="),
        (lambda: qx.minima_paths(well, one, two, rate=0.0), "rate"),
        (lambda: qx.minima_paths(well, one, two, space=3), "got int"),
        (lambda: qx.minima_paths(lambda p: jnp.log(p[0]), one, two), "at the ends is"),
        (lambda: found.curve.at(2.0), "from 0 to 1"),
    ):
        with pytest.raises(qx.LandscapeError, match=said):
            wrong()

"""Kernels of Hessians where they are known in closed form."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quotax as qx


@qx.architecture(params={"A": "h x", "B": "y h"}, inputs={"x": "x"})
def linear(p, x):
    return p["B"] @ (p["A"] @ x)


MIX = qx.Symmetry("mix", qx.GL("h"), {"A": "g @ A", "B": "B @ inv(g)"})


def factors(x, h, y, a, b, seed=0):
    draw = np.random.default_rng(seed)
    A = draw.standard_normal((h, a)) @ draw.standard_normal((a, x))
    B = draw.standard_normal((y, b)) @ draw.standard_normal((b, h))
    return {"A": jnp.asarray(A), "B": jnp.asarray(B)}, jnp.asarray(B @ A)


def closed_form(x, h, y, a, b):
    """The orbit's dimension, and the kernel's beyond it, at a zero of |B A - W|^2 with ranks a of A and b of B."""
    return h * h - (h - a) * (h - b), (h - b) * (x - a) + (h - a) * (y - b)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "written"), [((4, 3, 3, 2, 1), True), ((2, 4, 2, 2, 2), True), ((4, 3, 2, 3, 2), False)]
)
def test_products_of_two_matrices(sizes, written):
    x, h, y, a, b = sizes
    params, target = factors(*sizes)
    space = qx.quotient(linear.at(x=x, h=h, y=y), MIX, metric="euclidean")
    loss = lambda p: jnp.sum((p["B"] @ p["A"] - target) ** 2)
    found = qx.degeneracy(loss, params, space=space, dense=1500 if written else 0)
    assert (found.orbit, found.beyond) == closed_form(*sizes)
    assert found.status == "counted"
    assert found.between == (found.kernel, found.kernel)
    assert found.index == 0
    if written and found.beyond:  # where both ranks fall short, the zeros are no manifold
        assert found.kind == ("higher order" if a < h and b < h else "flat")
        assert len(found.directions) == found.beyond
        field = space.field(params, {"mix": jnp.ones((h, h))})
        across = [sum(float(jnp.vdot(field[k], v[k])) for k in v) for v in found.directions]
        assert np.abs(across).max() < 1e-6


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 4), st.integers(0, 5))
@settings(max_examples=4, deadline=None)
def test_quadratics_are_counted_whatever_their_signs(seed, rank, negative, flat):
    negative = min(negative, rank)
    draw = np.random.default_rng(seed)
    values = np.concatenate([draw.uniform(0.1, 3, rank) * np.where(np.arange(rank) < negative, -1, 1), np.zeros(flat)])
    turn = np.linalg.qr(draw.standard_normal((rank + flat, rank + flat)))[0]
    H, home = jnp.asarray(turn * values @ turn.T), jnp.asarray(draw.standard_normal(rank + flat))
    for dense in (100, 0):
        found = qx.degeneracy(lambda p: (p - home) @ H @ (p - home) / 2, home, dense=dense)
        assert (found.rank, found.kernel, found.index, found.status) == (rank, flat, negative, "counted")
        assert found.kind == ("flat" if flat and dense else None)


def test_what_is_not_known_is_not_counted():
    at = jnp.zeros(3)
    close = qx.degeneracy(lambda p: p[0] ** 2 + 1e-14 * p[1] ** 2, at)
    assert close.status == "undecided"
    assert close.between == (1, 2)
    assert "lie between" in str(close)
    fourth = qx.degeneracy(lambda p: p[0] ** 2 + p[1] ** 4, at + jnp.array([0.0, 0.0, 1.0]))
    assert (fourth.kernel, fourth.kind) == (2, "higher order")
    many = qx.degeneracy(lambda p: jnp.sum(p**2), jnp.zeros(40), dense=0, most=10)
    assert many.status == "undecided"
    assert "most=10" in many.reason
    assert many.between[0] == 0
    for wrong, said in (
        (lambda: qx.degeneracy(lambda p: jnp.sum((p - 1) ** 2), jnp.ones(2) * 2), "no equilibrium"),
        (lambda: qx.degeneracy(lambda p: jnp.log(p[0]), at), "NaN or infinite"),
        (lambda: qx.degeneracy(lambda p: jnp.sum(p**2), at, gap=1.0), "gap="),
        (lambda: qx.degeneracy(lambda p: jnp.sum(p**2), at, space=3), "got int"),
    ):
        with pytest.raises(qx.LandscapeError, match=said):
            wrong()


@pytest.mark.slow
def test_saddles_and_networks_that_fit_few_numbers():
    W = jnp.asarray(np.random.default_rng(1).standard_normal((2, 3)))
    zero = {"A": jnp.zeros((4, 3)), "B": jnp.zeros((2, 4))}
    space = qx.quotient(linear.at(x=3, h=4, y=2), MIX, metric="euclidean")
    found = qx.degeneracy(lambda p: jnp.sum((p["B"] @ p["A"] - W) ** 2), zero, space=space)
    assert (found.orbit, found.rank, found.index) == (0, 2 * 4 * 2, 4 * 2)
    draw = np.random.default_rng(2)
    X, net = jnp.asarray(draw.standard_normal((5, 4))), lambda p: p["c"] @ jnp.tanh(p["A"] @ X.T)
    p = {"A": jnp.asarray(draw.standard_normal((9, 4))), "c": jnp.asarray(draw.standard_normal(9))}
    y = net(p)
    for dense in (1500, 0):
        found = qx.degeneracy(lambda p: jnp.sum((net(p) - y) ** 2), p, dense=dense)
        assert (found.kernel, found.rank) == (45 - 5, 5)

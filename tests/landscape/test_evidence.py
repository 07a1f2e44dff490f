"""Evidence around an orbit against integrals that are done by quadrature, or in closed form."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.special import k0

import quotax as qx


@qx.architecture(params={"w": "n"}, inputs={"x": ""})
def square(p, x):
    return jnp.sum(p["w"] ** 2) * x


@qx.architecture(params={"a": "h", "b": "h"}, inputs={"x": ""})
def product(p, x):
    return jnp.vdot(p["a"], p["b"]) * x


@qx.architecture(params={"w": "h", "v": "h"}, inputs={"x": ""})
def tanh(p, x):
    return jnp.vdot(p["v"], jnp.tanh(p["w"] * x))


TURN = qx.Symmetry("turn", qx.O("n"), {"w": "g @ w"})
SCALE = qx.Symmetry("scale", qx.Diagonal("h"), {"a": "g @ a", "b": "inv(g) @ b"})
MIX = qx.Symmetry("mix", qx.GL("h"), {"a": "g @ a", "b": "inv(g).T @ b"})
FLIP = qx.Symmetry("flip", qx.SignFlip("h"), {"w": "g @ w", "v": "g @ v"})


@pytest.mark.parametrize("n", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3))])
def test_a_ring_is_its_length_times_a_gaussian(n):
    space = qx.quotient(square.at(n=n), TURN, metric="euclidean")
    point = jnp.asarray(np.eye(n)[0])
    errors = []
    for beta in (100.0, 400.0):
        found = qx.laplace_evidence(lambda p, beta=beta: beta * (jnp.sum(p["w"] ** 2) - 1) ** 2, {"w": point}, space)
        area = 2 * math.pi ** (n / 2) / math.gamma(n / 2)
        exact = area * quad(lambda r, beta=beta: r ** (n - 1) * math.exp(-beta * (r * r - 1) ** 2), 0, 2, points=[1])[0]
        errors.append(abs(found.value - math.log(exact)))
        assert found.status == "ok"
    assert errors[0] < 3e-3
    assert errors[1] < max(errors[0] / 3, 1e-12)  # the next term of the expansion, one over the number of examples
    if n > 1:  # one point of the ring has no evidence of its own, but for the damping that is added
        assert found.naive(1e-6) - found.naive(1e-2) == pytest.approx((n - 1) / 2 * math.log(1e4), abs=1e-3)
        assert found.naive() == math.inf


@pytest.mark.slow
def test_a_flat_prior_on_an_orbit_that_is_not_compact_diverges():
    space = qx.quotient(product.at(h=1), SCALE, metric="euclidean")
    loss = lambda p: 50 * (jnp.vdot(p["a"], p["b"]) - 1) ** 2
    found = qx.laplace_evidence(loss, {"a": jnp.ones(1), "b": jnp.ones(1)}, space)
    assert (found.value, found.status) == (math.inf, "diverges")
    assert "scale" in found.reason


@pytest.mark.slow
@pytest.mark.parametrize(("h", "symmetry"), [(1, SCALE), (2, MIX)])
def test_a_gaussian_prior_leaves_what_is_compact(h, symmetry):
    """The product of normal numbers has Bessel's density, the sum of two of them Laplace's."""
    N, c, errors = 1e5, 1.0, []
    space = qx.quotient(product.at(h=h), symmetry, metric="euclidean")
    loss = lambda p: N / 2 * (jnp.vdot(p["a"], p["b"]) - c) ** 2
    for alpha in (4.0, 16.0):
        point = jnp.asarray(np.eye(h)[0]) * math.sqrt(c - alpha / N)
        found = qx.laplace_evidence(loss, {"a": point, "b": point}, space, prior_precision=alpha)
        density = lambda u, alpha=alpha: alpha / math.pi * k0(alpha * u) if h == 1 else alpha / 2 * math.exp(-alpha * u)
        posterior = lambda u, density=density: density(u) * math.exp(-N / 2 * (u - c) ** 2)
        exact = quad(posterior, 0.97, 1.03, points=[1.0])[0]
        assert found.status == "ok"
        errors.append(found.value - math.log(exact))
    # In the directions that the prior alone curves the next term is one over its precision, whatever N.
    assert abs(errors[0]) < 0.2
    assert errors[1] == pytest.approx(errors[0] / 4, rel=0.25, abs=1e-3)
    if h == 1:
        assert errors[0] == pytest.approx(1 / (8 * 4.0), rel=0.15)


@pytest.mark.slow
def test_a_minimum_that_training_came_near_has_the_orbit_of_the_minimum():
    """At the minimum a and b are parallel and a reflection leaves both in place; nearby none does."""
    N, alpha = 1e5, 16.0
    space = qx.quotient(product.at(h=2), MIX, metric="euclidean")
    loss = lambda p: N / 2 * (jnp.vdot(p["a"], p["b"]) - 1) ** 2
    point = jnp.asarray([math.sqrt(1 - alpha / N), 0.0])
    ask = lambda b: qx.laplace_evidence(loss, {"a": point, "b": b}, space, prior_precision=alpha).value
    assert ask(point + jnp.asarray([0.0, 1e-7])) == pytest.approx(ask(point), abs=1e-6)


@pytest.mark.slow
def test_copies_count():
    space = qx.quotient(tanh.at(h=1), FLIP, metric="euclidean")
    xs = np.linspace(-2, 2, 9)
    loss = lambda p: 400 * jnp.sum((p["v"] * jnp.tanh(p["w"] * xs) - np.tanh(xs)) ** 2)
    found = qx.laplace_evidence(loss, {"w": jnp.ones(1), "v": jnp.ones(1)}, space)
    half = dblquad(lambda v, w: math.exp(-400 * np.sum((v * np.tanh(w * xs) - np.tanh(xs)) ** 2)), 0.6, 1.6, 0.6, 1.6)[
        0
    ]
    assert found.value == pytest.approx(math.log(2 * half), abs=0.02)
    assert found.log_copies == pytest.approx(math.log(2))


@pytest.mark.slow
def test_what_is_no_minimum_of_an_orbit_has_no_number():
    space = qx.quotient(square.at(n=2), TURN, metric="euclidean")
    ask = lambda loss, w: qx.laplace_evidence(loss, {"w": jnp.asarray(w)}, space)
    ring = lambda p: 50 * (jnp.sum(p["w"] ** 2) - 1) ** 2
    slope = ask(ring, [1.1, 0.0])
    assert (slope.status, math.isnan(slope.value)) == ("no minimum", True)
    assert ask(lambda p: -ring(p), [1.0, 0.0]).status == "no minimum"
    assert ask(lambda p: ring(p) ** 2, [1.0, 0.0]).status == "flat"
    with pytest.raises(qx.LandscapeError, match=r"prior_precision= a positive number, got -1"):
        qx.laplace_evidence(ring, {"w": jnp.ones(2)}, space, prior_precision=-1)
    with pytest.raises(qx.LandscapeError, match="one real number"):
        qx.laplace_evidence(lambda p: p["w"], {"w": jnp.ones(2)}, space)
    with pytest.raises(qx.LandscapeError, match="finite loss"):
        qx.laplace_evidence(lambda p: jnp.log(-jnp.sum(p["w"])), {"w": jnp.ones(2)}, space)

"""Langevin's diffusion on quotients: its generator, and laws that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import quotax as qx

LEAST = 0.01
"""A law is refuted by samples that it gives so seldom; seeds are fixed, and steps small enough for their number."""


@qx.architecture(params={"W": "n m"}, inputs={"x": "m"})
def gram(p, x):
    return p["W"].T @ (p["W"] @ x)


@qx.architecture(params={"a": "h", "b": "h"}, inputs={"x": ""})
def product(p, x):
    return jnp.vdot(p["a"], p["b"]) * x


TURN = qx.Symmetry("turn", qx.O("n"), {"W": "g @ W"})
SCALE = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"a": "g @ a", "b": "inv(g) @ b"})
SPRING = lambda p: jnp.sum(p["W"] ** 2) / 2


def flat(n, m):
    space = qx.quotient(gram.at(n=n, m=m), TURN, metric="euclidean")
    return space, {"W": jnp.asarray(np.random.default_rng(0).normal(size=(n, m)))}


@pytest.mark.slow
def test_horizontal_noise_has_the_laplacian_of_the_quotient_and_all_noise_a_drift_besides():
    """Of functions of W^T W: tr(P Hess F) = Laplacian of F less the derivative along the slope of the log volume."""
    space, params = flat(3, 2)
    F = lambda v: jnp.log1p(jnp.sum((v.reshape(3, 2).T @ v.reshape(3, 2)) ** 2)) + v @ v
    v = space.ravel(params)
    hessian, point = jax.hessian(F)(v), space.at(params)
    P = np.stack([np.asarray(space.ravel(point.horizontal(space.unravel(e)))) for e in jnp.eye(6)])
    slope = space.ravel(point.volume_slope())
    np.testing.assert_allclose(np.trace(P @ hessian), np.trace(hessian) - slope @ jax.grad(F)(v), rtol=1e-9)


def test_bad_questions_are_refused():
    space, params = flat(2, 1)
    ask = lambda *given, **settings: qx.langevin(space, SPRING, params, *given, **settings)
    with pytest.raises(qx.LandscapeError, match="temperature= a positive number, got 0"):
        ask(0, 0.1, 10)
    with pytest.raises(qx.LandscapeError, match="burn=5 of 5 samples"):
        ask(1.0, 0.1, 10, every=2, burn=5)
    with pytest.raises(qx.LandscapeError, match="'noise' or 'drift', got True"):
        ask(1.0, 0.1, 10, volume=True)
    scaled = qx.quotient(product.at(h=1), SCALE, metric="invariant")
    start, loss = {"a": jnp.ones(1), "b": jnp.ones(1)}, lambda p: jnp.vdot(p["a"], p["b"]) ** 2
    with pytest.raises(qx.LandscapeError, match="the metric is 'invariant'"):
        qx.langevin(scaled, loss, start, 1.0, 0.1, 10, volume="noise")
    with pytest.raises(qx.InvarianceError, match="depends on the representative"):
        qx.langevin(qx.quotient(product.at(h=1), SCALE, metric="euclidean"), loss, start, 1.0, 0.1, 10)


@pytest.mark.slow
def test_an_orbit_without_a_canonical_representative_is_refused():
    space = qx.quotient(product.at(h=1), SCALE, metric="invariant")
    loss = lambda p: jnp.vdot(p["a"], p["b"]) ** 2
    with pytest.raises(qx.LandscapeError, match="has none"):
        qx.langevin(space, loss, {"a": jnp.ones(1), "b": jnp.zeros(1)}, 1.0, 0.1, 10)


@pytest.mark.slow
def test_a_step_that_is_too_long_is_named():
    space, params = flat(2, 1)
    run = qx.langevin(space, lambda p: jnp.sum(p["W"] ** 4), params, 1.0, 5.0, 40, volume="noise")
    assert run.status == "not finite"


@pytest.mark.slow
def test_the_radius_has_the_law_of_space_by_the_drift_alone():
    """Without it, and with noise in all parameters, `examples/landscape_volume.py` is asked."""
    space, params = flat(3, 1)
    settings = {"chains": 100, "every": 250, "burn": 1, "observe": lambda p: jnp.linalg.norm(p["W"])}
    run = qx.langevin(space, SPRING, params, 1.0, 0.02, 1500, 3, volume="drift", **settings)
    assert run.status == "ok"
    assert stats.kstest(run.values.ravel(), stats.chi(3).cdf).pvalue > LEAST
    assert stats.kstest(run.values.ravel(), stats.chi(1).cdf).pvalue < 1e-9


@pytest.mark.slow
def test_the_trace_of_psd_matrices_counts_dimensions():
    """The volume of orbits is homogeneous: |W|^2 / T is chi squared of the dimension of the quotient."""
    space, params = flat(2, 3)  # positive semi-definite matrices of rank two, 3 by 3: five dimensions of six
    settings = {"chains": 100, "every": 250, "burn": 1, "observe": lambda p: jnp.sum(p["W"] ** 2) / 0.5}
    run = qx.langevin(space, SPRING, params, 0.5, 0.02, 2500, 5, **settings)
    assert stats.kstest(run.values.ravel(), stats.chi2(space.dim).cdf).pvalue > LEAST
    assert stats.kstest(run.values.ravel(), stats.chi2(6).cdf).pvalue < 1e-4

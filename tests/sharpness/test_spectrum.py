"""Lanczos against dense eigenvalues: both ends, multiplicities, metrics, geodesics, densities."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from quotax.errors import SharpnessError
from quotax.sharpness import spectrum
from sharpness.pairs import Pairs, product_loss
from sharpness.test_averages import MetricSpace
from sharpness.test_laws import data, network, regression
from sharpness.test_quadratics import examples, problem, quadratic


def with_spectrum(values, seed=0):
    d = len(values)
    W = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
    return W @ np.diag(values) @ W.T


def close(found, exact):
    return np.max(np.abs(np.sort(found) - np.sort(exact))) <= 1e-6 * np.max(np.abs(exact))


@pytest.mark.slow
@pytest.mark.parametrize("d", [3, 40, 150])
def test_both_ends_match_dense_eigenvalues(d):
    A, b, _ = problem(0, d, "indefinite")
    exact = np.linalg.eigvalsh(A)
    found = spectrum(quadratic, jnp.zeros(d), k=4, batch=examples(A, b))
    k = min(4, d)
    assert close(found.values, exact[-k:])
    assert close(found.bottom, exact[:k])
    assert np.all(np.diff(found.values) <= 0)
    assert np.all(np.diff(found.bottom) >= 0)
    assert found.status == "converged"
    for value, v in zip(found.values, found.vectors, strict=True):
        np.testing.assert_allclose(A @ v, value * v, atol=1e-6 * np.abs(exact).max())
        assert np.linalg.norm(v) == pytest.approx(1)


def test_far_fewer_products_than_parameters():
    values = np.concatenate([[50, 40, 30, -20, -25], np.random.default_rng(0).uniform(0, 1, 415)])
    A = with_spectrum(values)
    found = spectrum(quadratic, jnp.zeros(420), k=2, batch=examples(A, np.zeros(420)))
    assert close(found.values, [50, 40])
    assert close(found.bottom, [-25, -20])
    assert found.status == "converged"
    assert found.products < 60


def test_equal_eigenvalues_are_counted():
    A = with_spectrum(np.concatenate([[9, 9, 9, 4], np.linspace(0, 1, 60), np.zeros(36)]))
    found = spectrum(quadratic, jnp.zeros(100), k=4, batch=examples(A, np.zeros(100)))
    assert close(found.values, [9, 9, 9, 4])
    np.testing.assert_allclose(found.bottom, 0, atol=1e-7)
    V = np.stack(found.vectors[:3])
    np.testing.assert_allclose(V @ V.T, np.eye(3), atol=1e-9)


@pytest.mark.slow
def test_a_budget_that_is_too_small_is_named():
    A = with_spectrum(np.linspace(0, 1, 600))
    found = spectrum(quadratic, jnp.zeros(600), k=3, batch=examples(A, np.zeros(600)), basis=12)
    assert found.status == "budget"
    assert found.products == 12
    assert np.max(found.residuals) > 1e-6


@pytest.mark.slow
def test_the_generalised_problem_on_a_horizontal_space():
    d, k = 30, 7
    A, b, _ = problem(3, d, "indefinite")
    rng = np.random.default_rng(0)
    V, M = rng.normal(size=(d, k)), np.diag(rng.uniform(0.1, 4.0, d))
    N = np.linalg.svd((M @ V).T)[2][k:].T
    N = N @ np.linalg.inv(np.linalg.cholesky(N.T @ M @ N)).T
    exact = np.linalg.eigvalsh(N.T @ A @ N)
    space = MetricSpace(V, M)
    found = spectrum(quadratic, jnp.zeros(d), k=5, batch=examples(A, b), space=space)
    assert found.dim == d - k
    assert close(found.values, exact[-5:])
    assert close(found.bottom, exact[:5])
    for v in found.vectors:
        assert v @ M @ v == pytest.approx(1)
        np.testing.assert_allclose(V.T @ M @ v, 0, atol=1e-8)


def test_more_eigenvalues_than_there_are_directions():
    A, b, _ = problem(0, 6, "convex")
    found = spectrum(quadratic, jnp.zeros(6), k=10, batch=examples(A, b))
    assert close(found.values, np.linalg.eigvalsh(A))
    assert len(found.vectors) == len(found.bottom) == 6


@pytest.mark.slow
def test_one_end_only():
    A, b, _ = problem(0, 50, "indefinite")
    top = spectrum(quadratic, jnp.zeros(50), k=2, which="top", batch=examples(A, b))
    bottom = spectrum(quadratic, jnp.zeros(50), k=2, which="bottom", batch=examples(A, b))
    assert top.bottom.size == 0
    assert bottom.values.size == 0
    assert close(np.concatenate([bottom.bottom, top.values]), np.linalg.eigvalsh(A)[[0, 1, -2, -1]])


@pytest.mark.slow
def test_the_riemannian_hessian_along_geodesics():
    # Coordinates beta = u v of the quotient: in the mixed metric they are flat, |beta'| / sqrt(2), so that the
    # Riemannian Hessian is that of the loss in beta, times 2.
    rng = np.random.default_rng(0)
    params = {"u": jnp.asarray(rng.uniform(0.7, 1.5, 5)), "v": jnp.asarray(rng.uniform(0.7, 1.5, 5))}
    X, y = rng.normal(size=(7, 5)), rng.normal(size=7)
    batch = (jnp.asarray(X)[None], jnp.asarray(y)[None])
    found = spectrum(product_loss, params, k=5, space=Pairs("mix", 5), batch=batch)
    assert found.hessian == "Riemannian"
    assert close(found.values, np.linalg.eigvalsh(4 * X.T @ X))
    linear = spectrum(product_loss, params, k=5, space=Pairs("mix", 5), ball="linear", batch=batch)
    assert linear.hessian == "Euclidean"
    assert not close(linear.values, found.values)


@pytest.mark.slow
def test_the_invariant_spectrum_is_constant_along_the_orbit():
    rng = np.random.default_rng(0)
    params = {"u": jnp.asarray(rng.uniform(0.7, 1.5, 5)), "v": jnp.asarray(rng.uniform(0.7, 1.5, 5))}
    batch = (jnp.asarray(rng.normal(size=(7, 5)))[None], jnp.asarray(rng.normal(size=7))[None])
    settings = {"batch": batch, "representatives": 4, "spread_scale": 1.5}
    found = spectrum(product_loss, params, k=2, space=Pairs("inv", 5), **settings)
    assert found.spread.relative < 1e-9
    assert found.invariant is True
    full = spectrum(product_loss, params, k=2, space=Pairs("inv", 5), ball="full", **settings)
    assert full.spread.relative > 0.5


@pytest.mark.slow
def test_networks_in_chunks():
    params, batch = network(0), data()
    flat, nested = jax.flatten_util.ravel_pytree(params)
    exact = np.linalg.eigvalsh(jax.hessian(lambda v: regression(nested(v), batch))(flat))
    found = spectrum(regression, params, k=3, batch=batch, microbatch=5)
    assert close(found.values, exact[-3:])
    assert jax.tree.map(jnp.shape, found.vectors[0]) == jax.tree.map(jnp.shape, params)


@pytest.mark.slow
def test_the_density_has_the_shares_of_the_eigenvalues():
    values = np.concatenate([np.full(30, 1.0), np.full(60, 3.0), [10.0] * 10])
    A = with_spectrum(values)
    found = spectrum(quadratic, jnp.zeros(100), k=1, batch=examples(A, np.zeros(100)), density=True, probes=40)
    density = found.density
    assert density.weights.sum() == pytest.approx(1)
    for value, share in ((1, 0.3), (3, 0.6), (10, 0.1)):
        assert density.weights[np.abs(density.nodes - value) < 1e-6].sum() == pytest.approx(share, abs=0.03)
    grid = np.linspace(-5, 15, 2000)
    assert np.sum(density.smooth(grid, 0.2)) * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-6)


def test_float32_stays_and_is_accurate(strict_promotion):
    A, b, _ = problem(1, 60, "indefinite")
    batch = examples(A.astype(np.float32), b.astype(np.float32))
    found = spectrum(quadratic, jnp.zeros(60, jnp.float32), k=3, batch=batch)
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(A)[::-1][:3], rtol=1e-4)
    assert found.vectors[0].dtype == jnp.float32


def test_a_loss_that_is_no_number():
    found = spectrum(lambda p: jnp.sqrt(jnp.sum(p) - 10), jnp.ones(4), k=1)
    assert found.status == "not finite"
    assert "not finite" in str(found)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "k= a whole number, at least 1, got 0"),
        ({"which": "all"}, "which= one of 'both', 'top', 'bottom', got 'all'"),
        ({"tolerance": -1.0}, "tolerance= a positive finite number"),
        ({"basis": 0}, "basis= a whole number, at least 1, got 0"),
    ],
)
def test_bad_input_is_refused_in_the_words_of_the_call(settings, message):
    with pytest.raises(SharpnessError) as error:
        spectrum(lambda p: jnp.sum(p**2), jnp.ones(3), **settings)
    assert message in str(error.value)

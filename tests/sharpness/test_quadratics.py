"""On quadratic losses the maximum is known."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quadratics import KINDS, dense_maximum, examples, quadratic
from quotax.sharpness import sharpness


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FakePoint:
    """The space orthogonal, in the metric M, to the columns of `vertical`."""

    vertical: jax.Array
    M: jax.Array

    def horizontal(self, v):
        V = self.vertical
        return v - V @ jnp.linalg.solve(V.T @ self.M @ V, V.T @ self.M @ v)

    def inner(self, u, v):
        return u @ self.M @ v

    def norm(self, v):
        return jnp.sqrt(self.inner(v, v))

    def sharp(self, covector):
        return jnp.linalg.solve(self.M, covector)


class FakeSpace:
    """A quotient that answers every point with the same factored point, and counts the questions."""

    def __init__(self, vertical, metric=None):
        vertical = jnp.asarray(vertical)
        metric = jnp.eye(len(vertical), dtype=vertical.dtype) if metric is None else jnp.asarray(metric)
        self.point, self.asked = FakePoint(vertical, metric), 0

    def at(self, params):
        self.asked += 1
        return self.point


def problem(seed, d, kind):
    """A random symmetric matrix, gradient and radius; `kind` says which sort of trust-region problem it is."""
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(d, d))
    A = (G + G.T) / 2
    b = rng.normal(size=d) * 10.0 ** rng.integers(-4, 2)
    if kind == "convex":
        A = A @ A / d
    if kind == "concave":
        A = -(A @ A / d + 0.1 * np.eye(d))
    if kind in ("hard", "critical"):
        W = np.linalg.eigh(A)[1]
        b = 0.02 * (b - W[:, -1] * (W[:, -1] @ b)) if kind == "hard" else np.zeros(d)
    return A, b, 10.0 ** rng.uniform(-1, 0.5)


@pytest.mark.parametrize("d", [1, 12, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_full_ball_reaches_the_exact_maximum(d, kind):
    for seed in range(8):
        A, b, radius = problem(seed, d, kind)
        if d == 1 and kind == "critical":
            A = abs(A)
        found = sharpness(quadratic, jnp.zeros(d), radius, batch=examples(A, b), steps=150)
        exact = dense_maximum(A, b, radius)
        assert found.value == pytest.approx(exact, rel=1e-6, abs=1e-14), (seed, found)
        assert float(jnp.linalg.norm(found.perturbation)) <= radius * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("curved", [False, True], ids=["euclidean", "metric"])
@pytest.mark.parametrize("kind", KINDS)
def test_horizontal_ball_reaches_the_exact_maximum(kind, curved):
    d, k = 40, 11
    for seed in range(6):
        A, b, radius = problem(seed, d, kind)
        rng = np.random.default_rng(1000 + seed)
        V = rng.normal(size=(d, k))
        M = np.diag(rng.uniform(0.3, 3.0, d)) if curved else np.eye(d)
        # N: a basis of the horizontal space, orthonormal in M, from a null space; the fake projects by a solve instead.
        N = np.linalg.svd((M @ V).T)[2][k:].T
        N = N @ np.linalg.inv(np.linalg.cholesky(N.T @ M @ N)).T
        if kind == "hard":
            W = np.linalg.eigh(N.T @ A @ N)[1]
            b = b - M @ N @ W[:, -1] * (W[:, -1] @ N.T @ b)
        space = FakeSpace(V, M)
        found = sharpness(quadratic, jnp.zeros(d), radius, batch=examples(A, b), space=space, steps=150)
        delta = np.asarray(found.perturbation)
        assert found.value == pytest.approx(dense_maximum(N.T @ A @ N, N.T @ b, radius), rel=1e-6), (seed, found)
        assert np.linalg.norm(V.T @ M @ delta) <= 1e-9 * radius
        assert np.sqrt(delta @ M @ delta) <= radius * (1 + 1e-6)
        assert found.value == pytest.approx(b @ delta + 0.5 * delta @ A @ delta, rel=1e-9)
        assert space.asked == 1


@pytest.mark.slow
def test_hard_case_is_really_hard():
    # Negative control: the gradient start alone stays in the space orthogonal to the top eigenvector.
    A, b = np.diag(np.arange(12.0)), np.full(12, 0.1)
    b[-1] = 0
    exact = dense_maximum(A, b, 1.0)
    alone = sharpness(quadratic, jnp.zeros(12), 1.0, batch=examples(A, b), restarts=1, curvature=0)
    helped = sharpness(quadratic, jnp.zeros(12), 1.0, batch=examples(A, b))
    assert alone.value < 0.95 * exact
    assert helped.value == pytest.approx(exact, rel=1e-9)
    assert alone.status == helped.status == "stationary"


@pytest.mark.slow
def test_float32_stays_float32_and_agrees(strict_promotion):
    for seed, kind in enumerate(KINDS):
        A, b, radius = problem(seed, 30, kind)
        A, b = A.astype(np.float32), b.astype(np.float32)
        found = sharpness(quadratic, jnp.zeros(30, jnp.float32), radius, batch=examples(A, b))
        exact = dense_maximum(A.astype(float), b.astype(float), radius)
        assert found.value == pytest.approx(exact, rel=2e-5), kind
        assert found.perturbation.dtype == jnp.float32
        assert float(jnp.linalg.norm(found.perturbation)) <= radius * (1 + 1e-6)


def test_least_squares_in_product_coordinates():
    # With X^T X = I and e = beta0 - beta*: max over |d| <= sqrt(2) rho of |X(beta0 + d) - y|^2 - |X beta0 - y|^2
    # is 2 sqrt(2) rho |e| + 2 rho^2.
    rng = np.random.default_rng(3)
    X = np.linalg.qr(rng.normal(size=(19, 12)))[0]
    beta, star, rho = rng.normal(size=12), rng.normal(size=12), 0.2
    batch = examples(2 * X.T @ X, -2 * X.T @ X @ star)
    found = sharpness(quadratic, jnp.asarray(beta), 2**0.5 * rho, batch=batch)
    assert found.value == pytest.approx(2 * 2**0.5 * rho * np.linalg.norm(beta - star) + 2 * rho**2, rel=1e-9)


@pytest.mark.slow
def test_few_gradients_are_enough():
    A, b, radius = problem(0, 100, "convex")
    found = sharpness(quadratic, jnp.zeros(100), radius, batch=examples(A, b), steps=150)
    assert found.status == "stationary"
    assert found.evaluations <= 100
    assert found.evaluations == found.history.size

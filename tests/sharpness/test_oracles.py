"""Exact maxima in closed form: diagonal networks in the mix metric, one scalar, and quadratic losses up to d = 400.

The network is y = x . (u v), with vertical directions (u, -v) unit by unit. In the mix metric `v^2 du^2 + u^2 dv^2`
horizontal vectors are `(u, v) t` with `t = d(uv) / 2uv`; a geodesic is `u sqrt(1 + 2 t s), v sqrt(1 + 2 t s)`, so that
beta = uv moves on a straight line, `beta + delta` with `|delta| = sqrt(2) |velocity|`, and leaves the domain where an
entry of beta would change its sign.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geometry.table import CASES
from quadratics import KINDS, dense_maximum, examples, quadratic
from quotax.sharpness import sharpness


class Path(NamedTuple):
    u: jax.Array
    v: jax.Array
    rate: jax.Array

    smooth_exit = True

    def at(self, time):
        stretch = jnp.sqrt(1 + 2 * self.rate * time)
        return {"u": self.u * stretch, "v": self.v * stretch}

    @property
    def end(self):
        return self.at(1.0)

    @property
    def exit_time(self):
        falling = jnp.where(self.rate < 0, self.rate, -1.0)
        return jnp.min(jnp.where(self.rate < 0, -0.5 / falling, jnp.inf))

    @property
    def ok(self):
        return self.exit_time > 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MixPoint:
    u: jax.Array
    v: jax.Array

    def horizontal(self, w):
        t = 0.5 * (w["u"] / self.u + w["v"] / self.v)
        return {"u": self.u * t, "v": self.v * t}

    def inner(self, a, b):
        return jnp.sum(self.v**2 * a["u"] * b["u"] + self.u**2 * a["v"] * b["v"])

    def norm(self, a):
        return jnp.sqrt(self.inner(a, a))

    def sharp(self, c):
        return {"u": c["u"] / self.v**2, "v": c["v"] / self.u**2}

    def whiten(self, a):
        return {"u": jnp.abs(self.v) * a["u"], "v": jnp.abs(self.u) * a["v"]}

    def unwhiten(self, e):
        return {"u": e["u"] / jnp.abs(self.v), "v": e["v"] / jnp.abs(self.u)}

    def geodesic(self, w):
        return Path(self.u, self.v, 0.5 * (w["u"] / self.u + w["v"] / self.v))


class MixSpace:
    def at(self, p):
        return MixPoint(p["u"], p["v"])


def regression(p, batch):
    x, y = batch
    return jnp.sum((x @ (p["u"] * p["v"]) - y) ** 2)


def diagonal(seed, d=8, orthogonal=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(13, d))
    X = np.linalg.qr(X)[0] if orthogonal else X
    params = {name: jnp.asarray(rng.normal(size=d) + np.sign(rng.normal(size=d))) for name in "uv"}
    return params, jnp.asarray(X), jnp.asarray(rng.normal(size=13))


def smallest_beta(params):
    return float(jnp.min(jnp.abs(params["u"] * params["v"])))


def measure(params, X, y, rho, **more):
    # One chunk with all examples: the loss is a sum.
    return sharpness(regression, params, rho, space=MixSpace(), ball="geodesic", batch=(X, y), **more)


@pytest.mark.slow
def test_orthogonal_data_in_the_domain():
    for seed in range(100):
        params, X, y = diagonal(seed, orthogonal=True)
        rho = 0.7 * smallest_beta(params)
        e = params["u"] * params["v"] - X.T @ y
        found = measure(params, X, y, rho / 2**0.5)
        exact = 2**1.5 * (rho / 2**0.5) * float(jnp.linalg.norm(e)) + rho**2
        assert found.value == pytest.approx(exact, rel=1e-6), (seed, found)
        assert float(MixPoint(**params).norm(found.perturbation)) <= rho / 2**0.5 * (1 + 1e-6)


@pytest.mark.slow
def test_general_data_in_the_domain():
    for seed in range(100):
        params, X, y = diagonal(seed)
        beta = params["u"] * params["v"]
        rho = 0.9 * smallest_beta(params)
        A, b = 2 * X.T @ X, 2 * X.T @ (X @ beta - y)
        found = measure(params, X, y, rho / 2**0.5)
        exact = dense_maximum(np.asarray(A), np.asarray(b), rho)
        assert found.value == pytest.approx(exact, rel=1e-6), (seed, found)
        residual = MixPoint(**params).horizontal(found.perturbation)
        for name in "uv":
            np.testing.assert_allclose(residual[name], found.perturbation[name], atol=1e-9)


@pytest.mark.slow
def test_the_edge_of_the_domain():
    # A convex function is largest at the extreme points of a disc cut by two edges: on the arc, or in the corner.
    turn = np.linspace(0, 2 * np.pi, 4001)
    arc = np.stack([np.cos(turn), np.sin(turn)], -1)
    for seed in range(60):
        params, X, y = diagonal(seed, d=2)
        beta = np.asarray(params["u"] * params["v"])
        rho = 3.0 * np.abs(beta).min()
        delta = np.concatenate([rho * arc, -(1 - 1e-3) * beta[None]])
        inside = np.all(1 + delta / beta > 0, -1) & (np.linalg.norm(delta, axis=-1) <= rho * (1 + 1e-12))
        b, A = np.asarray(2 * X.T @ (X @ beta - y)), np.asarray(2 * X.T @ X)
        value = delta @ b + 0.5 * np.sum((delta @ A) * delta, -1)
        best = value[inside].max()
        found = measure(params, X, y, rho / 2**0.5)
        assert found.value >= best * (1 - 1e-6), (seed, found)
        assert found.value <= best + 0.02 * np.abs(value).max()


def clipped_maximum(e, beta, rho):
    """`max 2 e.d + |d|^2` over `|d| <= rho` and `d_i / beta_i >= -1`, some `e_i beta_i` positive; are any at -1?

    `|d|^2 <= rho^2`, and the linear part is largest at `d = clip(t e)`, whose length grows with t up to rho: both at
    once.
    """
    clip = lambda t: np.sign(beta) * np.maximum(np.sign(beta) * t * e, -np.abs(beta))
    low, high = 0.0, 1.0
    while np.linalg.norm(clip(high)) < rho:
        high *= 2
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.linalg.norm(clip(middle)) < rho else (low, middle)
    return 2 * e @ clip(low) + rho**2, np.any(clip(low) == -beta)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "reach"), [(6, 6.0), (12, 8.0)])
def test_the_edge_of_the_domain_in_many_dimensions(d, reach):
    # The maximum lies where the sphere meets the edge: a crease, which gradients on either side would cross.
    edges = 0
    for seed in range(40):
        params, X, y = diagonal(seed, d=d, orthogonal=True)
        beta = np.asarray(params["u"] * params["v"])
        e = beta - np.asarray(X.T @ y)
        rho = reach * np.abs(beta).min()
        if not np.any(e * beta > 0):
            continue
        found = measure(params, X, y, rho / 2**0.5)
        exact, active = clipped_maximum(e, beta, rho)
        assert found.value == pytest.approx(exact, rel=1e-6), (seed, found)
        edges += active
    assert edges >= 5


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class InvPoint(MixPoint):
    """The metric `du^2 / u^2 + dv^2 / v^2`: geodesics are exponentials, and never leave."""

    def inner(self, a, b):
        return jnp.sum(a["u"] * b["u"] / self.u**2 + a["v"] * b["v"] / self.v**2)

    def sharp(self, c):
        return {"u": self.u**2 * c["u"], "v": self.v**2 * c["v"]}

    def whiten(self, a):
        return {"u": a["u"] / jnp.abs(self.u), "v": a["v"] / jnp.abs(self.v)}

    def unwhiten(self, e):
        return {"u": jnp.abs(self.u) * e["u"], "v": jnp.abs(self.v) * e["v"]}

    def geodesic(self, w):
        return Growth(self.u, self.v, 0.5 * (w["u"] / self.u + w["v"] / self.v))


class Growth(Path):
    def at(self, time):
        return {"u": self.u * jnp.exp(self.rate * time), "v": self.v * jnp.exp(self.rate * time)}

    @property
    def exit_time(self):
        return jnp.inf * jnp.ones(())


@dataclass(frozen=True)
class InvSpace:
    def at(self, p):
        return InvPoint(p["u"], p["v"])


@pytest.mark.slow
def test_the_scalar_case():
    # (G, H, x, y) = (1.5, .8, 1, 2), rho = .1: beta = 1.2 goes to 1.2 exp(-sqrt(2) rho) in the invariant metric.
    params = {"u": jnp.asarray([1.5]), "v": jnp.asarray([0.8])}
    batch = jnp.ones((1, 1)), jnp.asarray([2.0])
    found = sharpness(regression, params, 0.1, space=InvSpace(), ball="geodesic", batch=batch)
    assert found.value == pytest.approx((1.2 * np.exp(-(2**0.5) * 0.1) - 2) ** 2 - 0.64, rel=1e-9)
    assert found.value == pytest.approx(0.2782466, abs=1e-7)
    # The mix metric gives another ball: 2 sqrt(2) rho |r| + 2 rho^2 with r = -0.8.
    assert measure(params, *batch, 0.1).value == pytest.approx(2 * 2**0.5 * 0.1 * 0.8 + 2 * 0.01, rel=1e-9)


def constrained(seed, d, kind):
    """A quadratic with k vertical directions, Euclidean; eigenvalues over four orders of magnitude where definite."""
    rng = np.random.default_rng(seed)
    k = d // 4
    W = np.linalg.qr(rng.normal(size=(d, d)))[0]
    spectrum = 10.0 ** rng.uniform(-3, 1, d)
    sign = {"convex": 1, "concave": -1}.get(kind)
    A = (W * (rng.normal(size=d) if sign is None else sign * spectrum)) @ W.T
    b = rng.normal(size=d) * 10.0 ** rng.integers(-3, 2)
    V = rng.normal(size=(d, k))
    N = np.linalg.svd(V.T)[2][k:].T
    if kind == "hard":
        top = np.linalg.eigh(N.T @ A @ N)[1][:, -1]
        b = 0.02 * (b - N @ top * (top @ N.T @ b))
    if kind == "critical":
        b = np.zeros(d)
    return A, b, V, N, 10.0 ** rng.uniform(-1, 0.5)


@dataclass(frozen=True)
class Orthogonal:
    """Horizontal: orthogonal to the columns of Q."""

    Q: jax.Array

    def at(self, params):
        return self

    def horizontal(self, v):
        return v - self.Q @ (self.Q.T @ v)

    def inner(self, u, v):
        return u @ v

    def norm(self, v):
        return jnp.sqrt(v @ v)


jax.tree_util.register_dataclass(Orthogonal)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "count"), [(60, 40), (150, 10), (400, 4)])
@pytest.mark.parametrize("kind", KINDS)
def test_quadratics_with_a_horizontal_constraint(kind, d, count):
    for seed in range(count):
        A, b, V, N, radius = constrained(seed, d, kind)
        space = Orthogonal(jnp.asarray(np.linalg.qr(V)[0]))
        found = sharpness(quadratic, jnp.zeros(d), radius, batch=examples(A, b), space=space)
        exact = dense_maximum(N.T @ A @ N, N.T @ b, radius)
        assert found.value == pytest.approx(exact, rel=1e-6), (seed, found)
        assert np.linalg.norm(V.T @ np.asarray(found.perturbation)) <= 1e-9 * np.linalg.norm(V) * radius
        assert np.linalg.norm(found.perturbation) <= radius * (1 + 1e-6)


@pytest.mark.slow
def test_the_edge_of_the_domain_of_a_space():
    # The same with quotax's own space and path, whose exit times have derivatives.
    space = CASES["u*v"].space("mix")
    for seed in range(6):
        params, X, y = diagonal(seed, d=3, orthogonal=True)
        beta = np.asarray(params["u"] * params["v"])
        rho = 6.0 * np.abs(beta).min()
        found = sharpness(regression, params, rho / 2**0.5, space=space, ball="geodesic", batch=(X, y))
        exact, _ = clipped_maximum(beta - np.asarray(X.T @ y), beta, rho)
        assert found.value == pytest.approx(exact, rel=1e-6), (seed, found)

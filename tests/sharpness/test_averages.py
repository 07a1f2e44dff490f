"""Means, traces and gradients against dense linear algebra and closed forms."""

from dataclasses import dataclass
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from quotax.errors import SharpnessError
from quotax.sharpness import average_sharpness, gradient_norm, sharpness, trace
from quotax.sharpness.verdicts import invariance
from sharpness.pairs import Pairs, product_loss
from sharpness.test_quadratics import FakePoint, FakeSpace, examples, problem, quadratic

DISTRIBUTIONS = {"sphere": lambda n: n, "ball": lambda n: n + 2, "gaussian": lambda n: 1}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WhitePoint(FakePoint):
    """With whitening by a Cholesky factor."""

    def whiten(self, v):
        return jnp.linalg.cholesky(self.M).T @ v

    def unwhiten(self, e):
        return jnp.linalg.solve(jnp.linalg.cholesky(self.M).T, e)


class MetricSpace(FakeSpace):
    def __init__(self, vertical, metric=None):
        super().__init__(vertical, metric)
        self.point = WhitePoint(self.point.vertical, self.point.M)


def restricted(seed, d=14, k=4):
    """A quadratic, a vertical space and a metric, with the quadratic's matrix on an orthonormal horizontal basis."""
    A, b, _ = problem(seed, d, "convex")
    rng = np.random.default_rng(seed)
    V, M = rng.normal(size=(d, k)), np.diag(rng.uniform(0.3, 3.0, d))
    N = np.linalg.svd((M @ V).T)[2][k:].T
    N = N @ np.linalg.inv(np.linalg.cholesky(N.T @ M @ N)).T
    return A, b, MetricSpace(V, M), N


@pytest.mark.slow
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_means_on_a_horizontal_space_in_a_metric(distribution):
    A, b, space, N = restricted(5)
    batch, radius = examples(A, b), 0.3
    exact = radius**2 * np.trace(N.T @ A @ N) / (2 * DISTRIBUTIONS[distribution](10))
    found = average_sharpness(
        quadratic, jnp.zeros(14), radius, space=space, batch=batch, distribution=distribution, samples=4000
    )
    assert found.dim == 10
    assert found.prediction == pytest.approx(exact, rel=1e-10)
    assert abs(found.value - exact) < 4.5 * found.standard_error
    assert found.standard_error < 0.05 * exact
    assert found.status == "ok"
    assert found.method == "exact"


@pytest.mark.slow
def test_orbit_directions_dilute_as_predicted():
    # A critical point: the Hessian vanishes along the vertical space, and the trace is the same.
    d, k = 14, 4
    A, _, space, _ = restricted(1)
    V = np.asarray(space.point.vertical)
    P = np.eye(d) - V @ np.linalg.pinv(V)
    batch, flat = examples(P @ A @ P, np.zeros(d)), MetricSpace(V)
    for distribution, ratio in (("sphere", (d - k) / d), ("ball", (d - k + 2) / (d + 2)), ("gaussian", 1.0)):
        measure = lambda space, kind=distribution: average_sharpness(
            quadratic, jnp.zeros(d), 0.1, space=space, batch=batch, distribution=kind, samples=20_000, key=3
        )
        full, quot = measure(None), measure(flat)
        error = ratio * np.hypot(full.standard_error / full.value, quot.standard_error / quot.value)
        assert abs(full.value / quot.value - ratio) < 4 * error, distribution
        assert full.prediction / quot.prediction == pytest.approx(ratio, rel=1e-9)


@pytest.mark.slow
def test_antithetic_pairs_remove_the_gradient():
    A, b = np.eye(6), 100 * np.ones(6)
    paired = average_sharpness(quadratic, jnp.zeros(6), 0.1, batch=examples(A, b))
    plain = average_sharpness(quadratic, jnp.zeros(6), 0.1, batch=examples(A, b), antithetic=False)
    assert paired.value == pytest.approx(0.005, rel=1e-9)
    assert plain.standard_error > 100 * paired.standard_error


@pytest.mark.slow
def test_chunks_and_keys():
    A, b, _, _ = restricted(0)
    batch = tuple(jnp.concatenate([a, 3 * a, 2 * a]) for a in examples(A, b))
    mean = lambda p, data: jnp.mean(jax.vmap(lambda a, c: c @ p + 0.5 * p @ a @ p)(*data))
    whole = average_sharpness(mean, jnp.ones(14), 0.1, batch=batch, key=1)
    cut = average_sharpness(mean, jnp.ones(14), 0.1, batch=batch, key=1, microbatch=2)
    other = average_sharpness(mean, jnp.ones(14), 0.1, batch=batch, key=2)
    assert cut.value == pytest.approx(whole.value, rel=1e-9)
    assert other.value != whole.value


def test_traces_are_those_of_the_restricted_hessian():
    A, b, space, N = restricted(2)
    full = trace(quadratic, jnp.zeros(14), batch=examples(A, b))
    assert (full.value, full.method, full.standard_error) == (pytest.approx(np.trace(A)), "exact", 0.0)
    part = trace(quadratic, jnp.zeros(14), batch=examples(A, b), space=space)
    assert part.value == pytest.approx(np.trace(N.T @ A @ N), rel=1e-10)
    assert part.dim == 10
    scale = np.linspace(0, 2, 14)
    adaptive = trace(lambda p: quadratic(p - scale, examples(A, b)), jnp.asarray(scale), adaptive=True)
    assert adaptive.value == pytest.approx(np.sum(np.diag(A) * scale**2))
    assert adaptive.dim == 13


def test_random_traces_know_their_error():
    A, b, _ = problem(0, 60, "convex")
    batch = examples(A, b)
    errors = []
    for key in range(12):
        found = trace(quadratic, jnp.zeros(60), batch=batch, probes=30, key=key)
        assert found.products == 30
        errors.append((found.value - np.trace(A)) / found.standard_error)
    assert np.sqrt(np.mean(np.square(errors))) < 2
    # A matrix of low rank is exact: its range is found.
    G = np.random.default_rng(0).normal(size=(60, 4))
    found = trace(quadratic, jnp.zeros(60), batch=examples(G @ G.T, b), probes=30)
    assert found.value == pytest.approx(np.sum(G**2), rel=1e-8)


SCALAR = {"u": jnp.asarray([1.5]), "v": jnp.asarray([0.8])}
ONE = (jnp.ones((1, 1, 1)), jnp.full((1, 1), 2.0))


def test_the_scalar_case():
    # f = uv = 1.2, L = (f - 2)^2; along a unit geodesic of the invariant metric f = 1.2 exp(sqrt(2) s).
    space = Pairs("inv", 1)
    assert gradient_norm(product_loss, SCALAR, space=space, batch=ONE) == pytest.approx(2.71529, abs=1e-5)
    found = trace(product_loss, SCALAR, space=space, batch=ONE)
    assert (found.value, found.hessian) == (pytest.approx(1.92, rel=1e-9), "Riemannian")
    # Away from critical points straight lines bend differently: d^2/dt^2 (u + a t)(v + b t) adds 2 f' f'.
    straight = trace(product_loss, SCALAR, space=space, ball="linear", batch=ONE)
    assert straight.hessian == "Euclidean"
    assert straight.value == pytest.approx(1.92 + 1.6 * 1.2, rel=1e-9)


def test_averages_along_geodesics_are_their_closed_forms():
    # One unit direction: exactly two points, at f = 1.2 exp(+- sqrt(2) r).
    found = average_sharpness(product_loss, SCALAR, 0.2, space=Pairs("inv", 1), ball="geodesic", batch=ONE, samples=8)
    ends = 1.2 * np.exp(2**0.5 * np.array([0.2, -0.2]))
    assert found.value == pytest.approx(np.mean((ends - 2) ** 2) - 0.64, rel=1e-9)
    assert found.prediction == pytest.approx(0.5 * 0.2**2 * 1.92)
    beyond = average_sharpness(product_loss, SCALAR, 1.3, space=Pairs("mix", 1), ball="geodesic", batch=ONE, samples=8)
    assert beyond.status == "domain"
    assert beyond.value == pytest.approx(0.5 * (4 + (1.2 + 1.3 * 2**0.5 - 2) ** 2) - 0.64, rel=1e-6)


def test_full_gradient_norm_is_the_euclidean_one():
    flat = np.asarray(ravel_pytree(jax.grad(product_loss)(SCALAR, ONE))[0])
    assert gradient_norm(product_loss, SCALAR, batch=ONE) == pytest.approx(np.linalg.norm(flat))


# --- functions on the quotient


def pairs_problem(d=4):
    rng = np.random.default_rng(0)
    params = {"u": jnp.asarray(rng.uniform(0.7, 1.5, d)), "v": jnp.asarray(rng.uniform(0.7, 1.5, d))}
    return params, (jnp.asarray(rng.normal(size=(6, d)))[None], jnp.asarray(rng.normal(size=6))[None])


MEASURES = {
    "worst": lambda *a, **k: sharpness(*a, radius=0.1, steps=60, **k),
    "average": lambda *a, **k: average_sharpness(*a, radius=0.1, samples=64, probes=0, **k),
    "trace": trace,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("worst", marks=pytest.mark.slow), "average", "trace"])
def test_invariant_metrics_give_functions_on_the_quotient(name):
    params, data = pairs_problem()
    for metric, ball in (("inv", "linear"), ("inv", "geodesic"), ("mix", "geodesic")):
        found = MEASURES[name](
            product_loss, params, space=Pairs(metric, 4), ball=ball, batch=data, representatives=4, spread_scale=1.5
        )
        assert found.invariant is True
        assert "proved" in found.reason
        assert found.spread.relative < 1e-6
        assert found.spread.values == pytest.approx(np.full(4, found.value), rel=1e-6)
        assert "a function on the quotient: the" in str(found)
        assert "4 representatives" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURES)
def test_the_full_ball_is_not_one(name):
    params, data = pairs_problem()
    settings = {"space": Pairs("inv", 4), "ball": "full", "batch": data, "representatives": 4, "spread_scale": 1.5}
    found = MEASURES[name](product_loss, params, **settings)
    assert found.invariant is False
    assert "changes a length in it" in found.reason
    assert found.spread.relative > 0.5


@pytest.mark.slow
def test_relative_steps_survive_scalings_without_a_proof():
    params, data = pairs_problem()
    settings = {"space": Pairs("inv", 4), "ball": "full", "batch": data, "adaptive": True, "representatives": 4}
    found = sharpness(product_loss, params, 0.1, **settings)
    assert found.invariant is None
    assert "not a proof" in found.reason
    assert found.spread.relative < 1e-6
    whole_arrays = sharpness(product_loss, params, 0.1, per_layer=True, space=Pairs("inv", 4), ball="full", batch=data)
    assert whole_arrays.invariant is False  # one norm for an array does not follow its units


@pytest.mark.slow
def test_a_metric_that_is_refuted_or_unknown():
    params, data = pairs_problem()
    refuted = type("Refuted", (), {"status": "refuted", "steps": ("lengths differ",), "__bool__": lambda self: False})()
    found = trace(product_loss, params, space=Pairs("inv", 4, metric_certificate=refuted), batch=data)
    assert found.invariant is False
    assert "lengths differ" in found.reason
    unknown = trace(product_loss, params, space=Pairs("inv", 4, metric_certificate=None), batch=data)
    assert unknown.invariant is None


class Bent(Pairs):
    """The same orbits, moved by an action that is not affine in the parameters."""

    def act(self, p, g):
        share = jnp.exp(jnp.sin(g["g"] * p["u"]))
        return {"u": p["u"] * share, "v": p["v"] / share}


def test_linear_balls_need_affine_actions():
    params, data = pairs_problem()
    linear = trace(product_loss, params, space=Bent("inv", 4), ball="linear", batch=data)
    assert linear.invariant is False
    assert "use ball='geodesic'" in linear.reason
    assert trace(product_loss, params, space=Bent("inv", 4), ball="geodesic", batch=data).invariant is True


def test_whether_steps_bend_is_asked_once_of_the_same_arrays(monkeypatch):
    asked = []
    monkeypatch.setattr(invariance, "_bend", lambda setting: asked.append(setting.params) or 0.0)
    space, one, other = Pairs("inv", 4), jnp.ones(2), jnp.ones(2)
    for params in (one, one, other, one, np.ones(2), np.ones(2)):
        assert invariance.bend_once(SimpleNamespace(space=space, params=params)) == 0.0
    assert len(asked) == 5  # arrays of NumPy may have changed


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: average_sharpness(quadratic, jnp.ones(2), 0.1, batch=E, samples=3), "samples= a whole number, at"),
        (lambda: average_sharpness(quadratic, jnp.ones(2), 0.1, batch=E, distribution="cube"), "got 'cube'"),
        (lambda: average_sharpness(quadratic, jnp.ones(2), -1, batch=E), "radius= a positive finite number, got -1"),
        (lambda: trace(quadratic, jnp.ones(2), batch=E, probes=2), "probes= a whole number, at least 6, got 2"),
        (lambda: trace(quadratic, jnp.ones(2), batch=E, spread_scale=0), "spread_scale= a positive finite number"),
        (lambda: trace(quadratic, jnp.ones(2), batch=E, space=FakeSpace(np.ones((2, 1)))), "`whiten` and `unwhiten`"),
        (lambda: trace(3, jnp.ones(2)), "`quotax.trace` needs a function"),
    ],
)
def test_bad_input_is_refused_in_the_words_of_the_call(call, message):
    with pytest.raises(SharpnessError) as error:
        call()
    assert message in str(error.value)


E = examples(np.eye(2), np.zeros(2))

"""Angles between row spaces, and the least step to a test minimum: against SciPy, SLSQP and closed forms."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

import models
import quotax as qx

NET = models.swiglu.at(x=3, h=4, y=1)


@functools.cache
def space_of(metric):
    return None if metric is None else qx.quotient(NET, [models.symmetry("swiglu")[1]], metric=metric)


PARAMS = NET.init(jax.random.key(0))
INPUTS = jax.random.normal(jax.random.key(1), (12, 3))
TARGETS = jax.vmap(NET, (None, 0))(PARAMS, INPUTS) + 0.1 * jax.random.normal(jax.random.key(2), (12, 1))
OPTIONS = {"ftol": 1e-14, "maxiter": 300}
TRAIN, TEST = (INPUTS[:6], TARGETS[:6]), (INPUTS[8:], TARGETS[8:])
FLAT, BACK = ravel_pytree(PARAMS)


def rows(inputs):
    jacobian = jax.jacobian(lambda v: jax.vmap(NET, (None, 0))(BACK(v), inputs).ravel())(FLAT)
    return np.asarray(jacobian)


def test_angles_are_those_of_scipy_and_the_first_step_is_the_pseudoinverse():
    found = qx.transversality(NET, PARAMS, TRAIN, TEST)
    angles = scipy.linalg.subspace_angles(rows(TRAIN[0]).T, rows(TEST[0]).T)
    np.testing.assert_allclose(found.angles, np.sort(angles), atol=1e-7)
    residual = (jax.vmap(NET, (None, 0))(PARAMS, TEST[0]) - TEST[1]).ravel()
    first = -np.linalg.pinv(rows(TEST[0])) @ residual
    np.testing.assert_allclose(ravel_pytree(found.first_order)[0], first, atol=1e-8)
    kept = np.vstack([rows(TRAIN[0]), rows(TEST[0])])
    wanted = np.concatenate([np.zeros(6), -residual])
    np.testing.assert_allclose(found.keeping_length, np.linalg.norm(np.linalg.pinv(kept) @ wanted), rtol=1e-6)
    assert found.transversal
    assert "angles" in str(found)


@pytest.mark.parametrize("name", [None, "euclidean"])
def test_the_step_is_as_short_as_brute_force_finds(name):
    space = space_of(name)
    found = qx.transversality(NET, PARAMS, TRAIN, TEST, space)
    assert found.status == "converged"
    assert found.losses[2] < 1e-15
    basis = np.eye(FLAT.size)
    if space is not None:
        step = ravel_pytree(space.vertical(PARAMS, found.step))[0]
        np.testing.assert_allclose(step, 0, atol=1e-10)
        vertical = np.stack([ravel_pytree(space.field(PARAMS, {"swiglu": e}))[0] for e in np.eye(4)])
        basis = scipy.linalg.null_space(vertical)
    errors = jax.jit(lambda d: jax.vmap(NET, (None, 0))(BACK(FLAT + d), TEST[0]).ravel() - TEST[1].ravel())
    slope = jax.jit(jax.jacobian(errors))
    best = np.inf
    for seed in range(3):
        start = 0.3 * np.random.default_rng(seed).standard_normal(basis.shape[1])
        constraint = {
            "type": "eq",
            "fun": lambda z: np.asarray(errors(basis @ z)),
            "jac": lambda z: np.asarray(slope(basis @ z)) @ basis,
        }
        run = minimize(
            lambda z: z @ z / 2,
            start,
            jac=lambda z: z,
            constraints=[constraint],
            options=OPTIONS,
        )
        best = min(best, np.linalg.norm(run.x) if run.success else np.inf)
    np.testing.assert_allclose(found.length, best, rtol=1e-5)


@pytest.mark.slow
@settings(max_examples=3)
@given(seed=st.integers(0, 100))
def test_in_an_invariant_metric_angles_and_lengths_belong_to_the_orbit(seed):
    space = space_of("invariant")
    other = space.act(PARAMS, space.random_element(jax.random.key(seed)))
    here, there = (qx.transversality(NET, p, TRAIN, TEST, space) for p in (PARAMS, other))
    np.testing.assert_allclose(here.angles, there.angles, atol=1e-6)
    np.testing.assert_allclose(here.first_order_length, there.first_order_length, rtol=1e-6)
    np.testing.assert_allclose(here.length, there.length, rtol=1e-4)


@settings(max_examples=6)
@given(seed=st.integers(0, 1000))
def test_of_a_linear_model_the_first_step_is_the_whole_and_keeping_costs_at_most_the_angle(seed):
    rng = np.random.default_rng(seed)
    net = lambda p, x: p @ x
    params = jnp.asarray(rng.standard_normal(9))
    train, test = ((rng.standard_normal((3, 9)), rng.standard_normal(3)) for _ in range(2))
    found = qx.transversality(net, params, train, test)
    np.testing.assert_allclose(found.step, found.first_order, atol=1e-7)
    assert found.losses[1] < 1e-14
    assert found.first_order_length <= found.keeping_length * (1 + 1e-9)
    assert found.keeping_length <= found.first_order_length / np.sin(found.angles[0]) * (1 + 1e-9)


@pytest.mark.slow
def test_products_of_rows_serve_as_well_as_rows(monkeypatch):
    written = qx.transversality(NET, PARAMS, TRAIN, TEST, space_of("invariant"))
    monkeypatch.setattr("quotax.function_space.row_space.WRITTEN", 1)
    found = qx.transversality(NET, PARAMS, TRAIN, TEST, space_of("invariant"))
    np.testing.assert_allclose(found.angles, written.angles, atol=1e-5)
    np.testing.assert_allclose(found.length, written.length, rtol=1e-5)
    np.testing.assert_allclose(found.keeping_length, written.keeping_length, rtol=1e-4)


def test_the_same_examples_share_everything():
    found = qx.transversality(NET, PARAMS, TEST, TEST)
    np.testing.assert_allclose(found.angles, 0, atol=1e-6)
    assert not found.transversal
    assert found.keeping_length == np.inf
    assert "not transversal" in str(found)


def test_more_test_outputs_than_directions_are_fitted_as_well_as_they_can_be():
    net = lambda p, x: p @ x
    x, y = jax.random.normal(jax.random.key(0), (9, 3)), jax.random.normal(jax.random.key(1), (9,))
    found = qx.transversality(net, jnp.ones(3), (x, y), (x, y))
    np.testing.assert_allclose(jnp.ones(3) + found.step, np.linalg.lstsq(x, y)[0], atol=1e-7)
    assert found.status == "converged"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": INPUTS}, r"needs train= a pair \(inputs, targets\), got ArrayImpl"),
        ({"test": (INPUTS, TARGETS[:3])}, r"needs test\[1\] of the shape of the outputs, \(12, 1\)"),
        ({"iterations": 0}, "needs iterations= a whole number, at least 1, got 0"),
        ({"test": (INPUTS, TARGETS * jnp.inf)}, r"test\[1\] holds NaN or infinity"),
    ],
)
def test_bad_input_is_refused_by_name(change, message):
    given = {"net": NET, "params": PARAMS, "train": TRAIN, "test": TEST} | change
    with pytest.raises(qx.FunctionSpaceError, match=f"quotax.transversality.*{message}"):
        qx.transversality(**given)


def test_too_many_outputs_are_refused(monkeypatch):
    monkeypatch.setattr("quotax.function_space.transverse.ROWS", 5)
    with pytest.raises(qx.FunctionSpaceError, match="train has 6 outputs, more than 5"):
        qx.transversality(NET, PARAMS, TRAIN, TEST)

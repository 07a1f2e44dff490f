"""Bad input is refused at the call, in the caller's words."""

import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from quotax.errors import ParameterError, SharpnessError
from quotax.sharpness import sharpness

P = {"W": jnp.ones((2, 2)), "b": jnp.zeros(2)}


def total(p):
    return jnp.sum(p["W"]) + jnp.sum(p["b"])


def total_of(p, batch):
    return jnp.mean(batch["x"]) * total(p)


@pytest.mark.parametrize("radius", [0, -0.1, float("nan"), float("inf"), "0.1", None, True])
def test_a_radius_that_is_not_positive_is_refused(radius):
    with pytest.raises(SharpnessError, match=re.escape(f"radius= a positive finite number, got {radius!r}")):
        sharpness(total, P, radius)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({**P, "b": jnp.array([1.0, jnp.nan])}, "1 of the 2 entries of params['b'] are not (NaN)"),
        ({**P, "b": jnp.array([jnp.inf, jnp.inf])}, "2 of the 2 entries of params['b'] are not (infinity)"),
        ({}, "which holds no array"),
        ({"W": jnp.zeros((0, 3))}, "every array in params is empty"),
        ({**P, "b": jnp.arange(2)}, "params['b'] is int64"),
        ({**P, "b": "text"}, "params['b'] is 'text'"),
    ],
)
def test_params_that_are_no_finite_floats_are_refused(params, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        sharpness(total, params, 0.1)


def test_a_call_inside_jit_is_refused():
    with pytest.raises(ParameterError, match="called inside jit"):
        jax.jit(lambda p: sharpness(total, p, 0.1).value)(P)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (3.0, "needs a function `loss(params)`, got 3.0 (float)"),
        (lambda p: p["W"], "returns one real number, got float64[2, 2]"),
        (lambda p: jnp.argmax(p["b"]), "returns one real number, got int64[]"),
        (lambda p: (total(p), 0), "returns one number, got a tuple"),
        (total_of, "calls `loss(params)`, which `loss(p, batch)` does not accept"),
    ],
)
def test_a_loss_that_returns_no_number_is_refused(loss, message):
    with pytest.raises(SharpnessError, match=re.escape(message)):
        sharpness(loss, P, 0.1)


@pytest.mark.parametrize(
    ("batch", "microbatch", "message"),
    [
        ({"x": jnp.ones(3), "y": 2.0}, None, "batch['y'] is the scalar 2.0"),
        ({"x": jnp.ones(3), "y": jnp.ones((4, 2))}, None, "batch['x'] has 3, batch['y'] has 4"),
        ({"x": jnp.ones((0, 2))}, None, "has 0 of them"),
        ({}, None, "holds no array"),
        ({"x": jnp.ones(3)}, 0, "microbatch= a whole number, at least 1, got 0"),
        ({"x": jnp.ones(3)}, 1.5, "microbatch= a whole number, at least 1, got 1.5"),
        (None, 4, "microbatch=4 but no batch="),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(batch, microbatch, message):
    with pytest.raises(SharpnessError, match=re.escape(message)):
        sharpness(total_of, P, 0.1, batch=batch, microbatch=microbatch)


def test_batch_for_a_loss_without_one():
    with pytest.raises(SharpnessError, match="leave batch= out if it needs none"):
        sharpness(total, P, 0.1, batch=jnp.ones(3))


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [("steps", 0, 1), ("restarts", 0, 1), ("memory", 0, 1), ("curvature", -1, 0), ("steps", 2.0, 1)],
)
def test_an_effort_that_is_too_small_is_refused(name, value, least):
    with pytest.raises(SharpnessError, match=re.escape(f"{name}= a whole number, at least {least}, got {value}")):
        sharpness(total, P, 0.1, **{name: value})


@pytest.mark.parametrize("options", [{"tolerance": 0.0}, {"key": "seed"}])
def test_tolerance_and_key(options):
    with pytest.raises(SharpnessError, match=next(iter(options)) + "="):
        sharpness(total, P, 0.1, **options)


def identity(v):
    return v


def euclidean(u, v):
    return sum(jnp.sum(u[name] * v[name]) for name in u)


def space_with(**methods):
    return SimpleNamespace(at=lambda params: SimpleNamespace(**methods))


def test_space_without_the_protocol():
    with pytest.raises(SharpnessError, match=re.escape("needs space= a quotient with `at(params)`, got dict")):
        sharpness(total, P, 0.1, space={})
    with pytest.raises(SharpnessError, match="lacks inner, norm"):
        sharpness(total, P, 0.1, space=space_with(horizontal=identity))


@pytest.mark.slow
def test_space_whose_horizontal_is_no_projection():
    space = space_with(horizontal=lambda v: jax.tree.map(lambda a: 0.5 * a, v), inner=euclidean, norm=identity)
    with pytest.raises(SharpnessError, match=r"projecting a horizontal unit vector again moves it by 5\.0e-01"):
        sharpness(total, P, 0.1, space=space, restarts=1, curvature=0)


@pytest.mark.slow
def test_metric_without_sharp():
    space = space_with(horizontal=identity, inner=lambda u, v: 4 * euclidean(u, v), norm=identity)
    with pytest.raises(SharpnessError, match="needs `sharp`, the inverse of its matrix"):
        sharpness(total, P, 0.1, space=space, restarts=1, curvature=0)

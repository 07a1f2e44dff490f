"""How much was missed: exact for quadratic losses, a named model otherwise, and evidence without asking."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quotax.errors import SharpnessError
from quotax.sharpness import sharpness
from quotax.sharpness.verdicts.gap import EXACT, MODEL, SPREAD

A = np.diag([3.0, 1.0, -2.0, 0.5, 2.9])


def quadratic(p, batch):
    x, y = batch
    return jnp.mean((x @ p["w"] + p["b"] - y) ** 2)


def linear_network(p, batch):
    x, y = batch
    return jnp.mean((x @ p["w"] * p["b"] - y) ** 2)


def problem():
    one, two, three = jax.random.split(jax.random.key(0), 3)
    batch = jax.random.normal(one, (40, 12)), jax.random.normal(two, (40,))
    return {"w": jax.random.normal(three, (12,)), "b": jnp.asarray(0.3)}, batch


@pytest.mark.slow
def test_least_squares_is_recognised_and_its_maximum_certified():
    params, batch = problem()
    found = sharpness(quadratic, params, 0.7, batch=batch, bound=True)
    assert found.gap_kind == EXACT
    assert abs(found.gap) <= 1e-7 * found.value
    # Negative control: a search of two gradients is told what it missed.
    poor = sharpness(quadratic, params, 0.7, batch=batch, bound=True, budget=2, restarts=1)
    assert poor.gap_kind == EXACT
    assert poor.gap > 1e-3 * found.value
    assert poor.value + poor.gap == pytest.approx(found.value, rel=1e-7)


@pytest.mark.slow
def test_another_loss_is_not_called_quadratic():
    params, batch = problem()
    found = sharpness(linear_network, params, 0.7, batch=batch, bound=True)
    assert found.gap_kind == MODEL
    assert np.isfinite(found.gap)


@pytest.mark.slow
def test_without_asking_it_is_the_spread():
    params, batch = problem()
    found = sharpness(linear_network, params, 0.7, batch=batch)
    assert found.gap_kind == SPREAD
    assert found.gap == pytest.approx(found.restart_values.max() - found.restart_values.min())


@pytest.mark.slow
def test_too_many_parameters_are_refused():
    with pytest.raises(SharpnessError, match=r"at most 1024 parameters, and here are 2000"):
        sharpness(lambda p: jnp.sum(p**2), jnp.ones(2000), 0.1, bound=True, budget=4)

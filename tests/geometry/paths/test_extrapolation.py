"""The solver of differential equations, against solutions in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quotax.geometry.paths.extrapolation import begin, integrate, tolerance


def solve(rate, y, end=1.0):
    y = jnp.asarray(y)
    one = jnp.ones((), y.dtype)
    return integrate(rate, begin(y, one), jnp.asarray(end, y.dtype), jnp.ones_like(y))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64], ids=lambda d: d.__name__)
def test_an_oscillator_stays_on_its_circle(dtype):
    found = solve(lambda y: jnp.stack([y[1], -y[0]]), jnp.asarray([1, 0], dtype), 10.0)
    assert found.t == 10
    assert found.y.dtype == dtype
    np.testing.assert_allclose(found.y, [np.cos(10), -np.sin(10)], atol=200 * tolerance(dtype))


def test_few_steps_where_the_solution_is_smooth():
    assert int(solve(lambda y: -y, [1.0]).steps) <= 6
    assert int(solve(lambda y: 0 * y, [1.0]).steps) <= 6


def test_a_blow_up_is_where_it_stops():
    found = solve(lambda y: y**2, [2.0])
    assert float(found.t) == pytest.approx(0.5, rel=1e-8)


def test_what_is_not_a_number_is_not_entered():
    found = solve(lambda y: jnp.sqrt(1 - y), [0.0], 4.0)
    assert float(found.t) < 4
    assert bool(jnp.all(jnp.isfinite(found.y)))


def test_further_from_where_it_was():
    rate = lambda y: jnp.cos(y)
    half = solve(rate, [0.1], 0.5)
    whole = integrate(rate, half, jnp.ones(()), jnp.ones(1))
    np.testing.assert_allclose(whole.y, solve(rate, [0.1]).y, atol=1e-12)


def test_derivatives_and_batches():
    end = lambda a: solve(lambda y: a * y, [1.0]).y[0]
    value, slope = jax.jvp(end, (0.7,), (1.0,))
    np.testing.assert_allclose([value, slope], [np.exp(0.7)] * 2, rtol=1e-11)
    rates = jnp.array([0.0, -3.0, 2.0])
    np.testing.assert_allclose(jax.vmap(end)(rates), np.exp(rates), rtol=1e-11)

"""The jets domain against JAX's own derivatives: exact where values are rational, relations where they are not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.interpret import evaluate
from quotax.interpret.jets.domain import JetDomain
from quotax.interpret.jets.random_functions import RandomFunctions
from quotax.interpret.jets.residues import PRIME, inverse, product


def domain(samples=1, seed=1):
    return JetDomain(RandomFunctions(np.arange(seed, seed + samples)), samples)


def jets(function, *arrays):
    """Value and Jacobian of a polynomial function at small integers, as signed integers."""
    closed = jax.make_jaxpr(function)(*(jnp.asarray(a, float) for a in arrays))
    d = domain()
    variables = [d.variable(np.asarray(a, np.int64)[None] % PRIME) for a in arrays]
    outputs = evaluate(closed, d, variables)
    slopes = d.jacobian(outputs, variables)
    signed = lambda a: np.where(a > PRIME // 2, a - PRIME, a)
    return signed(d.lift(outputs[0]).values[0]), [signed(s[:, 0]) for s in slopes]


POLYNOMIAL = {
    "matmul": lambda a, b: a @ b,
    "powers": lambda a, b: a**3 - 2 * a * b + jnp.square(b),
    "moves": lambda a, b: jnp.concatenate([a.T[::-1], jnp.roll(b, 1, 0)], 1)[:, ::2],
    "sums": lambda a, b: jnp.cumsum(a, 0) * b.sum(1) + jnp.prod(a),
    "repeated": lambda a, b: jnp.tile(a, (2, 1))[jnp.array([0, 0, 1, 5])] * b[0, 0],
    "einsum": lambda a, b: jnp.einsum("ij,kj,k->i", a, b, b[:, 0]),
    "select": lambda a, b: jnp.where(jnp.tril(jnp.ones((3, 3))) > 0, a, b) * a,
    "convolution": lambda a, b: jax.lax.conv(a[None, None], b[None, None], (1, 1), "SAME"),
}


@pytest.mark.parametrize("name", POLYNOMIAL)
def test_polynomials_agree_with_jax(name):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, (3, 3)) for _ in range(2)]
    value, slopes = jets(POLYNOMIAL[name], *arrays)
    floats = [jnp.asarray(a, float) for a in arrays]
    np.testing.assert_array_equal(value, np.rint(POLYNOMIAL[name](*floats)))
    for got, expected in zip(slopes, jax.jacobian(POLYNOMIAL[name], (0, 1))(*floats), strict=True):
        np.testing.assert_array_equal(got.reshape(expected.shape), np.rint(expected))


def test_products_and_inverses_are_exact():
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, PRIME, (40, 300)), rng.integers(0, PRIME, (300, 7)))
    expected = (a.astype(object) @ b.astype(object)) % PRIME
    np.testing.assert_array_equal(product(a, b), expected.astype(np.int64))
    assert np.all(inverse(b) * b % PRIME == 1)


RELATIONS = {
    "sigmoid and tanh": lambda z: jnp.tanh(z) - (2 * jax.nn.sigmoid(2 * z) - 1),
    "silu": lambda z: jax.nn.silu(z) - z / (1 + jnp.exp(-z)),
    "powers of e": lambda z: jnp.exp(2 * z) - jnp.exp(z) ** 2,
    "circle": lambda z: jnp.sin(z) ** 2 + jnp.cos(-z) ** 2 - 1,
    "signs": lambda z: jax.nn.relu(z) - jax.nn.relu(-z) - z,
    "multiples": lambda z: jax.nn.relu(3 * z) - 3 * jax.nn.relu(z),
    "absolute": lambda z: jnp.abs(z) - jnp.maximum(z, -z),
    "where": lambda z: jnp.where(z >= 0, z, 0.0) - jax.nn.relu(z),
    "roots": lambda z: jax.lax.sqrt(z) * jax.lax.rsqrt(z) - 1,
    "hyperbolic": lambda z: jnp.cosh(z) + jnp.sinh(z) - jnp.exp(z),
}


@pytest.mark.parametrize("name", RELATIONS)
def test_related_towers_are_sampled_jointly(name):
    closed = jax.make_jaxpr(RELATIONS[name])(jnp.ones(4))
    d = domain(5)
    z = d.variable(np.random.default_rng(2).integers(1, PRIME, (5, 4)))
    (out,) = evaluate(closed, d, [z])
    assert not d.lift(out).values.any()
    assert not d.jacobian([out], [z])[0].any()


def test_a_mask_that_is_repeated_over_heads_stays_infinite():
    scores = lambda z: jax.nn.softmax(z + jnp.where(jnp.eye(2) > 0, 0.0, -jnp.inf)[None], axis=-1)
    value, (slope,) = jets(lambda z: scores(z).sum(0), np.arange(12).reshape(3, 2, 2))
    np.testing.assert_array_equal(value, 3 * np.eye(2))
    assert not slope.any()


def test_softmax_is_a_function_of_differences_and_masks_are_infinite():
    def function(z, t):
        masked = jnp.where(jnp.array([True, True, False, True]), z + t, -jnp.inf)
        return jax.nn.softmax(masked)

    closed = jax.make_jaxpr(function)(jnp.ones(4), jnp.ones(()))
    d = domain(3)
    rng = np.random.default_rng(3)
    z, t = d.variable(rng.integers(1, PRIME, (3, 4))), d.variable(rng.integers(1, PRIME, (3,)))
    (out,) = evaluate(closed, d, [z, t])
    by_z, by_t = d.jacobian([out], [z, t])
    assert np.all(d.lift(out).values.sum(axis=1) % PRIME == 1)
    assert not by_t.any()
    assert not by_z[:, :, 2].any()
    assert by_z.any()


def test_division_by_zero_marks_the_sample():
    closed = jax.make_jaxpr(lambda z: 1 / (z - 3))(jnp.ones(2))
    d = domain(2)
    evaluate(closed, d, [d.variable(np.array([[3, 5], [4, 5]]))])
    assert d.bad.tolist() == [True, False]


def test_what_cannot_be_read_is_refused_by_name():
    closed = jax.make_jaxpr(lambda z: jnp.sort(z))(jnp.ones(3))
    d = domain()
    with pytest.raises(qx.UnsupportedPrimitiveError, match="sort"):
        evaluate(closed, d, [d.variable(np.ones((1, 3), np.int64))])

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
    closed = jax.make_jaxpr(lambda z: jnp.fft.fft(z).real)(jnp.ones(3))
    d = domain()
    with pytest.raises(qx.UnsupportedPrimitiveError, match="fft"):
        evaluate(closed, d, [d.variable(np.ones((1, 3), np.int64))])


# --- orders


@pytest.mark.parametrize("seed", range(4))
def test_an_order_is_one_order_wherever_it_is_asked(seed):
    """Sorted, the largest, their places, comparisons with one of them: all of one drawn order, as among reals."""

    def function(z):
        values, places = jax.lax.top_k(z, 3)
        below = (z < values[2]).sum()
        return (
            jnp.sort(z)[::-1][:3] - values,
            z[places] - values,
            z[jnp.argmax(z)] - values[0],
            below,
            z.max() - values[0],
        )

    closed = jax.make_jaxpr(function)(jnp.ones(5))
    d = domain(6, seed)
    z = d.variable(np.random.default_rng(seed).integers(1, PRIME, (6, 5)))
    *same, below, largest = (d.lift(out) for out in evaluate(closed, d, [z]))
    for out in (*same, largest):
        assert not (out.values % PRIME).any()
    assert (below.values == 2).all()
    assert not d.jacobian(same, [z])[0].any()
    assert d.opaque
    assert not d.bad.any()


def test_what_was_drawn_before_an_order_is_kept():
    closed = jax.make_jaxpr(lambda z: (jax.nn.relu(z[0] - z[1]) > 0, z.max() - jax.lax.top_k(z, 1)[0][0]))(jnp.ones(4))
    d = domain(20)
    z = d.variable(np.random.default_rng(1).integers(1, PRIME, (20, 4)))
    _, same = evaluate(closed, d, [z])
    assert not (same.values[~d.bad] % PRIME).any()
    assert d.bad.mean() < 0.5


def test_reading_at_drawn_places_has_the_derivative_of_what_is_read():
    closed = jax.make_jaxpr(lambda z, w: w[jax.lax.top_k(z, 2)[1]].sum(axis=0))(jnp.ones(4), jnp.ones((4, 3)))
    d = domain(5)
    rng = np.random.default_rng(3)
    z, w = d.variable(rng.integers(1, PRIME, (5, 4))), d.variable(rng.integers(1, PRIME, (5, 4, 3)))
    (out,) = evaluate(closed, d, [z, w])
    by_z, by_w = d.jacobian([out], [z, w])
    assert not by_z.any()
    assert (by_w.sum(axis=(0, 3)).sum(axis=-1) == 6).all()
    assert set(np.unique(by_w)) == {0, 1}

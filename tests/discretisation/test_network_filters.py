"""What training leaves of a displacement from a minimum of a network, beside the filters of its quotient Hessian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx

rng = np.random.default_rng(0)
X, Y = jnp.asarray(rng.standard_normal((12, 3))), jnp.asarray(rng.standard_normal((12, 2)))


@qx.architecture(params={"A": "h x", "B": "y h"}, inputs={"x": "x"})
def two(p, x):
    return p["B"] @ (p["A"] @ x)


MIX = qx.Symmetry("mix", qx.GL("h"), {"A": "g @ A", "B": "B @ inv(g)"})


def loss(p):
    return jnp.mean(jnp.sum((X @ p["A"].T @ p["B"].T - Y) ** 2, 1)) / 2


W = np.linalg.lstsq(np.asarray(X), np.asarray(Y), rcond=None)[0].T
U, S, V = np.linalg.svd(W, full_matrices=False)
BEST = {"A": jnp.asarray(1.3 * np.sqrt(S)[:, None] * V), "B": jnp.asarray(U * np.sqrt(S) / 1.3)}
"""A minimum in closed form, not balanced."""


def displaced(size):
    draw = np.random.default_rng(1)
    return jax.tree.map(lambda a: a + size * jnp.asarray(draw.standard_normal(a.shape)), BEST)


def trained(space, start, eta, steps):
    step = jax.jit(lambda p: jax.tree.map(lambda a, g: a - eta * g, p, space.gradient(loss, p)))
    for _ in range(steps):
        start = step(start)
    return start


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["invariant"])  # the Euclidean one is below, and in the example
def test_early_stopping_is_the_filter_to_first_order(metric):
    space = qx.quotient(two.at(x=3, h=2, y=2), MIX, metric=metric)
    modes = qx.spectrum(loss, BEST, k=6, space=space, ball="linear", which="top")
    eta, steps, errors = 0.3 / modes.values[0], 12, []
    for size in (1e-3, 5e-4):
        start = displaced(size)
        found = qx.filtered_modes(loss, BEST, start, qx.early_stopping(eta, steps), modes, space=space)
        end = trained(space, start, eta, steps)
        errors.append(np.abs(found.measured(end) - found.left).max() / size)
        assert found.other < 1e-9  # of 10 parameters 6 are seen, and 4 are the orbit's
        assert found.along_orbit > 0
        assert float(jnp.abs(end["A"] - found.params["A"]).max()) < 30 * size**2
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)  # the displacement is halved


@pytest.mark.slow
def test_weight_decay_is_the_filter_and_linear_models_are_exact():
    space = qx.quotient(two.at(x=3, h=2, y=2), MIX, metric="euclidean")
    modes = qx.spectrum(loss, BEST, k=6, space=space, which="top")
    alpha, errors = 0.4, []
    flat, unflat = lambda p: jax.flatten_util.ravel_pytree(p)[0], jax.flatten_util.ravel_pytree(BEST)[1]
    for size in (1e-3, 5e-4):
        start = displaced(size)
        decayed = lambda v, start=start: loss(unflat(v)) + alpha / 2 * jnp.sum((v - flat(start)) ** 2)
        v = flat(start)
        for _ in range(8):  # Newton
            v = v - jnp.linalg.solve(jax.hessian(decayed)(v), jax.grad(decayed)(v))
        found = qx.filtered_modes(loss, BEST, start, qx.weight_decay(alpha), modes, space=space)
        errors.append(np.abs(found.measured(unflat(v)) - found.left).max() / size)
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)

    line = lambda w: jnp.mean((X @ w - Y[:, 0]) ** 2) / 2
    best, begin = jnp.asarray(np.linalg.lstsq(np.asarray(X), np.asarray(Y[:, 0]), rcond=None)[0]), jnp.ones(3)
    for learned in (qx.early_stopping(0.3, 7), qx.weight_decay(0.2), qx.early_stopping(0.1, 9, qx.heavy_ball(0.6))):
        modes = qx.spectrum(line, best, k=3, which="top")
        found = qx.filtered_modes(line, best, begin, learned, modes)
        exact = qx.filtered(np.asarray(X), np.asarray(Y[:, 0]), learned, np.ones(3))
        assert np.asarray(found.params) == pytest.approx(exact, abs=1e-8)


def test_bad_input_is_refused():
    square = lambda p: jnp.sum(p**2) / 2

    class Modes:
        values, vectors = np.ones(1), [jnp.array([1.0, 0.0])]

    found = qx.filtered_modes(square, jnp.zeros(2), jnp.ones(2), qx.weight_decay(1.0), Modes())
    assert found.left == pytest.approx([0.5])
    assert found.other == pytest.approx(1.0)
    assert "1: 0.5" in str(found)
    for wrong, said in (
        (lambda: qx.filtered_modes(square, jnp.ones(2), jnp.ones(2) * 1.1, np.sin, Modes()), "has a gradient of size"),
        (lambda: qx.filtered_modes(square, jnp.zeros(2), jnp.ones(3), np.sin, Modes()), "shapes"),
        (lambda: qx.filtered_modes(square, jnp.zeros(2), jnp.ones(2), np.sin, None), "modes="),
        (lambda: qx.filtered_modes(square, jnp.zeros(2), jnp.ones(2), np.sin, Modes(), space=3), "got int"),
    ):
        with pytest.raises(qx.DiscretisationError, match=said):
            wrong()

"""The mean of training by mini-batches against its flow: exact means over all orders, steps halved."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx

rng = np.random.default_rng(0)
DATA = jnp.asarray(rng.standard_normal((6, 3)))
START = {"a": jnp.array([0.8, 0.3]), "b": jnp.array([-0.5, 0.9])}


def loss(p, rows):
    return jnp.mean((p["a"] * jnp.sin(p["b"])) @ rows[:, :2].T * rows[:, 2] + (p["a"] @ p["b"] - rows[:, 2]) ** 2)


slope = jax.jit(jax.grad(loss))


def steps(p, batches, eta):
    for rows in batches:
        p = jax.tree.map(lambda a, g: a - eta * g, p, slope(p, rows))
    return p


def off(p, q):
    return float(jnp.sqrt(sum(jnp.sum((p[k] - q[k]) ** 2) for k in p)))


def mean(ends):
    return jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *ends)


def epochs(order):
    """Every epoch of three steps that can be drawn, all as likely."""
    pairs = [DATA[:2], DATA[2:4], DATA[4:]]
    if order == "fixed":
        return [pairs]
    if order == "shuffled":
        return list(itertools.permutations(pairs))
    return [[DATA[jnp.array(each[k : k + 2])] for k in (0, 2, 4)] for each in itertools.permutations(range(6))]


SLOW = lambda *orders: [pytest.param(order, marks=pytest.mark.slow) for order in orders]


@pytest.mark.parametrize("order", ["fixed", *SLOW("shuffled", "reshuffled")])
def test_an_epoch_is_the_flow_but_for_the_third_power_of_the_step(order):
    found, errors, plain = qx.mini_batches(loss, DATA, 2, order), [], []
    for eta in (0.02, 0.01):
        end = mean([steps(START, epoch, eta) for epoch in epochs(order)])
        errors.append(off(found.run(START, eta, 3 * eta, 4), end))
        whole = qx.modified_flow().run(lambda p: loss(p, DATA), START, eta, 3 * eta, 4)
        plain.append(off(whole, end))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(3, abs=0.3)
    assert np.log2(plain[0] / plain[1]) == pytest.approx(2, abs=0.3)  # the flow of whole batches is one power worse


@pytest.mark.parametrize("order", ["shuffled", *SLOW("reshuffled", "replacement")])
def test_the_velocity_is_the_slope_of_the_modified_loss(order):
    found = qx.mini_batches(loss, DATA, 2, order)
    by_loss = jax.grad(lambda p: found.loss(p, 0.1))(START)
    assert off(jax.tree.map(jnp.negative, found.velocity(START, 0.1)), by_loss) < 1e-12


@pytest.mark.slow
def test_with_replacement_the_mean_of_steps_is_that_of_whole_batches():
    found = qx.mini_batches(loss, DATA, 2, "replacement")
    whole = qx.modified_flow().velocity(lambda p: loss(p, DATA), 0.1)(START)
    assert off(found.velocity(START, 0.1), whole) < 1e-12


@pytest.mark.slow
def test_means_over_deals_are_those_of_all_deals():
    """Squares of batch gradients, over every way to deal six examples into pairs, and over all pairs of draws."""
    square = lambda p: float(sum(jnp.sum(g**2) for g in jax.tree.leaves(p)))
    pairs = {
        "reshuffled": list(itertools.combinations(range(6), 2)),
        "replacement": list(itertools.product(range(6), repeat=2)),
    }
    for order, drawn in pairs.items():
        direct = np.mean([square(slope(START, DATA[jnp.array(pair)])) for pair in drawn])
        gradients, middle, c = qx.mini_batches(loss, DATA, 2, order).slopes(START)
        each = np.mean([square(jax.tree.map(lambda g, i=i: g[i], gradients)) for i in range(6)])
        assert (1 - c) * square(middle) + c * each == pytest.approx(direct, rel=1e-12)


@pytest.mark.slow
def test_training_is_seeded_and_is_what_it_says():
    fixed = qx.mini_batches(loss, DATA, 2, "fixed")
    assert off(fixed.train(START, 0.1, 2), steps(START, 2 * epochs("fixed")[0], 0.1)) < 1e-12
    ends = [steps(START, epoch, 0.1) for epoch in epochs("shuffled")]
    found = qx.mini_batches(loss, DATA, 2)
    one, two = (found.train(START, 0.1, 1, jax.random.key(k)) for k in (0, 0))
    assert off(one, two) == 0
    assert min(off(one, end) for end in ends) < 1e-12
    dealt = qx.mini_batches(loss, DATA, 2, "fixed", key=jax.random.key(3))
    assert off(dealt.train(START, 0.1), fixed.train(START, 0.1)) > 1e-6
    many = jax.vmap(lambda key: found.train(START, 0.1, 1, key))(jax.random.split(jax.random.key(1), 2))
    assert many["a"].shape == (2, 2)


@qx.architecture(params={"a": "h x", "b": "y h"}, inputs={"x": "x"})
def two(p, x):
    return p["b"] @ (p["a"] @ x)


MIX = qx.Symmetry("mix", qx.GL("h"), {"a": "g @ a", "b": "b @ inv(g)"})


@pytest.mark.slow
@pytest.mark.parametrize("order", ["replacement"])  # shuffled ones are in the example
def test_charges_break_at_the_rate_of_the_batches(order):
    space = qx.quotient(two.at(x=2, h=2, y=1), MIX, metric="invariant")
    params = {"a": jnp.array([[0.5, -0.2], [0.1, 0.8]]), "b": jnp.array([[0.7, 0.4]])}
    squares = lambda p, rows: jnp.mean((rows[:, :2] @ p["a"].T @ p["b"].T - rows[:, 2:]) ** 2)
    charge = lambda p: p["a"] @ p["a"].T - p["b"].T @ p["b"]
    batches = qx.mini_batches(squares, DATA, 2, order)
    found = qx.charge_rates(space, batches, params, 0.1)
    drawn = (
        [DATA[k : k + 2] for k in (0, 2, 4)]
        if order == "shuffled"
        else [DATA[jnp.array(pair)] for pair in itertools.product(range(6), repeat=2)]
    )
    gradients = [jax.grad(squares)(params, rows) for rows in drawn]
    ends = [jax.tree.map(lambda a, g: a - 0.1 * g, params, g) for g in gradients]
    change = np.mean([np.asarray(charge(p) - charge(params)) for p in ends], 0)  # of the first step
    assert found.rates["mix"] * 0.1 == pytest.approx(change, rel=1e-9, abs=1e-12)
    assert np.abs(found.flow["mix"]).max() < 1e-12
    assert "batches of 2" in str(found)
    with pytest.raises(qx.DiscretisationError, match="by gradient descent"):
        qx.charge_rates(space, batches, params, 0.1, qx.heavy_ball(0.5))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: qx.mini_batches(loss, DATA, 4), "size=3 does"),
        (lambda: qx.mini_batches(loss, DATA, 2, "random"), "got 'random'"),
        (lambda: qx.mini_batches(loss, DATA, 0), "size="),
        (lambda: qx.mini_batches(loss, (DATA, DATA[:4]), 2), r"got lengths \[4, 6\]"),
        (lambda: qx.mini_batches(DATA, loss, 2), "needs loss"),
        (lambda: qx.mini_batches(loss, DATA, 2, "fixed").loss(START, 0.1), "no gradient flow"),
        (lambda: qx.mini_batches(loss, DATA, 2).train(START, 0.1), "key="),
    ],
)
def test_bad_input_is_refused(wrong, said):
    with pytest.raises(qx.DiscretisationError, match=said):
        wrong()

"""Values of measures against oracles that share no code with them."""

import itertools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quotax as qx
from quotax.complexity.classifier_margins import degree_of
from quotax.complexity.flatness import relative_flatness
from quotax.complexity.networks.layer_chain import layer_chain
from quotax.complexity.networks.measured_network import measured

RNG = np.random.default_rng(0)
SHAPES = {"W1": (4, 3), "W2": (5, 4), "W3": (2, 5)}
PARAMS = {name: jnp.asarray(RNG.standard_normal(shape)) for name, shape in SHAPES.items()}
INPUTS, LABELS = jnp.asarray(RNG.standard_normal((7, 3))), jnp.asarray(RNG.integers(0, 2, 7))


def relu(p, x):
    return p["W3"] @ jax.nn.relu(p["W2"] @ jax.nn.relu(p["W1"] @ x))


def smooth(p, x):
    return p["W3"] @ jnp.tanh(p["W2"] @ jnp.tanh(p["W1"] @ x))


TABLE = {}


def table():
    if not TABLE:
        TABLE["of all"] = qx.complexity_table(smooth, PARAMS, INPUTS, LABELS)
    return TABLE["of all"]


def written_out(net):
    """The Hessian of the mean loss, dense, in the order of the flat parameters."""
    flat, back = jax.flatten_util.ravel_pytree(PARAMS)

    def loss(theta):
        outputs = jax.vmap(lambda x: net(back(theta), x))(INPUTS)
        return -jnp.mean(jax.nn.log_softmax(outputs)[jnp.arange(len(LABELS)), LABELS])

    return np.asarray(jax.jit(jax.hessian(loss))(flat)), np.asarray(flat), back


@pytest.mark.parametrize("power", [1, 2])
def test_path_norm_is_the_sum_over_all_paths(power):
    total = 0.0
    for x, h, k, y in itertools.product(range(3), range(4), range(5), range(2)):
        total += abs(float(PARAMS["W1"][h, x] * PARAMS["W2"][k, h] * PARAMS["W3"][y, k])) ** power
    name = "path norm" if power == 1 else "path norm (squares)"
    assert qx.complexity_table(relu, PARAMS, INPUTS, measures=[name])[name] == pytest.approx(total ** (1 / power))


def pooled(p, x):
    return jnp.max(p["a"] * jnp.maximum(p["W"] @ x + p["b"], 0) + p["c"])


@given(st.integers(0, 10**6))
@settings(max_examples=5, deadline=None)
def test_path_norm_bounds_the_outputs(seed):
    draw = np.random.default_rng(seed)
    p = {name: jnp.asarray(draw.standard_normal(s)) for name, s in {"W": (4, 3), "a": 4, "b": 4, "c": 4}.items()}
    x = jnp.asarray(draw.standard_normal(3))
    size = qx.complexity_table(pooled, p, x[None], measures=["path norm"])["path norm"]
    assert abs(float(pooled(p, x))) <= size * max(float(jnp.abs(x).max()), 1) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("net", "why"),
    [
        (lambda p, x: relu(p, x) - x[0], "sub"),
        (lambda p, x: -relu(p, x), "neg"),
        (lambda p, x: jnp.maximum(relu(p, x), 1.0), "maximum with a positive number"),
        (lambda p, x: -2.0 * relu(p, x), "negative constant"),
        (lambda p, x: relu(p, x) / x[0], "div"),
    ],
)
def test_what_is_no_sum_over_paths_is_refused(net, why):
    found = qx.complexity_table(net, PARAMS, INPUTS, measures=["path norm"])
    assert why in found.undefined["path norm"]


@pytest.mark.slow
def test_norms_of_layers_and_the_fisher_rao_norm():
    found = table()
    values = [np.linalg.svd(np.asarray(a), compute_uv=False)[0] for a in PARAMS.values()]
    assert found["product of spectral norms"] == pytest.approx(np.prod(values))
    lengths = [np.sqrt((np.asarray(a) ** 2).sum(1)).sum() for a in PARAMS.values()]
    ratios = sum((b / s) ** (2 / 3) for b, s in zip(lengths, values, strict=True))
    assert found["spectral complexity"] == pytest.approx(np.prod(values) * ratios**1.5)
    _, flat, back = written_out(smooth)
    fisher = 0.0
    for x in INPUTS:
        log = lambda theta, x=x: jax.nn.log_softmax(smooth(back(theta), x))
        scores, shares = np.asarray(jax.jacobian(log)(jnp.asarray(flat))), np.exp(np.asarray(log(jnp.asarray(flat))))
        fisher += shares @ (scores @ flat) ** 2 / len(INPUTS)
    assert found["Fisher-Rao norm"] == pytest.approx(fisher**0.5)


@pytest.mark.slow
def test_flatness_against_the_dense_hessian():
    found = table()
    hessian, flat, _ = written_out(smooth)
    assert found["Hessian trace"] == pytest.approx(np.trace(hessian))
    assert found["adaptive Hessian trace"] == pytest.approx(np.diag(hessian) @ flat**2)
    assert found["largest Hessian eigenvalue"] == pytest.approx(np.linalg.eigvalsh(hessian)[-1], rel=1e-6)
    first = 0
    for name, (rows, columns) in SHAPES.items():
        block = slice(first, first + rows * columns)
        first = block.stop
        H = hessian[block, block].reshape(rows, columns, rows, columns)
        W = np.asarray(PARAMS[name])
        expected = sum(W[s] @ W[r] * np.trace(H[s, :, r, :]) for s in range(rows) for r in range(rows))
        assert found[f"relative flatness of {name}"] == pytest.approx(expected)
    with pytest.raises(qx.ComplexityError, match="needs a matrix of this name"):
        relative_flatness("W9").value(measured("test", smooth, PARAMS, INPUTS, LABELS))


@pytest.mark.slow
def test_sampled_traces_are_within_their_doubts(monkeypatch):
    monkeypatch.setattr("quotax.complexity.flatness.EXACT", 3)
    again = qx.complexity_table(smooth, PARAMS, INPUTS, LABELS, measures=["Hessian trace", relative_flatness("W2")])
    for name in again.values:
        assert again.doubts[name] > 0
        assert abs(again[name] - table()[name]) < 2 * again.doubts[name]


@pytest.mark.slow
def test_margins_and_degrees():
    found = qx.margins(relu, PARAMS, INPUTS, LABELS)
    outputs = np.asarray(jax.vmap(lambda x: relu(PARAMS, x))(INPUTS))
    expected = [f[y] - np.delete(f, y).max() for f, y in zip(outputs, np.asarray(LABELS), strict=True)]
    assert found.margins == pytest.approx(np.array(expected))
    assert found.degree == 3
    length = np.sqrt(sum(float(jnp.sum(a**2)) for a in PARAMS.values()))
    assert found.normalised == pytest.approx(min(expected) / length**3)
    assert qx.margins(smooth, PARAMS, INPUTS, LABELS).degree is None
    power = lambda p, x: jnp.sum(p["W"] * x) ** 5
    assert degree_of(measured("test", power, {"W": jnp.ones(3)}, INPUTS))[0] == 5


@pytest.mark.slow
def test_the_least_norm_on_an_orbit_of_rescalings_is_the_path_norm():
    net = qx.architecture(params={"W": "h x", "a": "h"}, inputs={"x": "x"})(
        lambda p, x: p["a"] @ jax.nn.relu(p["W"] @ x)
    )
    scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W": "g @ W", "a": "a @ inv(g)"})
    sized = net.at(h=4, x=3)
    params = sized.init(jax.random.key(0))
    space = qx.quotient(sized, scale, metric="invariant")
    signs = jnp.sign(INPUTS[:, 0])
    found = qx.margins(sized, params, INPUTS, signs, space)
    lengths = np.linalg.norm(np.asarray(params["W"]), axis=1)
    assert found.least_norm == pytest.approx(np.sqrt(2 * np.sum(np.abs(np.asarray(params["a"])) * lengths)))
    other = space.act(params, space.random_element(jax.random.key(1)))
    moved = qx.margins(sized, other, INPUTS, signs, space)
    assert moved.on_quotient == pytest.approx(found.on_quotient)
    assert moved.normalised != pytest.approx(found.normalised, rel=1e-3)


def test_a_chain_is_read_off_the_trace():
    p = {"A": jnp.ones((3, 4)), "B": jnp.ones((2, 4)), "c": jnp.ones(2)}

    def net(p, x):
        h = jax.nn.relu(2.0 * (x @ p["A"]))
        return jnp.tanh(p["B"] @ h / 4.0 + p["c"])

    chain = layer_chain(measured("test", net, p, jnp.ones((1, 3))))
    assert [(layer.name, layer.rows, layer.lipschitz) for layer in chain.layers] == [("A", 1, 2.0), ("B", 0, 0.25)]
    assert chain.biases == ("c",)
    assert chain.lipschitz == 0.5
    for broken, why in (
        (lambda p, x: p["B"] @ jax.nn.softmax(x @ p["A"]), "reduce_max"),
        (lambda p, x: p["B"] @ (h := x @ p["A"]) + jnp.sum(h), "elsewhere"),
        (lambda p, x: jnp.exp(p["B"]) @ (x @ p["A"]), "'B'"),
        (lambda p, x: p["B"] @ jnp.exp(x @ p["A"]), "exp"),
    ):
        with pytest.raises(qx.ComplexityError, match=why):
            layer_chain(measured("test", broken, p, jnp.ones((1, 3))))


def test_the_margin_bound_shows_its_factors():
    found = qx.margin_bound(relu, PARAMS, INPUTS, LABELS, margin=0.5, delta=0.05)
    n = len(INPUTS)
    data = np.sqrt((np.asarray(INPUTS) ** 2).sum())
    name = "spectral complexity"
    assert found.complexity == pytest.approx(qx.complexity_table(relu, PARAMS, INPUTS, measures=name)[name])
    covering = 72 * np.log(n) * np.sqrt(np.log(2 * 5**2)) * data * found.complexity / (0.5 * n)
    assert found.covering == pytest.approx(covering)
    assert found.value == pytest.approx(found.ramp + 8 / n**1.5 + covering + 3 * np.sqrt(np.log(2 / 0.05) / (2 * n)))
    assert found.vacuous
    same = qx.margin_bound(relu, PARAMS, INPUTS, LABELS, margin=0.5, references=PARAMS)
    assert same.complexity == 0
    with pytest.raises(qx.ComplexityError, match="adds b"):
        qx.margin_bound(lambda p, x: p["A"] @ x + p["b"], {"A": jnp.eye(3), "b": jnp.ones(3)}, INPUTS, LABELS)


@pytest.mark.slow
def test_the_pac_bayes_bound_of_a_line_is_what_a_gaussian_integral_says():
    from scipy.stats import norm

    x = jnp.asarray(RNG.standard_normal((200, 2)))
    w, sigma = jnp.array([2.0, 0.0]), 0.5
    found = qx.pac_bayes(lambda p, x: p @ x, w, x, jnp.sign(x[:, 0]), scales=[sigma], samples=4000)
    sure = norm.cdf(-np.abs(np.asarray(x @ w)) / (sigma * np.linalg.norm(x, axis=1))).mean()
    assert found.noisy_error == pytest.approx(sure, abs=0.01)
    assert found.divergence == pytest.approx(4 / (2 * sigma**2))
    assert found.complexity_term == pytest.approx(np.sqrt((8 + np.log(4 * np.sqrt(200) / 0.01)) / 400))
    assert found.inverse < found.value


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (jnp.arange(7), "from 0 to 6"),
        (jnp.ones((7, 3)), "do not go with"),
        (jnp.zeros(3, int), "as many examples"),
        (jnp.full((7, 2), jnp.nan), "NaN"),
    ],
)
def test_labels_that_say_nothing_are_refused(labels, why):
    with pytest.raises(qx.ComplexityError, match=why):
        qx.complexity_table(relu, PARAMS, INPUTS, labels)


def test_a_table_says_why_a_value_is_missing():
    found = qx.complexity_table(lambda p, x: jax.nn.softmax(p @ x), jnp.eye(3), INPUTS)
    assert "pass labels=" in found.undefined["margin"]
    assert "sub is not" in found.undefined["path norm"]
    with pytest.raises(qx.ComplexityError, match="no measure is called 'size'"):
        qx.complexity_table(relu, PARAMS, INPUTS, measures=["size"])
    assert "no value: margin" in str(found)

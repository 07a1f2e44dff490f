"""What is measured along an orbit, and across: one neuron, of which everything is known in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.errors import SharpnessError

CURVE = {"scale": jnp.ones(())}


@pytest.fixture(scope="module")
def space():
    net = qx.architecture(params={"a": "", "b": ""}, inputs={"x": ""})(lambda p, x: p["a"] * p["b"] * x)
    scale = qx.Symmetry("scale", qx.PositiveScalar(), {"a": "g * a", "b": "inv(g) * b"})
    return qx.quotient(net.at(), scale, metric="invariant")


@pytest.fixture(scope="module")
def params():
    return {"a": jnp.ones(()), "b": jnp.ones(())}


def loss(p):
    return (p["a"] * p["b"] - 1) ** 2


def seen(space, params, frame, **how):
    across = {"a": jnp.ones(()), "b": jnp.zeros(())}  # of which one half is horizontal
    return qx.loss_slice(
        loss, params, 0.4, space=space, stretch=0.8, along=CURVE, across=across, frame=frame, points=5, **how
    )


@pytest.mark.parametrize(
    ("frame", "product"),
    [
        ("fixed", lambda t, s: (np.exp(t) + s) * (np.exp(-t) + s)),
        ("moved", lambda t, s: (1 + s) ** 2 + 0 * t),
        ("linear", lambda t, s: (1 + t + s) * (1 - t + s)),
    ],
)
def test_a_slice_is_along_the_orbit_and_across(space, params, frame, product):
    found = seen(space, params, frame)
    t, s = np.meshgrid(np.linspace(-0.8, 0.8, 5), np.linspace(-0.4, 0.4, 5) / np.sqrt(2), indexing="ij")
    np.testing.assert_allclose(found.losses, (product(t, s) - 1) ** 2, atol=1e-12)
    assert found.change_along == pytest.approx(0.8**4 if frame == "linear" else 0, abs=1e-12)
    assert found.change_across == found.losses[2].max() - found.base
    assert "along the tangent" in str(found) if frame == "linear" else "along the orbit" in str(found)


def test_a_slice_finds_the_sharpest_direction_and_says_where_the_loss_is_no_number(space, params):
    broken = lambda p: jnp.where(p["a"] > 1.05, jnp.nan, loss(p))
    found = qx.loss_slice(broken, params, 0.4, space=space, points=3)
    assert found.status == "not finite"
    assert found.base == 0 < found.change_across
    np.testing.assert_allclose(np.abs([found.step["a"], found.step["b"]]), np.sqrt(0.5), rtol=1e-6)


def test_what_belongs_to_the_network_has_one_value_along_its_orbit(space, params):
    times = [1.0, -0.5]
    own = {"largest": lambda p: jnp.maximum(p["a"], p["b"])}
    asked = ["length of the parameters", "trace"]
    found = qx.orbit_drift(loss, params, 0.1, space=space, times=times, along=CURVE, measures=asked, others=own)
    assert found.times.tolist() == [-0.5, 0, 1]
    np.testing.assert_allclose(found["loss"], 0, atol=1e-25)
    np.testing.assert_allclose(found["length of the parameters"], np.sqrt(2 * np.cosh(2 * found.times)))
    np.testing.assert_allclose(found["trace", "full"], 4 * np.cosh(2 * found.times))
    np.testing.assert_allclose(found["trace", "quotient"], 4)
    np.testing.assert_allclose(found["largest"], np.exp(np.abs(found.times)))
    verdicts = {(row.name, row.ball): row.invariant for row in found.rows}
    assert verdicts["trace", "full"] is verdicts["largest", ""] is verdicts["length of the parameters", ""] is False
    assert verdicts["trace", "quotient"] is True
    with pytest.raises(SharpnessError, match=r"nothing of that name was measured; known are 'loss'.*'trace', 'full'"):
        found["trace"]


def test_a_loss_that_reads_parameters_moves_and_nothing_is_known_then(space, params):
    decayed = lambda p: loss(p) + 0.1 * (p["a"] ** 2 + p["b"] ** 2)
    found = qx.orbit_drift(decayed, params, 0.1, space=space, along="scale", measures=["trace"])
    assert found.loss_moves
    assert [row.invariant for row in found.rows] == [None, False, None]
    assert "the loss changes along the orbit" in str(found)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"space": None}, "follows an orbit and needs space= a quotient, as .* got None"),
        ({"along": "mix"}, "along='mix' is no continuous family; those are scale"),
        ({"along": {"mix": 1.0}}, "along= names 'mix'; the continuous families are scale"),
        (
            {"along": {"scale": jnp.ones(3)}},
            r"along\['scale'\] has the shape \(3,\), and elements of",
        ),
        ({"along": {"scale": jnp.array(jnp.nan)}}, "needs finite algebra elements in along="),
        ({"along": {"scale": jnp.zeros(())}}, "along= does not move these parameters"),
        ({"along": 3}, "needs along= the name of a family"),
        ({"frame": "bent"}, "needs frame= one of 'fixed', 'moved', 'linear', got 'bent'"),
        ({"points": 4}, "needs points= an odd number.* got 4; try 5"),
        ({"stretch": 0}, "needs stretch= a positive finite number"),
        ({"across": "sideways"}, "needs across= one of 'sharpest', 'random', got 'sideways'"),
        ({"across": jnp.ones(2)}, "needs across= a tangent vector shaped like the parameters"),
        ({"across": {"a": jnp.ones(()), "b": -jnp.ones(())}}, "along it nothing leaves the orbit"),
    ],
)
def test_a_slice_refuses(space, params, how, said):
    with pytest.raises(SharpnessError, match=said):
        qx.loss_slice(loss, params, 0.1, **{"space": space, "across": "random"} | how)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"times": [0.0]}, "needs times= numbers, at least one of them not zero"),
        ({"times": ["far"]}, "needs times= numbers"),
        (
            {"times": [1e4], "along": "scale", "measures": []},
            "at t = 10000 the parameters are beyond what float64 holds",
        ),
        ({"measures": ["volume"]}, "measures= has 'volume'; known are 'length of the parameters'"),
        ({"others": [max]}, "needs others= a dict of name -> function"),
        ({"others": {"loss": loss}}, "others= names 'loss', as a measure is called"),
        ({"others": {"both": lambda p: jnp.ones(2)}}, r"others\['both'\] must return one number"),
    ],
)
def test_a_drift_refuses(space, params, how, said):
    with pytest.raises(SharpnessError, match=said):
        qx.orbit_drift(loss, params, 0.1, space=space, **how)


def test_group_elements_of_algebra_elements(space, params):
    xi = space.random_algebra(jax.random.key(0), 0.5)
    there = space.act(params, space.element(xi))
    assert float(there["a"]) == pytest.approx(float(jnp.exp(xi["scale"])))
    assert float(loss(there)) < 1e-20

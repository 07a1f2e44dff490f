"""Charges along training: of one product, whose training is written out here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.errors import DiscretisationError, ParameterError

ETA, STEPS = 0.05, 12


@pytest.fixture(scope="module")
def space():
    net = qx.architecture(params={"a": "", "b": ""}, inputs={"x": ""})(lambda p, x: p["a"] * p["b"] * x)
    scale = qx.Symmetry("scale", qx.PositiveScalar(), {"a": "g * a", "b": "inv(g) * b"})
    return qx.quotient(net.at(), scale, metric="invariant")


START = {"a": np.float64(1.5), "b": np.float64(0.1)}


def loss(p):
    return (p["a"] * p["b"] - 1) ** 2


def by_hand(momentum):
    a, b = START["a"], START["b"]
    va = vb = 0.0
    for _ in range(STEPS):
        yield a**2 - b**2
        rest = 2 * (a * b - 1)
        va, vb = momentum * va - ETA * rest * b, momentum * vb - ETA * rest * a
        a, b = a + va, b + vb
    yield a**2 - b**2


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_charges_are_those_of_training_and_of_gradient_descent_they_are_predicted(space, momentum):
    scheme = qx.heavy_ball(momentum) if momentum else qx.gradient_descent()
    found = qx.charge_history(space, scheme.path(loss, START, ETA, STEPS), loss=loss, eta=ETA, scheme=scheme)
    want = np.array(list(by_hand(momentum)))
    np.testing.assert_allclose(np.abs(found.entries["scale"][:, 0]), np.abs(want), rtol=1e-12)
    np.testing.assert_allclose(found.changes["scale"], np.abs(want - want[0]), atol=1e-12)
    if not momentum:
        np.testing.assert_allclose(found.predicted["scale"], found.entries["scale"], rtol=1e-12)
    assert found.scheme == scheme.name
    every = [float(p["a"]) for p in scheme.path(loss, START, ETA, STEPS, every=4)]
    assert every[-1] == pytest.approx(float(scheme.run(loss, START, ETA, STEPS)["a"]), rel=1e-14)
    assert len(every) == 4


@pytest.mark.slow
def test_epochs_of_mini_batches_are_followed(space):
    rows = lambda p, x: jnp.mean((p["a"] * p["b"] * x - 1) ** 2)
    batches = qx.mini_batches(rows, jnp.array([0.5, 1.0, 1.5, 2.0]), 2)
    path = list(batches.path(START, 0.01, 3, jax.random.key(0)))
    found = qx.charge_history(space, path, steps=[0, 2, 4, 6], loss=batches, eta=0.01)
    np.testing.assert_allclose(found.predicted["scale"], found.entries["scale"], rtol=2e-3)
    assert len(path) == len(found.steps) == 4
    with pytest.raises(DiscretisationError, match="key= draws them"):
        batches.path(START, 0.01, 3)


def test_a_path_is_left_where_it_is_no_longer_finite(space):
    lost = {"a": np.float64("nan"), "b": np.float64(1.0)}
    found = qx.charge_history(space, [START, lost, START])
    assert (len(found.steps), found.status) == (1, "stopped at step 1, where the parameters are no longer finite")
    with pytest.raises(ParameterError):
        qx.charge_history(space, [lost])


@pytest.mark.parametrize(
    ("path", "how", "said"),
    [
        ([], {}, "needs path= at least one set of parameters"),
        (START, {}, r"needs path= several sets of parameters, .*; of one set it is \[params\]"),
        ([START], {"steps": [0, 1]}, "steps= has 2 numbers, and path= 1 sets"),
        ([START, START], {"steps": [0]}, "path= is longer than steps=, which has 1 numbers"),
        ([START], {"steps": ["first"]}, "needs steps= finite numbers, got 'first'"),
        ([START], {"eta": 0.1}, "predict with loss=, and there is none"),
        ([START], {"loss": loss}, "eta= a positive number, got None"),
        ([START], {"loss": 3, "eta": 0.1}, "needs loss= a function of the parameters, got 3"),
    ],
)
def test_a_history_refuses(space, path, how, said):
    with pytest.raises(DiscretisationError, match=said):
        qx.charge_history(space, path, **how)


def test_without_charges_there_is_no_history():
    net = qx.architecture(params={"w": "n"}, inputs={"x": ""})(lambda p, x: jnp.sum(p["w"] ** 2) * x)
    turned = qx.quotient(net.at(n=2), qx.Symmetry("turn", qx.O("n"), {"w": "g @ w"}), metric="euclidean")
    with pytest.raises(DiscretisationError, match=r"none of the families of .* has a charge: rotations"):
        qx.charge_history(turned, [{"w": jnp.ones(2)}])
    with pytest.raises(DiscretisationError, match="needs space= a quotient, got NoneType"):
        qx.charge_history(None, [])

"""Measures along orbits in float32: right to a thousandth, or said to be unreliable; never wrong in silence."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.errors import MetricWarning
from sharpness.orbits import conditioned, orbit

CONDITIONS = (1.0, 1e2, 1e3, 1e4, 1e5)
TOLERANCE = 1e-3
MEASURES = {
    "worst case": lambda o, p: qx.sharpness(o.loss, p, 0.3, budget=40, space=o.space, key=3),
    "average": lambda o, p: qx.average_sharpness(o.loss, p, 0.3, samples=64, probes=0, space=o.space, key=3),
    "trace": lambda o, p: qx.trace(o.loss, p, space=o.space, ball="linear", key=3),
    "eigenvalue": lambda o, p: qx.spectrum(o.loss, p, 1, which="top", space=o.space, ball="linear", key=3),
}


def value(found):
    return float(found.values[0]) if hasattr(found, "values") else found.value


def check(found, exact):
    """Right, or not called a function on the quotient, with a reason that says what to do."""
    if found.invariant is None:
        assert "float32 lost it" in found.reason
        assert "jax_enable_x64" in found.reason
        assert "space.canonical(params).params" in found.reason
    else:
        assert found.invariant is True
        assert value(found) == pytest.approx(exact, rel=TOLERANCE)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("name", "kept"),
    [
        pytest.param("MLP", 1e5, marks=pytest.mark.slow),
        pytest.param("attention", 1e4, marks=pytest.mark.slow),
        pytest.param("encoder", 1e3, marks=pytest.mark.long),
    ],
)
def test_float32_along_orbits(name, kept, measure):
    """`kept` is the condition up to which nothing is given up."""
    network = orbit(name)
    found = MEASURES[measure](network, network.moved(1, np.float64))
    assert found.invariant is True
    exact = value(found)
    for condition in CONDITIONS:
        there = network.moved(condition, np.float32)
        found = MEASURES[measure](network, there)
        check(found, exact)
        assert (found.invariant is True) == (condition <= kept)
        # The numbers are better than what can be promised of them.
        assert value(found) == pytest.approx(exact, rel=TOLERANCE if condition <= 1e4 else 2e-2)
        assert MEASURES[measure](network, network.moved(condition, np.float64)).invariant is True


def test_a_float32_network_along_its_orbit():
    """The same in seconds: two layers, whose trace is exact."""
    space, loss, params = linear()
    exact = qx.trace(loss, params, space=space, ball="linear").value
    kept = {}
    for condition in CONDITIONS:
        with jax.enable_x64(True):
            moved = space.act(params, conditioned(space, condition))
        found = qx.trace(loss, narrow(moved), space=space, ball="linear")
        check(found, exact)
        kept[condition] = found.invariant
        assert found.arithmetic is not None
        assert found.arithmetic.moved == (condition >= 1e2)
        assert found.arithmetic.attained is True
        assert found.arithmetic.verticality < 1e-6
        assert found.arithmetic.condition == pytest.approx(condition, rel=2) or condition == 1
    assert kept == {1.0: True, 1e2: True, 1e3: True, 1e4: True, 1e5: None}


def linear():
    space = qx.quotient(*two_layers(), metric="invariant")
    rng = np.random.default_rng(0)
    params = {name: jnp.asarray(rng.normal(size=shape)) for name, shape in space.network.shapes.items()}
    x, y = rng.normal(size=(5, 16)), rng.normal(size=(4, 16))

    def loss(p):
        dtype = p["W1"].dtype
        return jnp.mean((p["W2"] @ (p["W1"] @ jnp.asarray(x, dtype)) - jnp.asarray(y, dtype)) ** 2)

    return space, loss, params


def two_layers():
    model = qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})(lambda p, x: p["W2"] @ (p["W1"] @ x))
    claim = qx.Symmetry("linear", qx.GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    return model.at(x=5, h=3, y=4), [claim]


def narrow(params):
    return {name: jnp.asarray(np.asarray(a, np.float32)) for name, a in params.items()}


def far(condition=1e4):
    space, loss, params = linear()
    return space, loss, narrow(space.act(params, conditioned(space, condition)))


@pytest.mark.slow
def test_perturbations_are_at_the_given_parameters():
    space, loss, params = far()
    found = qx.sharpness(loss, params, 0.3, space=space, budget=20)
    assert found.arithmetic is not None
    assert found.arithmetic.moved
    wide = lambda tree: {name: jnp.asarray(a, jnp.float64) for name, a in tree.items()}
    at, step = wide(params), wide(found.perturbation)
    assert float(space.norm(at, step)) <= 0.3 * (1 + 1e-3)
    gap = float(space.norm(at, space.vertical(at, step)))
    assert gap < 1e-3
    there = {name: at[name] + step[name] for name in at}
    assert float(loss(there) - loss(at)) == pytest.approx(found.value, rel=1e-3)
    # A start is a perturbation at the parameters too.
    again = qx.sharpness(loss, params, 0.3, space=space, budget=20, start=found.perturbation)
    assert again.value >= found.value * (1 - 1e-5)


@pytest.mark.slow
def test_eigenvectors_are_at_the_given_parameters():
    space, loss, params = far()
    found = qx.spectrum(loss, params, 1, which="top", space=space, ball="linear")
    at = {name: jnp.asarray(a, jnp.float64) for name, a in params.items()}
    vector = {name: jnp.asarray(a, jnp.float64) for name, a in found.vectors[0].items()}
    assert float(space.norm(at, vector)) == pytest.approx(1, rel=1e-3)
    line = lambda t: loss({name: at[name] + t * vector[name] for name in at})
    assert float(jax.grad(jax.grad(line))(0.0)) == pytest.approx(found.values[0], rel=1e-3)


def test_a_loss_that_is_not_of_the_network_alone_is_measured_where_it_was_asked():
    space, loss, params = far()
    decayed = lambda p: loss(p) + 0.1 * sum(jnp.sum(a**2) for a in p.values())
    found = qx.trace(decayed, params, space=space, ball="linear")
    assert found.arithmetic is not None
    assert not found.arithmetic.moved
    assert found.invariant is None
    assert "the loss depends on more than the network computes" in found.reason
    # Near the balanced representative nothing is lost, and the metric is proved: a random element sees the decay.
    near = qx.sharpness(decayed, narrow(linear()[2]), 0.1, space=space, ball="linear", budget=8)
    assert near.invariant is None
    assert "the loss itself is not: a random group element changes it by" in near.reason
    assert "the invariant metric is invariant under the group (proved)" in near.reason


def test_a_representative_that_does_not_exist_is_said():
    space, loss, params = linear()
    params = narrow(params)
    nowhere = params | {"W2": params["W2"].at[:, 0].set(0)}
    found = qx.trace(loss, nowhere, space=space, ball="linear")
    assert found.arithmetic is not None
    assert found.arithmetic.attained is False
    assert found.invariant is None
    assert "was not reached" in found.reason
    assert "NOT attained" in str(found.arithmetic)
    with pytest.warns(MetricWarning, match=r"`space.horizontal.params, v.`: the canonical representative was not"):
        space.horizontal(nowhere, params)
    with pytest.warns(MetricWarning, match=r"`quotax.gradient_norm`: .* was not reached"):
        qx.gradient_norm(loss, nowhere, space=space)
    assert not space.alignment(nowhere, params).attained
    with pytest.warns(MetricWarning, match=r"`space.align"):
        space.align(nowhere, params)
    assert space.alignment(params, params).attained


def test_a_rise_below_rounding_is_said():
    space, loss, params = linear()
    found = qx.average_sharpness(loss, narrow(params), 1e-3, space=space, samples=8, probes=0)
    assert found.arithmetic is not None
    assert found.arithmetic.resolution is not None
    assert found.arithmetic.resolution > 1e-3
    assert found.invariant is None
    assert "of so small a rise it keeps" in found.reason
    assert qx.average_sharpness(loss, params, 1e-3, space=space, samples=8, probes=0).invariant is True


@pytest.mark.slow
def test_profiles_and_tables_say_it_too():
    space, loss, params = far(1e5)
    found = qx.profile(loss, params, [0.1, 0.3], space=space, budget=10)
    assert found.invariant is None
    assert found.arithmetic is not None
    assert "float32 lost it" in found.reason
    table = qx.compare({"far": (loss, params, space)}, 0.3, samples=8, steps=4)
    assert table.rows[0]["invariant"] is None
    assert "float32 lost it" in table.rows[0]["reason"]


def test_well_conditioned_parameters_stay_where_they_are():
    space, loss, params = linear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = qx.trace(loss, narrow(params), space=space, ball="linear")
        assert qx.gradient_norm(loss, narrow(params), space=space) > 0
    assert found.arithmetic is not None
    assert not found.arithmetic.moved
    assert found.arithmetic.elsewhere is None
    assert str(found.arithmetic).startswith("float32: canonical representative attained, condition ")
    assert qx.trace(loss, params).arithmetic is None

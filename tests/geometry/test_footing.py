"""What rounding leaves of a point: canonical representatives in float32, and the balanced ground beside a point."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from geometry.metrics.test_absorption import FAMILIES, NET
from geometry.table import CASES, certificates
from sharpness.orbits import conditioned, orbit

S = qx.Symmetry


@qx.architecture(params={"s": "x", "W1": "h x", "W2": "y h"}, inputs={"x": "x"})
def gained(p, x):
    return p["W2"] @ (p["W1"] @ (p["s"] * x))


GAINED = [
    S("linear", qx.GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"}),
    S("gain", qx.Diagonal("x"), {"s": "g @ s", "W1": "W1 @ inv(g)"}),
]


def behind_a_gain():
    return qx.quotient(gained.at(x=8, h=5, y=6), GAINED, "invariant", verified=certificates(GAINED))


def draw(space, seed=0):
    rng = np.random.default_rng(seed)
    return {name: jnp.asarray(rng.normal(size=shape)) for name, shape in space.network.shapes.items()}


def rounded(params):
    return {name: jnp.asarray(np.asarray(a, np.float32)) for name, a in params.items()}


def test_float32_reaches_the_representative_from_afar():
    space = behind_a_gain()
    params = draw(space)
    exact = space.canonical(params)
    assert exact.attained
    sizes = {n: float(jnp.linalg.norm(a)) for n, a in exact.params.items()}
    for condition in (1e1, 1e3, 1e4, 1e5):
        found = space.canonical(rounded(space.act(params, conditioned(space, condition))))
        assert found.attained
        for n, a in found.params.items():
            assert float(jnp.linalg.norm(a)) == pytest.approx(sizes[n], rel=3e-6 * condition, abs=1e-5 * condition)


@pytest.mark.slow
def test_float32_reaches_the_representative_of_heads_behind_a_gain():
    """A Gram matrix squares the condition: Newton's method used to start where it was, and to stop beside it."""
    network = orbit("wide heads")
    params = {name: jnp.asarray(a) for name, a in network.params.items()}
    for seed, scale in ((0, 1.0), (0, 1.3), (1, 1.3)):
        element = network.space.random_element(jax.random.key(seed), scale=scale)
        there = network.space.act(params, element)
        assert network.space.canonical(there).attained
        assert network.space.canonical(rounded(there)).attained


def absorbed():
    return qx.quotient(NET, FAMILIES, "invariant", verified=certificates(FAMILIES))


SPACES = {
    "gain": behind_a_gain,
    "absorbed": absorbed,
    **{name: lambda name=name: CASES[name].space("invariant") for name in ("attention", "attention biases", "linear")},
}


@pytest.mark.parametrize(
    "name", [n if n in ("gain", "linear") else pytest.param(n, marks=pytest.mark.slow) for n in SPACES]
)
def test_the_ground_is_another_representative(name):
    space = SPACES[name]()
    params = draw(space)
    far = space.act(params, space.random_element(jax.random.key(0), scale=1.0))
    ground = space.at(far).grounded()
    inputs = [jnp.asarray(np.random.default_rng(1).normal(size=s)) for s in input_shapes(space)]
    outputs = [space.network(p, *inputs) for p in (params, far, ground.point.params)]
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(outputs[2], outputs[0], rtol=1e-8, atol=1e-8)
    # Vectors go there and back, by an isometry.
    v = draw(space, 3)
    there = ground.push(v)
    for n, a in ground.pull(there).items():
        np.testing.assert_allclose(a, v[n], rtol=1e-7, atol=1e-7)
    assert float(ground.point.norm(there)) == pytest.approx(float(space.norm(far, v)), rel=1e-7)
    assert ground.point.footing().rounding <= 10 * np.finfo(float).eps
    assert ground.point.verticality() < 1e-12


def input_shapes(space):
    sizes = {"t": 5} | dict(space.network.sizes)
    return [spec.shape(sizes) for spec in space.network.architecture.inputs]


def test_amplification_of_rounding():
    """Matrices amplify by their condition, scalings not at all, shifts by what they hide."""
    space = CASES["linear"].space("invariant")
    params = space.canonical(draw(space)).params
    near = space.at(params).footing()
    far = space.at(space.act(params, conditioned(space, 1e5))).footing()
    assert near.attained
    assert far.attained
    assert far.rounding / near.rounding == pytest.approx(1e5, rel=0.1)
    space = CASES["leaky"].space("invariant")
    params = draw(space)
    far = space.at(space.act(params, conditioned(space, 1e5))).footing()
    assert far.condition > 1e4
    assert far.rounding == pytest.approx(np.finfo(float).eps / 2)
    space = CASES["softmax"].space("invariant")
    params = draw(space)
    shift = {family.name: 1e5 * jnp.ones(family.group.shape(family.sizes)) for family in space.families}
    assert 1e4 < space.at(space.act(params, shift)).footing().rounding / np.finfo(float).eps < 1e6

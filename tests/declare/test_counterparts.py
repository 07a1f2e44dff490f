"""Arrays of two networks are matched by what they do; what cannot be told apart, or differs, is refused in words."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quotax as qx

ORDER = list(itertools.permutations(range(5)))


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "e h", "b2": "e", "W3": "y e"}, inputs={"x": "x"})
def deep(p, x):
    return p["W3"] @ jax.nn.relu(p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"]) + p["b2"])


def renamed(order, kink=jax.nn.relu):
    """The same function, written in another way, with its arrays declared in this order."""
    own = [("A", "m n"), ("a", "m"), ("B", "o m"), ("c", "o"), ("D", "p o")]

    @qx.architecture(params=dict(own[n] for n in order), inputs={"z": "n"})
    def other(q, z):
        first = kink(jnp.einsum("n,mn->m", z, q["A"]) + q["a"])
        return jnp.einsum("po,o->p", q["D"], jax.nn.relu(first @ q["B"].T + q["c"]))

    return other.at(n=3, m=3, o=3, p=3)


def drawn(net):
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape) for name, shape in net.shapes.items()}


NET = deep.at(x=3, h=3, e=3, y=3)


@settings(max_examples=2)
@given(st.sampled_from(ORDER))
def test_equal_shapes_are_told_apart_by_the_function(order):
    other = renamed(order)
    found = qx.counterparts(NET, other)
    assert found.names == {"W1": "A", "b1": "a", "W2": "B", "b2": "c", "W3": "D"}
    assert found.reason.endswith("the two functions agree at 8 random points in float64")
    params, x = drawn(other), np.arange(3.0)
    np.testing.assert_allclose(NET(found.params(params), x), other(params, x), rtol=1e-6)


def test_another_function_of_the_same_shapes_is_refused():
    found = qx.counterparts(NET, renamed(range(5), jnp.tanh))
    assert not found
    assert "no array of other does what W1 of deep does" in found.reason
    with pytest.raises(qx.ParameterError, match="two functions"):
        found.params({})


def test_what_can_be_exchanged_has_to_be_said():
    declared = lambda names: qx.architecture(params=dict.fromkeys(names, "y x"), inputs={"x": "x"})

    @declared("AB")
    def one(p, x):
        return (p["A"] @ x) * (p["B"] @ x)

    @declared("CD")
    def two(p, x):
        return (p["D"] @ x) * (p["C"] @ x)

    nets = one.at(x=2, y=2), two.at(x=2, y=2)
    found = qx.counterparts(*nets)
    assert not found
    assert "A, B of one do the same to the outputs" in found.reason
    assert "--rename OTHER=MODEL), for example C=A" in found.reason
    assert qx.counterparts(*nets, rename={"D": "A"}).names == {"A": "D", "B": "C"}
    with pytest.raises(qx.ParameterError, match="two has no array 'E', it has C, D"):
        qx.counterparts(*nets, rename={"E": "A"})
    with pytest.raises(qx.ParameterError, match="one array two counterparts"):
        qx.counterparts(*nets, rename={"C": "A", "D": "A"})


def test_a_name_that_is_wrong_is_found_out():
    found = qx.counterparts(NET, renamed(range(5)), rename={"A": "W2", "B": "W1"})
    assert not found
    assert "two functions" in found.reason


def test_other_shapes_are_refused_with_the_arrays():
    found = qx.counterparts(deep.at(x=3, h=2, e=3, y=3), renamed(range(5)))
    assert found.reason == "deep and other are two functions: of 2 numbers are b1 in deep, and no arrays in other"
    with pytest.raises(qx.QuotaxError, match=r"second must be a sized network, got .*give it sizes"):
        qx.counterparts(NET, deep)


def test_parts_of_one_array_are_counterparts_of_arrays_of_their_own():
    @qx.architecture(params={"qkv": "3*k d"}, inputs={"x": "t d"})
    def fused(p, x):
        q, k, v = jnp.split(x @ p["qkv"].T, 3, axis=-1)
        return jax.nn.softmax(q @ k.T) @ v

    @qx.architecture(params={"V": "k d", "K": "k d", "Q": "k d"}, inputs={"x": "t d"})
    def apart(p, x):
        return jax.nn.softmax((x @ p["Q"].T) @ (x @ p["K"].T).T) @ (x @ p["V"].T)

    one, other = fused.at(k=3, d=4), apart.at(k=3, d=4)
    found = qx.counterparts(one, other)
    params, x = drawn(other), np.ones((2, 4))
    np.testing.assert_allclose(one(found.params(params), x), other(params, x), rtol=1e-6)
    assert set(found.params(params)) == {"qkv"}

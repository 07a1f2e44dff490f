"""Sizes at which a model is sampled: never two axes of one size, and wrong axes are named rather than believed."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import pytest

import quotax as qx
from quotax import catalogue
from quotax.derive.sampling.small_sizes import small_sizes
from quotax.errors import ArchitectureError
from quotax.interpret.tracing.unequal_sizes import coinciding, unequal


def accepting(condition):
    """A trace that accepts the sizes for which the condition holds."""

    def trace(sizes):
        if not condition(**sizes):
            raise ArchitectureError("no")

    return trace


@pytest.mark.parametrize("name", catalogue.names())
def test_a_model_is_sampled_at_unequal_sizes(name):
    for sizes in small_sizes(catalogue.load(name).architecture):
        assert len(set(sizes.values())) == len(sizes)
        assert 1 not in sizes.values()


def test_a_size_written_in_the_declaration_is_left_to_its_axis():
    @qx.architecture(params={"K": "c 1 3", "L": "o c 4"}, inputs={"x": "n"})
    def model(p, x):
        return jnp.sum(p["K"]) * jnp.sum(p["L"]) * x

    assert all(3 not in s.values() and 4 not in s.values() for s in small_sizes(model))


@pytest.mark.parametrize("base", [{"a": 2, "b": 3, "c": 4}, {"a": 5, "b": 3, "c": 4, "d": 6}, {"a": 3}])
def test_every_assignment_is_unequal_and_none_has_a_one(base):
    every = list(unequal(base))
    assert every[0] == base
    for sizes in every:
        assert list(sizes) == list(base)
        assert len(set(sizes.values())) == len(sizes)
        assert min(sizes.values()) > 1
    for one, two in itertools.permutations(base, 2):
        assert any(s[one] % s[two] == 0 for s in every)
        assert any(s[one] % 2 == 0 and s[two] % 2 == 0 for s in every)


def test_the_same_is_asked_at_one_place_whatever_the_base():
    ratios = [{(1, 2): s["a"] == 2 * s["b"], (2, 1): s["b"] == 2 * s["a"]} for s in unequal({"a": 5, "b": 7})]
    assert ratios == [{(1, 2): s["a"] == 2 * s["b"], (2, 1): s["b"] == 2 * s["a"]} for s in unequal({"a": 9, "b": 5})]
    assert any(r[1, 2] for r in ratios)
    assert any(r[2, 1] for r in ratios)


@pytest.mark.parametrize(
    ("condition", "together"),
    [
        (lambda h, x, y, k: h == y, [{"h", "y"}]),
        (lambda h, x, y, k: h == y and x == k, [{"h", "y"}, {"x", "k"}]),
        (lambda h, x, y, k: h == y == k, [{"h", "y", "k"}]),
        (lambda h, x, y, k: h == y and x % k == 0, [{"h", "y"}]),
        (lambda h, x, y, k: h % x == 0 and y % k == 0, []),
        (lambda h, x, y, k: True, []),
    ],
)
def test_axes_that_must_be_equal_are_told_from_those_that_need_not(condition, together):
    separation = coinciding(accepting(condition), ("h", "x", "y", "k"))
    assert separation is not None
    assert condition(**separation.sizes)
    assert sorted(map(sorted, separation.together)) == sorted(map(sorted, together))


def test_a_model_that_is_accepted_nowhere_has_no_separation():
    assert coinciding(accepting(lambda h, x: False), ("h", "x")) is None


def two_layer(params, inputs="x"):
    @qx.architecture(params=params, inputs={"x": inputs})
    def net(p, x):
        return p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"])

    return net


@pytest.mark.parametrize(
    ("model", "axes"),
    [
        (two_layer({"W1": "h x", "b1": "y", "W2": "y h"}), ("h", "y")),
        (two_layer({"W1": "h x", "b1": "h", "W2": "y x"}), ("x", "h")),
        (two_layer({"W1": "x h", "b1": "h", "W2": "y h"}), ("h", "x")),
        (two_layer({"W1": "h z", "b1": "h", "W2": "y h"}), ("x", "z")),
    ],
    ids=["bias", "second weight", "transposed", "input"],
)
def test_wrong_axes_are_named_with_the_arrays_that_carry_them(model, axes):
    with pytest.raises(ArchitectureError, match="have the same size") as caught:
        qx.derive(model, progress=lambda line: None)
    text = str(caught.value)
    one, two = sorted(axes, key=model.axis_names.index)
    assert f"only where {one!r} and {two!r} have the same size" in text
    for axis in axes:
        carriers = [s for s in (*model.params, *model.inputs) if axis in s.axis_names]
        assert f"{axis!r} is an axis of " in text
        assert all(f"{s.name} ({s.axes_text!r})" in text for s in carriers)
    assert "declare one name for both" in text


def test_a_residual_connection_is_told_to_use_one_name():
    @qx.architecture(params={"W": "h x", "V": "y h"}, inputs={"x": "x"})
    def model(p, x):
        return p["V"] @ (x + jax.nn.relu(p["W"] @ x))

    with pytest.raises(ArchitectureError, match=r"only where 'h' and 'x' have the same size.*one name for both"):
        qx.derive(model, progress=lambda line: None)


@pytest.mark.parametrize("relation", ["even", "multiple", "product"])
def test_axes_that_depend_on_one_another_are_given_unequal_sizes_that_fit(relation):
    @qx.architecture(params={"W": "h x", "V": "k x", "A": "y h"}, inputs={"x": "x"})
    def model(p, x):
        z, u = p["W"] @ x, p["V"] @ x
        if relation == "even":
            z = jnp.concatenate([z.reshape(-1, 2)[:, 0], z.reshape(-1, 2)[:, 1]])
        elif relation == "multiple":
            z = z * jnp.repeat(u, len(z) // len(u))
        else:
            z = (z.reshape(len(u), len(x)) * u[:, None]).reshape(-1)
        return p["A"] @ z

    for sizes in small_sizes(model):
        assert len(set(sizes.values())) == len(sizes)
        h, k, x = sizes["h"], sizes["k"], sizes["x"]
        assert {"even": h % 2 == 0, "multiple": h % k == 0, "product": h == k * x}[relation]

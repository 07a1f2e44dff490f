"""Broken twins: what breaks a symmetry keeps it from being returned."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.catalogue.pieces.heads import attend
from quotax.catalogue.pieces.normalisation import rms_norm


def quiet(model, **options):
    return qx.derive(model, progress=lambda line: None, **options)


def test_a_shared_weight_breaks_the_scaling():
    @qx.architecture(params={"W": "h x", "V": "h x", "C": "y h"}, inputs={"x": "x"})
    def model(p, x):
        return jnp.concatenate([p["C"] @ jax.nn.relu(p["W"] @ x), p["W"] @ x])

    assert not [s for s in quiet(model) if any(k.startswith("W") for k in s.action)]


def test_weight_decay_in_the_output():
    @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    def model(p, x):
        return jnp.append(p["W2"] @ jax.nn.relu(p["W1"] @ x), (p["W1"] ** 2).sum() + (p["W2"] ** 2).sum())

    assert not list(quiet(model))


def test_weight_decay_leaves_the_rotations_of_a_linear_net():
    @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    def model(p, x):
        return jnp.append(p["W2"] @ (p["W1"] @ x), (p["W1"] ** 2).sum() + (p["W2"] ** 2).sum())

    assert [str(s.group) for s in quiet(model)] == ["O(h)"]


def test_a_fixed_mask_on_a_hidden_layer():
    mask = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])

    @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "3"})
    def model(p, x):
        return p["W2"] @ (p["W1"] @ x)

    @qx.architecture(params={"W1": "3 x", "W2": "y 3"}, inputs={"x": "x"})
    def masked(p, x):
        return p["W2"] @ (mask @ jax.nn.relu(p["W1"] @ x))

    assert not [s for s in quiet(masked) if s.group.axis == "h"]


def test_a_step_function_does_not_pass_on_its_derivative():
    @qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
    def model(p, x):
        return p["W2"] @ jnp.sign(p["W1"] @ x + p["b1"])

    assert [str(s.group) for s in quiet(model)] == ["R+^h"]


def test_what_is_declared_is_not_found_again():
    @qx.architecture(params={"W1": "h x", "W2": "k h", "W3": "y k"}, inputs={"x": "x"})
    def model(p, x):
        return p["W3"] @ jax.nn.relu(p["W2"] @ jax.nn.relu(p["W1"] @ x))

    first = qx.Symmetry("first", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    found = quiet(model, declared=[first])
    assert [s.group.axis for s in found] == ["k"]
    assert found.audit(x=3, h=4, k=3, y=2).orbit == 7


def test_a_false_declaration_is_refused():
    @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    def model(p, x):
        return p["W2"] @ jnp.tanh(p["W1"] @ x)

    wrong = qx.Symmetry("wrong", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    with pytest.raises(qx.SymmetryError, match="'wrong' is refuted, so it explains nothing"):
        quiet(model, declared=[wrong])


def test_unknown_names_and_axes_are_refused():
    @qx.architecture(params={"W": "h x"}, inputs={"x": "x"})
    def model(p, x):
        return p["W"].T @ (p["W"] @ x)

    found = quiet(model)
    with pytest.raises(qx.SymmetryError, match=r"no such symmetry of model; found were 'rotate h'"):
        found["scale"]
    with pytest.raises(qx.SymmetryError, match="missing size of axis 'x'"):
        found.audit(h=2)
    with pytest.raises(qx.SymmetryError, match="ansatz must be"):
        qx.derive(model, ansatz="cubic")


@pytest.mark.slow
def test_attention_with_a_query_norm_keeps_only_what_commutes_with_it():
    @qx.architecture(params={"Q": "k d", "K": "k d", "V": "v d", "O": "d v"}, inputs={"x": "t d"})
    def model(p, x):
        return attend(rms_norm(x @ p["Q"].T), x @ p["K"].T, x @ p["V"].T) @ p["O"].T

    kernel = lambda symmetry: any("null(Q)" in text for text in symmetry.action.values())  # where k is larger than d
    groups = sorted(str(s.group) for s in quiet(model) if not kernel(s))
    assert groups == ["GL(v)", "O(k)", "R+"]


@pytest.mark.parametrize("apart", [True, False])
def test_orders_differ_from_one_index_to_the_next_only_where_nothing_is_shared(apart):
    @qx.architecture(params={"Q": "k h x", "O": "y k h" if apart else "y h"}, inputs={"x": "x"})
    def model(p, x):
        return jnp.einsum("ykh,kh->y" if apart else "yh,kh->y", p["O"], jnp.tanh(p["Q"] @ x))

    orders = [s.group for s in quiet(model).discrete if isinstance(s.group, qx.Permutation)]
    joint = qx.Symmetry("apart", qx.Permutation("h", each="k"), {"Q[k,h,x]": "g[k,h,e] Q[k,e,x]"})
    assert qx.Permutation("h", each="k" if apart else None) in orders
    assert (qx.Permutation("h", each="k") in orders) is apart
    assert qx.verify(model, joint).status == "refuted"

"""Lowered actions beside the same maps written out by hand, and beside derivatives of themselves."""

from __future__ import annotations

import collections
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from models import relu
from quotax.artifacts import ArraySpec
from quotax.errors import SymmetryError
from quotax.geometry.families.component import Component
from quotax.geometry.families.velocities import velocities
from quotax.lower import lower_action

SIZES = {"h": 4, "x": 3, "y": 2, "head": 2, "k": 2}


def spec(name, axes):
    """A parameter, with axes as a user writes them."""
    return ArraySpec(name, tuple(tuple(axis.split("*")) for axis in axes.split()))


SPECS = (
    *(spec("W1", "h x"), spec("W2", "y h"), spec("b", "h"), spec("c", "y"), spec("s", "")),
    *(spec("Q", "head*k x"), spec("V", "x head k"), spec("S", "h h")),
)
INV = np.linalg.inv

CASES = {
    "matrices": (
        qx.GL("h"),
        {"W1": "g @ W1", "W2": "W2 @ inv(g)", "b": "inv(g).T @ b"},
        lambda p, g: {"W1": g @ p["W1"], "W2": p["W2"] @ INV(g), "b": INV(g).T @ p["b"]},
    ),
    "both sides": (qx.O("h"), {"S": "g @ S @ g.T"}, lambda p, g: {"S": g @ p["S"] @ g.T}),
    "fused axes": (
        qx.GL("k", each="head"),
        {"Q[head*k,x]": "g[head,k,l] Q[head,l,x]", "V[x,head,k]": "V[x,head,l] inv(g)[head,l,k]"},
        lambda p, g: {
            "Q": np.stack([g[i] @ p["Q"].reshape(2, 2, 3)[i] for i in range(2)]).reshape(4, 3),
            "V": np.stack([p["V"][:, i] @ INV(g[i]) for i in range(2)], axis=1),
        },
    ),
    "powers": (
        qx.PositiveDiagonal("h"),
        {"W1": "g**2 @ W1", "W2": "W2 @ g**(-1/2)", "b": "g @ b"},
        lambda p, g: {"W1": (g**2)[:, None] * p["W1"], "W2": p["W2"] / np.sqrt(g), "b": g * p["b"]},
    ),
    "logarithms": (
        qx.PositiveDiagonal("h"),
        {"b": "g @ b", "c": "c + 2 * W2 @ log(g)"},
        lambda p, g: {"b": g * p["b"], "c": p["c"] + 2 * p["W2"] @ np.log(g)},
    ),
    "shifts": (
        qx.Translation("h"),
        {"W1": "W1 + g", "b": "exp(-g) * b", "c": "c - W2 @ g"},
        lambda p, g: {"W1": p["W1"] + g[:, None], "b": np.exp(-g) * p["b"], "c": p["c"] - p["W2"] @ g},
    ),
    "a number": (
        qx.PositiveScalar(),
        {"s": "s / g", "W1": "g * W1"},
        lambda p, g: {"s": p["s"] / g, "W1": g * p["W1"]},
    ),
    "constants": (
        qx.SignFlip("h"),
        {"W2": "W2 @ g", "c": "c + W2 @ (1 - g) / 2"},
        lambda p, g: {"W2": p["W2"] * g, "c": p["c"] + p["W2"] @ (1 - g) / 2},
    ),
}
CONTINUOUS = [name for name, (group, _, _) in CASES.items() if group.continuous]


def made(name):
    """The family, numbers for the parameters, and an element of the group."""
    group, action, by_hand = CASES[name]
    rng = np.random.default_rng(0)
    params = {one.name: rng.normal(size=one.shape(SIZES)) for one in SPECS}
    family = lower_action(qx.Symmetry(name, group, action).bind(SPECS), SPECS, SIZES)
    g = np.asarray(group.rational(rng, SIZES), float)
    return family, params, g, by_hand


@pytest.mark.parametrize("name", CASES)
def test_an_element_acts_as_written_out_by_hand(name, strict_promotion):
    family, params, g, by_hand = made(name)
    found, expected = family.act(params, g), by_hand(params, g)
    assert set(family.moved) == set(expected)
    for key, array in (params | expected).items():
        np.testing.assert_allclose(found[key], array, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_field_is_the_derivative_of_the_action_at_the_identity(name, strict_promotion):
    family, params, _, _ = made(name)
    group, rng = family.group, np.random.default_rng(1)
    xi = jnp.asarray(group.algebra(rng.normal(size=group.coordinate_shape(SIZES)), SIZES))
    arrays = {key: jnp.asarray(array) for key, array in params.items()}
    moved = lambda t: family.act(arrays, group.exponential(t * xi))
    _, expected = jax.jvp(moved, (0.0,), (1.0,))
    found = family.field(arrays, xi)
    assert set(found) == set(family.moved)
    for key, array in found.items():
        np.testing.assert_allclose(array, expected[key], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_terms_and_formulas_say_the_same_of_a_field(name):
    family, params, _, _ = made(name)
    group, rng = family.group, np.random.default_rng(2)
    xi = jnp.asarray(group.algebra(rng.normal(size=group.coordinate_shape(SIZES)), SIZES))
    arrays = {key: jnp.asarray(array) for key, array in params.items()}
    assert family.terms is not None
    parts = [velocities(family.restricted(lambda t, own=own: t.kind == own), arrays, xi) for own in KINDS]
    for key, array in family.field(arrays, xi).items():
        total = sum(part[key] for part in parts if key in part)
        np.testing.assert_allclose(total, array, rtol=1e-12, atol=1e-12)


KINDS = ("matrix", "diagonal", "shift", "carried")


@pytest.mark.parametrize("name", CASES)
def test_a_program_and_single_steps_agree(name):
    family, params, g, _ = made(name)
    step_by_step = {}
    with jax.disable_jit():
        step_by_step = family.act(params, g)
    inside = jax.jit(family.act)(params, g)
    for key, array in family.act(params, g).items():
        np.testing.assert_allclose(array, step_by_step[key], rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(array, inside[key], rtol=1e-13, atol=1e-14)


def test_a_batch_of_elements_acts_one_by_one():
    family, params, _, by_hand = made("matrices")
    rng = np.random.default_rng(3)
    batch = np.stack([family.group.rational(rng, SIZES).astype(float) for _ in range(3)])
    found = jax.vmap(family.act, (None, 0))(params, batch)
    for i, g in enumerate(batch):
        for key, array in by_hand(params, g).items():
            np.testing.assert_allclose(found[key][i], array, rtol=1e-12)


def test_parameters_keep_their_types(strict_promotion):
    family, params, g, _ = made("logarithms")
    half = {key: jnp.asarray(array, jnp.float32) for key, array in params.items()}
    found = family.act(half, jnp.asarray(g, jnp.float32))
    assert {array.dtype.name for array in found.values()} == {"float32"}


def test_equal_families_share_what_is_compiled():
    traced = []

    def act(family, arrays, g):
        traced.append(family.name)
        return family.act(arrays, g)

    program = jax.jit(act, static_argnums=0)
    (one, params, g, _), (two, *_), (other, *_) = made("matrices"), made("matrices"), made("shifts")
    assert one is not two
    assert (one, hash(one)) == (two, hash(two))
    assert one != other
    program(one, params, g)
    program(two, params, g)
    assert traced == ["matrices"]
    assert Component((one,)) == Component((two,))
    assert hash(Component((one,))) == hash(Component((two,)))
    assert one.restricted(lambda term: term.kind == "shift") != one


def test_other_sizes_make_another_family():
    family, *_ = made("matrices")
    wider = lower_action(family.action, SPECS, SIZES | {"h": 6})
    assert wider != family
    assert (family.dimension, wider.dimension) == (16, 36)
    assert family.splits["Q"] == (2, 2, 3)


def test_sizes_that_the_group_cannot_act_on_are_refused():
    action = qx.Symmetry("rope", qx.ComplexScaling("x"), {"W1": "W1 @ inv(g)"}).bind(SPECS)
    with pytest.raises(SymmetryError, match="x"):
        lower_action(action, SPECS, SIZES)


def test_a_quotient_reads_lowers_and_chooses_once(monkeypatch):
    calls = collections.Counter()

    def counted(place, name):
        function = getattr(importlib.import_module(place), name)

        def call(*arguments, **settings):
            calls[name] += 1
            return function(*arguments, **settings)

        monkeypatch.setattr(f"{place}.{name}", call)

    for place, also in (("quotax.pipeline.models", "quotax.pipeline.dividing"), ("quotax.isometry", "quotax.isometry")):
        counted(place, "lower_action")
        counted(also, "choose")
    counted("quotax.symmetry.symmetry", "parse_action")
    claims = [
        qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
        qx.Symmetry("permute", qx.Permutation("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    ]
    space = qx.quotient(relu.at(h=3, x=2, y=2), claims, metric="invariant")
    assert space.metric_certificate
    assert calls == {"lower_action": len(claims), "choose": 1, "parse_action": 6}

"""Audits say nothing false: of models with casts, with domains, with inert parameters, with kinks, with norms."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax import catalogue
from quotax.catalogue.pieces.normalisation import rms_norm
from quotax.derive.candidates.unnamed import FieldFamily
from quotax.derive.found.audit import jacobian_rank
from quotax.derive.points.float_model import FloatModel
from quotax.derive.points.probing import FLAT, probe
from quotax.errors import SymmetryError


def quiet(model, **options):
    return qx.derive(model, progress=lambda line: None, **options)


def two_layer(between, bias=True):
    @qx.architecture(params={"W1": "h x", "W2": "y h"} | ({"b1": "h"} if bias else {}), inputs={"x": "x"})
    def net(p, x):
        return p["W2"] @ between(p["W1"] @ x + (p["b1"] if bias else 0))

    return net


# --- casts and stopped gradients

CASTS = {
    "float32": lambda z: jax.nn.relu(z.astype(jnp.float32)).astype(jnp.float64),
    "bfloat16": lambda z: jax.nn.relu(z.astype(jnp.bfloat16)).astype(jnp.float64),
    "stopped slope": lambda z: z * jax.lax.stop_gradient(z > 0) + 0 * jax.lax.stop_gradient(z),
}


def words(text):
    return " ".join(str(text).split())


@pytest.mark.parametrize("name", CASTS)
def test_casts_and_stopped_gradients_are_read_away(name):
    trace = two_layer(CASTS[name]).trace({"x": 3, "h": 4, "y": 2})
    assert jacobian_rank(trace, 24, 4).rank == 20
    assert FloatModel(trace).rank(np.random.default_rng(0)).value == 20


@pytest.mark.parametrize("sizes", [{"x": 3, "h": 4, "y": 2}, {"x": 2, "h": 3, "y": 5}])
def test_a_straight_through_estimator_has_the_derivative_of_what_it_computes(sizes):
    through = two_layer(lambda z: z + jax.lax.stop_gradient(jnp.round(z) - z))
    audit = quiet(through).audit(**sizes)
    assert audit.surplus >= 0
    assert audit.rank == sizes["y"] * sizes["h"]
    assert audit.inert == ("W1", "b1")
    assert str(audit).startswith("inert to first order: W1, b1; ")


def test_a_rank_that_proved_orbits_leave_no_room_for_is_not_believed():
    seen = jacobian_rank(two_layer(jax.nn.relu).trace({"x": 3, "h": 4, "y": 2}), 24, 6)
    assert seen.rank is None
    assert seen.unavailable["rank"] == "float64 shows 20, and the proved orbits leave 18 at most"


# --- domains


def batch_norm(between):
    @qx.architecture(
        params={"W": "h x", "mean": "h", "var": "h", "gain": "h", "beta": "h", "A": "y h"}, inputs={"x": "x"}
    )
    def model(p, x):
        z = (p["W"] @ x - p["mean"]) / jnp.sqrt(p["var"] + 1e-5)
        return p["A"] @ between(p["gain"] * z + p["beta"])

    return model


def test_points_are_drawn_where_the_model_is_defined():
    audit = quiet(batch_norm(jax.nn.relu)).audit(x=3, h=4, y=2)
    assert (audit.parameters, audit.rank) == (36, 20)  # a ReLU network of 24 numbers, of which 4 are scales
    assert " with var positive" in audit.method


@pytest.mark.parametrize(
    ("function", "where"),
    [
        (lambda p, x: jnp.abs(jnp.log(p["W"].sum(1)) * p["b"]) * x.sum(), " with W positive"),
        (lambda p, x: jnp.abs(jnp.sqrt(p["b"])) * (p["W"] @ x), " with b positive"),
        (lambda p, x: jnp.abs(jnp.arcsin(p["b"]) * jnp.log(p["b"])) * (p["W"] @ x), " with b between 0 and 1"),
        (lambda p, x: jnp.abs(p["b"]) * (p["W"] @ x), ""),
    ],
)
def test_only_what_has_to_be_is_kept_positive(function, where):
    model = qx.architecture(params={"W": "h x", "b": "h"}, inputs={"x": "x"})(function)
    running = FloatModel(model.trace({"h": 3, "x": 4}))
    assert str(running.smooth) == where
    assert str(running.valued) == where


@pytest.mark.parametrize("function", [lambda z: jnp.log(-1 - z**2), lambda z: jax.nn.relu(jnp.sqrt(-1 - z**2))])
def test_a_model_that_is_defined_nowhere_has_no_rank(function):
    audit = quiet(two_layer(function)).audit(x=3, h=4, y=2)
    assert (audit.rank, audit.flat, audit.surplus, audit.complete) == (None, None, None, False)
    assert audit.unavailable["rank"].startswith("no point was found at which all outputs are numbers")
    assert "cannot say: rank, because no point was found" in words(audit)
    with pytest.raises(SymmetryError, match="no point was found"):
        audit.directions()


def test_permutations_of_a_model_with_a_domain_are_found():
    found = quiet(batch_norm(jnp.tanh))
    assert "permute h" in [s.name for s in found.discrete]


# --- inert parameters


SHIFT = qx.Symmetry("shift", qx.Translation("k", each="head"), {"bK[head,k]": "bK[head,k] + g[head,k]"})
SIZES = {"head": 4, "k": 8, "d": 16, "t": 5}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_shift_of_an_inert_key_bias_is_flat(seed):
    model = catalogue.load("multi_head/biases").architecture
    seen = probe(model.trace(SIZES), [SHIFT.bind(model.params)], seed)
    assert seen.flatness < FLAT
    assert seen.inert == ("bK",)
    assert seen.independent == 32


@pytest.mark.parametrize("moved", ["bQ", "bV"])
def test_the_same_shift_of_another_bias_is_not(moved):
    model = catalogue.load("multi_head/biases").architecture
    wrong = qx.Symmetry("wrong", SHIFT.group, {f"{moved}[head,k]": f"{moved}[head,k] + g[head,k]"})
    assert probe(model.trace(SIZES), [wrong.bind(model.params)]).flatness > 1e-2


@pytest.mark.parametrize("factor", [1e-12, 1e-4, 10.0])
def test_what_moves_the_outputs_little_is_not_called_flat(factor):
    @qx.architecture(params={"W": "h x", "b": "h"}, inputs={"x": "x"})
    def model(p, x):
        return jnp.tanh(p["W"] @ x + factor * p["b"])

    wrong = qx.Symmetry("wrong", qx.Translation("h"), {"b": "b + g"})
    seen = probe(model.trace({"h": 20, "x": 10}), [wrong.bind(model.params)])
    assert seen.flatness > 1e-2
    assert not seen.inert


def test_a_unit_that_is_dead_at_one_point_is_not_inert():
    model = two_layer(jax.nn.relu)
    for seed in range(4):
        assert probe(model.trace({"h": 2, "x": 30, "y": 3}), [], seed).inert == ()
        assert jacobian_rank(model.trace({"h": 1, "x": 2, "y": 2}), 5, 1, seed).inert == ()


# --- kinks


@pytest.mark.parametrize("sizes", [{"x": 3, "h": 4, "k": 3, "y": 2}, {"x": 2, "h": 3, "k": 5, "y": 1}])
def test_the_rank_of_a_deep_relu_network_does_not_depend_on_the_seed(sizes):
    @qx.architecture(params={"W1": "h x", "b1": "h", "W2": "k h", "b2": "k", "W3": "y k", "b3": "y"}, inputs={"x": "x"})
    def deep(p, x):
        z = jax.nn.relu(p["W1"] @ x + p["b1"])
        return p["W3"] @ jax.nn.relu(p["W2"] @ z + p["b2"]) + p["b3"]

    trace, orbit = deep.trace(sizes), sizes["h"] + sizes["k"]
    total = sum(int(np.prod(s.shape(sizes))) for s in deep.params)
    for seed in range(4):
        seen = jacobian_rank(trace, total, orbit, seed)
        assert seen.rank == total - orbit
        assert "points" in seen.method or "one point" in seen.method


# --- fields of models with norms


def centred(z, eps):
    return rms_norm(z - z.mean(), eps=eps)


@pytest.mark.parametrize("eps", [0.0, pytest.param(1e-5, marks=pytest.mark.slow)])
def test_rotations_that_fix_the_ones_are_a_family_although_the_model_has_a_root(eps):
    found = quiet(two_layer(lambda z: centred(z, eps), bias=False))
    rotations = found["rotate h"]
    assert rotations.group == qx.OFixingOnes("h")
    assert found.certificate("rotate h").scope == "every width"
    assert not found.unnamed
    assert not found.unproved
    for sizes in ({"x": 3, "h": 4, "y": 2}, {"x": 5, "h": 3, "y": 4}):
        assert found.audit(**sizes).surplus == 0


def test_fields_without_a_family_are_kept_although_the_model_has_a_root():
    """A (n + b) with 1^T n = 1: A + q 1^T where q (1 + 1^T b) is what b takes back, which has no name here."""

    @qx.architecture(params={"W": "h x", "b": "h", "A": "y h"}, inputs={"x": "x"})
    def model(p, x):
        n = jnp.sqrt(1 + (p["W"] @ x) ** 2)
        return p["A"] @ (n / jnp.sum(n) + p["b"])

    found = quiet(model)
    (family,) = found.unnamed
    assert found["kernel h"].action == {"b[h]": "b[h] + null(A)[h,h_] * g[h_]"}
    assert len(family.fields) == min(family.sizes["h"], family.sizes["y"])
    assert family.certificate
    assert "denominators are not zero" in family.certificate.assumptions[0]
    assert not found.unproved
    assert found.audit(**family.sizes).surplus == 0


def test_an_audit_has_seconds_of_its_own(monkeypatch):
    """Fields at sizes that are asked for later are proved although the time of the derivation is over."""

    @qx.architecture(params={"W": "h x", "b": "h", "A": "y h"}, inputs={"x": "x"})
    def model(p, x):
        return p["A"] @ (jax.nn.softmax(p["W"] @ x) + p["b"])

    found = quiet(model)
    (family,) = found.unnamed
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 10_000)
    assert found.audit(**{**family.sizes, "x": family.sizes["x"] + 2}).surplus == 0


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_a_field_that_was_not_proved_is_kept_among_the_unproved(eps):
    from quotax.derive.derivation import derive

    @qx.architecture(params={"a": "", "b": "", "W": "h x"}, inputs={"x": "x"})
    def model(p, x):
        return (p["a"] ** 2 + p["b"] ** 2) * rms_norm(p["W"] @ x, eps=eps)

    found = derive(model, lambda symmetry: qx.verify(model, symmetry), lambda trace, field, seconds: None)
    assert not found.unnamed
    ((field, certificate),) = [(f, c) for f, c in found.unproved if isinstance(f, FieldFamily)]
    assert certificate.status == "undecided"
    assert len(field.fields) == 1
    assert "was not proved" in certificate.residual
    audit = found.audit(**field.sizes)
    assert (audit.surplus, audit.unproved) == (1, 1)
    assert "surplus 1; 1 fields found here are not proved and not counted" in words(audit)


def test_an_undecided_permutation_is_kept_among_the_unproved():
    from quotax.artifacts import Certificate
    from quotax.derive.derivation import derive

    model = two_layer(jnp.tanh)
    found = derive(model, lambda s: Certificate("claim", "undecided", "nowhere"), lambda trace, field, seconds: None)
    assert {s.name for s, _ in found.unproved} == {"permute h", "flip h"}


# --- constants that float64 does not show, and constants that are no fractions


@pytest.mark.parametrize(("eps", "faint"), [(1e-13, 1), (1e-3, 0), (0.0, 0)])
def test_a_constant_that_float64_does_not_show_is_no_symmetry(eps, faint):
    """All rows scaled: a symmetry without the constant, and with it none, however small it is."""
    model = two_layer(lambda z: jax.nn.relu(z * jax.lax.rsqrt(jnp.mean(z**2) + eps)), bias=False)
    seen = jacobian_rank(model.trace({"x": 3, "h": 4, "y": 2}), 20)
    assert (seen.rank, seen.faint) == (20 - (eps == 0), faint)
    assert ("1e-13" in seen.method) == bool(faint)


@pytest.mark.slow
def test_directions_that_a_faint_constant_keeps_from_being_flat_are_said():
    audit = quiet(two_layer(lambda z: jax.nn.relu(z * jax.lax.rsqrt(jnp.mean(z**2) + 1e-13)), bias=False)).audit(
        x=3, h=4, y=2
    )
    assert (audit.faint, audit.complete) == (1, True)
    assert "1 more directions are flat to float64, but for constants below 1e-8" in words(audit)
    assert audit.directions()[1].shape == (0, 20)


@pytest.mark.slow
def test_coefficients_that_are_numbers_of_the_model_are_read_by_name():
    """Statistics of a norm that are closed over: what its reader adds, the norm's bias takes back times a root."""

    @qx.architecture(params={"W": "h x", "b": "h", "s": "h", "t": "h", "A": "y h"}, inputs={"x": "x"})
    def normalised(p, x):
        return p["A"] @ jax.nn.relu((p["W"] @ x + p["b"]) / np.sqrt(1 + 1e-5) * p["s"] + p["t"])

    found = quiet(normalised)
    (shift,) = [s for s in found if s.constants]
    assert shift.action == {"t[h]": "t[h] - g[h] * s[h] / c1", "b[h]": "b[h] + g[h]"}
    assert [one.values for one in shift.constants] == [np.sqrt(1 + 1e-5)]
    assert found.certificate(shift.name).scope == "every width"
    assert found.audit(x=3, h=4, y=2).surplus == 0


@pytest.mark.slow
def test_a_table_that_is_read_at_both_ends_is_shifted_along_a_gain():
    """`E + 1 q / g` is seen by no norm's reader but for a number, and at the other end positions take it back."""
    shapes = {"E": "v d", "P": "t d", "U": "d", "g": "d", "b": "d", "c": "v"}

    @qx.architecture(params=shapes, inputs={"ids": qx.Tokens("t", below="v")})
    def tied(p, ids):
        norm = lambda z: (z - z.mean(-1, keepdims=True)) * jax.lax.rsqrt(z.var(-1, keepdims=True) + 1e-3)
        read = norm(jnp.tanh(norm(p["E"][ids] + p["P"]) * p["U"])) * p["g"] + p["b"]
        return read @ p["E"].T + p["c"]

    found = quiet(tied)
    along = [s for s in found if {"E", "P", "c"} <= {name.partition("[")[0] for name in s.action}]
    assert [str(s.group) for s in along] == ["R^1"]
    assert found.audit(v=5, d=4, t=3).complete

"""The action language: what it means, checked against matrices written out in NumPy, and what it refuses."""

import jax
import numpy as np
import pytest

import quotax as qx
from quotax.declare.axes import parse_arrays
from quotax.lower import lower_action


def parse_params(tree):
    return tuple(spec for array in parse_arrays(tree) for spec in array.parts)


SPECS = parse_params(
    {
        "W1": "h x", "b1": "h", "W2": "y h", "a": "h", "s": "", "R": "h h",
        "Wq": "head k x", "Wo": "d head*k", "bv": "head*k", "bo": "d",
        "blk": {"W": "h x"}, "g": "h",
    }
)  # fmt: skip
SIZES = {"h": 3, "x": 2, "y": 4, "head": 2, "k": 3, "d": 2}


def act(group, action, seed=0):
    """Random parameters, a random element, and the parameters that the action makes of them."""
    lowered = lower_action(qx.Symmetry("s", group, action).bind(SPECS), SPECS, SIZES)
    rng = np.random.default_rng(seed)
    params = {spec.name: rng.normal(size=spec.shape(SIZES)) for spec in SPECS}
    g = np.asarray(group.random(jax.random.key(seed), SIZES, 0.5))
    return params, g, {name: np.asarray(value) for name, value in lowered.act(params, g).items()}


inv = np.linalg.inv
MEANING = {
    "g on the left": (qx.GL("h"), {"W1": "g @ W1"}, "W1", lambda p, g: g @ p["W1"]),
    "inverse on the right": (qx.GL("h"), {"W2": "W2 @ inv(g)"}, "W2", lambda p, g: p["W2"] @ inv(g)),
    "vector": (qx.GL("h"), {"b1": "g @ b1"}, "b1", lambda p, g: g @ p["b1"]),
    "transpose": (qx.GL("h"), {"W2": "W2 @ g.T"}, "W2", lambda p, g: p["W2"] @ g.T),
    "inverse transpose": (qx.GL("h"), {"W1": "inv(g).T @ W1"}, "W1", lambda p, g: inv(g).T @ p["W1"]),
    "inverse of a product": (qx.GL("h"), {"W1": "inv(g @ g) @ W1"}, "W1", lambda p, g: inv(g @ g) @ p["W1"]),
    "conjugation": (qx.GL("h"), {"R": "g @ R @ inv(g)"}, "R", lambda p, g: g @ p["R"] @ inv(g)),
    "diagonal": (qx.PositiveDiagonal("h"), {"W1": "g @ W1"}, "W1", lambda p, g: np.diag(g) @ p["W1"]),
    "diagonal inverse": (qx.PositiveDiagonal("h"), {"W2": "W2 @ inv(g)"}, "W2", lambda p, g: p["W2"] / g),
    "minus a diagonal": (qx.PositiveDiagonal("h"), {"W1": "-g @ W1"}, "W1", lambda p, g: -np.diag(g) @ p["W1"]),
    "minus a matrix per head": (
        qx.GL("k", each="head"), {"Wo": "-Wo @ (2 * inv(g))"}, "Wo",
        lambda p, g: -2 * np.einsum("dhk,hkl->dhl", p["Wo"].reshape(2, 2, 3), inv(g)).reshape(2, 6),
    ),
    "diagonal power": (qx.PositiveDiagonal("h"), {"a": "a * g**-3"}, "a", lambda p, g: p["a"] / g**3),
    "shift": (qx.Translation("h"), {"b1": "b1 + g"}, "b1", lambda p, g: p["b1"] + g),
    "shift by axis name": (qx.Translation("x"), {"W1": "W1 + g"}, "W1", lambda p, g: p["W1"] + g),
    "shift of rows": (qx.Translation("h"), {"W1": "W1 - 2 * g"}, "W1", lambda p, g: p["W1"] - 2 * g[:, None]),
    "exponential": (qx.Translation("h"), {"a": "exp(-g) * a"}, "a", lambda p, g: np.exp(-g) * p["a"]),
    "logarithm": (qx.PositiveDiagonal("h"), {"b1": "b1 + log(g) / 2"}, "b1", lambda p, g: p["b1"] + np.log(g) / 2),
    "scalar": (qx.PositiveScalar(), {"s": "g * s"}, "s", lambda p, g: g * p["s"]),
    "scalar on a matrix": (qx.PositiveScalar(), {"W1": "W1 / g**2"}, "W1", lambda p, g: p["W1"] / g**2),
    "shift of a scalar": (qx.Translation(), {"s": "s + g"}, "s", lambda p, g: p["s"] + g),
    "old values on the right": (qx.GL("h"), {"b1": "g @ b1", "a": "b1"}, "a", lambda p, g: p["b1"]),
    "nested name": (qx.GL("h"), {"blk/W": "g @ blk/W"}, "blk/W", lambda p, g: g @ p["blk/W"]),
    "a parameter called g": (qx.GL("h"), {"g": "g @ p.g"}, "g", lambda p, g: g @ p["g"]),
    "index form": (
        qx.GL("k", each="head"), {"Wq[head,k,x]": "g[head,k,l] Wq[head,l,x]"}, "Wq",
        lambda p, g: np.einsum("hkl,hlx->hkx", g, p["Wq"]),
    ),
    "index form, inverse": (
        qx.GL("k", each="head"), {"Wq[h,k,x]": "inv(g)[h,l,k] Wq[h,l,x]"}, "Wq",
        lambda p, g: np.einsum("hlk,hlx->hkx", inv(g), p["Wq"]),
    ),
    "index form, two terms": (
        qx.Translation("k", each="head"), {"bo[d]": "bo[d] - Wo[d,head*k] g[head,k]"}, "bo",
        lambda p, g: p["bo"] - p["Wo"] @ g.ravel(),
    ),
    "index form, functions": (
        qx.Translation("h"), {"a[i]": "1/2 exp(-g[i]) a[i] + 3*b1[i]"}, "a",
        lambda p, g: 0.5 * np.exp(-g) * p["a"] + 3 * p["b1"],
    ),
    "index form, a sum in a bracket": (
        qx.PositiveDiagonal("h"), {"a[i]": "g[i] (a[i] + R[i,j] b1[j])"}, "a",
        lambda p, g: g * (p["a"] + p["R"] @ p["b1"]),
    ),
    "index form, diagonal as a matrix": (
        qx.PositiveDiagonal("h"), {"W1[h,x]": "g[h,l] W1[l,x]"}, "W1", lambda p, g: np.diag(g) @ p["W1"]
    ),
    "fused axis": (
        qx.GL("k", each="head"), {"Wo": "Wo @ inv(g)"}, "Wo",
        lambda p, g: np.einsum("dhk,hkl->dhl", p["Wo"].reshape(2, 2, 3), inv(g)).reshape(2, 6),
    ),
    "fused axis, the same for each": (
        qx.GL("k"), {"bv": "g @ bv"}, "bv", lambda p, g: (p["bv"].reshape(2, 3) @ g.T).ravel()
    ),
    "fused shift": (qx.Translation("k", each="head"), {"bv": "bv + g"}, "bv", lambda p, g: p["bv"] + g.ravel()),
    "shift through a matrix": (
        qx.Translation("k", each="head"), {"bo": "bo - Wo @ g"}, "bo", lambda p, g: p["bo"] - p["Wo"] @ g.ravel()
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MEANING)
def test_an_action_means_what_numpy_does(case):
    group, action, name, oracle = MEANING[case]
    params, g, moved = act(group, action)
    np.testing.assert_allclose(moved[name], oracle(params, g), rtol=1e-12, atol=1e-12)
    untouched = set(params) - {key.partition("[")[0] for key in action}
    assert all(moved[other] is not None and np.array_equal(moved[other], params[other]) for other in untouched)


@pytest.mark.parametrize("case", MEANING)
def test_the_infinitesimal_action_is_the_derivative_of_the_finite_one(case):
    group, action, _, _ = MEANING[case]
    lowered = lower_action(qx.Symmetry("s", group, action).bind(SPECS), SPECS, SIZES)
    rng = np.random.default_rng(1)
    params = {spec.name: rng.normal(size=spec.shape(SIZES)) for spec in SPECS}
    xi = group.algebra(jax.random.normal(jax.random.key(2), group.coordinate_shape(SIZES)), SIZES)
    step = 1e-4
    ahead = lowered.act(params, group.exponential(step * xi))
    behind = lowered.act(params, group.exponential(-step * xi))
    for name, velocity in lowered.field(params, xi).items():
        np.testing.assert_allclose(velocity, (ahead[name] - behind[name]) / (2 * step), rtol=1e-6, atol=1e-6)


REFUSED = {
    "unknown parameter": ({"W9": "g"}, "'W9' is no parameter; the parameters are W1, b1"),
    "unknown on the right": ({"W1": "g @ V"}, "'V' is neither g nor a parameter"),
    "axis of the other side": ({"W1": "g @ W2"}, "g acts on axis 'h', but the first axis in `g @ W2` is 'y'"),
    "wrong side": ({"W1": "W1 @ g"}, "the last axis in `W1 @ g` is 'x'"),
    "shape of the result": ({"W1": "g @ b1"}, "the right-hand side has axes 'h', but W1 has 'h x'"),
    "scalar result": ({"W1": "2"}, "the right-hand side is a scalar"),
    "syntax": ({"W1": "g @"}, "cannot be read"),
    "three axes": ({"Wq": "g @ Wq"}, "use the index form"),
    "indices missing": ({"W1[h]": "W1[h,x]"}, "2 indices are needed, got 1"),
    "index once": ({"b1[h]": "W1[h,x]"}, "index 'x' stands once"),
    "index on two axes": ({"b1[h]": "W1[h,y] W2[y,h]"}, "index 'y' runs over axis 'x' in one place and 'y' in another"),
    "function": ({"W1": "sin(g) @ W1"}, "is not part of the language"),
    "inverse of a parameter": ({"R": "g @ inv(R)"}, "inv applies to g"),
    "sides of a product": ({"W1": "g @ W1 @ W1"}, "does not fit"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_action_that_means_nothing_is_refused(case):
    action, message = REFUSED[case]
    with pytest.raises(qx.SymmetryError) as caught:
        qx.Symmetry("mine", qx.GL("h"), action).bind(SPECS)
    assert message in str(caught.value)
    assert "Symmetry('mine', GL('h'), ...)" in str(caught.value)


def test_refusals_before_any_model_is_known():
    with pytest.raises(qx.SymmetryError, match="the action names no parameter"):
        qx.Symmetry("empty", qx.GL("h"), {})
    with pytest.raises(qx.SymmetryError, match="got the class"):
        qx.Symmetry("class", qx.GL, {"W1": "g @ W1"})
    with pytest.raises(qx.SymmetryError, match="must be one of quotax's groups"):
        qx.Symmetry("text", "GL(h)", {"W1": "g @ W1"})
    with pytest.raises(qx.SymmetryError, match="name must be a non-empty string"):
        qx.Symmetry("", qx.GL("h"), {"W1": "g @ W1"})
    with pytest.raises(qx.SymmetryError, match="maps a parameter to an expression"):
        qx.Symmetry("number", qx.GL("h"), {"W1": 3})


def test_a_group_needs_an_axis_that_some_parameter_has():
    with pytest.raises(qx.SymmetryError, match="acts on axis 'z', which no parameter has"):
        qx.Symmetry("z", qx.GL("z"), {"W1": "g @ W1"}).bind(SPECS)
    with pytest.raises(qx.SymmetryError, match="one copy per index of axis 'z'"):
        qx.Symmetry("z", qx.GL("h", each="z"), {"W1": "g @ W1"}).bind(SPECS)
    with pytest.raises(qx.SymmetryError, match=r"`GL\(\)` needs the axis"):
        qx.GL()
    with pytest.raises(qx.SymmetryError, match="axis must be one axis name such as 'h', got 'h x'"):
        qx.GL("h x")
    with pytest.raises(qx.SymmetryError, match="pairs must be 'adjacent' or 'halves', got 'odd'"):
        qx.ComplexScaling("h", pairs="odd")


def test_a_parameter_is_moved_once():
    with pytest.raises(qx.SymmetryError, match="says twice what becomes of 'W1'"):
        qx.Symmetry("twice", qx.GL("h"), {"W1": "g @ W1", "W1[h,x]": "g[h,l] W1[l,x]"}).bind(SPECS)


@pytest.mark.parametrize(
    ("action", "affine"),
    [
        ({"W": "g @ W"}, True),
        ({"W": "inv(g) @ W", "b": "g @ b"}, True),
        ({"b": "g * b * b"}, False),
        ({"b": "g * exp(b)"}, False),
    ],
)
def test_actions_that_are_affine_are_known_by_their_formulas(action, affine):
    specs = parse_params({"W": "h x", "b": "h"})
    assert qx.Symmetry("scale", qx.PositiveDiagonal("h"), action).bind(specs).affine is affine

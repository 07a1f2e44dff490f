"""Transforms as plain data, applied by a reader of them that knows NumPy and nothing of quotax."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import models
import quotax as qx
from geometry.metrics.test_absorption import ROTATE, residual
from geometry.table import CASES, sampled
from quotax.lower import lower_action
from quotax.symmetry.merging import mapping


def along(array, matrix, k, side, each):
    """One matrix along a dimension of an array, or one for each index of another dimension."""
    array = np.moveaxis(array, k, -1) if each is None else np.moveaxis(array, (each, k), (0, -1))
    rest = array.shape
    flat = array.reshape(-1, rest[-1]) if each is None else array.reshape(rest[0], -1, rest[-1])
    matrix = matrix if side == "right" else np.swapaxes(matrix, -1, -2)
    out = (flat @ matrix).reshape(rest)
    return np.moveaxis(out, -1, k) if each is None else np.moveaxis(out, (0, -1), (each, k))


def spread(values, dimensions, rank):
    """Values that lie along some dimensions, at the rank of an array."""
    values = np.transpose(values, np.argsort(dimensions)) if len(dimensions) else values
    shape = [1] * rank
    for size, k in zip(np.shape(values), sorted(dimensions), strict=True):
        shape[k] = size
    return np.reshape(values, shape)


def inverted(g, family):
    return np.linalg.inv(g) if family["element"]["layout"] == "matrix" else 1 / g


def merged(family, params, g, sizes):
    """The parameters with one family's transform merged into them."""
    size = lambda what: [axis if isinstance(axis, int) else sizes[axis] for axis in what["axes"]]
    apart = {
        name: array.reshape(size(family["arrays"].get(name, {"axes": array.shape}))) for name, array in params.items()
    }
    known = apart | {"g": g, "inv(g)": inverted(g, family)}
    moved = dict(params)
    for name, what in family["arrays"].items():
        array, rank = apart[name], len(what["axes"])
        if "multiply" in what:
            array = array * what.get("factor", 1)
            for step in what["multiply"]:
                k, each = step["dimension"], step["each"]
                if "side" in step:
                    matrix = known["inv(g)" if step["inverse"] else "g"]
                    matrix = np.swapaxes(matrix, -1, -2) if step["transpose"] else matrix
                    array = along(array, matrix, k, step["side"], each)
                else:
                    array = array * spread(g ** step["power"], [d for d in (each, k) if d is not None], rank)
        elif "add" in what:
            array = array + what["add"]["factor"] * spread(g, what["add"]["dimensions"], rank)
        elif "terms" in what:
            array = np.zeros(array.shape)
            for term in what["terms"]:
                operands = [known[one["array"]] ** one.get("power", 1) for one in term["operands"]]
                value = term["factor"] * np.einsum(term["einsum"], *operands)
                array = array + spread(value, term["dimensions"], rank)
        else:
            raise NotImplementedError(what["formula"])
        moved[name] = array.reshape(params[name].shape)
    return moved


def relu_mlp(p, x):
    return p["W2"] @ np.maximum(p["W1"] @ x + p["b1"], 0)


def causal_attention(p, x):
    q, k, v = (np.einsum("tx,hkx->htk", x, p[name]) for name in ("Wq", "Wk", "Wv"))
    scores = np.einsum("htk,hsk->hts", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones(scores.shape[-2:])) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hts,hsv,xhv->tx", weights / weights.sum(-1, keepdims=True), v, p["Wo"])


NETWORKS = {
    "relu": (relu_mlp, {"h": 5, "x": 4, "y": 3}, (4,)),
    "attention": (causal_attention, {"head": 3, "k": 2, "v": 4, "x": 6}, (5, 6)),
}


@pytest.mark.parametrize("name", ["relu", pytest.param("attention", marks=pytest.mark.slow)])
def test_numpy_alone_merges_them_and_logits_stay(name):
    forward, sizes, shape = NETWORKS[name]
    model = getattr(models, name)
    data = json.loads(json.dumps(qx.derive(model, progress=lambda _: None).to_mapping()))
    rng = np.random.default_rng(0)
    params = {n: rng.normal(size=[sizes[a] for a in axes.split()]) for n, axes in data["params"].items()}
    x = rng.normal(size=shape)
    logits = forward(params, x)
    assert data["families"]
    for family in data["families"]:
        axes = [sizes[a] for a in family["element"]["axes"]]
        g = np.exp(rng.normal(size=axes))
        if family["group"]["kind"] == "Permutation":
            g = np.roll(np.eye(axes[-1]), 1, 0)
        elif family["element"]["layout"] == "matrix":
            g = rng.normal(size=axes) + 2 * np.eye(axes[-1])
        moved = merged(family, params, g, sizes)
        assert all(not np.allclose(moved[n], params[n]) for n in family["arrays"])
        np.testing.assert_allclose(forward(moved, x), logits, rtol=1e-9, atol=1e-9)
        assert (family["status"], family["scope"]) == ("proved", "every width")


FORMULAS = {"exp", "u^2-v^2"}
"""Rows in which an element stands in an exponential: the formula alone is said."""


@pytest.mark.parametrize("name", sampled(["linear", "relu", "attention", "rope", "u^2-v^2"], list(CASES)))
def test_data_say_what_actions_do(name):
    case, written = CASES[name], 0
    params = {n: np.asarray(a) for n, a in case.draw(0).items()}
    claims = [*case.families, *case.discrete]
    for claim in claims:
        action = claim.bind(case.model.params)
        family = json.loads(json.dumps(mapping(action, case.model.params)))
        g = np.asarray(claim.group.random(jax.random.key(1), case.sizes))
        try:
            moved = merged(family, params, g, case.sizes)
        except NotImplementedError:
            continue
        written += 1
        expected = lower_action(action, case.model.params, case.network.sizes).act(case.draw(0), g)
        for array in params:
            np.testing.assert_allclose(moved[array], expected[array], atol=1e-9)
    assert written == len(claims) or name in FORMULAS


def test_gains_that_a_rotation_passes_are_said_as_terms():
    network = residual.at(x=4, d=3, f=4, y=2)
    action = ROTATE.bind(residual.params)
    rng = np.random.default_rng(0)
    params = {name: rng.normal(size=shape) for name, shape in network.shapes.items()}
    g = np.asarray(ROTATE.group.random(jax.random.key(0), network.sizes))
    moved = merged(mapping(action, residual.params), params, g, network.sizes)
    expected = lower_action(action, residual.params, network.sizes).act(params, g)
    for name in params:
        np.testing.assert_allclose(moved[name], expected[name], atol=1e-12)


def room(whole, cut, sizes):
    """A view of an array in which the parts of an axis lie apart, and where the part is."""
    length = lambda factors: int(np.prod([f if isinstance(f, int) else sizes[f] for f in factors]))
    k = whole.ndim + cut["axis"]
    lengths = [length(piece) for piece in cut["pieces"]]
    apart = whole.reshape(
        *whole.shape[:k], length(cut["before"]), sum(lengths), length(cut["after"]), *whole.shape[k + 1 :]
    )
    start = sum(lengths[: cut["index"]])
    return apart, (*[slice(None)] * (k + 1), slice(start, start + lengths[cut["index"]]))


@qx.architecture(params={"gate_up": "2*f d", "down": "d f"}, inputs={"x": "d"}, parts={"gate_up": "gate up"})
def fused(p, x):
    gate, up = jnp.split(p["gate_up"] @ x, 2)
    return p["down"] @ (jax.nn.silu(gate) * up)


def test_parts_of_fused_arrays_say_where_they_lie():
    sizes = {"f": 3, "d": 2}
    data = json.loads(json.dumps(qx.derive(fused, progress=lambda _: None).to_mapping()))
    rng = np.random.default_rng(0)
    whole = {"gate_up": rng.normal(size=(6, 2)), "down": rng.normal(size=(2, 3))}
    x = rng.normal(size=2)
    forward = lambda p: p["down"] @ ((z := p["gate_up"] @ x)[:3] / (1 + np.exp(-z[:3])) * z[3:])
    scale = next(family for family in data["families"] if family["group"]["kind"] == "Diagonal")
    (name,) = [n for n, what in scale["arrays"].items() if "part" in what]
    (cut,) = scale["arrays"][name]["part"]["cuts"]
    assert (name, scale["arrays"][name]["part"]["of"]) == ("gate_up.up", "gate_up")
    moved = {n: a.copy() for n, a in whole.items()}
    apart, place = room(moved["gate_up"], cut, sizes)
    parts = merged(scale, {name: apart[place].reshape(3, 2), "down": whole["down"]}, np.array([2.0, -0.5, 3.0]), sizes)
    apart[place] = parts[name].reshape(apart[place].shape)
    moved["down"] = parts["down"]
    assert not np.allclose(moved["gate_up"], whole["gate_up"])
    np.testing.assert_array_equal(moved["gate_up"][:3], whole["gate_up"][:3])
    np.testing.assert_allclose(forward(moved), forward(whole))


def test_what_a_reader_sees():
    data = qx.derive(models.swiglu, progress=lambda _: None).to_mapping()
    (scale, *_) = data["families"]
    assert scale["group"] == {"kind": "Diagonal", "axis": "h"}
    assert scale["element"] == {"axes": ["h"], "layout": "diagonal"}
    assert scale["arrays"]["Wu"] == {
        "axes": ["h", "x"],
        "multiply": [{"dimension": 0, "power": 1, "each": None}],
        "formula": "g @ Wu",
    }
    assert scale["arrays"]["Wd"]["multiply"] == [{"dimension": 1, "power": -1, "each": None}]

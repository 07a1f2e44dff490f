"""Declaring, sizing, initialising and calling models."""

import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp

import quotax as qx
from models import relu
from quotax.errors import ArchitectureError
from quotax.interpret.random_inputs import random_input


@qx.architecture(
    params={"block": {"W": "head*k x", "bias": "head*k"}, "gain": "x", "scale": "", "kernel": "c x 3 3"},
    inputs={"x": "t x", "m": qx.Mask("t")},
    init={"block/bias": 0.5},
)
def nested(p, x, m):
    z = (x * p["gain"]) @ p["block"]["W"].T + p["block"]["bias"]
    return {"sum": p["scale"] * m @ z, "kernel": jnp.sum(p["kernel"], (1, 2, 3))}


SIZES = {"head": 2, "k": 3, "x": 4, "c": 2}


def test_a_network_knows_its_sizes_and_shapes():
    net = nested.at(**SIZES)
    assert net.shapes == {"block/W": (6, 4), "block/bias": (6,), "gain": (4,), "scale": (), "kernel": (2, 4, 3, 3)}
    assert net.num_parameters == 24 + 6 + 4 + 1 + 72
    assert net.sizes == {"head": 2, "k": 3, "x": 4, "c": 2}
    assert "107 parameters" in repr(net)
    assert repr(relu) == "Architecture relu(W1: h x, b1: h, W2: y h; x: x)"


def test_init_follows_the_rules_and_their_overrides():
    params = nested.at(head=20, k=30, x=50, c=40).init(jax.random.key(0))
    assert np.all(params["gain"] == 1)
    assert params["scale"] == 1
    assert np.all(params["block"]["bias"] == 0.5)
    assert np.std(params["block"]["W"]) == pytest.approx(50**-0.5, rel=0.02)
    assert np.std(params["kernel"]) == pytest.approx((50 * 9) ** -0.5, rel=0.02)
    assert np.all(relu.at(h=3, x=2, y=1).init(jax.random.key(0))["b1"] == 0)


def test_names_decide_what_is_a_gain_and_what_a_bias():
    axes = dict.fromkeys(
        ("b", "b1", "bq", "b_up", "bias", "beta", "shift", "in_bias", "g", "g1", "gain", "gamma", "scale", "a", "u"),
        "h",
    )

    @qx.architecture(params=axes | {"B": "h r"}, inputs={"x": "h"})
    def model(p, x):
        return x

    params = model.at(h=2000, r=4).init(jax.random.key(1))
    kinds = {n: "zero" if np.all(v == 0) else "one" if np.all(v == 1) else "normal" for n, v in params.items()}
    assert [n for n, kind in kinds.items() if kind == "zero"] == list(axes)[:8]
    assert [n for n, kind in kinds.items() if kind == "one"] == list(axes)[8:13]
    assert [n for n, kind in kinds.items() if kind == "normal"] == ["a", "u", "B"]


def test_one_parameter_more_changes_no_other():
    def model(p, x):
        return x

    small = qx.architecture(params={"W": "h x"}, inputs={"x": "x"})(model).at(h=3, x=2)
    large = qx.architecture(params={"A": "h", "W": "h x"}, inputs={"x": "x"})(model).at(h=3, x=2)
    key = jax.random.key(5)
    assert np.array_equal(small.init(key)["W"], large.init(key)["W"])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64, None])
def test_init_has_the_dtype_asked_for(dtype):
    leaves = jax.tree.leaves(nested.at(**SIZES).init(jax.random.key(0), dtype))
    assert {leaf.dtype for leaf in leaves} == {jnp.dtype(dtype or jnp.float64)}


def test_a_network_is_a_pure_function():
    net = relu.at(h=3, x=2, y=2)
    params = net.init(jax.random.key(0))
    xs = jax.random.normal(jax.random.key(1), (5, 2))
    expected = np.maximum(xs @ params["W1"].T + params["b1"], 0) @ params["W2"].T
    np.testing.assert_allclose(jax.vmap(net, (None, 0))(params, xs), expected, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(net)(params, xs[0]), expected[0], rtol=1e-12)
    assert jax.grad(lambda p: net(p, xs[0]).sum())(params)["W1"].shape == (3, 2)


def test_input_axes_of_their_own_may_vary():
    net = nested.at(**SIZES)
    params = net.init(jax.random.key(0))
    for t in (1, 5):
        out = net(params, jnp.ones((t, 4)), jnp.ones(t))
        assert {k: v.shape for k, v in out.items()} == {"sum": (6,), "kernel": (2,)}


def test_the_function_may_ask_for_the_sizes():
    @qx.architecture(params={"W": "head*k x"}, inputs={"x": "x"})
    def heads(p, x, *, sizes):
        return (p["W"] @ x).reshape(sizes["head"], sizes["k"])

    net = heads.at(head=2, k=3, x=4)
    assert net(net.init(jax.random.key(0)), jnp.ones(4)).shape == (2, 3)
    assert heads.expression(head=2, k=1, x=1).shape == (2, 1)


def test_tracing_stays_at_the_sizes_asked_for():
    seen = []

    @qx.architecture(params={"W": "h x"}, inputs={"x": "x"})
    def model(p, x):
        seen.append(p["W"].shape)
        return p["W"] @ x

    net = model.at(h=100_000, x=100_000)
    assert seen == []
    assert net.num_parameters == 10**10
    model.expression(h=2, x=1)
    qx.verify(model, qx.Symmetry("s", qx.GL("h"), {"W": "g @ W"}))
    # sizes are symbols, or small
    assert all(not isinstance(size, int) or size < 100 for shape in seen for size in shape)


def test_expression_is_the_function():
    x = sp.Symbol("x[0]", real=True)
    w = [sp.Symbol(f"W1[{i},0]", real=True) for i in range(2)]
    b = [sp.Symbol(f"b1[{i}]", real=True) for i in range(2)]
    v = [sp.Symbol(f"W2[0,{i}]", real=True) for i in range(2)]
    expected = sum(v[i] * sp.Max(0, w[i] * x + b[i]) for i in range(2))
    expression = relu.expression(h=2, x=1, y=1)
    assert expression.shape == (1,)
    assert sp.simplify(expression[0] - expected) == 0
    assert relu.symbols(h=2, x=1, y=1)["W1"][1, 0] == w[1]


def test_expression_keeps_the_pytree_of_the_outputs():
    outputs = nested.expression(head=1, k=1, x=1, c=1, t=1)
    assert set(outputs) == {"sum", "kernel"}
    assert outputs["sum"].shape == (1,)

    @qx.architecture(params={"a": ""}, inputs={"x": ""})
    def scalar(p, x):
        return jnp.exp(p["a"] * x)

    assert scalar.expression() == sp.exp(sp.Symbol("a", real=True) * sp.Symbol("x", real=True))


def test_tokens_are_integers():
    @qx.architecture(params={"E": "V D"}, inputs={"t": qx.Tokens("T", below="V")})
    def embed(p, t):
        return p["E"][t].sum(0)

    net = embed.at(V=5, D=2)
    params = net.init(jax.random.key(0))
    np.testing.assert_allclose(net(params, jnp.array([4, 4])), 2 * params["E"][4])
    with pytest.raises(qx.ArchitectureError, match="t holds tokens and must be integers, got float64"):
        net(params, jnp.ones(3))
    with pytest.raises(qx.ArchitectureError, match="missing size of axis 'V'"):
        embed.at(D=2)


DECLARATIONS = {
    "no parameters": (
        {"params": {}, "inputs": {"x": "x"}},
        "params must be a non-empty dict",
    ),
    "axes that are no string": (
        {"params": {"W": 3}, "inputs": {"x": "x"}},
        r"params\['W'\] must be a string of blank-separated axes",
    ),
    "a bad axis": (
        {"params": {"W": "h x-1"}, "inputs": {"x": "x"}},
        "'x-1' is neither an axis name nor a positive size",
    ),
    "a size of zero": (
        {"params": {"W": "h 0"}, "inputs": {"x": "x"}},
        "'0' is neither an axis name nor a positive size",
    ),
    "a bad name": (
        {"params": {"W/1": "h"}, "inputs": {"x": "x"}},
        "the parameter name 'W/1' must be",
    ),
    "an empty branch": (
        {"params": {"block": {}}, "inputs": {"x": "x"}},
        "is an empty dict",
    ),
    "inputs that are no dict": (
        {"params": {"W": "h"}, "inputs": "x"},
        "inputs must be a dict",
    ),
    "tokens without a bound": (
        {"params": {"W": "h"}, "inputs": {"x": qx.Tokens("t", below="a b")}},
        "below must be one axis name or one size",
    ),
    "too many inputs": (
        {"params": {"W": "h"}, "inputs": {"x": "x", "y": "x"}},
        "cannot be called with the parameters and the 2 declared",
    ),
    "init of nothing": (
        {"params": {"W": "h"}, "inputs": {"x": "x"}, "init": {"V": 0.0}},
        "init names 'V', which is no parameter",
    ),
    "init that is no initialiser": (
        {"params": {"W": "h"}, "inputs": {"x": "x"}, "init": {"W": "zeros"}},
        "must be a number or a function",
    ),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_declarations_that_are_refused(case):
    keywords, message = DECLARATIONS[case]
    with pytest.raises(qx.ArchitectureError, match=message):
        qx.architecture(**keywords)(lambda p, x: x)


def test_inputs_in_another_order_than_the_function_takes_them():
    with pytest.raises(qx.ArchitectureError, match="inputs are declared as y, x but f takes x, y"):

        @qx.architecture(params={"W": "h"}, inputs={"y": "h", "x": "h"})
        def f(p, x, y):
            return x


def test_calls_that_are_refused():
    net = relu.at(h=3, x=2, y=1)
    params = net.init(jax.random.key(0))
    x = jnp.ones(2)
    for sizes, message in [
        ({"h": 3, "x": 2, "y": 1, "z": 1}, "unknown axis 'z'; the axes of relu are h, x, y"),
        ({"h": 3, "x": 2}, "missing size of axis 'y'; add y=..."),
        ({"h": 0, "x": 2, "y": 1}, "axis 'h' needs a positive integer size, got 0"),
        ({"h": 2.5, "x": 2, "y": 1}, "axis 'h' needs a positive integer size, got 2.5"),
    ]:
        with pytest.raises(qx.ArchitectureError, match=message):
            relu.at(**sizes)
    with pytest.raises(qx.ArchitectureError, match=r"`relu.expression`: missing size of axis 'h', 'y'"):
        relu.expression(x=2)
    for arguments, error, message in [
        ((params,), qx.ArchitectureError, r"takes 1 input\(s\), got 0"),
        ((params, jnp.ones((5, 2))), qx.ArchitectureError, "x has rank 2 .* use jax.vmap for a batch"),
        ((params, jnp.ones(4)), qx.ArchitectureError, r"x has shape \(4,\), but its axes 'x' at x=2 give \(2,\)"),
        (([1], x), qx.ParameterError, "params must be a dict of arrays"),
        (({**params, "V": x}, x), qx.ParameterError, "unknown V. It has W1, b1, W2"),
        (
            ({**params, "b1": x}, x),
            qx.ParameterError,
            r"params\['b1'\] has shape \(2,\), but its axes 'h' at h=3 give \(3,\)",
        ),
    ]:
        with pytest.raises(error, match=message):
            net(*arguments)


def test_an_initialiser_of_the_wrong_shape_is_refused():
    model = qx.architecture(params={"W": "h x"}, inputs={"x": "x"}, init={"W": lambda k, s, d: jnp.zeros(3, d)})(
        lambda p, x: x
    )
    with pytest.raises(qx.ArchitectureError, match=r"the initialiser of 'W' returned shape \(3,\)"):
        model.at(h=2, x=2).init(jax.random.key(0))


def test_a_primitive_without_a_row_is_refused_by_name_and_place():
    @qx.architecture(params={"W": "h h"}, inputs={"x": "h"})
    def model(p, x):
        return jnp.linalg.svd(p["W"])[1] + x

    with pytest.raises(qx.UnsupportedPrimitiveError, match=r"svd.*test_architecture.py") as caught:
        model.expression(h=2)
    assert "What to do" in str(caught.value)


def test_a_positive_input_is_drawn_positive_and_known_to_be():
    @qx.architecture(params={"w": "c"}, inputs={"v": qx.Positive("c")})
    def model(p, v):
        return jnp.sum(p["w"] * jnp.abs(v) + jnp.sqrt(v))

    assert "v: c (positive)" in repr(model)
    (v,) = model.trace({"c": 3}).inputs
    rng = np.random.default_rng(0)
    assert (random_input(v, {"c": 500}, rng, lambda shape: rng.normal(size=shape)) > 0).all()
    w0, v0 = sp.Symbol("w[0]", real=True), sp.Symbol("v[0]", positive=True)
    assert model.expression(c=1) == w0 * v0 + sp.sqrt(v0)


# --- relations between sizes

ATTENTION = {"Q": "head*k d", "K": "head*k d", "V": "head*k d", "O": "d head*k"}


def joined(p, x, *, sizes):
    """Attention whose heads join to the stream again: a model for d = head*k alone."""
    t, parts = x.shape[0], (x.shape[0], sizes["head"], sizes["k"])
    q, k, v = ((x @ p[name].T).reshape(parts) for name in "QKV")
    a = jax.nn.softmax(jnp.einsum("thk,shk->hts", q, k), axis=-1)
    return x + jnp.einsum("hts,shk->thk", a, v).reshape(t, sizes["d"]) @ p["O"].T


def test_a_relation_gives_sizes_on_either_side_and_refuses_others():
    net = qx.architecture(params=ATTENTION, inputs={"x": "t d"}, where="d = head*k, k even")(joined)
    assert net.at(head=3, k=2).sizes == net.at(d=6, head=3).sizes == {"head": 3, "k": 2, "d": 6}
    assert str(net).endswith("x: t d; d = head*k, k even)")
    for sizes, said in [
        ({"head": 3, "k": 2, "d": 7}, "d is head*k = 6, which head=3, k=2, d=7 does not fit"),
        ({"head": 3, "d": 7}, "d is head*k, which head=3, d=7 does not fit"),
        ({"head": 2, "k": 3}, "k is declared to be even, and k=3 is odd"),
        ({"head": 2}, "missing size of axis 'k', 'd'"),
    ]:
        with pytest.raises(ArchitectureError, match=re.escape(said)):
            net.at(**sizes)
    assert pickle.loads(pickle.dumps(net.relations)) == net.relations


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("q = head*k", "'q' is no axis; the axes are head, k, d, t"),
        ("d = head*x", "'x' is no axis"),
        ("d = head*k, d = 8", "gives 'd' a second size"),
        ("d = 2*k, k = 3*d", "gives 'd', 'k' a size by itself"),
        ("d = d*k", "gives 'd' a size by itself"),
        ("d == head*k", "is no relation"),
        ("d = k + 1", "is neither an axis nor a positive size"),
        ("d = 3, d even", "d is declared to be even, and d=3 is odd"),
        (["d = head*k"], "must be a text"),
    ],
)
def test_relations_that_are_none_or_contradict_are_refused(where, said):
    with pytest.raises(ArchitectureError, match=re.escape(said)):
        qx.architecture(params=ATTENTION, inputs={"x": "t d"}, where=where)(joined)


def test_proofs_and_derivations_are_of_the_sizes_that_fit():
    net = qx.architecture(params=ATTENTION, inputs={"x": "t d"}, where="d = head*k")(joined)
    turn = {"V[head,k,d]": "g[head,k,l] V[head,l,d]", "O[d,head,k]": "O[d,head,l] inv(g)[head,l,k]"}
    certificate = qx.verify(net, qx.Symmetry("turn", qx.GL("k", each="head"), turn))
    assert (certificate.status, certificate.scope) == ("proved", "every width with d = head*k")
    half = {"V[head,k,d]": "g[head,k,l] V[head,l,d]"}
    assert qx.verify(net, qx.Symmetry("half", qx.GL("k", each="head"), half)).status == "refuted"
    with pytest.raises(ArchitectureError, match="does not fit"):
        qx.verify(net, qx.Symmetry("turn", qx.GL("k", each="head"), turn), sizes={"d": 5, "head": 2, "k": 3, "t": 2})


@pytest.mark.slow
def test_what_is_derived_is_of_the_sizes_that_fit():
    net = qx.architecture(params=ATTENTION, inputs={"x": "t d"}, where="d = head*k")(joined)
    found = qx.derive(net)
    assert [str(s.group) for s in found.families] == ["GL(k)^head"] * 2
    assert str(found.orbit_dim) == "2*head*k**2"
    for sizes in ({"head": 2, "k": 3}, {"d": 8, "k": 2}):
        assert found.audit(**sizes).surplus == 0
    with pytest.raises(ArchitectureError, match="d is head\\*k = 6, which head=2, k=3, d=7 does not fit"):
        found.audit(head=2, k=3, d=7)


def test_a_size_that_is_a_number_is_in_the_scope():
    net = qx.architecture(params={"W": "h x", "V": "y h"}, inputs={"x": "x"}, where="h = 12, x = 5*y")(
        lambda p, x: p["V"] @ jax.nn.relu(p["W"] @ x)
    )
    assert net.at(y=2).sizes == {"h": 12, "x": 10, "y": 2}
    scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W": "g @ W", "V": "V @ inv(g)"})
    assert qx.verify(net, scale).scope == "every width of x, y at h=12 with x = 5*y"
    assert [str(one.group) for one in qx.derive(net)] == ["R+^h"]


def test_a_relation_is_a_relation_of_inputs_too():
    net = qx.architecture(params={"W": "y x"}, inputs={"a": "t x", "b": "s x"}, where="s = 2*t")(
        lambda p, a, b: (a @ p["W"].T).sum() + (b @ p["W"].T).sum()
    ).at(y=1, x=2)
    params = {"W": jnp.ones((1, 2))}
    assert net(params, jnp.ones((2, 2)), jnp.ones((4, 2))) == 12
    with pytest.raises(ArchitectureError, match="s is 2\\*t = 4, which t=2, s=5 does not fit"):
        net(params, jnp.ones((2, 2)), jnp.ones((5, 2)))

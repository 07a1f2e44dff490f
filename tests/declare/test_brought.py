"""Functions that were not declared: what is inferred, what is proved of them, and what is refused."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quotax as qx
from quotax.declare.brought.factories import fitted, value
from quotax.declare.brought.leaves import Leaves, is_floating

KEY = jax.random.key(0)


class Layer(NamedTuple):
    W: Any
    b: Any


def layers(width, inner=3, outer=2):
    draw = lambda k, *shape: jax.random.normal(jax.random.fold_in(KEY, k), shape)
    return [Layer(draw(0, width, inner), draw(1, width)), {"W": draw(2, outer, width), "steps": 7}]


def net(params, x):
    return params[1]["W"] @ jax.nn.relu(params[0].W @ x + params[0].b)


SCALE = {"a0/W": "g @ a0/W", "a0/b": "g @ a0/b", "a1/W": "a1/W @ inv(g)"}


# --- trees


leaf = st.sampled_from(["array", "integers", "number", "none", "function"])
LEAVES = {
    "array": lambda: jnp.ones((2, 3)), "integers": lambda: jnp.arange(3), "number": lambda: 0.5, "none": lambda: None,
    "function": lambda: jnp.sin,
}  # fmt: skip
trees = st.recursive(
    leaf.map(lambda kind: LEAVES[kind]()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from(["a", "b", "a/b", "1"]), inner, max_size=3),
        st.builds(Layer, inner, inner),
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(trees)
def test_named_arrays_make_the_tree_that_they_were_in(tree):
    found = Leaves.of(tree, is_floating)
    arrays = found.named(tree)
    assert all(is_floating(array) for array in arrays.values())
    doubled = {name: 2 * array for name, array in arrays.items()}
    again = found.tree(doubled, like=tree)
    flat = lambda t: jax.tree.flatten(t, is_leaf=lambda leaf: leaf is None)
    (before, structure), (after, same) = flat(tree), flat(again)
    assert structure == same
    for old, new in zip(before, after, strict=True):
        assert np.array_equal(new, 2 * old) if is_floating(old) else new is old
    bare = found.tree(doubled)
    assert found.named(bare).keys() == doubled.keys() == found.named(again).keys()
    assert sum(leaf is not None for leaf in flat(bare)[0]) == sum(map(is_floating, before))


def test_the_same_array_twice_is_one_parameter():
    E = jnp.ones((5, 3))
    arch = qx.from_function(lambda p, t: p["out"] @ p["in"][t], {"in": E, "out": E}, jnp.asarray(2))
    assert [spec.name for spec in arch.params] == ["in"]
    assert arch.inputs[0].kind == "tokens"
    assert arch.inputs[0].below == arch.params[0].axes[0][0]
    found = qx.derive(arch)
    assert [(str(s.group), s.action) for s in found] == [("O(h0)", {"in": "in @ g.T"})]
    space = qx.quotient(arch, found)
    moved = space.act({"in": E, "out": E}, space.random_element(KEY))
    assert moved["in"] is moved["out"]


# --- what is inferred, proved, moved


def test_a_tree_of_lists_and_tuples_is_moved_without_a_change_of_its_outputs():
    params, x = layers(5), jax.random.normal(KEY, (3,))
    arch = qx.from_function(net, params, x)
    found = qx.derive(arch)
    assert [(s.name, c.scope) for s, c in found.proved] == [("scale h0", "every width")]
    assert found.audit().complete
    assert found.audit().parameters == 30
    space = qx.quotient(arch, found, metric="invariant")
    moved = space.act(params, space.random_element(KEY))
    assert isinstance(moved[0], Layer)
    assert moved[1]["steps"] == 7
    np.testing.assert_allclose(net(moved, x), net(params, x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(arch(space.canonical(params).params, x), net(params, x), rtol=1e-5, atol=1e-5)
    gradient = jax.grad(lambda p: jnp.sum(arch(p, x) ** 2))(arch.parameters)
    flat = space.horizontal(params, gradient)
    assert jax.tree.structure(flat) == jax.tree.structure(arch.parameters)
    assert abs(space.inner(params, flat, space.vertical(params, gradient))) < 1e-6


def test_broken_twins_are_refuted():
    arch = qx.from_function(net, layers(5), jnp.ones(3))
    assert qx.verify(arch, qx.Symmetry("right", qx.PositiveDiagonal("h0"), SCALE))
    for wrong in (SCALE | {"a1/W": "a1/W @ g"}, {k: v for k, v in SCALE.items() if k != "a0/b"}):
        assert qx.verify(arch, qx.Symmetry("wrong", qx.PositiveDiagonal("h0"), wrong)).status == "refuted"
    assert qx.verify(arch, qx.Symmetry("signs", qx.Diagonal("h0"), SCALE)).status == "refuted"


def test_a_factory_names_the_axes_and_others_have_to_make_the_same_function():
    params, make = layers(5), lambda width: layers(width)
    arch = qx.from_function(net, params, jnp.ones(3), make=make)
    assert arch.own == {"width": 5, "x": 3, "y": 2}
    assert arch.params[0].axes_text == "width x"
    assert qx.derive(arch).certificates[0].scope == "every width"
    with pytest.raises(qx.ArchitectureError, match="no product"):
        qx.from_function(net, params, jnp.ones(3), make=lambda a, b: layers(a + b))
    with pytest.raises(qx.ArchitectureError, match="has shape"):
        qx.from_function(net, params, jnp.ones(3), make=lambda width: layers(width, outer=4))
    with pytest.raises(qx.ArchitectureError, match="raised"):
        qx.from_function(net, params, jnp.ones(3), make=lambda width: layers(width / 2))


class Scaled(NamedTuple):
    W: Any
    V: Any
    factor: Any


def test_a_factory_whose_numbers_differ_from_those_of_the_model_is_refused():
    make = lambda factor: lambda h: Scaled(jnp.ones((h, 2)), jnp.ones((1, h)), np.full(2, factor, np.int32))
    run = lambda p, x: p.V @ jnp.tanh(p.W @ (p.factor * x))
    assert qx.from_function(run, make(2)(4), jnp.ones(2), make=make(2)).own["h"] == 4
    with pytest.raises(qx.ArchitectureError, match="other numbers"):
        qx.from_function(run, make(2)(4), jnp.ones(2), make=make(3))


def test_what_holds_at_every_size_but_that_of_the_parameters_is_not_proved():
    def sometimes(p, x):
        hidden = jax.nn.relu(p["W"] @ x)
        return p["V"] @ (jnp.tanh(hidden) if p["W"].shape[0] == 5 else hidden)

    action = qx.Symmetry("scale", qx.PositiveDiagonal("h0"), {"W": "g @ W", "V": "V @ inv(g)"})
    at = lambda h: qx.from_function(sometimes, {"W": jnp.ones((h, 3)), "V": jnp.ones((2, h))}, jnp.ones(3))
    assert not qx.verify(at(5), action)
    assert not any("h0" in s.name for s in qx.derive(at(5)).families)
    assert qx.verify(at(4), action)


def test_an_axis_that_the_function_holds_keeps_its_size_in_every_scope():
    def fixed(p, x):
        return p["V"] @ jax.nn.relu(p["W"] @ x + jnp.zeros(5))

    arch = qx.from_function(fixed, {"W": jnp.ones((5, 3)), "V": jnp.ones((2, 5))}, jnp.ones(3))
    assert arch.fixed == {"h0": 5}
    found = qx.derive(arch)
    assert [c.scope for c in found.certificates] == ["every width of y, x at h0=5"]
    assert found.certificates[0].recheck().scope == found.certificates[0].scope
    assert found.audit().complete
    with pytest.raises(qx.ArchitectureError, match=r"h0.*is 5.*make="):
        arch.at(h0=6)


def test_heads_are_not_mistaken_for_any_other_way_to_cut_a_dimension():
    def heads(p, x):
        cut = (x @ p["Q"]).reshape(x.shape[0], 2, -1)
        return jnp.einsum("tnk,nky->ty", cut, p["O"].reshape(2, -1, p["O"].shape[-1]))

    arch = qx.from_function(heads, {"Q": jnp.ones((3, 8)), "O": jnp.ones((8, 4))}, jnp.ones((5, 3)))
    assert arch.params[1].axes_text == "x1 h0*h1"
    assert arch.fixed == {"h0": 2}
    found = qx.derive(arch)
    assert str(found.families[0].group) == "GL(h1)^h0"
    assert all(c.scope.endswith("at h0=2") for c in found.certificates)


# --- inputs


def test_states_keys_and_masks_among_the_inputs():
    def step(p, state, x, key, mask):
        h, c = state
        noise = jax.random.normal(key, x.shape)  # not used
        h = jnp.tanh(p["W"] @ x + p["U"] @ h)
        return p["V"] @ (h + mask * c), noise.shape[0]

    params = {"W": jnp.ones((4, 3)), "U": jnp.ones((4, 4)), "V": jnp.ones((2, 4))}
    state = (jnp.zeros(4), qx.Positive(jnp.ones(4)))
    arch = qx.from_function(step, params, state, jnp.ones(3), KEY, jnp.ones(4, bool))
    assert [(s.name, s.kind) for s in arch.inputs] == [
        ("state_0", "real"), ("state_1", "positive"), ("x", "real"), ("mask", "mask"),
    ]  # fmt: skip
    assert {s.name: s.axes_text for s in arch.params} == {
        "U": "state_1 state_0", "V": "y state_1", "W": "state_1 x",
    }  # fmt: skip
    assert arch.renamed(x="inputs").inputs[2].axes_text == "inputs"


@pytest.mark.slow
def test_what_a_fixed_key_draws_is_a_constant():
    """In a type of its own, and in the default type, which draws another number in float64: the user's is read."""

    def net(p, x, key, dtype):
        return p["V"] @ jax.nn.relu(p["W"] @ x) + p["s"] * jax.random.normal(key, (2,), dtype)

    params = {"W": jnp.ones((5, 3)), "V": jnp.ones((2, 5)), "s": jnp.ones(2)}
    brought = lambda dtype: qx.from_function(functools.partial(net, dtype=dtype), params, jnp.ones(3), KEY)
    for dtype, double in ((jnp.float32, True), (float, False)):
        with jax.enable_x64(double):
            found = qx.derive(brought(dtype), progress=lambda line: None)
            assert {str(family.group) for family in found.families} == {"R+^h0"}


def test_one_argument_may_be_a_dict_or_a_tuple():
    params = {"W": jnp.ones((2, 3)), "U": jnp.ones((2, 4))}
    x, s = jnp.ones(3), jnp.ones(4)
    dicts = qx.from_function(lambda p, batch: p["W"] @ batch["x"] + p["U"] @ batch["s"], params, {"x": x, "s": s})
    pairs = qx.from_function(lambda p, pair: p["W"] @ pair[0] + p["U"] @ pair[1], params, (x, s))
    two = qx.from_function(lambda p, x, s: p["W"] @ x + p["U"] @ s, params, {"s": s, "x": x})
    assert [[i.name for i in arch.inputs] for arch in (dicts, pairs, two)] == [
        ["batch_s", "batch_x"], ["pair_0", "pair_1"], ["x", "s"],
    ]  # fmt: skip


def test_bad_input_is_refused_in_the_callers_words():
    params = layers(5)
    cases = {
        "no floating array": lambda: qx.from_function(net, {"n": 3}, jnp.ones(3)),
        "NaN": lambda: qx.from_function(net, jax.tree.map(lambda a: a * jnp.nan, params), jnp.ones(3)),
        "callable": lambda: qx.from_function(3, params, jnp.ones(3)),
        "below=": lambda: qx.from_function(lambda p, t: p[0].W @ (1.0 * t), params, jnp.arange(3)),
        "was traced": lambda: qx.from_function(net, params, jnp.ones(4)),
        "names its sizes|name its sizes": lambda: qx.from_function(net, params, jnp.ones(3), make=lambda **k: params),
    }
    for message, call in cases.items():
        with pytest.raises(qx.QuotaxError, match=message):
            call()
    arch = qx.from_function(net, params, jnp.ones(3))
    with pytest.raises(qx.ArchitectureError, match="unknown axis"):
        arch.renamed(width="h")
    with pytest.raises(qx.ArchitectureError, match="no other axis"):
        arch.renamed(h0="x")
    with pytest.raises(qx.ParameterError, match="missing 0/b"):
        arch([{"W": jnp.ones((5, 3))}, {"W": jnp.ones((2, 5)), "steps": 7}], jnp.ones(3))


# --- factories


monomials = st.lists(
    st.tuples(st.integers(1, 6), st.lists(st.sampled_from("abc"), max_size=3).map(sorted).map(tuple)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(monomials, st.fixed_dictionaries({n: st.integers(1, 9) for n in "abc"}))
def test_products_of_keywords_are_found(row, own):
    row = [*row, (1, ("a",)), (1, ("b",)), (2, ("c",))]
    shapes = lambda sizes: {"W": tuple(value(product, sizes) for product in row)}
    fit = fitted("from_function", list("abc"), {}, shapes, shapes(own))
    assert fit.products["W"] == tuple(row)
    assert fit.own == own
    assert not fit.counts


# --- dimensions that are cut, and names that arrays have


def axes_of(arch):
    return {spec.name: spec.axes for spec in arch._axes.params}


def test_halves_that_are_put_together_again_are_one_axis():
    """A rotary embedding cuts its axis in two and joins it; gated units are two of a size."""
    turned = lambda z: jnp.concatenate([-z[..., 2:], z[..., :2]], -1)
    rotary = lambda p, x: (lambda q: q * 2.0 + turned(q))(x @ p["Q"]) @ (x @ p["K"]).T
    arch = qx.from_function(rotary, {"Q": jnp.ones((3, 4)), "K": jnp.ones((3, 4))}, jnp.ones((5, 3)))
    (x, k), (_, other) = axes_of(arch)["Q"], axes_of(arch)["K"]
    assert (len(x), len(k), k) == (1, 1, other)
    coupled = lambda q: jnp.concatenate([q[..., :2], q[..., 2:] * jnp.tanh(q[..., :2])], -1) + jnp.ones(4)
    flow = qx.from_function(lambda p, x: coupled(x @ p["Q"]), {"Q": jnp.ones((3, 4))}, jnp.ones((5, 3)))
    assert axes_of(flow)["Q"][1][0] == 2
    gated = lambda p, x: (lambda q: q[..., 2:] * jnp.tanh(q[..., :2]))(x @ p["Q"])
    assert axes_of(qx.from_function(gated, {"Q": jnp.ones((3, 4))}, jnp.ones((5, 3))))["Q"][1][0] == 2


def test_pairs_that_are_turned_and_stacked_again_are_one_axis():
    """As in a rotary embedding of neighbours, with reals or complex numbers; of what a maximum mixes they are two."""
    wave = jnp.cos(jnp.arange(10.0).reshape(5, 1, 2))

    def reals(a, b):
        return a * wave - b * jnp.sin(wave), b * wave + a * jnp.sin(wave)

    def complexes(a, b):
        z = jax.lax.complex(a, b) * jnp.exp(1j * wave)
        return z.real, z.imag

    def axes_with(mixed):
        def scores(p, x):
            q, k = ((x @ p[name]).reshape(5, 3, 2, 2) for name in "QK")
            q, k = (jnp.stack(mixed(z[..., 0], z[..., 1]), -1).reshape(5, 3, 4) for z in (q, k))
            return jnp.einsum("thk,shk->hts", q, k)

        return axes_of(qx.from_function(scores, {"Q": jnp.ones((6, 12)), "K": jnp.ones((6, 12))}, jnp.ones((5, 6))))

    for turned in (reals, complexes):
        axes = axes_with(turned)
        assert axes["Q"] == axes["K"]
        assert len(axes["Q"][1]) == 2
    sorted_pairs = axes_with(lambda a, b: (jnp.maximum(a, b), jnp.minimum(a, b)))
    beside = axes_with(lambda a, b: (2 * a, b + 1))
    assert sorted_pairs["Q"][1][-1] == beside["Q"][1][-1] == 2


@pytest.mark.parametrize("unpacked", [lambda z: z, lambda z: (z[0], z[1], z[2])])
def test_what_is_unpacked_are_parts(unpacked):
    def attend(p, x):
        q, k, v = unpacked((x @ p["W"]).reshape(5, 3, 2, 4).transpose(1, 0, 2, 3))
        return jnp.einsum("thk,shk,shv->thv", q, k, v)

    arch = qx.from_function(attend, {"W": jnp.ones((6, 24))}, jnp.ones((5, 6)))
    assert axes_of(arch)["W"][1][0] == 3
    assert len(axes_of(arch)["W"][1]) == 3


@jax.tree_util.register_pytree_with_keys_class
class Named:
    """An array whose last dimensions have names, as penzai's have."""

    def __init__(self, data_array, named_axes):
        self.data_array, self.named_axes = data_array, dict(named_axes)

    def tree_flatten_with_keys(self):
        return [(jax.tree_util.GetAttrKey("data_array"), self.data_array)], tuple(self.named_axes.items())

    @classmethod
    def tree_unflatten(cls, axes, leaves):
        return cls(leaves[0], axes)


def test_axes_are_called_what_their_arrays_call_them():
    shown = lambda *axes: Named(jnp.ones([n for _, n in axes]), axes)
    params = {"up": shown(("features", 3), ("hidden", 4)), "down": shown(("hidden", 4), ("classes", 2))}
    run = lambda p, x: jnp.tanh(x @ p["up"].data_array) @ p["down"].data_array
    arch = qx.from_function(run, params, jnp.ones((5, 3)))
    assert axes_of(arch) == {"up": (("features",), ("hidden",)), "down": (("hidden",), ("classes",))}
    quarrel = {"up": shown(("a", 3), ("b", 4)), "down": shown(("c", 4), ("a", 2))}
    names = set(qx.from_function(run, quarrel, jnp.ones((5, 3))).axis_names)
    assert not names & {"a", "b", "c"}


def test_an_object_that_holds_a_linen_module_and_its_parameters():
    nn = pytest.importorskip("flax.linen")

    class Held(NamedTuple):
        module: Any
        params: Any

    module, x = nn.Dense(2), jnp.ones((5, 3))
    variables = module.init(KEY, x)
    whole = axes_of(qx.from_flax(module, variables, x))
    assert axes_of(qx.from_flax(Held(module, variables["params"]), x)) == whole
    assert axes_of(qx.from_flax(Held(module, variables), x)) == whole


def test_a_size_that_an_assertion_without_words_refuses_is_held():
    def grouped(p, x):
        if len(p["K"]) != 4:
            raise AssertionError
        return p["A"] @ jax.nn.relu(p["K"] @ x)

    net = qx.from_function(grouped, {"K": jnp.ones((4, 3)), "A": jnp.ones((2, 4))}, jnp.ones(3))
    assert "h0: at another size it cannot be traced (AssertionError)" in net.describe()
    assert {str(s.group) for s in qx.derive(net, progress=lambda line: None)} == {"R+^h0"}


def test_a_tree_of_truth_values_may_be_callable():
    """As an Equinox module is, with the truth values for its leaves."""

    @jax.tree_util.register_pytree_node_class
    class Layer:
        def __init__(self, weight, bias):
            self.weight, self.bias = weight, bias

        def __call__(self, x):
            return self.weight @ x + self.bias

        def tree_flatten(self):
            return (self.weight, self.bias), None

        @classmethod
        def tree_unflatten(cls, _, leaves):
            return cls(*leaves)

    layer = Layer(jnp.ones((2, 3)), jnp.ones(2))
    net = qx.from_function(lambda p, x: p(x), layer, jnp.ones(3), trainable=Layer(True, False))
    assert net.num_parameters == 6


@pytest.mark.slow
def test_channels_of_grouped_convolutions_are_one_axis():
    """Two groups of two channels each, and then each channel alone: what a channel makes is what is read of it."""
    r = lambda *shape: jax.random.normal(jax.random.key(sum(shape)), shape)
    along = ("NWC", "WIO", "NWC")

    def model(p, x):
        x = jax.lax.conv_general_dilated(x[None], p["K"], (1,), "SAME", dimension_numbers=along, feature_group_count=2)
        x = jax.nn.relu(x + p["k"])
        x = jax.lax.conv_general_dilated(x, p["L"], (1,), "SAME", dimension_numbers=along, feature_group_count=4)
        return jax.nn.relu(x[0] + p["l"]).mean(0) @ p["A"]

    params = {"K": r(3, 1, 4), "k": r(4), "L": r(3, 1, 4), "l": r(4), "A": r(4, 2)}
    net = qx.from_function(model, params, r(5, 2))
    found = qx.derive(net, progress=lambda line: None)
    assert [s.group.dimension(net.own) for s in found] == [4, 4]
    assert found.audit().complete


@pytest.mark.slow
def test_a_function_that_runs_in_single_precision_alone_is_read_by_its_steps_there(derived):
    def recurrent(p, xs):
        """A cell whose state begins in a type of its own, as those of linen do, and a constant of that type."""

        def step(h, x):
            drawn = jax.random.uniform(jax.random.key(1), (), jnp.float32)
            return jnp.tanh(p["U"] @ h + p["W"] @ x) * jnp.float32(1e-5) + 0 * drawn, None

        return p["V"] @ jax.lax.scan(step, jnp.zeros(3, jnp.float32), xs)[0]

    params = {"U": jnp.ones((3, 3)), "W": jnp.ones((3, 2)), "V": jnp.ones((2, 3))}
    params = jax.tree.map(lambda w: w.astype(jnp.float32), params)
    model = qx.from_function(recurrent, params, jnp.ones((4, 2), jnp.float32))
    traced = str(model.trace({**model.own}).jaxpr)
    assert "1e-05" in traced
    assert "f32[3]" not in traced  # the bits that were drawn are those of single precision
    permute = {"U": "g @ U @ g.T", "W": "g @ W", "V": "V @ g.T"}
    assert qx.verify(model, qx.Symmetry("units", qx.Permutation("h0"), permute))
    assert qx.verify(model, qx.Symmetry("half", qx.Permutation("h0"), permute | {"W": "W"})).status == "refuted"
    with pytest.raises(qx.ArchitectureError, match="raised TypeError while it was traced"):
        qx.from_function(lambda p, x: jax.lax.scan(lambda h, x: ((h, h), None), x, x)[0] * p, jnp.ones(2), jnp.ones(2))


def test_tokens_that_are_looked_up_one_by_one_are_below_the_length_of_their_table():
    """As an Equinox embedding under `vmap` does it: a gather that begins at the token, and at zero."""
    looked = lambda p, t: jnp.tanh(jax.vmap(lambda each: p["E"][each])(t)) @ p["V"]
    model = qx.from_function(looked, {"E": jnp.ones((7, 4)), "V": jnp.ones((4, 2))}, jnp.array([1, 6]))
    assert "t: t (tokens below h0)" in model.describe()


# --- axes that are sums


@pytest.mark.slow
def test_positions_that_begin_at_the_third_row_are_fewer_than_the_rows():
    """OPT reads row `i + 2`: at the last two positions there is nothing, and JAX fills in NaN."""
    params = {"P": jnp.ones((8, 3)), "U": jnp.ones((4, 3))}
    positions = jnp.zeros(5, jnp.int32)
    model = qx.from_function(lambda p, at: jnp.take(p["P"], at + 2, axis=0) @ p["U"].T, params, (positions,))
    (spec,) = model.inputs
    assert spec.below == 6
    (axis,) = next(array for array in model.params if array.name == "U").axes[1]
    turn = qx.Symmetry("turn", qx.GL(axis), {"P": "P @ g.T", "U": "U @ inv(g)"})
    assert qx.verify(model, turn)


def test_what_is_joined_is_a_sum_of_axes_and_what_is_cut_unequally_too(derived):
    def dense(p, x):
        """Every layer reads all before it."""
        a = jax.nn.relu(p["A"] @ x)
        b = jax.nn.relu(p["B"] @ jnp.concatenate([x, a]))
        return p["C"] @ jnp.concatenate([jnp.concatenate([x, a]), b])

    params = {"A": jnp.ones((4, 2)), "B": jnp.ones((3, 6)), "C": jnp.ones((2, 9))}
    model = qx.from_function(dense, params, jnp.ones(2)).renamed(h0="a", h1="b")
    shown = model.describe()
    assert "B: b x+a" in shown
    assert "C: y x+a+b" in shown
    assert "no other" not in shown
    found = derived(model)
    assert {str(s.group): found.certificate(s.name).scope for s in found} == {
        "R+^a": "every width",
        "R+^b": "every width",
    }
    params = jax.tree.map(lambda w: w + jax.random.normal(KEY, w.shape), params)
    space = qx.quotient(model, found.families, metric="invariant")
    moved = space.act(params, space.random_element(KEY))
    np.testing.assert_allclose(dense(moved, jnp.arange(2.0)), dense(params, jnp.arange(2.0)), rtol=1e-9)


def test_sums_are_those_of_axes_that_there_are():
    size = 6

    def cut(p, x):
        """The second part of a fused array is read by a matrix; where it is cut is a number."""
        first, second = jnp.split(p["W"] @ x, [2])
        return first.sum() * jnp.tanh(p["V"] @ second)

    def positions(p, x):
        """A class token before the sequence, and a table of positions for both."""
        return jnp.tanh(jnp.concatenate([p["token"], x @ p["W"]]) + p["table"]) @ p["head"]

    def turned(p, x):
        """Halves that change places, beside tables that are put together: an axis and no sum."""
        q, table = x @ p["W"], jnp.concatenate([jnp.arange(2.0), jnp.arange(2.0)])
        return q * jnp.cos(table) + jnp.concatenate([-q[..., 2:], q[..., :2]], -1) * jnp.sin(table)

    shown = qx.from_function(cut, {"W": jnp.ones((2 + size, 2)), "V": jnp.ones((4, size))}, jnp.ones(2)).describe()
    assert "W: h1+h0 x" in shown
    assert "V: y h0" in shown
    assert "h1: at another size it cannot be traced" in shown
    params = {
        "token": jnp.ones((1, 4)),
        "W": jnp.ones((3, 4)),
        "table": jnp.ones((1 + size, 4)),
        "head": jnp.ones((4, 2)),
    }
    assert "table: 1+x0 h0" in qx.from_function(positions, params, jnp.ones((size, 3))).describe()
    assert "W: x y\n" in qx.from_function(turned, {"W": jnp.ones((3, 4))}, jnp.ones(3)).describe()


def test_numpy_arrays_of_a_function_stay_in_its_precision():
    """JAX keeps what it made of an array: one that was read in double precision would break the user's next call."""
    mask, other = np.tri(3, 4), np.tri(4, 3)
    inner = jax.jit(lambda w: w * other)
    with jax.enable_x64(False):
        params = {"V": jnp.ones((3, 4)), "W": jnp.ones((4, 3))}
        net = lambda p, x: (p["V"] * mask) @ (inner(p["W"]) @ x)
        arch = qx.from_function(net, params, jnp.ones(3))
        assert arch(params, jnp.ones(3)).dtype == net(params, jnp.ones(3)).dtype == jnp.float32


@pytest.mark.slow
@pytest.mark.parametrize("way", ["one hot", "gather"])
def test_experts_that_a_gate_chooses_are_one_axis(way):
    """By a number that the trace does not show, or by the places that stand in integers."""

    def mixture(p, x):
        weights, places = jax.lax.top_k(x @ p["gate"], 2)
        weights = jax.nn.softmax(weights)
        if way == "gather":
            return jnp.einsum("tk,td,tkde->te", weights, x, p["experts"][places])
        chosen = jax.nn.one_hot(places, p["gate"].shape[1])
        return jnp.einsum("tk,tkn,td,nde->te", weights, chosen, x, p["experts"])

    params = {"gate": np.ones((2, 3)), "experts": np.ones((3, 2, 4))}
    arch = qx.from_function(mixture, params, np.ones((5, 2)))
    axes = {a.name: a.axes_text.split() for a in arch.arrays}
    assert axes["gate"][1] == axes["experts"][0]
    assert not arch.fixed


def joined(p, x):
    return jnp.tanh(jnp.concatenate([x, x @ p["A"]]) @ p["B"])


def made(d, h):
    """By NumPy and by a loop: sizes have to be numbers."""
    return {"A": np.stack([np.ones(d) for _ in range(h)], 1), "B": np.random.default_rng(0).normal(size=(d + h, 2))}


def test_a_factory_says_sums_that_the_model_puts_together():
    arch = qx.from_function(joined, made(3, 4), np.ones(3), make=made)
    assert [a.axes_text for a in arch.arrays] == ["d h", "d+h y"]
    linear = {"A": "A @ inv(g)", "B.1": "g @ B.1"}
    assert [p.name for p in arch.params] == ["A", "B.0", "B.1"]
    assert qx.verify(arch, qx.Symmetry("linear", qx.GL("h"), linear)).scope == "every width"
    token = lambda p, x: jnp.concatenate([p["c"][None], x @ p["E"]]) + p["T"]
    of = lambda n, d: {"c": np.ones(d), "E": np.ones((2, d)), "T": np.ones((1 + n, d))}
    axes = {a.name: a.axes_text for a in qx.from_function(token, of(4, 3), np.ones((4, 2)), make=of).arrays}
    assert axes["T"] == "1+n d"


@pytest.mark.parametrize("size", [lambda d, h: 2 * d + h, lambda d, h: d + h + 1 - d // 3, lambda d, h: 3 * h // 2 + 1])
def test_other_sums_of_a_factory_are_refused(size):
    twin = lambda d, h: {"A": np.ones((d, h)), "B": np.ones((size(d, h), 2))}
    with pytest.raises(
        qx.ArchitectureError, match=r"no sum of what the model puts together|gives it|computes something"
    ):
        qx.from_function(joined, made(3, 4), np.ones(3), make=twin)

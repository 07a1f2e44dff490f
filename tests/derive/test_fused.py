"""Symmetries of parts of arrays: found, proved, refuted where a part is another's, and stated of whole arrays too."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from derive.fused import ATTENTION, FUSED, GPT2, LAYOUTS, fused_lstm, gate_up, gpt2, gru

W, BIAS, OUT = "c_attn/w", "c_attn/b", "c_proj/w"

QK = {
    f"{W}.q[d,head,k]": f"g[head,k,l] {W}.q[d,head,l]",
    f"{BIAS}.q[head,k]": f"g[head,k,l] {BIAS}.q[head,l]",
    f"{W}.k[d,head,k]": f"inv(g)[head,l,k] {W}.k[d,head,l]",
    f"{BIAS}.k[head,k]": f"inv(g)[head,l,k] {BIAS}.k[head,l]",
}
VO = {
    f"{W}.v[d,head,k]": f"g[head,k,l] {W}.v[d,head,l]",
    f"{BIAS}.v[head,k]": f"g[head,k,l] {BIAS}.v[head,l]",
    f"{OUT}[head,k,d]": f"inv(g)[head,l,k] {OUT}[head,l,d]",
}
HEADS = {
    W: f"{W} @ g.T",
    BIAS: f"g @ {BIAS}",
    OUT: f"g @ {OUT}",
}

GROUP = qx.GL("k", each="head")


def test_queries_against_keys_and_values_against_outputs():
    for action in (QK, VO):
        symmetry = qx.Symmetry("turn", GROUP, action)
        assert qx.verify(gpt2, symmetry).scope == "every width"
        assert f"{W}." in str(symmetry)
    assert qx.verify(gpt2, qx.Symmetry("heads", qx.Permutation("head"), HEADS)).scope == "every width"


def shifted(action):
    """The same of the part that comes after."""
    after = {".q": ".k", ".k": ".v", ".v": ".q"}
    turn = lambda text: re.sub(r"\.[qkv]", lambda m: after[m[0]], text)
    return {turn(key): turn(text) for key, text in action.items()}


TWINS = {
    "the same on q and k": (GROUP, {k: t.replace("inv(g)[head,l,k]", "g[head,k,l]") for k, t in QK.items()}),
    "inverse without transpose": (GROUP, {k: t.replace("inv(g)[head,l,k]", "inv(g)[head,k,l]") for k, t in QK.items()}),
    "one part later": (GROUP, shifted(QK)),
    "two parts later": (GROUP, shifted(shifted(QK))),
    "values later": (GROUP, shifted(VO)),
    "without the output": (GROUP, {k: t for k, t in VO.items() if k.startswith("c_attn")}),
    "without its inverse": (GROUP, {k: t.replace("inv(g)[head,l,k]", "g[head,k,l]") for k, t in VO.items()}),
    "without the bias": (GROUP, {k: t for k, t in QK.items() if ".q" not in k or "/w" in k}),
    "heads of q alone": (qx.Permutation("head"), {f"{W}.q": f"{W}.q @ g.T", f"{BIAS}.q": f"g @ {BIAS}.q"}),
    "heads without the output": (qx.Permutation("head"), {k: t for k, t in HEADS.items() if k != OUT}),
}
TWINS["all parts of the array"] = (
    qx.O("k", each="head"),
    {f"{W}[d,i,head,k]": f"g[head,k,l] {W}[d,i,head,l]", f"{BIAS}[i,head,k]": f"g[head,k,l] {BIAS}[i,head,l]"},
)


@pytest.mark.parametrize("name", TWINS)
def test_broken_twins_are_refuted(name):
    group, action = TWINS[name]
    assert qx.verify(gpt2, qx.Symmetry("twin", group, action)).status == "refuted"


def test_the_whole_array_may_be_named_where_all_parts_move_alike():
    turn = qx.Symmetry("turn", qx.O("k", each="head"), {
        f"{W}[d,i,head,k]": f"g[head,k,l] {W}[d,i,head,l]",
        f"{BIAS}[i,head,k]": f"g[head,k,l] {BIAS}[i,head,l]",
        f"{OUT}[head,k,d]": f"g[head,k,l] {OUT}[head,l,d]",
    })  # fmt: skip
    assert qx.verify(gpt2, turn).scope == "every width"
    assert qx.verify(gru, qx.Symmetry("units", qx.Permutation("h"), {
        "W": "g @ W", "U": "g @ U @ g.T", "b": "g @ b", "c": "g @ c", "C": "C @ g.T",
    })).scope == "every width"  # fmt: skip


def test_equivariance_is_about_parts_too():
    turn = {"gate_up": "gate_up @ g.T", "down": "g @ down", "x": "x @ g.T", "probe": "probe @ g.T"}
    rotation = lambda action: qx.Symmetry("turn", qx.O("d"), action)
    assert qx.verify_equivariance(gate_up, rotation(turn), output="t d").scope == "every width"
    parts = {"gate_up.gate": "gate_up.gate @ g.T"} | {key: turn[key] for key in ("down", "x", "probe")}
    assert qx.verify_equivariance(gate_up, rotation(parts), output="t d").status == "refuted"


def test_parts_that_are_none_are_refused():
    with pytest.raises(qx.SymmetryError, match=r"f/z.q.* is no parameter"):
        qx.verify(gpt2, qx.Symmetry("s", qx.O("k"), {"f/z.q": "g @ f/z.q"}))

    @qx.architecture(params={"W": "h+k x"}, inputs={"x": "x"}, parts={"W": "a b"})
    def unequal(p, x):
        return p["W"] @ x

    with pytest.raises(qx.SymmetryError, match=r"the parts of W differ in size; say what becomes of each: W\.a, W\.b"):
        qx.verify(unequal, qx.Symmetry("s", qx.O("h"), {"W": "g @ W"}))


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_what_is_found_of_one_layout_holds_of_the_others(name, derived):
    for family in (*derived(gpt2), *derived(gpt2).discrete):
        assert qx.verify(LAYOUTS[name], family).scope == "every width"
    assert qx.verify(LAYOUTS[name], qx.Symmetry("twin", *TWINS["one part later"])).status == "refuted"


@pytest.mark.slow
def test_one_layout_is_not_the_other():
    """Declared in turns, computed one after another: nothing is proved of parts that are none."""

    @qx.architecture(
        params=ATTENTION | {"c_attn": {"w": "d head*3*k", "b": "head*3*k"}},
        inputs={"x": "t d"},
        parts={W: "q k v", BIAS: "q k v"},
    )
    def model(p, x, *, sizes):
        return gpt2.function(p, x, sizes=sizes)

    assert qx.verify(model, qx.Symmetry("turn", GROUP, QK)).status == "refuted"


@pytest.mark.slow
def test_outputs_do_not_change_along_a_fused_orbit(derived):
    sizes = {"d": 5, "head": 2, "k": 3}
    net = gpt2.at(**sizes)
    params = jax.tree.map(lambda a: a + 0.1 * jnp.cos(jnp.arange(a.size)).reshape(a.shape), net.init(jax.random.key(0)))
    space = qx.quotient(net, derived(gpt2), metric="invariant")
    moved = space.act(params, space.random_element(jax.random.key(1)))
    x = np.random.default_rng(0).normal(size=(4, 5))
    np.testing.assert_allclose(net(moved, x), net(params, x), atol=1e-10)
    assert jax.tree.map(jnp.shape, moved) == jax.tree.map(jnp.shape, params)
    assert space.fiber_dim == 48
    assert sum(derived(gpt2).dimension(**sizes).values()) == 48


def test_gates_are_named_in_what_is_found(derived):
    found = derived(gate_up)
    assert "gate_up.up -> g @ gate_up.up, down -> down @ inv(g)" in str(found.families[0])
    assert sum(found.dimension(d=4096, f=11_008).values()) == 11_008


@pytest.mark.slow
def test_units_of_fused_gates_are_permuted_and_flipped(derived):
    for model, flipped in ((fused_lstm, {"W.3", "b.3"}), (gru, {"W.2", "b.2", "c.2"})):
        found = derived(model)
        assert [s.name for s in found.discrete] == ["permute h", "flip h"]
        moved = {line.partition("[")[0] for line in found.discrete[1].action}
        assert flipped <= moved
        assert not moved & {f"{name[0]}.{i}" for name in flipped for i in range(4) if f"{name[0]}.{i}" not in flipped}


@pytest.mark.long
def test_a_layer_of_gpt2_whole(derived):
    """The bias of keys is inert; what their weights hide behind a norm is proved with it taken along."""
    found = derived(GPT2.model)
    assert not found.unsearched
    assert not found.unproved
    assert {found.certificate(s.name).scope for s in (*found, *found.discrete)} == {"every width"}
    keys = next(
        s for s in found if any(key.startswith("h0/attn/c_attn/w.k") and "ln_1/g" in t for key, t in s.action.items())
    )
    assert any(key.startswith("h0/attn/c_attn/b.k") for key in keys.action)
    for sizes, flat in GPT2.flat:
        audit = found.audit(**sizes)
        assert (audit.flat, audit.surplus) == (flat, 0)


blocks = [pytest.param(block, id=block.name, marks=[pytest.mark.slow] if block.slow else []) for block in FUSED]


@pytest.mark.parametrize("block", blocks)
def test_everything_that_is_flat_is_found_and_proved(block, derived):
    found = derived(block.model)
    assert not found.unnamed
    assert not found.unsearched
    assert {found.certificate(s.name).scope for s in (*found, *found.discrete)} == {"every width"}
    for sizes, flat in block.flat:
        audit = found.audit(**sizes)
        assert (audit.flat, audit.surplus) == (flat, 0), str(audit)


@pytest.mark.parametrize("block", [block for block in blocks if block.id != "decoder, fused"])
def test_a_family_with_one_line_less_is_refuted(block, derived):
    """Lines of an action are needed, the first and the last: without one of them the function changes."""
    for family in derived(block.model):
        names = list(family.action)
        if len(names) > 1:
            for left_out in (names[0], names[-1]):
                lines = {key: text for key, text in family.action.items() if key != left_out}
                twin = qx.Symmetry(family.name, family.group, lines)
                assert qx.verify(block.model, twin).status == "refuted", (twin, left_out)

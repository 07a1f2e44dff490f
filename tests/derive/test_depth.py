"""Deep models: blocks are recognised, a few are searched, and every claim is proved of the whole model."""

from __future__ import annotations

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.certify import certify, certify_alike
from quotax.derive.depth.repetition import repetition, shortened
from quotax.derive.depth.shallow_model import shallow

SIZES = {"d": 3, "h": 4, "x": 2}


def stream(layers, odd=None, tied=None):
    """A residual stream of gated units; block `odd` has another function, `tied` reads a matrix of the one before."""
    names = [f"block{i}" for i in range(layers)]
    params = {"R": "d x", **{name: {"U": "h d", "G": "h d", "D": "d h"} for name in names}}

    @qx.architecture(params=params, inputs={"x": "x"})
    def model(p, x):
        z = p["R"] @ x
        for i, name in enumerate(names):
            w, u = p[name], p[names[i - 1] if i == tied else name]["U"]
            gate = jax.nn.softplus if i == odd else jax.nn.relu
            z = z + w["D"] @ ((u @ z) * gate(w["G"] @ z))
        return z

    return model


def chain(layers):
    """Blocks that share an axis with their neighbours."""
    names = [f"W{i}" for i in range(layers)]

    @qx.architecture(params={"A": "h x", **dict.fromkeys(names, "h h"), "B": "y h"}, inputs={"x": "x"})
    def model(p, x):
        z = p["A"] @ x
        for name in names:
            z = p[name] @ jax.nn.relu(z)
        return p["B"] @ z

    return model


def numbers(model, sizes, seed=0):
    rng = np.random.default_rng(seed)
    return {spec.name: rng.normal(size=spec.shape(sizes)) for spec in (*model.params, *model.inputs)}


def families(found):
    return {(str(s.group), *sorted(s.action.items())) for s in (*found, *found.discrete)}


def quiet(model, **options):
    return qx.derive(model, progress=lambda line: None, **options)


# --- recognising


def test_blocks_are_recognised_and_what_is_left_is_a_model_of_three():
    deep, three = stream(7), stream(3)
    of = repetition(deep.trace(SIZES))
    assert of.copies == 7
    assert of.following["block2/U"] == "block3/U"
    short = shortened(deep.trace(SIZES), of)
    values = numbers(deep, SIZES)
    kept = {"block0": "block0", "block1": "block1", "block6": "block2"}
    assert {s.name.partition("/")[0] for s in short.params} == {"R", *kept}
    own = {kept.get((n := s.name.partition("/"))[0], n[0]) + n[1] + n[2]: values[s.name] for s in short.params}
    with jax.enable_x64(True):
        (here,) = jax.core.eval_jaxpr(
            short.jaxpr.jaxpr, short.jaxpr.consts, *(values[s.name] for s in (*short.params, *short.inputs))
        )
        wanted = jax.core.eval_jaxpr(
            (t := three.trace(SIZES)).jaxpr.jaxpr, t.jaxpr.consts, *(own[s.name] for s in t.params), values["x"]
        )[0]
    np.testing.assert_allclose(here, wanted)


@pytest.mark.parametrize("model", [stream(3), stream(5, odd=2), stream(5, tied=3), chain(2)])
def test_too_few_or_unlike_blocks_are_left_alone(model):
    sizes = SIZES if "d" in model.axis_names else {"h": 3, "x": 2, "y": 4}
    assert shallow(model, [sizes]) is None


def test_constants_tell_blocks_apart():
    @qx.architecture(params={f"w{i}": "d d" for i in range(6)}, inputs={"x": "d"})
    def scaled(p, x):
        for i in range(6):
            x = jnp.tanh(p[f"w{i}"] @ x) * (2.0 if i == 3 else 3.0)
        return x

    assert shallow(scaled, [{"d": 3}]) is None


# --- stating and proving


@pytest.mark.slow
@pytest.mark.parametrize("model", [stream(4), chain(5)])
def test_what_is_found_is_what_a_search_of_all_blocks_finds(model, monkeypatch):
    found = quiet(model)
    assert all(found.certificate(s.name).scope == "every width" for s in (*found, *found.discrete))
    monkeypatch.setattr(importlib.import_module("quotax.derive.derivation"), "shallow", lambda *_: None)
    every = quiet(model)
    assert len(found.families) > 4
    assert families(found) == families(every)
    last = found.families[-1]
    assert found.certificate(last.name).recheck()


def gate(block, other=None):
    """Of a relu's argument, true for positive factors; of a softplus', or with another block's matrix, false."""
    name, down = f"block{block}", f"block{block if other is None else other}"
    action = {f"{name}/G": f"g @ {name}/G", f"{down}/D": f"{down}/D @ inv(g)"}
    return qx.Symmetry(f"gate {block}", qx.PositiveDiagonal("h"), action)


def test_a_proof_is_replayed_about_other_blocks_and_false_claims_are_refuted():
    model = stream(5, odd=3)
    proved = certify(model, gate(1).bind(model.params))
    names = lambda block, other: {"block1/G": f"block{block}/G", "block1/D": f"block{other}/D"}
    claims = [(gate(k, o).bind(model.params), names(k, o)) for k, o in ((2, 2), (4, 4), (3, 3), (4, 2))]
    two, four, odd, mixed = certify_alike(model, proved, claims)
    assert two
    assert four.recheck()
    assert "block4/G" in str(four)
    assert "block1/G" not in str(four)
    assert len(four.derivation[0]["steps"]) == len(proved.derivation[0]["steps"])
    assert odd is None
    assert mixed is None
    assert [certify(model, claims[k][0]).status for k in (2, 3)] == ["refuted"] * 2

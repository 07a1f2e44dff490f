"""Results keep: what was found, proved, divided out and measured survives pickle, deepcopy and another process."""

import copy
import functools
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import models
import quotax as qx

MODELS = {
    "linear": {"x": 4, "h": 3, "y": 2},
    "batch_norm": {"x": 4, "h": 3},
    "swiglu": {"x": 4, "h": 3, "y": 2},
    "softmax_head": {"x": 4, "y": 3},
    "attention": {"head": 2, "k": 2, "v": 2, "x": 3},
}
"""Shared models, and sizes for their quotients."""

NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name == "attention" else []) for name in MODELS]

WAYS = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "cloudpickle": lambda value: pickle.loads(cloudpickle.dumps(value)),
    "deepcopy": copy.deepcopy,
}


@functools.cache
def derived(name):
    return qx.derive(getattr(models, name), progress=lambda _: None)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_groups_keep(name, way):
    model, found = getattr(models, name), derived(name)
    again = way(found)
    assert again == found
    assert again.model is model
    assert hash(again.families) == hash(found.families)
    assert [s.bind(model.params) for s in again] == [s.bind(model.params) for s in found]
    assert str(again) == str(found)
    assert [str(c.recheck()) for c in again.certificates] == [str(c) for c in found.certificates]


@pytest.mark.parametrize("metric", ["euclidean", "invariant"])
@pytest.mark.parametrize("name", NAMES)
def test_spaces_keep(name, metric):
    network = getattr(models, name).at(**MODELS[name])
    space = qx.quotient(network, derived(name), metric=metric)
    again = pickle.loads(pickle.dumps(space))
    params, v = network.init(jax.random.key(0)), network.init(jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, again.horizontal(params, v), space.horizontal(params, v))
    assert again.left_out == space.left_out
    assert str(again.metric_certificate) == str(space.metric_certificate)
    assert [c.recheck().status for c in again.certificates] == ["proved"] * len(space.certificates)


def squared(params, a, b):
    return sum(jnp.sum(x * y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def total(params):
    return jnp.sum(params["W2"] @ params["W1"])


@pytest.mark.parametrize("metric", ["pullback", "inv", "mix", squared])
def test_every_metric_keeps(metric):
    network = models.linear.at(x=3, h=2, y=2)
    space = qx.quotient(network, models.symmetry("linear GL")[1], metric=metric)
    params, v = network.init(jax.random.key(0)), network.init(jax.random.key(1))
    for again in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert again.inner(params, v, v) == space.inner(params, v, v)


@pytest.mark.slow
def test_results_and_other_claims_keep():
    network, found = models.linear.at(**MODELS["linear"]), derived("linear")
    space = qx.quotient(network, found, metric="invariant")
    params = network.init(jax.random.key(0))
    loss = lambda p: total(p) ** 2
    turn = qx.Symmetry("turn", qx.O("y"), {"W2": "g @ W2", "probe": "g @ probe"})
    results = {
        "sharpness": qx.sharpness(loss, params, 0.1, space=space),
        "trace": qx.trace(loss, params, space=space),
        "spectrum": qx.spectrum(loss, params, 1, space=space),
        "alignment": space.alignment(params, params),
        "distance": space.distance(params, params),
        "point": space.at(params),
        "representative": space.canonical(params),
        "audit": found.audit(**MODELS["linear"]),
        "space": space,
        "geodesic": space.geodesic(params, params),
        "drift": space.charge_drift(params, params)[found[0].name],
        "structure": found.structure(x=2, h=2, y=2),
        "equivariance": qx.verify_equivariance(models.linear, turn, output="y"),
        "measure": qx.verify_invariant(models.linear, found[0], total),
        "metric": qx.verify_metric(models.linear, found[0], "euclidean"),
        "field": qx.verify_field(models.linear, lambda p: {"W1": p["W1"], "W2": -p["W2"]}),
    }
    for name, result in results.items():
        again = pickle.loads(pickle.dumps(result))
        assert repr(again) == repr(result), name
        assert "array(" not in repr(result), name
        assert json.loads(json.dumps(result.to_dict(), allow_nan=False)), name
        if isinstance(result, qx.Certificate) and name != "field":
            assert again.recheck().scope == result.scope
    assert pickle.loads(pickle.dumps(results["audit"])).directions()[0].shape == (14 + 4,)


def test_functions_without_a_place_are_kept_by_value_where_functions_are():
    @qx.architecture(params={"W": "y x"}, inputs={"x": "x"})
    def local(p, x):
        return p["W"] @ x

    with pytest.raises((AttributeError, pickle.PicklingError), match="local"):
        pickle.dumps(local)
    again = pickle.loads(cloudpickle.dumps(local))
    np.testing.assert_array_equal(again.at(x=2, y=1)({"W": jnp.ones((1, 2))}, jnp.ones(2)), [2.0])
    assert again.params == local.params
    assert copy.deepcopy(local) is local


ANOTHER = """
import pickle, sys
import quotax as qx
found, space = pickle.load(open(sys.argv[1], "rb"))
assert all(certificate.recheck() for certificate in found.certificates)
fresh = {qx.Symmetry(s.name, s.group, s.action) for s in found}
assert fresh == set(found.families), "hashes are those of this process"
params = space.network.init(__import__("jax").random.key(0))
print(float(space.norm(params, space.horizontal(params, params))))
"""


@pytest.mark.slow
def test_another_process_reads_what_one_wrote(tmp_path):
    network = models.linear.at(**MODELS["linear"])
    space = qx.quotient(network, derived("linear"), metric="invariant")
    params = network.init(jax.random.key(0))
    here = float(space.norm(params, space.horizontal(params, params)))
    (tmp_path / "kept").write_bytes(pickle.dumps((derived("linear"), space)))
    root = Path(__file__).parents[1]
    path = os.pathsep.join(map(str, (root / "src", root / "tests")))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "7", "JAX_ENABLE_X64": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ANOTHER, str(tmp_path / "kept")], env=environment, capture_output=True, text=True
    )
    assert not done.returncode, done.stderr
    assert float(done.stdout) == pytest.approx(here, rel=1e-12)

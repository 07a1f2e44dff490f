"""A folder with a model, weights and data, and the command line in it."""

import importlib.util
import json
import sys

import jax
import numpy as np
import pytest

import quotax as qx
from quotax.cli import main

MODULE = """
import jax, jax.numpy as jnp, quotax as qx

@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
def mlp(p, x):
    return p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"])

@qx.architecture(params={"E": "vocab d", "W": "y d"}, inputs={"t": qx.Tokens("t", below="vocab"), "m": qx.Mask("t")})
def reader(p, t, m):
    return p["W"] @ jnp.mean(p["E"][t] * m[:, None], 0)

small = mlp.at(x=2, h=3, y=2)
scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"})
wrong = qx.Symmetry("wrong", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})

def total(params, batch):
    return jnp.sum(params["W1"] ** 2) * jnp.mean(batch["x"])

def alone(params):
    return 0.0

def lost(params, batch):
    return batch["nothing"]

@qx.architecture(params={"into": "n m", "a": "n", "out": "k n"}, inputs={"z": "m"})
def same(p, z):
    return jnp.dot(p["out"], jnp.maximum(z @ p["into"].T + p["a"], 0))

@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
def smooth(p, x):
    return p["W2"] @ jax.nn.softplus(p["W1"] @ x + p["b1"])
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """`net.py`, its weights `a.npz` and `b.npz` (and `b.safetensors`), `data.npz`, and `found.json`."""
    place = tmp_path_factory.mktemp("cli")
    (place / "net.py").write_text(MODULE)
    network = (file := qx.load(f"{place}/net.py:small")).architecture.at(**file.sizes)
    others = ["b.npz", *(["b.safetensors"] if importlib.util.find_spec("safetensors") else [])]
    for name, seed in (("a.npz", 0), *((other, 1) for other in others)):
        qx.checkpoints.save(place / name, network.init(jax.random.key(seed)), qx.checkpoints.BY_NAME, network)
    random = np.random.default_rng(0)
    np.savez(place / "data.npz", x=random.normal(size=(6, 2)), targets=random.normal(size=(6, 2)))
    qx.derive(file.architecture).save(place / "found.json")
    return place


@pytest.fixture
def quotax(folder, monkeypatch, capsys):
    """`quotax("derive net.py:mlp")`: the exit code, and what is on standard output and on standard error."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(line, *more):
        words = [*line.split(), *more]
        code = main(words if words[0].startswith("-") else [*words, *["--no-cache"] * (words[0] != "list")])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def quotax_json(quotax):
    """The exit code, and the data on standard output."""

    def run(line, *more):
        code, out, _ = quotax(f"{line} --json --quiet", *more)
        return code, json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    return run

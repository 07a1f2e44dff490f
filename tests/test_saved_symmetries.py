"""Symmetries as data: what is written is read back, replayed against the model, and refused where it does not hold."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import models
import quotax as qx
from quotax import catalogue
from quotax.artifacts import CoveredSizes
from quotax.certify import recalled
from quotax.errors import SymmetryError
from test_pickling import NAMES, derived


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_is_loaded_and_replayed(name, tmp_path):
    model, found = getattr(models, name), derived(name)
    found.save(tmp_path / "a.json")
    loaded = qx.load_symmetries(tmp_path / "a.json", model)
    assert loaded == found
    assert "found.recheck()" in str(loaded)
    checked = loaded.recheck()
    assert str(checked) == str(found)
    assert [str(c) for c in checked.certificates] == [str(c) for c in found.certificates]
    checked.save(tmp_path / "b.json")
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text())["version"] == 1


def test_fields_without_a_family_are_kept(tmp_path):
    model, sizes = catalogue.load("polynomial/quadratic").architecture, {"x": 3, "h": 3}
    found = qx.derive(model, ansatz="quadratic", sizes=sizes, progress=lambda _: None)
    assert found.unnamed
    found.save(tmp_path / "a.json")
    loaded = qx.load_symmetries(tmp_path / "a.json", model)
    assert loaded == found
    assert loaded.audit(**sizes) == found.audit(**sizes)


def with_activation(activation, params=("h x", "h", "y h")):
    @qx.architecture(params=dict(zip(("W1", "b1", "W2"), params, strict=True)), inputs={"x": "x"})
    def changed(p, x):
        return p["W2"] @ activation(p["W1"] @ x + p["b1"])

    return changed


CHANGED = {
    "tanh": (jnp.tanh, ["scale h"]),
    "leaky relu": (jax.nn.leaky_relu, ["scale h", "permute h"]),  # true of it too, by other steps
    "a shifted kink": (lambda z: jax.nn.relu(z - 1), ["scale h", "permute h"]),
    "units in an order": (lambda z: jax.nn.relu(jnp.cumsum(z)), ["scale h", "permute h"]),
    "softplus": (jax.nn.softplus, ["scale h"]),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_model_is_refused_by_the_names_of_what_fails(name, tmp_path):
    activation, failing = CHANGED[name]
    qx.derive(models.relu, progress=lambda _: None).save(tmp_path / "relu.json")
    changed = with_activation(activation)
    loaded = qx.load_symmetries(tmp_path / "relu.json", changed)
    with pytest.raises(SymmetryError, match=f"of .*relu.json do not hold of changed as it is now.*{failing[0]}: "):
        loaded.recheck()
    with pytest.raises(SymmetryError, match=r"relu is invariant under scale h: .* made again it says undecided"):
        loaded.certificate("scale h").recheck()
    with pytest.raises(SymmetryError, match="do not hold of changed"):
        qx.quotient(changed.at(x=2, h=2, y=1), loaded)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "a.json"
    qx.derive(models.relu, progress=lambda _: None).save(path)
    data = json.loads(path.read_text())

    def refused(text, match, model=models.relu):
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        with pytest.raises(SymmetryError, match=match):
            qx.load_symmetries(path, model)

    refused("{", "it is not JSON")
    refused([], "holds no symmetries")
    refused({}, "holds no symmetries")
    refused(data | {"version": 2}, "is of version 2, this quotax reads version 1")
    refused(data | {"families": [{"name": "scale h"}]}, "a symmetry has a name, a group and an action")
    refused({k: v for k, v in data.items() if k != "families"}, "is damaged: KeyError 'families'")
    other = {"name": "s", "group": {"kind": "SL", "axis": "h"}, "action": {"W1": "g @ W1"}}
    refused(data | {"families": [other]}, "'s': 'SL' is no group; those are GL, ")
    wrong = data["families"][0] | {"action": {"W1": "W2 @ g"}}
    refused(data | {"families": [wrong]}, "W1")
    swapped = with_activation(jax.nn.relu, ("x h", "h", "y h"))
    refused(data, r"of a model with params\['W1'\] = 'h x', but changed has 'x h'", swapped)
    refused(data, r"of a model with params\['b1'\] = 'h', but linear has None", models.linear)
    with pytest.raises(SymmetryError, match="No such file"):
        qx.load_symmetries(tmp_path / "missing.json", models.relu)


def test_a_file_cannot_make_a_claim_true(tmp_path):
    path = tmp_path / "a.json"
    qx.derive(models.relu, progress=lambda _: None).save(path)
    data = json.loads(path.read_text())
    honest = data["families"][0]
    forged = [
        honest | {"action": {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ g"}},
        honest | {"group": {"kind": "Diagonal", "axis": "h"}},
        honest | {"certificate": honest["certificate"] | {"derivation": []}, "action": {"W1": "g @ W1"}},
    ]
    for steps in ([], [{"rule": "image"}], [{"rule": "lemma", "atom": 99999}], ["x"], [{"rule": "image", "atom": 1}]):
        part = {"sizes": {"h": "h", "x": "x", "y": "y"}, "steps": steps}
        forged.append(honest | {"certificate": honest["certificate"] | {"derivation": [part]}})
    odd = [{"sizes": {"q": "q"}, "steps": []}, {"sizes": {}, "steps": []}, 1, {"steps": []}]
    forged += [honest | {"certificate": honest["certificate"] | {"derivation": [part]}} for part in odd]
    for sizes in (
        {"h": "h", "x": "h", "y": "y"},
        {"h": "2*h_over_2", "x": "x", "y": "y"},
        {"h": "x", "x": "h", "y": "y"},
        {"h": "h", "x": "x", "y": "y", "z": "z"},
    ):
        part = honest["certificate"]["derivation"][0] | {"sizes": sizes}
        forged.append(honest | {"certificate": honest["certificate"] | {"derivation": [part]}})
    for one in forged:
        path.write_text(json.dumps(data | {"families": [one]}))
        with pytest.raises(SymmetryError, match="do not hold"):
            qx.load_symmetries(path, models.relu).recheck()


@qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
def branching(p, x):
    """A model whose symmetry is another at one size of an input axis."""
    z = p["W1"] @ x
    return p["W2"] @ (jnp.tanh(z) if x.shape[0] == 64 else jax.nn.relu(z))


def test_a_proof_at_one_size_is_none_for_every_width(tmp_path):
    claim = qx.Symmetry("scale h", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    made = qx.verify(branching, claim)
    assert made.scope == "every width with x ≠ 64"
    assert made.recheck().scope == made.scope
    data = json.loads(json.dumps(made.to_dict()))
    assert qx.Certificate.from_dict(data).covers == made.covers == (CoveredSizes(made.covers[0].sizes, ("x ≠ 64",)),)
    del data["covers"]  # as older files have it
    other = {"sizes": {"h": 2, "x": 64, "y": 2}, "steps": data["derivation"][0]["steps"]}
    data |= {"scope": "every width", "derivation": [*data["derivation"], other]}
    again = recalled(branching, claim.bind(branching.params), qx.Certificate.from_dict(data))
    with pytest.raises(SymmetryError, match="made again it says"):
        again.recheck()


def test_a_certificate_without_steps_is_made_again(tmp_path):
    claim = models.symmetry("relu scaling")[1]
    made = qx.verify(models.relu, claim, sizes={"h": 2, "x": 1, "y": 1})
    data = json.loads(json.dumps(made.to_dict()))
    again = recalled(models.relu, claim.bind(models.relu.params), qx.Certificate.from_dict(data))
    assert again.recheck().scope == made.scope == "widths (h=2, x=1, y=1)"


WRITER = """
import sys
import models, quotax as qx
qx.derive(models.attention, progress=lambda _: None).save(sys.argv[1])
"""


@pytest.mark.slow
def test_files_are_the_same_whoever_writes_them(tmp_path):
    root = Path(__file__).parents[1]
    for seed in ("1", "2"):
        path = os.pathsep.join(map(str, (root / "src", root / "tests")))
        environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", WRITER, str(tmp_path / seed)], env=environment, check=True)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()

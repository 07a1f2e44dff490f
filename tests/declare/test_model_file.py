"""Models as TOML files: read, written back, and refused with the file and the line."""

import pickle
import tomllib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
import quotax as qx
from geometry.table import CASES
from quotax.declare.model_files.any_file import read
from quotax.declare.model_files.toml_lines import lines_of_keys
from quotax.declare.model_files.toml_writing import _key, _text, write
from quotax.errors import ArchitectureError, QuotaxError

CODE = """
import jax, jax.numpy as jnp, quotax as qx

def mlp(p, x):
    return p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"])

def tokens(p, t, m, c):
    return (p["block"]["E"][t] * m[:, None]) @ p["block"]["W"] * p["s"] / c

number = 3
"""

FILE = """# a network
[model]
forward = "net.py:mlp"

[params]
W1 = "h x"
b1 = "h"
W2 = "y h"

[inputs]
x = "x"

[sizes]
h = 4

[[symmetry]]
name = "scale h"
group = {kind = "PositiveDiagonal", axis = "h"}
action = {W1 = "g @ W1", b1 = "g @ b1", W2 = "W2 @ inv(g)"}

[[symmetry]]
name = "permute h"
group.kind = "Permutation"
group.axis = "h"
[symmetry.action]
W1 = "g @ W1"
b1 = "g @ b1"
"W2" = "W2 @ g.T"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "net.py").write_text(CODE)
    (tmp_path / "net.toml").write_text(FILE)
    return tmp_path


def test_a_file_is_a_model_with_its_symmetries(folder):
    model, symmetries, sizes = qx.load(folder / "net.toml")
    assert (model.name, model.params, model.inputs) == ("mlp", models.relu.params, models.relu.inputs)
    assert sizes == {"h": 4}
    assert symmetries == (models.symmetry("relu scaling")[1].renamed("scale h"), symmetries[1])
    assert all(qx.verify(model, each) for each in symmetries)
    assert str(symmetries[1].group) == "S(h)"


def test_what_is_read_is_written_back(folder):
    first = qx.load(folder / "net.toml")
    qx.save(folder / "again.toml", first.architecture, first.symmetries)
    again = qx.load(folder / "again.toml")
    assert again.symmetries == first.symmetries
    assert (again.architecture.params, again.architecture.inputs) == (
        first.architecture.params,
        first.architecture.inputs,
    )
    assert again.architecture.function is first.architecture.function
    assert 'forward = "net.py:mlp"' in (folder / "again.toml").read_text()
    qx.save(folder / "sized.toml", first.architecture.at(h=2, x=3, y=1))
    assert qx.load(folder / "sized.toml").sizes == {"h": 2, "x": 3, "y": 1}


def test_inputs_of_every_kind_nested_parameters_and_starts(folder):
    (folder / "t.toml").write_text(
        """
[model]
forward = "net.py:tokens"
name = "reader"
[params]
s = ""
"block/E" = "vocab d"
[params.block]
W = "d y"
[inputs]
t = {kind = "tokens", axes = "t", below = "vocab"}
m = {kind = "mask", axes = "t"}
c = {kind = "positive", axes = ""}
[init]
s = 2.5
"""
    )
    model = qx.load(folder / "t.toml").architecture
    assert [(s.name, s.kind, s.below) for s in model.inputs] == [
        ("t", "tokens", "vocab"),
        ("m", "mask", None),
        ("c", "positive", None),
    ]
    assert model.name == "reader"
    params = model.at(vocab=3, d=2, y=2).init(jax.random.key(0))
    assert params["s"] == 2.5
    write(folder / "again.toml", model)
    again = read(folder / "again.toml").architecture
    assert repr(again) == repr(model)
    assert again.at(vocab=3, d=2, y=2).init(jax.random.key(0))["s"] == 2.5
    kept = pickle.loads(pickle.dumps(model))
    assert repr(kept) == repr(model)


def test_a_declared_architecture_is_itself_again(tmp_path):
    found = qx.derive(models.relu, progress=lambda _: None)
    qx.save(tmp_path / "a.toml", found)
    again = qx.load(tmp_path / "a.toml")
    assert again.architecture is models.relu
    assert again.symmetries == (*found.families, *found.discrete)
    assert 'forward = "models:relu"' in (tmp_path / "a.toml").read_text()


@pytest.mark.parametrize(
    "name", ["linear biases", "relu rnn", "attention biases", "rope", "conv relu", "decoder", "exp"]
)
def test_every_kind_of_action_is_written_and_read(name, tmp_path):
    case = CASES[name]
    claims = (*case.families, *case.discrete)
    write(tmp_path / "a.toml", case.model, claims, forward=f"{__name__}:anything")
    again = read(tmp_path / "a.toml")
    assert again.symmetries == claims
    assert (again.architecture.params, again.architecture.inputs) == (case.model.params, case.model.inputs)


def anything(p, *inputs):
    return jnp.zeros(())


WRONG = {
    "not TOML": ('W1 = "h x"', 'W1 = "h x', 6, "it is not TOML: "),
    "a table that is missing": ('[inputs]\nx = "x"\n', "", 1, r"the table \[inputs\] is missing"),
    "an unknown table": ("[sizes]", "[size]", 13, "unknown table 'size'; those are model, params"),
    "an unknown key": ("forward =", "forwards =", 3, "unknown key 'forwards' in"),
    "a table that is a number": ("[sizes]\nh = 4", "[model.x]", 13, "unknown key 'x' in"),
    "no function": ("net.py:mlp", "net.py:mlpp", 3, "'net.py' has no 'mlpp'"),
    "no file": ("net.py:mlp", "nets.py:mlp", 3, "there is no file '.*nets.py'"),
    "no module": ("net.py:mlp", "no_such_module:mlp", 3, "No module named 'no_such_module'"),
    "no path": ("net.py:mlp", "mlp", 3, "needs forward = 'package.module:function'"),
    "not a function": ("net.py:mlp", "net.py:number", 3, "must be a function of"),
    "a function of other inputs": ("net.py:mlp", "net.py:tokens", 3, "cannot be called with"),
    "an axis": ('W2 = "y h"', 'W2 = "y-h"', 8, "'y-h' is neither an axis name nor a positive size"),
    "axes that are a number": ('b1 = "h"', "b1 = 3", 7, "must be a string of blank-separated axes"),
    "an input": ('x = "x"', 'x = {kind = "token", axes = "x"}', 11, "kind must be one of tokens, mask, positive"),
    "a size": ("h = 4", "h = -4", 14, "axis 'h' needs a positive integer size, got -4"),
    "a size of no axis": ("h = 4", "k = 4", 14, "unknown axis 'k'"),
    "a group": ('kind = "PositiveDiagonal"', 'kind = "SL"', 18, "'SL' is no group; those are GL"),
    "a group's axis": ('axis = "h"}', 'axis = "q"}', 19, "acts on axis 'q', which no parameter has"),
    "a group's setting": ('axis = "h"}', 'axes = "h"}', 18, "is made with axis, each, not with 'axes'"),
    "an action": ('W1 = "g @ W1"\nb1', 'W1 = "W1 @ g"\nb1', 26, "W1"),
    "an action on nothing": ('"W2" = "W2 @ g.T"', '"W3" = "W3 @ g.T"', 28, "W3"),
    "a symmetry's key": (
        'group.axis = "h"',
        'group.axis = "h"\nproof = 1',
        25,
        r"unknown key 'proof' in \[\[symmetry\]\]",
    ),
    "a symmetry without a name": ('name = "permute h"\n', "", 21, r"\[\[symmetry\]\] needs 'name'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused_with_the_file_and_the_line(name, folder):
    old, new, line, match = WRONG[name]
    assert old in FILE
    (folder / "net.toml").write_text(FILE.replace(old, new, 1))
    with pytest.raises(QuotaxError, match=match) as raised:
        qx.load(folder / "net.toml")
    assert str(raised.value).startswith(f"{folder / 'net.toml'}:{line}: ")


def test_code_that_raises_is_named(folder):
    (folder / "net.py").write_text("1 / 0")
    with pytest.raises(ArchitectureError, match=r"net.toml:3: .*importing 'net.py' raised ZeroDivisionError"):
        qx.load(folder / "net.toml")
    with pytest.raises(ArchitectureError, match="No such file"):
        qx.load(folder / "none.toml")


def test_a_function_without_a_place_is_not_written(tmp_path):
    @qx.architecture(params={"W": "y x"}, inputs={"x": "x"})
    def local(p, x):
        return p["W"] @ x

    with pytest.raises(ArchitectureError, match="is not found in a module"):
        qx.save(tmp_path / "a.toml", local)
    start = jax.nn.initializers.orthogonal()
    model = qx.architecture(params={"W": "y x"}, inputs={"x": "x"}, init={"W": start})(anything)
    with pytest.raises(ArchitectureError, match="functions that initialise W, which a file keeps only with"):
        qx.save(tmp_path / "a.toml", model)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5, unique=True))
def test_texts_are_written_as_toml_and_keys_are_found_on_their_lines(keys):
    text = "\n".join(["[params]", *(f"{_key(key)} = {_text(key)}" for key in keys)])
    assert tomllib.loads(text) == {"params": {key: key for key in keys}}
    places = lines_of_keys(text)
    assert [places["params", key] for key in keys] == list(range(2, len(keys) + 2))


def test_a_key_within_a_text_is_none_of_the_file():
    places = lines_of_keys('[model]\nforward = """\n[init]\nname = 1\n"bad \\q" = 2\n"""\n[params]\nW = "x"\n')
    assert places["params", "W"] == 8


def test_a_network_of_a_file_runs(folder):
    model = qx.load(folder / "net.toml").architecture
    net = model.at(h=2, x=2, y=1)
    params = {"W1": jnp.eye(2), "b1": jnp.zeros(2), "W2": jnp.ones((1, 2))}
    np.testing.assert_array_equal(net(params, jnp.asarray([1.0, -3.0])), [1.0])


MODULE = """
import jax, quotax as qx

@qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
def mlp(p, x):
    return p["W2"] @ jax.nn.relu(p["W1"] @ x)

small = mlp.at(x=2, h=3, y=1)
flip = qx.Symmetry("flip", qx.Permutation("h"), {"W1": "g @ W1", "W2": "W2 @ g.T"})

def function(p, x):
    return x
"""


def test_a_model_in_a_module_is_read_with_what_stands_beside_it(tmp_path, monkeypatch):
    (tmp_path / "own_net.py").write_text(MODULE)
    model, symmetries, sizes = qx.load(f"{tmp_path}/own_net.py:small")
    assert (model.name, sizes, [s.name for s in symmetries]) == ("mlp", {"h": 3, "x": 2, "y": 1}, ["flip"])
    monkeypatch.syspath_prepend(tmp_path)
    assert qx.load("own_net:mlp").sizes == {}
    assert qx.load("models:linear").architecture is models.linear


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("own_net.py:mpl", r"has no 'mpl' \(is 'mlp' meant\?\); the models in it are mlp, small"),
        ("own_net.py:function", "got the function function; the models in it are mlp, small"),
        ("own_net.py", r"needs the name of a model in it: own_net.py:mlp or own_net.py:small"),
        ("none.py:mlp", "there is no file '.*none.py'"),
        ("broken.py:mlp", r"importing 'broken.py' raised ZeroDivisionError: division by zero \(line 2\)"),
        ("broken_nowhere:mlp", "No module named 'broken_nowhere'"),
        ("empty.py", "nothing in it was made by"),
    ],
)
def test_a_place_in_python_that_has_no_model_is_refused(tmp_path, monkeypatch, place, said):
    (tmp_path / "own_net.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("\n1 / 0\n")
    (tmp_path / "empty.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArchitectureError, match=said):
        qx.load(place)


def test_relations_between_sizes_are_kept(tmp_path):
    (tmp_path / "net.py").write_text(CODE)
    path = tmp_path / "net.toml"
    path.write_text(FILE.replace('"net.py:mlp"', '"net.py:mlp"\nwhere = "h = 4*y, x even"'))
    model = read(path).architecture
    assert model.at(y=2, x=6).sizes == {"h": 8, "x": 6, "y": 2}
    write(tmp_path / "again.toml", model, forward="net.py:mlp")
    assert read(tmp_path / "again.toml").architecture.relations == model.relations
    assert read(path).sizes == {"h": 4, "y": 1}
    path.write_text(path.read_text().replace("[sizes]", "[sizes]\ny = 2"))
    with pytest.raises(
        ArchitectureError, match=r"net.toml:14: `\[sizes\]`: h is 4\*y = 8, which y=2, h=4 does not fit"
    ):
        read(path)
    path.write_text(path.read_text().replace("4*y", "4*z"))
    with pytest.raises(ArchitectureError, match=r"net.toml:4: .*'z' is no axis"):
        read(path)

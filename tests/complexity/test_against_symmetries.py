"""Which measures are functions on the quotient: known cases by hand, and every verdict against numbers."""

import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.complexity.turns import turns

AXES = {"params": {"W1": "h x", "W2": "k h", "W3": "y k"}, "inputs": {"x": "x"}}


@qx.architecture(**AXES)
def relu(p, x):
    return p["W3"] @ jax.nn.relu(p["W2"] @ jax.nn.relu(p["W1"] @ x))


@qx.architecture(**AXES)
def straight(p, x):
    return p["W3"] @ (p["W2"] @ (p["W1"] @ x))


SCALE = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
ORDER = qx.Symmetry("order", qx.Permutation("h"), {"W1": "g @ W1", "W2": "W2 @ g.T"})
TURN = qx.Symmetry("turn", qx.O("h"), {"W1": "g @ W1", "W2": "W2 @ g.T"})
LINEAR = qx.Symmetry("linear", qx.GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})

# By hand: under rescalings of neurons, orders of neurons, rotations and all linear maps of hidden units.
KNOWN = {
    "l2 norm": "-++-",
    "l1 norm": "-+--",
    "product of Frobenius norms": "-++-",
    "product of spectral norms": "-++-",
    "spectral complexity": "-+--",
    "path norm": "++--",
    "path norm (squares)": "++--",
    "margin": "++++",
    "margin over path norm": "++--",
    "Fisher-Rao norm": "++++",
    "Hessian trace": "-++-",
    "adaptive Hessian trace": "++--",
    "array-normalised Hessian trace": "-++-",
    "quotient Hessian trace": "++++",
    "least norm on the orbit": "++++",
}
COLUMNS = ((relu, SCALE), (relu, ORDER), (straight, TURN), (straight, LINEAR))
FEW = ("product of spectral norms", "path norm")


def status(name, column):
    model, symmetry = COLUMNS[column]
    return qx.verify_invariant(model, symmetry, qx.complexity_measures()[name])


@pytest.mark.parametrize("name", [n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in KNOWN])
def test_known_verdicts(name):
    for column, expected in enumerate(KNOWN[name]):
        found = status(name, column)
        assert found.status == {"+": "proved", "-": "refuted"}[expected], (column, str(found))
        if found:
            assert found.scope == "every width"
        else:
            assert found.witness.difference > 0


@pytest.mark.slow
def test_every_verdict_agrees_with_numbers_at_other_elements():
    """Proved measures are the same along an orbit, refuted ones are not: by `space.act`, at sizes that no proof saw."""
    measures = [*KNOWN, "distance from the start", "margin over l2 norm", qx.relative_flatness("W2")]
    found = qx.invariance_table(relu, [SCALE], measures)
    sized = relu.at(x=4, h=6, k=5, y=3)
    space = qx.quotient(sized, SCALE, metric="invariant")
    params = jax.tree.map(jnp.asarray, sized.init(jax.random.key(0)))
    inputs = jax.random.normal(jax.random.key(1), (20, 4))
    labels = jax.random.randint(jax.random.key(2), (20,), 0, 3)
    moved = space.act(params, space.random_element(jax.random.key(3), scale=1.0))
    start = jax.tree.map(jnp.zeros_like, params)
    here, there = (
        qx.complexity_table(sized, p, inputs, labels, start=start, space=space, measures=measures)
        for p in (params, moved)
    )
    for name, row in found.certificates.items():
        same = here[name] == pytest.approx(there[name], rel=1e-6)
        if row["scale"]:
            assert same, name
        elif name != "distance from the start":  # the start is zero here
            assert not same or here.doubts[name], name
    assert found.undecided == 0
    assert {name for name in KNOWN if KNOWN[name][0] == "+"} <= set(found.on_quotient)


@pytest.mark.slow
def test_relative_flatness_holds_for_rows_and_not_for_columns():
    """The paper's claim is about one factor for a whole layer; rows may be scaled one by one, columns may not."""
    for name, expected in (("W1", "proved"), ("W2", "refuted")):
        assert qx.verify_invariant(relu, SCALE, qx.relative_flatness(name)).status == expected
    layers = qx.Symmetry("layers", qx.PositiveScalar(), {"W1": "g * W1", "W2": "inv(g) * W2"})
    assert qx.verify_invariant(relu, layers, qx.relative_flatness("W2")).status == "proved"
    for name in ("product of spectral norms", "spectral complexity", "array-normalised Hessian trace"):
        assert qx.verify_invariant(relu, layers, qx.complexity_measures()[name]).scope == "every width"


def test_a_twin_that_changes_the_network_is_not_a_symmetry_of_its_margins():
    twin = qx.Symmetry("twin", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ g"})
    found = qx.verify_invariant(relu, twin, qx.complexity_measures()["margin"])
    assert found.status == "refuted"
    with pytest.raises(qx.ComplexityError, match="changes what relu computes"):
        qx.invariance_table(relu, twin, ["margin"])
    params, moved = found.witness.params, found.witness.transformed_params
    assert not np.allclose(params["W1"], moved["W1"])


def test_what_is_turned_on_both_sides_keeps_its_singular_values():
    arrays = {"U": "d x", "A": "d d", "b": "d", "s": "d e"}
    arrays = {"U": "d x", "A": "d d", "b": "d", "s": "d e"}
    stream = qx.architecture(params=arrays, inputs={"x": "x"})(lambda p, x: p["A"] @ (p["U"] @ x))
    action = lambda group, **texts: (qx.Symmetry("turn", group, texts).bind(stream.params), stream.params)
    assert turns(*action(qx.O("d"), A="g @ A @ g.T"), "A")
    assert turns(*action(qx.O("d"), U="g @ U"), "U")
    assert turns(*action(qx.O("d"), U="g @ U"), "A")
    assert turns(*action(qx.SignFlip("d"), s="g @ s"), "s")
    assert not turns(*action(qx.O("d"), U="g @ U"), "nothing of this name")
    for broken in (action(qx.GL("d"), A="g @ A @ inv(g)"), action(qx.O("d"), A="g @ A @ g.T + A"),
                   action(qx.O("d"), A="A.T"), action(qx.O("d"), A="2 * g @ A"), action(qx.O("d"), A="g @ g @ A"),
                   action(qx.PositiveDiagonal("d"), A="g @ A")):  # fmt: skip
        assert not turns(*broken, "A")
    axes = {"params": {"U": "d x", "A": "d d", "W": "y d"}, "inputs": {"x": "x"}}
    chain = qx.architecture(**axes)(lambda p, x: p["W"] @ (p["A"] @ (p["U"] @ x)))
    turn = qx.Symmetry("turn", qx.O("d"), {"U": "g @ U", "A": "g @ A @ g.T", "W": "W @ g.T"})
    axes = {"params": {"U": "d x", "A": "d d", "W": "y d"}, "inputs": {"x": "x"}}
    chain = qx.architecture(**axes)(lambda p, x: p["W"] @ (p["A"] @ (p["U"] @ x)))
    turn = qx.Symmetry("turn", qx.O("d"), {"U": "g @ U", "A": "g @ A @ g.T", "W": "W @ g.T"})
    found = qx.verify_invariant(chain, turn, qx.complexity_measures()["product of spectral norms"])
    assert found
    assert found.recheck()


def test_measures_of_inputs_hold_for_every_input():
    gap = lambda p, x, *, sizes: sizes["h"] * jnp.sum((p["W2"] @ (p["W1"] @ x)) ** 2)
    assert qx.verify_invariant(straight, LINEAR, gap, inputs=True).scope == "every width"
    broken = lambda p, x: jnp.sum((p["W1"] @ x) ** 2)
    assert qx.verify_invariant(straight, LINEAR, broken, inputs=True).status == "refuted"
    assert qx.verify_invariant(straight.at(x=2, h=2, k=2, y=2), TURN, broken, inputs=True)


def test_a_table_is_short_as_text_and_whole_as_data():
    found = qx.invariance_table(relu, [SCALE, ORDER], ["path norm", "l1 norm", "largest Hessian eigenvalue"])
    assert "\n" not in repr(found)
    assert len(repr(found)) < 220
    text = str(found)
    assert "proved" in text
    assert "no: " in text
    assert max(map(len, text.splitlines())) <= 100
    data = json.loads(json.dumps(found.to_dict()))
    assert data["certificates"]["path norm"]["scale"]["status"] == "proved"
    assert data["refuted"] == found.refuted == 2
    assert "<table>" in found._repr_html_()
    again = pickle.loads(pickle.dumps(found))
    assert str(again) == text
    for measure in (qx.complexity_measures()["path norm"], qx.relative_flatness("W1")):
        assert str(pickle.loads(pickle.dumps(measure))) == str(measure)
        assert "value" not in measure.to_dict()
    with pytest.raises(qx.ComplexityError, match="its measures are"):
        found["margin", "scale"]
    with pytest.raises(qx.ComplexityError, match="no measure is called"):
        qx.invariance_table(relu, SCALE, ["size"])

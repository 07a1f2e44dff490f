"""`verify` proves what holds, at the widths it says, and refutes every broken twin with a point that reproduces."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from models import BROKEN, TRUE, attention, relu, symmetry


@pytest.mark.parametrize("name", TRUE)
def test_a_true_symmetry_is_proved(name):
    model, claim = symmetry(name)
    certificate = qx.verify(model, claim)
    assert certificate.status == "proved", certificate
    assert bool(certificate)
    assert "width" in certificate.scope
    assert certificate.witness is None


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_twin_is_refuted_by_a_witness_that_reproduces(name):
    model, claim = symmetry(name, BROKEN)
    certificate = qx.verify(model, claim)
    assert certificate.status == "refuted"
    assert not certificate
    witness = certificate.witness
    net = model.at(**witness.sizes)
    inputs = [witness.inputs[spec.name] for spec in model.inputs]
    before, after = net(witness.params, *inputs), net(witness.transformed_params, *inputs)
    np.testing.assert_allclose(before, witness.output, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(after, witness.transformed_output, rtol=1e-12, atol=1e-12)
    assert np.max(np.abs(before - after)) == pytest.approx(witness.difference)
    assert witness.difference > 0


@pytest.mark.parametrize("name", BROKEN)
def test_a_witness_moves_its_params_by_its_own_element(name):
    # The action once more, by the compiled route that `verify` does not use.
    from quotax.lower import lower_action

    model, claim = symmetry(name, BROKEN)
    witness = qx.verify(model, claim).witness
    moved = lower_action(claim.bind(model.params), model.params, witness.sizes).act(witness.params, witness.element)
    for key, array in moved.items():
        np.testing.assert_allclose(array, witness.transformed_params[key], rtol=1e-12, atol=1e-14)


def test_the_scope_names_the_sizes_that_were_asked_for():
    model, claim = symmetry("relu scaling")
    assert qx.verify(model, claim, sizes={"h": 1, "x": 2, "y": 1}).scope == "widths (h=1, x=2, y=1)"


def test_tokens_and_masks_take_every_value_that_they_may():
    @qx.architecture(params={"E": "V D", "W": "y D"}, inputs={"t": qx.Tokens("T", below="V"), "m": qx.Mask("T")})
    def bag(p, t, m):
        return p["W"] @ (m @ p["E"][t])

    true = qx.Symmetry("basis", qx.GL("D"), {"E": "E @ inv(g)", "W": "W @ g"})
    assert qx.verify(bag, true).status == "refuted"  # rows of E: E @ inv(g) needs W @ inv of the transpose
    assert qx.verify(bag, qx.Symmetry("basis", qx.GL("D"), {"E": "E @ g.T", "W": "W @ inv(g)"})).status == "proved"


@pytest.mark.parametrize("kind", [qx.Positive, lambda axes: axes], ids=["positive", "real"])
def test_what_an_input_may_be_decides_which_symmetries_exist(kind):
    """`|v w| - v |w|` is zero for positive v alone: there w may be anything."""

    @qx.architecture(params={"w": "c", "a": "c"}, inputs={"v": kind("c")})
    def model(p, v):
        return p["a"] @ (jnp.abs(v * p["w"]) - v * jnp.abs(p["w"]))

    shift = qx.Symmetry("shift", qx.Translation("c"), {"w": "w + g"})
    expected = "proved" if kind is qx.Positive else "refuted"
    assert qx.verify(model, shift).status == expected
    stated = qx.verify(model, shift, sizes={"c": 2})
    assert stated.status == expected


def test_a_variance_that_is_an_input_is_positive():
    """Batch norm in evaluation mode: a scale of what reads the statistics, found at points where there is a root."""

    @qx.architecture(params={"g": "c", "s": "c", "A": "y c"}, inputs={"x": "c", "v": qx.Positive("c")})
    def norm(p, x, v):
        return p["A"] @ jax.nn.relu(x / jnp.sqrt(v) * p["g"] + p["s"])

    scale = qx.Symmetry("s", qx.PositiveDiagonal("c"), {"g": "g @ p.g", "s": "g @ s", "A": "A @ inv(g)"})
    proof = qx.verify(norm, scale)
    assert proof.scope == "every width"
    assert not any("positive" in line for line in proof.assumptions)
    wrong = qx.Symmetry("s", qx.PositiveDiagonal("c"), {"g": "g @ p.g", "A": "A @ inv(g)"})
    witness = qx.verify(norm, wrong).witness
    assert (witness.inputs["v"] > 0).all()


def test_a_permutation_is_tried_where_it_differs_from_its_inverse():
    model, claim = symmetry("permutation: inverse", BROKEN)
    assert qx.verify(model, claim).witness.sizes["h"] == 3


def test_a_model_that_needs_other_sizes_says_so():
    @qx.architecture(params={"W": "a b"}, inputs={"x": "b"})
    def picky(p, x):
        if p["W"].shape[0] != 57:
            raise ValueError("57 rows, please")
        return jnp.tanh(p["W"] @ x)

    claim = qx.Symmetry("swap", qx.SignFlip("a"), {"W": "g @ W"})
    with pytest.raises(qx.ArchitectureError, match="Pass sizes that it accepts"):
        qx.verify(picky, claim)
    assert qx.verify(picky, claim, sizes={"a": 57, "b": 1}).status == "refuted"


def test_at_stated_sizes_laws_are_tried_before_exact_arithmetic():
    @qx.architecture(params={"E": "V D", "U": "F D", "W": "D F"}, inputs={"t": qx.Tokens("T", below="V")})
    def many(p, t):
        return jax.nn.gelu(p["E"][t] @ p["U"].T) @ p["W"].T

    claim = qx.Symmetry("rows", qx.Permutation("F"), {"U": "g @ U", "W": "W @ g.T"})
    sizes = {"V": 9, "D": 5, "F": 6, "T": 4}  # 6561 inputs: too many to try one by one
    certificate = qx.verify(many, claim, sizes=sizes)
    assert certificate.status == "proved"
    assert certificate.scope == "widths (V=9, D=5, F=6, T=4)"
    assert certificate.recheck().scope == certificate.scope
    two = qx.verify(many, claim, sizes=[sizes, sizes | {"F": 4}])
    assert two.scope == two.recheck().scope == "widths (V=9, D=5, F=6, T=4) and (V=9, D=5, F=4, T=4)"
    assert (
        qx.verify(many, qx.Symmetry("rows", claim.group, {"U": "g @ U", "W": "W @ g"}), sizes=sizes).status == "refuted"
    )


def test_the_budget_holds_while_outputs_are_written_out():
    mixing = np.random.default_rng(0).normal(size=(4, 4))

    @qx.architecture(params={"W": "h h", "v": "y"}, inputs={"x": ""})
    def deep(p, x):
        (a, b), (c, d) = p["W"]
        state = p["v"]
        for _ in range(4):
            state = jax.nn.softmax((a * d - b * c) ** 2 * (mixing @ state)) + x
        return state

    claim = qx.Symmetry("rotation", qx.O("h"), {"W": "g @ W"})
    started = time.monotonic()
    certificate = qx.verify(deep, claim, sizes={"h": 2, "y": 4}, budget_seconds=1.0)
    assert certificate.status == "undecided"
    assert "budget of 1 s" in certificate.residual
    assert time.monotonic() - started < 20


def test_what_cannot_be_decided_is_neither_proved_nor_refuted():
    @qx.architecture(params={"W": "h h"}, inputs={"x": ""})
    def determinant(p, x):
        w = p["W"]
        return x * (w[0, 0] * w[1, 1] - w[0, 1] * w[1, 0]) ** 2

    claim = qx.Symmetry("rotation", qx.O("h"), {"W": "g @ W"})
    assert qx.verify(determinant, claim, sizes={"h": 2}).status == "proved"  # in exact arithmetic: it has no law
    certificate = qx.verify(determinant, claim, sizes={"h": 2}, budget_seconds=0.0)
    assert certificate.status == "undecided"
    assert not certificate
    assert "budget" in certificate.residual


def test_a_point_where_a_variance_vanishes_is_no_witness():
    @qx.architecture(params={"W": "h x", "b": "h"}, inputs={"x": "x"})
    def normed(p, x):
        z = p["W"] @ x + p["b"]
        return (z - z.mean()) / jnp.sqrt(jnp.mean(z**2) - jnp.mean(z) ** 2)

    # At seed 507 two units agree exactly: 0/0 before, and after it a rounding error over its root.
    claim = qx.Symmetry("scale", qx.PositiveScalar(), {"W": "2 * (g * W)", "b": "2 * (g * b)"})
    wrong = qx.Symmetry("scale", qx.PositiveScalar(), {"W": "2 * (g * W)", "b": "g * b"})
    for seed in (507, 508, 509):
        assert qx.verify(normed, claim, seed=seed).status == "proved"
        assert qx.verify(normed, wrong, seed=seed).status == "refuted"


def test_refusals_name_the_call():
    _, claim = symmetry("relu scaling")
    with pytest.raises(qx.ArchitectureError, match=r"`verify\(architecture, ...\)` needs what"):
        qx.verify(relu.function, claim)
    assert qx.verify(relu.at(h=2, x=2, y=2), claim).scope == "every width"
    with pytest.raises(qx.SymmetryError, match=r"symmetry must be a `qx.Symmetry`, got 'scale'"):
        qx.verify(relu, "scale")
    with pytest.raises(qx.SymmetryError, match="axis 'h', which no parameter has"):
        qx.verify(attention, claim)
    with pytest.raises(qx.ArchitectureError, match="unknown axis 'z'"):
        qx.verify(relu, claim, sizes={"z": 2})
    odd = qx.Symmetry("rotation", qx.ComplexScaling("h"), {"W1": "g @ W1"})
    with pytest.raises(qx.SymmetryError, match="must be even, got 3"):
        qx.verify(relu, odd, sizes={"h": 3, "x": 1, "y": 1})

"""Metrics, measures, vector fields, equivariance, coverage, models that depend on sizes, and certificates as data."""

import json

import jax
import jax.numpy as jnp
import pytest

import quotax as qx
from quotax.artifacts import Certificate
from quotax.certify.every_width.opening import opened


@qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
def linear(p, x):
    return p["W2"] @ (p["W1"] @ x)


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
def relu(p, x):
    return p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"])


GENERAL = qx.Symmetry("gl", qx.GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
ROTATE = qx.Symmetry("o", qx.O("h"), {"W1": "g @ W1", "W2": "W2 @ g.T"})
SCALE = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"})


def balance(p):
    return jnp.trace(p["W1"] @ p["W1"].T @ p["W2"].T @ p["W2"])


def mixed(p, a, b):
    """tr(H^T H a_G^T b_G) + tr(G^T G a_H^T b_H) with G = W2 and H = W1^T."""
    inner = p["W1"] @ p["W1"].T, p["W2"].T @ p["W2"]
    return jnp.trace(inner[0] @ a["W2"].T @ b["W2"]) + jnp.trace(inner[1] @ a["W1"] @ b["W1"].T)


def test_a_metric_is_proved_invariant_or_refuted():
    assert qx.verify_metric(linear, ROTATE, "euclidean").scope == "every width"
    assert qx.verify_metric(linear, GENERAL, "euclidean").status == "refuted"
    assert qx.verify_metric(linear, GENERAL, mixed).scope == "every width"
    shift = qx.Symmetry("shift", qx.Translation("h"), {"b1": "b1 + g"})
    assert qx.verify_metric(relu, shift, "euclidean").scope == "every width"
    with pytest.raises(qx.GeometryError, match="metric must be"):
        qx.verify_metric(linear, ROTATE, "other")


def test_a_measure_is_proved_invariant_or_refuted():
    assert qx.verify_invariant(linear, GENERAL, balance).scope == "every width"
    norm = qx.verify_invariant(linear, GENERAL, lambda p: sum(jnp.sum(v**2) for v in p.values()))
    assert norm.status == "refuted"
    assert any("O(h)" in step for step in norm.steps), norm.steps


def test_weight_decay_breaks_a_group_to_a_subgroup():
    @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x", "y": "y"})
    def loss(p, x, y):
        error = p["W2"] @ (p["W1"] @ x) - y
        return jnp.sum(error**2) + 0.1 * (jnp.sum(p["W1"] ** 2) + jnp.sum(p["W2"] ** 2))

    certificate = qx.verify(loss, GENERAL)
    assert certificate.status == "refuted"
    assert any("O(h)" in step and "every width" in step for step in certificate.steps), certificate.steps
    assert qx.verify(loss, qx.Symmetry("o", qx.O("h"), dict(GENERAL.action))).scope == "every width"


def test_a_field_is_proved_to_leave_the_output_or_refuted():
    def good(p):
        return {"W1": p["W1"], "W2": -p["W2"]}

    def bad(p):
        return {"W1": p["W1"], "W2": p["W2"]}

    assert qx.verify_field(linear, good).scope == "every width"
    assert qx.verify_field(linear, bad).status == "refuted"

    def scaling(p):
        return {"W1": p["W1"], "b1": p["b1"], "W2": -p["W2"]}

    certificate = qx.verify_field(relu, scaling)
    assert certificate.status == "proved"


def test_equivariance_is_proved_or_refuted():
    @qx.architecture(params={"a": ""}, inputs={"x": "n d"})
    def centred(p, x):
        return p["a"] * (x - x.mean(0))

    turn = qx.Symmetry("turn", qx.O("d"), {"x": "x @ g.T", "probe": "probe @ g.T"})
    assert qx.verify_equivariance(centred, turn, output="n d").scope == "every width"
    wrong = qx.Symmetry("turn", qx.O("d"), {"x": "x @ g.T"})
    assert qx.verify_equivariance(centred, wrong, output="n d").status == "refuted"
    order = qx.Symmetry("order", qx.Permutation("n"), {"x": "g @ x", "probe": "g @ probe"})
    assert qx.verify_equivariance(centred, order, output="n d").scope == "every width"


def test_coverage_names_what_is_not_moved():
    found = qx.coverage([SCALE], relu)
    assert found.unmoved == ()
    assert found.lawless == ()
    assert "none" in str(found)
    assert qx.coverage([qx.Symmetry("w", qx.PositiveDiagonal("h"), {"W1": "g @ W1"})], relu).unmoved == ("b1", "W2")


def test_a_branch_on_the_size_that_the_traces_show_is_not_every_width():
    @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    def by_size(p, x):
        z = p["W1"] @ x
        return p["W2"] @ (jnp.tanh(z) if z.shape[0] > 5 else jax.nn.relu(z))

    scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    certificate = qx.verify(by_size, scale)
    assert certificate.scope != "every width"

    @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    def both(p, x):
        z = p["W1"] @ x
        return p["W2"] @ (jax.nn.leaky_relu(z) if z.shape[0] > 5 else jax.nn.relu(z))

    certificate = qx.verify(both, scale)
    assert certificate.status == "proved"
    assert certificate.scope != "every width"
    assert any("depend" in a or "operations" in a for a in certificate.assumptions)


def test_a_branch_on_a_size_that_nobody_traced_is_not_every_width():
    @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    def far(p, x):
        z = p["W1"] @ x
        return p["W2"] @ (jnp.tanh(z) if z.shape[0] > 10**6 else jax.nn.relu(z))

    scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    certificate = qx.verify(far, scale)
    assert certificate.scope == "every width of x, y at h=2"
    assert any("list of operations" in a for a in certificate.assumptions)


def test_a_loop_over_heads_is_held():
    @qx.architecture(params={"W1": "head h x", "W2": "y h"}, inputs={"x": "x"})
    def loop(p, x):
        return sum(p["W2"] @ jax.nn.relu(p["W1"][k] @ x) for k in range(p["W1"].shape[0]))

    scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1[head,h,x]": "g[h] W1[head,h,x]", "W2": "W2 @ inv(g)"})
    certificate = qx.verify(loop, scale)
    assert certificate.status == "proved"
    assert certificate.scope == "every width of h, x, y at head=3"


def fused(rows, *, rotary=False):
    """Attention whose heads are cut from one width; `rows` says how the function finds the number of rows."""

    @qx.architecture(params={"Wq": "D n", "Wk": "D n", "Wv": "D n", "Wo": "n D", "s": "c"}, inputs={"x": "t D"})
    def attention(p, x):
        n, c = p["Wq"].shape[1], p["s"].shape[0]
        heads = n // c
        if rotary and c % 2:
            raise ValueError
        q, k, v = ((x @ p[w]).reshape(rows(x), heads, c) for w in ("Wq", "Wk", "Wv"))
        if rotary:
            angles = jnp.arange(x.shape[0])[:, None, None] * 10.0 ** (-2 * jnp.arange(c // 2) / c)
            q, k = (turned(a, jnp.cos(angles), jnp.sin(angles)) for a in (q, k))
        weights = jax.nn.softmax(jnp.einsum("thc,shc,c->hts", q, k, p["s"]) / c**0.5, -1)
        return jnp.einsum("hts,shc->thc", weights, v).reshape(rows(x), n) @ p["Wo"]

    def turned(a, cos, sin):
        first, second = jnp.split(a, 2, axis=-1)
        return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)

    return attention


FUSED = qx.Symmetry("values", qx.Diagonal("n"), {"Wv": "Wv @ g", "Wo": "inv(g) @ Wo"})


@pytest.mark.parametrize("rotary", [False, True])
def test_a_width_that_is_a_multiple_of_another_is_proved_for_every_multiple(rotary):
    model = fused(lambda x: x.shape[0], rotary=rotary)
    certificate = qx.verify(model, FUSED)
    assert certificate.status == "proved"
    assert certificate.scope == certificate.recheck().scope == "every width with n a multiple of c"
    assert ("every even c" in certificate.assumptions) == rotary
    assert qx.verify(model, qx.Symmetry("w", FUSED.group, {"Wv": "Wv @ g", "Wo": "g @ Wo"})).status == "refuted"


def test_a_branch_on_the_number_of_heads_is_a_condition():
    @qx.architecture(params={"b": "n", "s": "c"}, inputs={"x": ""})
    def seventh(p, x):
        c = p["s"].shape[0]
        heads = p["b"].reshape(p["b"].shape[0] // c, c)
        return x + jax.nn.relu(x - 1000.0) * (heads.sum() if heads.shape[0] != 7 else heads[0, 0])

    certificate = qx.verify(seventh, qx.Symmetry("permuted", qx.Permutation("n"), {"b": "g @ b"}))
    assert certificate.scope == "every width with n a multiple of c, n_over_c ≠ 7"


def test_an_error_without_words_is_no_crash():
    model = fused(lambda x: x.shape[0], rotary=True)
    outcome = opened(model, {a: a for a in model.axis_names})
    assert outcome == "the model cannot be traced with sizes that stay symbols (ValueError)"


def test_certificates_are_data_and_can_be_made_again():
    for symmetry in (SCALE, qx.Symmetry("wrong", qx.Diagonal("h"), dict(SCALE.action))):
        certificate = qx.verify(relu, symmetry)
        data = json.loads(json.dumps(certificate.to_dict()))
        assert str(Certificate.from_dict(data)) == str(certificate)
        assert certificate.recheck().status == certificate.status
        assert r"\paragraph{Claim" in certificate.latex()
        with pytest.raises(qx.SymmetryError, match="read from data"):
            Certificate.from_dict(data).recheck()
    assert "[the action]" in str(qx.verify(relu, SCALE))


def test_a_refutation_names_the_place():
    @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    def smooth(p, x):
        hidden = p["W1"] @ x
        return p["W2"] @ jnp.tanh(hidden)

    scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    certificate = qx.verify(smooth, scale)
    assert any("tanh" in s and "test_claims_of_other_kinds.py" in s and "smooth" in s for s in certificate.steps)

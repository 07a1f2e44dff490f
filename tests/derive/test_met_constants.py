"""Symmetries that read numbers which a model closes over: the running statistics of a batch normalisation."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import quotax as qx
from quotax.artifacts import ArraySpec, HeldArray
from quotax.interpret.closed_over import closed_over, handed_over

MEAN, VAR = np.array([0.7, -1.3, 0.4]), np.array([0.6, 1.9, 1.1])
PARAMS = {"W": np.ones((2, 3)), "b": np.ones(3), "g": np.ones(3), "o": np.ones(3), "U": np.ones((3, 4))}


def normalised(z, mean, var):
    return (z - mean) * jax.lax.rsqrt(var + 1e-5)


@jax.jit
def compiled(z, gain, offset, mean, var):
    return (z - mean) / jnp.sqrt(var + 1e-3) * (1 + gain) + offset


def trained(p, x):
    return jnp.tanh(normalised(x @ p["W"] + p["b"], MEAN, VAR) * p["g"] + p["o"]) @ p["U"]


def fresh(p, x):
    return jnp.tanh(normalised(x @ p["W"] + p["b"], np.zeros(3), np.ones(3)) * p["g"] + p["o"]) @ p["U"]


def unbiased(p, x):
    return jnp.tanh(normalised(x @ p["W"], MEAN, VAR) * p["g"] + p["o"]) @ p["U"]


def inside(p, x):
    return jnp.tanh(compiled(x @ p["W"] + p["b"], p["g"], p["o"], MEAN[None], VAR[None])) @ p["U"]


def folded(p, x):
    s = p["g"] / np.sqrt(VAR)
    return jnp.tanh((x @ p["W"] + p["b"]) * s + (p["o"] - MEAN * s)) @ p["U"]


def without_gain(p, x):
    return jax.nn.relu(normalised(x @ p["W"] + p["b"], MEAN, VAR)) @ p["U"]


SCALED = {"W[x,h0]": "g[h0] * W[x,h0]", "g[h0]": "p.g[h0] / g[h0]"}
MOVED = {"o[h0]": "o[h0] - g[h0] * p.g[h0] * c2[h0]", "b[h0]": "b[h0] + g[h0]"}


def brought(function, shape=(2,)):
    probe = jax.eval_shape(function, PARAMS, np.ones(shape))
    assert probe.shape[-1] == 4
    used = {"unbiased": "W g o U", "without_gain": "W b U"}.get(function.__name__, "W b g o U").split()
    return qx.from_function(function, {name: PARAMS[name] for name in used}, np.ones(shape))


def quietly(model):
    return qx.derive(model, progress=lambda line: None)


@pytest.fixture(scope="module")
def found():
    return quietly(brought(trained))


def test_a_channel_is_scaled_about_its_mean_and_shifted_by_its_deviation(found):
    assert [s.group for s in found.families] == [qx.Translation("h0"), qx.Diagonal("h0")]
    shift, scale = found.families
    assert shift.action == MOVED
    assert scale.action == SCALED | {"b[h0]": "g[h0] * (b[h0] - c1[h0]) + c1[h0]"}
    (deviation,), (mean,) = shift.constants, scale.constants
    np.testing.assert_array_equal(mean.values, MEAN)
    np.testing.assert_allclose(deviation.values, 1 / np.sqrt(VAR + 1e-5))
    scopes = {found.certificate(s.name).recheck().scope for s in found.families}
    assert len(scopes) == 1
    assert scopes.pop() in ("every width of x, y at h0=3", "every width of y, x at h0=3")
    assert found.audit().surplus == 0
    assert not found.unproved


@pytest.mark.slow
def test_finite_elements_change_no_output_and_results_keep(found, tmp_path):
    model, x = found.model, np.array([0.3, -0.8])
    params = jax.tree.map(lambda a: a + np.random.default_rng(0).normal(size=a.shape), PARAMS)
    space = qx.quotient(model.at(), found, metric="invariant")
    assert set(space.left_out) == {s.name for s in found.families}
    with pytest.warns(qx.MetricWarning):
        space = qx.quotient(model.at(), found)
    moved = space.act(params, space.random_element(jax.random.key(0), scale=0.5))
    np.testing.assert_allclose(trained(moved, x), trained(params, x), rtol=1e-9)
    assert space.fiber_dim == 6
    found.save(tmp_path / "kept.json")
    again = qx.load_symmetries(tmp_path / "kept.json", model)
    assert again.families == found.families
    assert all(again.certificate(s.name).recheck() for s in again.families)


@pytest.mark.parametrize(
    ("line", "twin"),
    [
        ("o[h0]", "o[h0] + g[h0] * p.g[h0] * c2[h0]"),
        ("o[h0]", "o[h0] - g[h0] * p.g[h0] / c2[h0]"),
        ("o[h0]", "o[h0] - g[h0] * p.g[h0] * c1[h0]"),
        ("b[h0]", "b[h0] + 2 * g[h0]"),
    ],
)
def test_broken_twins_are_refuted(found, line, twin):
    held = {one.name: ("h0", one.values) for s in found.families for one in s.constants}
    broken = qx.Symmetry("twin", qx.Translation("h0"), MOVED | {line: twin}, held)
    certificate = qx.verify(found.model, broken)
    assert certificate.status == "refuted"
    assert certificate.witness is not None
    assert certificate.witness.difference > 1e-3


def test_other_numbers_than_the_models_are_refuted(found):
    shift = found.families[0]
    other = HeldArray.of(shift.constants[0].spec, shift.constants[0].values * 1.01)
    twin = qx.Symmetry("twin", shift.group, shift.action, (other,))
    assert qx.verify(found.model, twin).status == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize("function", [fresh, unbiased, inside, folded, without_gain], ids=lambda f: f.__name__)
def test_nothing_is_left_of_a_batch_normalisation(function):
    found = quietly(brought(function, (2,)))
    audit = found.audit()
    assert audit.surplus == 0
    assert audit.orbit == (3 if function in (unbiased, without_gain) else 6)
    assert all(found.certificate(s.name) for s in found.families)
    assert any(s.constants for s in found.families)


@pytest.mark.slow
def test_what_is_handed_in_is_what_was_closed_over():
    trace = brought(inside).trace({"x": 2, "h0": 3, "y": 4})
    mean, deviation = closed_over(trace)
    np.testing.assert_array_equal(mean, MEAN)
    held = (HeldArray.of(ArraySpec("m", (("h0",),)), mean), HeldArray.of(ArraySpec("s", (("h0",),)), deviation))
    handed = handed_over(brought(inside), held).trace({"x": 2, "h0": 3, "y": 4})
    arrays = [np.random.default_rng(1).normal(size=a.shape) for a in trace.jaxpr.in_avals]
    at = len(trace.params)
    with jax.enable_x64(True):
        run = lambda traced, given: jaxpr_as_fun(traced.jaxpr)(*given)[0]
        both = [*arrays[:at], mean, deviation, *arrays[at:]]
        np.testing.assert_allclose(run(handed, both), run(trace, arrays), rtol=1e-12)
        other = [*arrays[:at], mean + 1, deviation, *arrays[at:]]
        assert np.abs(run(handed, other) - run(trace, arrays)).max() > 1e-3


def test_constants_are_refused_where_they_are_none():
    group, action = qx.Diagonal("h"), {"w[h]": "g[h] * (w[h] - m[h]) + m[h]"}
    with pytest.raises(qx.SymmetryError, match="one dimension for each"):
        qx.Symmetry("s", group, action, {"m": ("h", np.ones((2, 2)))})
    with pytest.raises(qx.SymmetryError, match="given with its axes"):
        qx.Symmetry("s", group, action, {"m": np.ones(2)})  # type: ignore
    model = qx.architecture(params={"w": "h", "m": "h"}, inputs={"x": "h"})(lambda p, x: p["w"] * p["m"] * x)
    with pytest.raises(qx.SymmetryError, match="is a parameter of the model"):
        qx.verify(model, qx.Symmetry("s", group, action, {"m": ("h", np.ones(2))}))
    stated = qx.Symmetry("s", group, action, {"m": ("h", np.ones(2))})
    assert stated == dataclasses.replace(stated)
    assert hash(stated) == hash(dataclasses.replace(stated))

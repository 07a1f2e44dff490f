"""Measures along orbits: in the invariant metric they stand still, estimates with the same key included."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from benchmarks.digits import SETTINGS, trained
from geometry.table import CASES, certificates
from quotax.sharpness.problem.setting import Measurement
from quotax.sharpness.verdicts.along_orbit import Elsewhere, compared
from quotax.sharpness.verdicts.invariance import Verdict
from sharpness.orbits import conditioned

S, PD, GL, T = qx.Symmetry, qx.PositiveDiagonal, qx.GL, qx.Translation
# --- the same noise everywhere


def space_of(model, sizes, claims, metric="invariant"):
    return qx.quotient(model.at(**sizes), claims, metric, verified=certificates(claims))


@cache
def chain():
    """Three linear layers: neither hidden axis is told apart without the other, or an end of the network."""

    @qx.architecture(params={"W1": "h x", "W2": "k h", "W3": "y k"}, inputs={"x": "x"})
    def model(p, x):
        return p["W3"] @ (p["W2"] @ (p["W1"] @ x))

    claims = [
        S("linear h", GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"}),
        S("linear k", GL("k"), {"W2": "g @ W2", "W3": "W3 @ inv(g)"}),
    ]
    return space_of(model, {"x": 3, "h": 3, "k": 4, "y": 5}, claims)


@cache
def recurrent():
    """Fewer inputs and outputs than states: the axes come from what every state holds, their signs from the ends."""

    @qx.architecture(params={"U": "h x", "R": "h h", "C": "y h"}, inputs={"x": "t x"})
    def model(p, x):
        return p["C"] @ (p["R"] @ (p["U"] @ x[0])) + p["C"] @ (p["U"] @ x[1])

    claims = [S("linear h", GL("h"), {"U": "g @ U", "R": "g @ R @ inv(g)", "C": "C @ inv(g)"})]
    return space_of(model, {"x": 1, "h": 4, "y": 1}, claims)


HEADS = S(
    "permute head",
    qx.Permutation("head"),
    {
        **{f"{name}[head,k,d]": f"g[head,e] {name}[e,k,d]" for name in "QKV"},
        "O[d,head,k]": "g[head,e] O[d,e,k]",
    },
)


@cache
def permuted_heads():
    """Heads that may change places, each with its own matrices."""
    case = CASES["attention"]
    claims = [*case.families, HEADS]
    return qx.quotient(case.network, claims, "invariant", verified=certificates(claims))


SPACES = {
    **{
        name: lambda name=name: CASES[name].space("invariant", discrete=True)
        for name in ("linear", "attention", "rope", "swiglu", "tied", "leaky", "abs", "decoder", "linear wide-narrow")
    },
    "chain": chain,
    "recurrent": recurrent,
    "heads": permuted_heads,
}
QUICK = ("linear", "tied")


def normal(space, seed):
    shapes = space.network.shapes
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    flat = jnp.concatenate([jax.random.normal(k, s).ravel() for k, s in zip(keys, shapes.values(), strict=True)])
    return space.unravel(flat)


def drift(space, params, element, whitened):
    """How far a vector in whitened coordinates is from itself at another representative, relative."""
    flat, there = space.ravel, space.act(params, element)
    pushed = jax.jvp(lambda p: space.act(p, element), (params,), (whitened(params),))[1]
    found = whitened(there)
    return float(jnp.linalg.norm(flat(found) - flat(pushed)) / jnp.linalg.norm(flat(pushed)))


FAR = ("chain", "recurrent", "heads", "attention", "linear")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in SPACES])
def test_noise_follows_the_group(name):
    space = SPACES[name]()
    params, noise = normal(space, 0), normal(space, 1)
    oriented = space.at(params).oriented()
    assert oriented.fixed
    element = space.random_element(jax.random.key(0), scale=0.4)
    assert drift(space, params, element, lambda p: space.at(p).oriented().point.unwhiten(noise)) < 1e-9
    assert drift(space, params, element, lambda p: space.at(p).unwhiten(noise)) > 1e-2
    # The metric is the same: these are other orthonormal coordinates of it.
    there = oriented.point.unwhiten(noise)
    flat = space.ravel
    assert float(space.norm(params, there)) == pytest.approx(float(jnp.linalg.norm(flat(noise))), rel=1e-12)
    assert jnp.allclose(flat(oriented.point.whiten(there)), flat(noise), atol=1e-11)
    assert jnp.allclose(flat(oriented.point.horizontal(there)), flat(space.horizontal(params, there)), atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAR)
def test_noise_follows_elements_of_any_condition(name):
    space = SPACES[name]()
    params, noise = normal(space, 0), normal(space, 1)
    for condition in (1e1, 1e2, 1e3):
        element = conditioned(space, condition)
        assert drift(space, params, element, lambda p: space.at(p).oriented().point.unwhiten(noise)) < 1e-9


def test_scalings_alone_need_no_orientation():
    space = CASES["leaky"].space("invariant")
    params, noise = normal(space, 0), normal(space, 1)
    element = space.random_element(jax.random.key(0))
    assert drift(space, params, element, lambda p: space.at(p).unwhiten(noise)) < 1e-12
    assert space.at(params).oriented().fixed


def test_reflections_are_followed():
    space = CASES["linear"].space("invariant")
    params, noise = normal(space, 0), normal(space, 1)
    mirror = {"linear h": jnp.asarray([[0.3, 2.0], [1.0, 0.1]])}
    assert jnp.linalg.det(mirror["linear h"]) < 0
    assert drift(space, params, mirror, lambda p: space.at(p).oriented().point.unwhiten(noise)) < 1e-9


def test_what_cannot_be_oriented_says_so():
    # Three states of which the parameters see one: what rotates the other two moves nothing.
    tied = CASES["tied"]
    row = {"W": jnp.outer(jnp.asarray([1.0, 2.0, 0.5])[: tied.network.shapes["W"][0]], tied.draw()["W"][0])}
    found = tied.space("invariant").at(row).oriented()
    assert found.margin < 1e-12
    assert not found.fixed
    assert "hardly determined" in found.reason or "not unique" in found.reason
    # Coordinates of the Euclidean metric are the parameters' own: they follow shifts and nothing else.
    euclidean = tied.space().at(tied.tree()).oriented()
    assert not euclidean.fixed
    assert "rotate h" in euclidean.reason
    assert CASES["softmax"].space().at(CASES["softmax"].tree()).oriented().fixed


@pytest.mark.slow
def test_units_that_are_alike_cannot_be_told_apart():
    space = CASES["abs"].space("invariant", discrete=True)
    params = dict(normal(space, 0))
    assert space.at(params).oriented().fixed
    for name, axis in (("W1", 0), ("b1", 0), ("W2", 1)):
        params[name] = jnp.take(params[name], jnp.asarray([0, 0, 1, 2]), axis)
    found = space.at(params).oriented()
    assert not found.fixed
    assert "not unique" in found.reason


def square_loss(p):
    return 0.5 * jnp.sum((p["W2"] @ p["W1"] - jnp.arange(12.0).reshape(3, 4)) ** 2)


def tied_loss(p):
    gram = p["W"].T @ p["W"]
    return 0.5 * jnp.sum((gram - jnp.arange(gram.size).reshape(gram.shape) / 4) ** 2)


def test_averages_are_the_same_along_an_orbit():
    space, params = CASES["tied"].space("invariant"), CASES["tied"].tree()
    mean = qx.average_sharpness(tied_loss, params, 0.3, space=space, samples=8, probes=0, representatives=1, key=1)
    assert mean.spread is not None
    assert mean.spread.values == pytest.approx(np.full(1, mean.value), rel=1e-10)
    assert mean.standard_error > 1e-3 * mean.value
    assert "the samples of a key are the same" in mean.reason
    # The coordinates of the Euclidean metric do not turn: the same expectation, from other samples.
    fixed = {"space": CASES["tied"].space(), "samples": 8, "probes": 0, "representatives": 1, "key": 1}
    other = qx.average_sharpness(tied_loss, params, 0.3, **fixed)
    assert other.spread is not None
    assert abs(other.spread.values[0] - other.value) > 1e-4 * other.value
    assert "agree to sampling error (rotate h" in other.reason


@pytest.mark.slow
def test_random_traces_are_the_same_along_an_orbit():
    space = CASES["linear"].space("invariant")
    params = normal(space, 0)
    trace = qx.trace(square_loss, params, space=space, probes=6, representatives=2, key=1)
    assert trace.spread is not None
    assert trace.spread.values == pytest.approx(np.full(2, trace.value), rel=1e-8)
    assert trace.standard_error > 1e-3 * trace.value
    assert "the samples of a key are the same" in trace.reason


def test_what_differs_along_an_orbit_is_no_function_on_the_quotient():
    """The largest rise is one, by proof; what a short search from other starts finds of it is not."""
    space, params = CASES["linear"].space("mix"), CASES["linear"].tree()
    bumpy = lambda p: jnp.sum(jnp.sin(3 * p["W2"] @ p["W1"]) ** 2)
    found = qx.sharpness(bumpy, params, 1.0, space=space, budget=6, representatives=2, key=1)
    assert found.spread is not None
    assert found.spread.relative > 0.1
    assert found.invariant is None
    assert f"this perturbation is worth {found.value:.6g} there, so that the searches ended at diff" in found.reason
    assert "In exact arithmetic it is one: the mix metric is invariant" in found.reason


@pytest.mark.parametrize(
    ("seen", "error", "invariant", "words"),
    [
        ([Elsewhere(1.0, False), Elsewhere(1.0009, False)], 0.0, True, "proved"),
        ([Elsewhere(1.1, False)], 0.02, True, "proved"),
        ([Elsewhere(3.0, True), Elsewhere(1.0, False)], 0.0, True, "proved"),
        (
            [Elsewhere(1.1, False)],
            0.01,
            None,
            "at another representative 1.1 was found, and here 1: more than rounding",
        ),
        ([Elsewhere(1.1, False, 1.0)], 0.0, None, "ended at different local maxima. Take a larger budget="),
        ([Elsewhere(1.1, False, 1.1)], 0.0, None, "worth 1.1 there: the loss depends on more than"),
    ],
)
def test_a_difference_is_named_by_its_cause(seen, error, invariant, words):
    request = Measurement("quotax.sharpness", jnp.sum, representatives=len(seen))
    known, spread = compared(Verdict(True, "proved"), request, 1.0, seen, error)
    assert known.invariant is invariant
    assert words in known.reason
    assert spread.lost == sum(each.lost for each in seen)
    for other in (Verdict(False, "refuted"), Verdict(None, "not known")):
        assert compared(other, request, 1.0, seen, error)[0] == other


# --- networks trained on digits


def digits_spaces():
    """Parameters, claims and axis sizes of the two networks."""
    mlp_params = {"W1": "h x", "b1": "h", "W2": "k h", "b2": "k", "W3": "y k", "b3": "y"}
    mlp_claims = [
        S("scale h", PD("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
        S("scale k", PD("k"), {"W2": "g @ W2", "b2": "g @ b2", "W3": "W3 @ inv(g)"}),
        S("permute h", qx.Permutation("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
        S("permute k", qx.Permutation("k"), {"W2": "g @ W2", "b2": "g @ b2", "W3": "W3 @ inv(g)"}),
        S("head weights", T("k"), {"W3": "W3 + g"}),
        S("head bias", T(), {"b3": "b3 + g"}),
    ]
    wq, wk = "g[head,k,l] Wq0[head,l,d]", "inv(g)[head,l,k] Wk0[head,l,d]"
    wv, wo = "g[head,v,l] Wv0[head,l,d]", "inv(g)[head,l,v] Wo0[d,head,l]"
    attention_params = {
        "E": "d r", "P": "t d", "Wq0": "head k d", "Wk0": "head k d", "Wv0": "head v d", "Wo0": "d head v",
        "W": "y d", "b": "y",
    }  # fmt: skip
    attention_claims = [
        S("query key", GL("k", each="head"), {"Wq0[head,k,d]": wq, "Wk0[head,k,d]": wk}),
        S("value output", GL("v", each="head"), {"Wv0[head,v,d]": wv, "Wo0[d,head,v]": wo}),
        S("head weights", T("d"), {"W": "W + g"}),
        S("head bias", T(), {"b": "b + g"}),
    ]
    return {
        "MLP 16 ReLU": (mlp_params, mlp_claims, {"h": 16, "x": 64, "k": 16, "y": 10}),
        "attention, 1 layer": (
            attention_params, attention_claims, {"d": 16, "r": 8, "t": 8, "head": 2, "k": 8, "v": 8, "y": 10},
        ),
    }  # fmt: skip


@cache
def digits_network(name):
    """Trained with Adam in float32, then taken in float64; the loss is the mean cross-entropy of 64 images."""
    setting = trained(name, steps=150, examples=64)
    params, batch = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64) if a.dtype == jnp.float32 else a,
                                 (setting.params, setting.batch))  # fmt: skip
    spec, claims, sizes = digits_spaces()[name]
    logits = SETTINGS[name]()[1]
    model = qx.architecture(params=spec, inputs={"x": "t r" if "r" in sizes else "x"})(
        lambda p, x: logits(p, x[None])[0]
    )
    return setting.loss, params, batch, space_of(model, {k: sizes[k] for k in model.parameter_axes}, claims)


def measured(loss, params, batch, space):
    """All measures at one representative."""
    settings = {"space": space, "batch": batch, "key": 3}
    return {
        "worst case": qx.sharpness(loss, params, 0.1, budget=30, **settings).value,
        "average": qx.average_sharpness(loss, params, 0.1, samples=32, probes=0, **settings).value,
        "trace": qx.trace(loss, params, probes=18, **settings).value,
        "eigenvalues": qx.spectrum(loss, params, 3, which="top", **settings).values,
        "gradient": qx.gradient_norm(loss, params, space=space, batch=batch),
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("MLP 16 ReLU", marks=pytest.mark.slow),
        pytest.param("attention, 1 layer", marks=pytest.mark.long),
    ],
)
def test_trained_networks_along_their_orbits(name):
    """Condition numbers of 10, 100 and 1,000, in float64: float32 holds 1e-4 for traces and eigenvalues.

    An average rise of 3e-4 is a difference of losses near 0.1, of which float32 keeps two or three digits.
    """
    loss, params, batch, space = digits_network(name)
    here = measured(loss, params, batch, space)
    euclidean = [qx.gradient_norm(loss, params, batch=batch)]
    for condition in (1e1, 1e2, 1e3):
        there = space.act(params, conditioned(space, condition))
        assert float(loss(there, batch)) == pytest.approx(float(loss(params, batch)), rel=1e-9)
        for measure, value in measured(loss, there, batch, space).items():
            error = np.max(np.abs(value - here[measure]) / np.abs(here[measure]))
            assert error < 1e-8, (measure, condition)
        euclidean.append(qx.gradient_norm(loss, there, batch=batch))
    assert max(euclidean) > 1.5 * min(euclidean)


@pytest.mark.slow
def test_geodesic_balls_along_an_orbit():
    space = CASES["linear"].space("invariant")
    params = normal(space, 0)
    element = conditioned(space, 100.0)
    for measure in (
        lambda p: qx.sharpness(square_loss, p, 0.3, space=space, ball="geodesic", budget=6, key=1).value,
        lambda p: (
            qx.average_sharpness(square_loss, p, 0.3, space=space, ball="geodesic", samples=4, probes=0, key=1).value
        ),
    ):
        assert measure(space.act(params, element)) == pytest.approx(measure(params), rel=1e-8)

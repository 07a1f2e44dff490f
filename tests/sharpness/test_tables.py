"""Profiles over radii, comparisons of networks, and kinks."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quotax.errors import SharpnessError
from quotax.sharpness import average_sharpness, compare, profile, sharpness
from quotax.sharpness.verdicts.kinks import SCALES, kinked
from sharpness.pairs import Pairs, product_loss
from sharpness.test_laws import bumpy, network
from sharpness.test_quadratics import dense_maximum, examples, problem, quadratic


def test_a_profile_of_a_quadratic_is_exact_at_every_radius():
    A, b, _ = problem(2, 12, "indefinite")
    radii = [0.5, 0.1, 2.0]
    found = profile(quadratic, jnp.zeros(12), radii, batch=examples(A, b), steps=100)
    assert found.radii.tolist() == sorted(radii)
    for radius, value in zip(found.radii, found.values, strict=True):
        assert value == pytest.approx(dense_maximum(A, b, radius), rel=1e-6)
    assert found.evaluations == sum(result.evaluations for result in found.results)


@pytest.mark.slow
def test_a_profile_never_decreases():
    found = profile(bumpy, network(3), np.linspace(0.2, 3, 12), steps=2)
    assert np.all(np.diff(found.values) >= 0)
    for radius, value, result in zip(found.radii, found.values, found.results, strict=True):
        moved = jax.tree.map(jnp.add, network(3), result.perturbation)
        assert float(bumpy(moved) - bumpy(network(3))) == pytest.approx(value, rel=1e-9)
        size = np.sqrt(sum(np.sum(np.asarray(leaf) ** 2) for leaf in jax.tree.leaves(result.perturbation)))
        assert size <= radius * (1 + 1e-6)


@pytest.mark.slow
def test_a_profile_is_one_program_and_no_worse_than_its_parts():
    traced = []

    def loss(p):
        traced.append(1)
        return bumpy(p)

    radii = [0.3, 0.6, 1.2]
    counts = []
    for some in (radii[:1], radii):
        traced.clear()
        found = profile(loss, network(3), some, budget=200)
        counts.append(len(traced))
        # Nothing is compiled again for other radii.
        traced.clear()
        profile(loss, network(3), [2 * radius for radius in some], budget=200)
        assert len(traced) <= 1
    # The second number of radii needs a sweep of its own, and shares everything else.
    assert counts[1] <= counts[0]
    for radius, value in zip(radii, found.values, strict=True):
        assert value >= sharpness(bumpy, network(3), radius, budget=200).value * (1 - 1e-6)
    assert found.evaluations == sum(result.history.size for result in found.results) <= 3 * 200


@pytest.mark.slow
def test_profiles_in_other_balls():
    params = {"u": jnp.asarray([1.5]), "v": jnp.asarray([0.8])}
    one = (jnp.ones((1, 1, 1)), jnp.full((1, 1), 2.0))
    found = profile(product_loss, params, [0.1, 0.2], space=Pairs("inv", 1), ball="geodesic", batch=one)
    lowest = 1.2 * np.exp(-(2**0.5) * np.array([0.1, 0.2]))
    assert found.values == pytest.approx((lowest - 2) ** 2 - 0.64, rel=1e-6)
    assert found.invariant is True
    assert "2 S / r^2" in str(found)
    box = profile(product_loss, params, [0.1, 0.2], norm="linf", batch=one)
    assert np.all(np.diff(box.values) > 0)


@pytest.mark.parametrize(
    ("radii", "settings", "message"),
    [
        ([], {}, "at least one positive number"),
        ([0.1, -1], {}, "radius= a positive finite number, got -1"),
        ([0.1], {"start": jnp.ones(3)}, "drop start="),
    ],
)
def test_bad_radii_and_settings_are_refused(radii, settings, message):
    with pytest.raises(SharpnessError) as error:
        profile(lambda p: jnp.sum(p**2), jnp.ones(3), radii, **settings)
    assert message in str(error.value)


@pytest.mark.slow
def test_a_comparison_has_the_numbers_of_its_measures():
    def model(d, seed):
        rng = np.random.default_rng(seed)
        params = {"u": jnp.asarray(rng.uniform(0.7, 1.5, d)), "v": jnp.asarray(rng.uniform(0.7, 1.5, d))}
        data = (jnp.asarray(rng.normal(size=(6, d)))[None], jnp.asarray(rng.normal(size=6))[None])
        return (lambda p: product_loss(p, data)), params

    spaces = {"narrow": (*model(2, 0), Pairs("inv", 2)), "wide": (*model(4, 1), Pairs("inv", 4))}
    table = compare(spaces | {"bare": model(3, 2)})
    narrow, wide, bare = table.rows
    assert (narrow["d"], narrow["k"], wide["d"], wide["k"]) == (4, 2, 8, 4)
    assert narrow["quot/(d-k)"] == pytest.approx(narrow["trace quot"] / 2)
    assert narrow["full/d"] == pytest.approx(narrow["trace full"] / 4)
    loss, params = model(2, 0)
    assert narrow["S full"] == pytest.approx(sharpness(loss, params, 0.05).value)
    assert narrow["S quot"] == pytest.approx(sharpness(loss, params, 0.05, space=Pairs("inv", 2)).value)
    assert narrow["invariant"] is True
    assert np.isnan(bare["S quot"])
    text = str(table)
    assert "does not make networks of different widths comparable" in " ".join(text.split())
    assert "narrow: the inv metric is invariant" in text
    assert max(map(len, text.splitlines())) <= 100
    assert re.search(r"^S quot +\S+ +\S+ +- +worst rise in the horizontal ball", text, re.MULTILINE)
    json.dumps(table.to_dict(), allow_nan=True)
    with pytest.raises(SharpnessError, match=r"models\['a'\] must be \(loss, params, space\)"):
        compare({"a": 3})


# --- kinks


def test_second_differences_tell_kinks_from_curvature():
    h = np.asarray(SCALES)
    smooth = [2 * h**2, 2 * h**2 + 30 * h**4, h**2 - h**4 + h**6, 2 - 2 * np.cos(h), 0 * h]
    sharp = [np.abs(h), 2 * h**2 + np.abs(h) / 10, 5 * np.maximum(h - 0.001, 0) + 0.01 * h**2]
    assert [kinked(rises, 1.0, 2e-16) for rises in smooth] == [False] * 5
    assert [kinked(rises, 1.0, 2e-16) for rises in sharp] == [True] * 3
    # Rounding of a large loss hides all of it.
    assert kinked(1e-6 * h**2 + 1e-12, 1e6, 2e-16) is None
    assert kinked(np.array([1.0, np.nan, 0, 0]), 1.0, 2e-16) is None


def many_units(p, x):
    """A regression on noise: its residuals are not small, so the ReLUs' kinks stay in the loss."""
    x, y = x[:, 0], x[:, 1]
    return jnp.mean((jax.nn.relu(jnp.outer(x, p["w"]) + p["b"]) @ p["a"] - y) ** 2)


def gated(p, x):
    x, y = x[:, 0], x[:, 1]
    return jnp.mean((jax.nn.gelu(jnp.outer(x, p["w"]) + p["b"]) @ p["a"] - y) ** 2)


@pytest.mark.slow
def test_kinks_of_relu_units_are_named_and_smooth_units_are_not():
    rng = np.random.default_rng(0)
    data = jnp.asarray(np.stack([rng.uniform(-1, 1, 400), 3 * rng.normal(size=400)], 1))
    params = {"w": jnp.asarray(rng.normal(size=8)), "b": jnp.zeros(8), "a": jnp.asarray(rng.normal(size=8))}
    # All hidden units switch at x = 0; an example sits there with a large residual.
    data = data.at[:40, 0].set(1e-4).at[:40, 1].set(5.0)
    sharp = many_units
    found = average_sharpness(sharp, params, 0.1, batch=data)
    assert found.status == "kink"
    assert abs(found.prediction - found.value) > 0.2 * abs(found.value)
    assert sharpness(sharp, params, 0.1, batch=data).kink is True
    smooth = average_sharpness(gated, params, 0.1, batch=data)
    assert smooth.status == "ok"
    worst = sharpness(gated, params, 0.1, batch=data)
    assert worst.kink is False
    assert "kinks" not in str(worst)


@pytest.mark.slow
def test_no_number_is_named():
    broken = average_sharpness(lambda p: jnp.sum(jnp.log(p)), jnp.asarray([1.0, 0.05]), 0.1)
    assert broken.status == "not finite"
    assert broken.nonfinite > 0
    assert np.isfinite(broken.value)
    nowhere = average_sharpness(lambda p: jnp.sum(jnp.log(p)), jnp.asarray([1.0, -1.0]), 0.1)
    assert nowhere.status == "loss is nan at params"
    flat = average_sharpness(lambda p: 0 * jnp.sum(p) + 3, jnp.ones(3), 0.1)
    assert (flat.value, flat.status) == (0.0, "ok")

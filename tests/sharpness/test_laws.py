"""Laws that hold for any loss: feasible, monotone, never NaN, independent of chunks; on small networks.

Losses are module-level functions and choices are data (`batch=`), so that one compiled program serves many cases.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quotax.errors import SharpnessError
from quotax.sharpness import Sharpness, sharpness


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LinearPoint:
    """GL(h) of `W2 W1`: vertical vectors (C W1, -W2 C), by a QR factorisation of all of them."""

    Q: jax.Array

    def horizontal(self, v):
        W1, W2 = v["W1"], v["W2"]
        flat = jnp.concatenate([W1.ravel(), W2.ravel()])
        flat = flat - self.Q @ (self.Q.T @ flat)
        return {"W1": flat[: W1.size].reshape(W1.shape), "W2": flat[W1.size :].reshape(W2.shape)}

    def inner(self, u, v):
        return jnp.sum(u["W1"] * v["W1"]) + jnp.sum(u["W2"] * v["W2"])

    def norm(self, v):
        return jnp.sqrt(self.inner(v, v))


class LinearSpace:
    def at(self, params):
        W1, W2 = params["W1"], params["W2"]
        h = W1.shape[0]
        fields = [jnp.concatenate([(C @ W1).ravel(), (-W2 @ C).ravel()]) for C in jnp.eye(h * h).reshape(-1, h, h)]
        return LinearPoint(jnp.linalg.qr(jnp.stack(fields, axis=1))[0])


class ClosedSpace(LinearSpace):
    """The same, with a point that is no pytree: its arrays sit in closures."""

    def at(self, params):
        point = super().at(params)
        return SimpleNamespace(horizontal=point.horizontal, inner=point.inner, norm=point.norm)


def regression(p, batch):
    x, y = batch
    return jnp.mean(jnp.sum((x @ p["W1"].T @ p["W2"].T - y) ** 2, axis=1))


def bumpy(p):
    """A loss with many local maxima and strong third derivatives."""
    z = p["W2"] @ jnp.tanh(3 * p["W1"])
    return jnp.sum(jnp.sin(2 * z) ** 2) + 0.1 * jnp.sum(z**2)


ODD_LOSSES = [
    lambda p: 0 * jnp.sum(p) + 3.0,
    lambda p: -jnp.sum(p**2),
    lambda p: jnp.sum(jnp.abs(p)),
    lambda p: -jnp.sum(jnp.log(1 - p)),
    lambda p: jnp.where(jnp.all(p == 1), jnp.nan, jnp.sum(p)),
    lambda p: jnp.where(jnp.all(p == 1), jnp.inf, jnp.sum(p)),
]
FLAT, PEAK, KINK, POLE, NAN, INFINITE = (jnp.asarray([i]) for i in range(len(ODD_LOSSES)))


def odd(p, which):
    return jax.lax.switch(which[0], ODD_LOSSES, p)


def network(seed, n=4, h=2, m=3):
    one, two = jax.random.split(jax.random.key(seed))
    return {"W1": jax.random.normal(one, (h, n)), "W2": jax.random.normal(two, (m, h))}


def data(count=23, n=4, m=3):
    one, two = jax.random.split(jax.random.key(9))
    return jax.random.normal(one, (count, n)), jax.random.normal(two, (count, m))


def size(v):
    return float(jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(v))))


def rise(loss, params, found, *batch):
    return float(loss(jax.tree.map(jnp.add, params, found.perturbation), *batch) - loss(params, *batch))


@given(seed=st.integers(0, 10_000), radius=st.floats(1e-3, 3.0), budget=st.integers(5, 160))
def test_feasible_monotone_and_attained(seed, radius, budget):
    params = network(seed)
    found = sharpness(bumpy, params, radius, budget=budget, key=seed)
    assert size(found.perturbation) <= radius * (1 + 1e-6)
    assert found.history[0] == 0
    assert found.history.size == found.evaluations <= budget
    assert np.all(np.diff(found.history) >= 0)
    assert found.value == found.history[-1] == max(found.restart_values.max(), 0)
    assert found.value == pytest.approx(rise(bumpy, params, found), rel=1e-9, abs=1e-13)
    assert found.value > 0


@pytest.mark.slow
@pytest.mark.parametrize("radius", [1e-2, 1.0])
def test_points_stay_horizontal_in_single_precision(radius):
    # Candidates are combinations of horizontal vectors, and projected only where rounding has led away from them.
    params, batch = (jax.tree.map(lambda a: a.astype(jnp.float32), tree) for tree in (network(3), data()))
    found = sharpness(regression, params, radius, batch=batch, space=LinearSpace(), tolerance=1e-9)
    d, W = found.perturbation, params
    assert found.evaluations > 100
    residual = W["W2"].T @ d["W2"] - d["W1"] @ W["W1"].T
    assert float(jnp.linalg.norm(residual)) <= 4e-6 * radius * float(
        jnp.linalg.norm(W["W1"]) + jnp.linalg.norm(W["W2"])
    )


@pytest.mark.slow
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), radius=st.floats(1e-3, 1.0))
def test_horizontal_sharpness_is_at_most_full_sharpness(seed, radius):
    params, batch = network(seed), data()
    full = sharpness(regression, params, radius, batch=batch)
    quotient = sharpness(regression, params, radius, batch=batch, space=LinearSpace())
    assert 0 < quotient.value <= full.value * (1 + 1e-9)
    assert size(quotient.perturbation) <= radius * (1 + 1e-6)
    d, W = quotient.perturbation, params
    # Horizontal iff W2^T d2 = d1 W1^T.
    np.testing.assert_allclose(W["W2"].T @ d["W2"], d["W1"] @ W["W1"].T, atol=1e-12)
    assert quotient.value == pytest.approx(rise(regression, params, quotient, batch), rel=1e-8)


@pytest.mark.slow
def test_point_may_be_a_closure():
    params, batch = network(0), data()
    tree = sharpness(regression, params, 0.3, batch=batch, space=LinearSpace())
    closed = sharpness(regression, params, 0.3, batch=batch, space=ClosedSpace())
    assert closed.value == pytest.approx(tree.value, rel=1e-12)


def test_a_continued_search_never_falls():
    values, state = [], None
    for budget in range(20, 121, 10):
        found = sharpness(bumpy, network(5), 1.0, budget=budget, state=state, resumable=True)
        values.append(found.value)
        state = found.state
    assert values == sorted(values)
    assert values[-1] > values[0]


@pytest.mark.slow
@pytest.mark.parametrize("microbatch", [1, 5, 23, 100])
def test_chunks_change_rounding_only(microbatch):
    params, batch = network(0), data()
    whole = sharpness(regression, params, 0.3, batch=batch)
    cut = sharpness(regression, params, 0.3, batch=batch, microbatch=microbatch)
    assert whole.base == pytest.approx(float(regression(params, batch)), rel=1e-12)
    assert cut.value == pytest.approx(whole.value, rel=1e-9)
    assert cut.base == pytest.approx(whole.base, rel=1e-12)
    assert size(jax.tree.map(jnp.subtract, cut.perturbation, whole.perturbation)) < 1e-4


@pytest.mark.slow
def test_remainder_is_weighted_by_its_size():
    # Negative control: averaging the means of unequal chunks would give (2.5 + 7) / 2, not the mean 3.4.
    batch = jnp.asarray([1.0, 2.0, 3.0, 4.0, 7.0])
    options = {"restarts": 1, "curvature": 0}
    found = sharpness(lambda p, x: p**2 + jnp.mean(x), jnp.asarray(0.0), 0.1, batch=batch, microbatch=4, **options)
    assert found.base == pytest.approx(3.4)
    assert found.value == pytest.approx(0.01)


def test_same_key_same_result_and_params_untouched():
    params = network(2)
    before = jax.tree.map(np.array, params)
    one, two = (sharpness(bumpy, params, 1.0, key=key) for key in (jax.random.key(3), 3))
    assert one.value == two.value
    jax.tree.map(np.testing.assert_array_equal, before, jax.tree.map(np.asarray, params))


@pytest.mark.slow
def test_points_where_the_loss_is_not_finite_are_never_selected():
    # log(1 - p) is a NaN beyond 1, inside the ball; the supremum there is infinite but attained nowhere.
    found = sharpness(odd, jnp.asarray([0.5, 0.2, 0.1, 0.0]), 0.9, batch=POLE)
    assert np.isfinite(found.value)
    assert found.value > 1
    assert bool(jnp.all(jnp.isfinite(found.perturbation)))
    assert found.nonfinite > 0
    assert "not finite at" in str(found)
    assert np.all(np.diff(found.history) >= 0)


@pytest.mark.parametrize(("which", "kind"), [(NAN, "nan"), (INFINITE, "inf")], ids=["nan", "inf"])
def test_loss_not_finite_at_the_centre_is_named(which, kind):
    found = sharpness(odd, jnp.ones(4), 0.1, batch=which)
    assert found.status == f"loss is {kind} at params"
    assert np.isnan(found.value)
    np.testing.assert_array_equal(found.perturbation, np.zeros(4))
    assert np.isnan(found.history).all()
    assert found.history.size == found.restart_values.size == 1


def test_flat_loss_is_named():
    found = sharpness(odd, jnp.ones(4), 0.1, batch=FLAT)
    assert (found.status, found.value) == ("flat", 0.0)


def test_decrease_everywhere_is_not_flat():
    # A strict maximum at the centre: the worst rise is zero, reached without moving.
    found = sharpness(odd, jnp.zeros(4), 0.1, batch=PEAK)
    assert found.value == 0.0
    assert found.status != "flat"
    np.testing.assert_array_equal(found.perturbation, np.zeros(4))


def test_kinks_do_not_stop_the_ascent():
    found = sharpness(odd, jnp.asarray([0.01, -0.02, 0.03, 0.0]), 1.0, batch=KINK)
    exact = np.sum(np.abs([0.01, -0.02, 0.03, 0.0]) + 0.5) - 0.06
    assert found.value == pytest.approx(exact, rel=1e-6)


@pytest.mark.slow
def test_mixed_and_scalar_leaves(strict_promotion):
    def loss(p):
        return p["a"] ** 2 + jnp.sum(p["b"][0] ** 2).astype(jnp.float64)

    params = {"a": jnp.ones((), jnp.float64), "b": [jnp.ones(2, jnp.float32)]}
    found = sharpness(loss, params, 0.1)
    assert found.value == pytest.approx((3**0.5 + 0.1) ** 2 - 3, rel=1e-5)
    assert jax.tree.map(lambda leaf: leaf.dtype, found.perturbation) == {"a": jnp.float64, "b": [jnp.float32]}


def test_result_reads_as_one_line():
    found = Sharpness(0.25, None, 40, np.zeros(1), "stationary", 0.1, 1.0, np.array([0.2, 0.25]))
    assert str(found) == "sharpness 0.25 at radius 0.1 (stationary, 40 gradients; 2 restarts from 0.2)"


@pytest.mark.slow
def test_a_start_is_never_left_below():
    # A poor search from its own starts; the start is the best of a long one.
    params = network(3)
    best = sharpness(bumpy, params, 1.0, steps=60, restarts=8)
    poor = {"steps": 1, "restarts": 1, "curvature": 0}
    alone = sharpness(bumpy, params, 1.0, **poor)
    helped = sharpness(bumpy, params, 1.0, start=best.perturbation, **poor)
    size = np.sqrt(sum(np.sum(np.asarray(a) ** 2) for a in jax.tree.leaves(best.perturbation)))
    assert size == pytest.approx(1.0)  # on the sphere, where a start is put
    assert alone.value < best.value
    assert helped.value >= best.value * (1 - 1e-12)


@pytest.mark.slow
def test_the_full_ball_started_at_the_horizontal_best_is_not_below_it():
    params, batch = network(5), data()
    quot = sharpness(regression, params, 0.5, batch=batch, space=LinearSpace())
    full = sharpness(regression, params, 0.5, batch=batch, start=quot.perturbation, steps=1)
    assert full.value >= quot.value * (1 - 1e-9)


def test_a_start_of_another_shape_is_refused():
    params = network(0)
    with pytest.raises(SharpnessError, match=r"needs start= shaped like the parameters, such as"):
        sharpness(bumpy, params, 1.0, start={"W1": params["W1"]})
    with pytest.raises(SharpnessError, match=r"got an array of \(4, 2\) for \(2, 4\)"):
        sharpness(bumpy, params, 1.0, start=params | {"W1": params["W1"].T})
    with pytest.raises(SharpnessError, match=r"a finite direction, got one of absolute sum 0.0"):
        sharpness(bumpy, params, 1.0, start=jax.tree.map(jnp.zeros_like, params))

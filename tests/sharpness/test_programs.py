"""What is compiled, how often a loss is traced, what is kept; the same algebra on vectors that stay on a device."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.sharpness.problem import setting as settings
from quotax.sharpness.problem.setting import Measurement
from sharpness.pairs import Pairs, product_loss
from sharpness.test_laws import LinearSpace, bumpy, data, network, regression


def counted():
    """A loss, and a list that grows when it is traced."""
    traced = []

    def loss(p):
        traced.append(1)
        return bumpy(p)

    return loss, traced


def test_every_measure_shares_three_programs_of_a_loss():
    loss, traced = counted()
    params = network(0)
    qx.sharpness(loss, params, 0.5, budget=60)
    qx.average_sharpness(loss, params, 0.5, samples=8)
    # Each measure also asks for the shape of the result, and the derivatives trace what they differentiate.
    known = len(traced)
    for call in (
        lambda: qx.spectrum(loss, params, 2),
        lambda: qx.trace(loss, params),
        lambda: qx.profile(loss, params, [0.1, 0.7], budget=40),
        lambda: qx.sharpness(loss, params, 0.3, norm="linf", budget=40),
        lambda: qx.sharpness(loss, params, 0.3, mask="W1", budget=40),
        lambda: qx.gradient_norm(loss, params),
    ):
        traced.clear()
        call()
        assert len(traced) <= 1, "compiled again"
    assert known <= 8


def over(table):
    """A loss that closes over data, and a weak reference to these."""
    closed = jnp.asarray(table)
    return lambda p: jnp.sum(closed) * jnp.sum(p**2), weakref.ref(closed)


def test_nothing_keeps_the_loss_and_its_data_alive():
    loss, closed = over(np.ones(1000))
    qx.sharpness(loss, jnp.ones(3), 0.1, budget=20)
    alive = weakref.ref(loss)
    assert alive() is not None
    assert closed() is not None
    del loss
    gc.collect()
    assert alive() is None
    assert closed() is None


class Model:
    def loss(self, p):
        return jnp.sum(p**2)


def test_a_bound_method_is_compiled_once():
    model, calls = Model(), []
    seen = lambda name, *_, **__: calls.append(name) if "backend_compile" in name else None
    jax.monitoring.register_event_duration_secs_listener(seen)
    try:
        qx.sharpness(model.loss, jnp.ones(3), 0.1, budget=20)
        assert calls, "the listener hears of programs"
        calls.clear()
        qx.sharpness(model.loss, jnp.ones(3), 0.1, budget=20)
    finally:
        jax.monitoring.unregister_event_duration_listener(seen)
    assert not calls


@pytest.mark.parametrize("measure", ["full", "quotient", "box", "single", "spectrum", "trace", "average", "geodesic"])
def test_vectors_that_stay_on_the_device_give_the_same(monkeypatch, measure):
    params, batch = network(1), data()
    pair = {"u": jnp.asarray([1.5, 1.1]), "v": jnp.asarray([0.8, 1.2])}
    example = (jnp.eye(2)[None], jnp.asarray([[2.0, 1.0]]))
    there = {"batch": batch, "space": LinearSpace()}
    call = {
        "full": lambda: qx.sharpness(regression, params, 0.5, batch=batch, budget=60).value,
        "quotient": lambda: qx.sharpness(regression, params, 0.5, budget=60, **there).value,
        "box": lambda: qx.sharpness(regression, params, 0.2, batch=batch, per_layer=True, budget=60).value,
        "single": lambda: qx.sharpness(regression, params, 0.5, batch=batch, memory=1, budget=60).value,
        "spectrum": lambda: qx.spectrum(regression, params, 2, **there).values[0],
        "trace": lambda: qx.trace(regression, params, probes=6, **there).value,
        "average": lambda: qx.average_sharpness(regression, params, 0.5, samples=8, probes=0, **there).value,
        "geodesic": lambda: (
            qx.sharpness(
                product_loss, pair, 0.1, space=Pairs("inv", 2), ball="geodesic", batch=example, budget=60
            ).value
        ),
    }[measure]
    on_host = call()
    monkeypatch.setattr(settings, "on_host", lambda params: False)
    assert call() == pytest.approx(on_host, rel=1e-9)


def test_a_key_draws_the_same_vectors_in_every_dtype():
    for key in (3, jax.random.key(3)):
        drawn = [
            Measurement("test", lambda p: jnp.sum(p), key=key).at(jnp.ones(5, dtype)).problem.normal((1, 2))
            for dtype in (jnp.float32, jnp.float64)
        ]
        np.testing.assert_array_equal(drawn[0], drawn[1].astype(np.float32))


def test_representatives_are_measured_with_the_effort_that_was_asked_for():
    evaluations = []
    space = Pairs("inv", 1)
    pair = {"u": jnp.asarray([1.5]), "v": jnp.asarray([0.8])}

    def watch(line):
        evaluations.append(int(line.split(" of ")[1].split()[0]))

    one = (jnp.ones((1, 1, 1)), jnp.full((1, 1), 2.0))
    settings = {"steps": 3, "restarts": 2, "curvature": 0, "batch": one, "space": space, "progress": watch}
    qx.sharpness(product_loss, pair, 0.1, representatives=2, **settings)
    assert set(evaluations) == {7}

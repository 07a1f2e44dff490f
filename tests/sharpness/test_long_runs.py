"""A search can be watched, interrupted, saved and taken up again; wherever it was cut, it ends at the same value."""

import os
import pickle
import signal
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quotax.errors import SharpnessError
from quotax.presenting.telling import SILENT
from quotax.sharpness import sharpness


def bumpy(p):
    z = p["W2"] @ jnp.tanh(3 * p["W1"])
    return jnp.sum(jnp.sin(2 * z) ** 2) + 0.1 * jnp.sum(z**2)


def network():
    one, two = jax.random.split(jax.random.key(4))
    return {"W1": jax.random.normal(one, (3, 4)), "W2": jax.random.normal(two, (3, 3))}


class Interrupt:
    """Raises a keyboard interrupt at the n-th report."""

    def __init__(self, after):
        self.left = after

    def __call__(self, line):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 3, 12, 40])
def test_interrupted_saved_and_resumed_it_ends_where_it_would_have(after):
    whole = sharpness(bumpy, network(), 1.0, budget=80)
    cut = sharpness(bumpy, network(), 1.0, budget=80, progress=Interrupt(after))
    if cut.status != "interrupted":  # rounds that take no time are run many at once
        assert cut.value == whole.value
        return
    assert cut.evaluations < whole.evaluations
    assert 0 <= cut.value <= whole.value
    rise = bumpy(jax.tree.map(jnp.add, network(), cut.perturbation)) - bumpy(network())
    assert float(rise) == pytest.approx(cut.value, abs=1e-12)
    saved = pickle.loads(pickle.dumps(cut.state))
    on = sharpness(bumpy, network(), 1.0, budget=80, state=saved)
    assert on.value == pytest.approx(whole.value, rel=1e-12)
    assert on.evaluations == whole.evaluations
    np.testing.assert_allclose(on.history, whole.history, rtol=1e-12)


@pytest.fixture
def interrupts():
    """Interrupts from the keyboard as in a session: workers of pytest ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.3, 1.0, 2.2])
def test_an_interrupt_from_the_keyboard_returns_what_was_found(interrupts, after):
    def wide(p):
        return jnp.sum(jnp.sin(2 * p["W"] @ jnp.linspace(-1, 1, 400)) ** 2) + 0.1 * jnp.sum(p["W"] ** 2)

    settings = {"budget": 10**6, "tolerance": 1e-15, "progress": lambda line: None}
    params = {"W": jax.random.normal(jax.random.key(0), (300, 400))}
    sharpness(wide, params, 1.0, budget=60, progress=lambda line: None)
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    cut = sharpness(wide, params, 1.0, **settings)
    assert cut.status == "interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    on = sharpness(wide, params, 1.0, **settings | {"budget": cut.evaluations + 40}, state=cut.state)
    assert on.value >= cut.value >= 0


@pytest.mark.slow
def test_the_state_is_a_pytree_of_arrays():
    first = sharpness(bumpy, network(), 1.0, budget=30, resumable=True)
    leaves, tree = jax.tree.flatten(first.state)
    saved = [np.asarray(leaf) for leaf in leaves]
    longer = sharpness(bumpy, network(), 1.0, budget=120, state=jax.tree.unflatten(tree, saved))
    assert longer.value >= first.value
    assert longer.evaluations > first.evaluations
    assert sharpness(bumpy, network(), 1.0, budget=30).state is None


@pytest.mark.slow
def test_a_state_is_taken_up_as_often_as_one_likes():
    state = sharpness(bumpy, network(), 1.0, budget=20, resumable=True).state
    once, twice = (sharpness(bumpy, network(), 1.0, budget=40, state=state) for _ in range(2))
    assert once.value == twice.value
    assert once.evaluations == twice.evaluations > state.spent


def test_progress_is_told_to_a_function():
    lines = []
    found = sharpness(bumpy, network(), 1.0, budget=60, progress=lines.append)
    assert lines
    assert lines[0].startswith("quotax.sharpness: ")
    assert f"after {found.evaluations} of 60 gradients" in lines[-1]


@pytest.mark.slow
def test_only_a_search_that_takes_long_writes_to_standard_error(capsys):
    def slow(p):
        jax.debug.callback(lambda: time.sleep(0.25), ordered=True)
        return jnp.sum(p**2)

    sharpness(bumpy, network(), 1.0, budget=60)
    assert capsys.readouterr().err == ""
    sharpness(slow, jnp.ones(3), 0.1, budget=12 + int(SILENT / 0.25))
    assert "quotax.sharpness: " in capsys.readouterr().err


def test_a_state_of_another_measurement_is_refused():
    state = sharpness(bumpy, network(), 1.0, budget=20, resumable=True).state
    with pytest.raises(SharpnessError, match=r"21 parameters and radius 1, and here are 21 and 2"):
        sharpness(bumpy, network(), 2.0, budget=40, state=state)
    with pytest.raises(SharpnessError, match=r"needs state= the `.state` of an earlier result, got dict"):
        sharpness(bumpy, network(), 1.0, state={})

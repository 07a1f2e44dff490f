"""Networks of which no more copies fit get a single ascent, at the memory of a few vectors."""

import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quotax.sharpness import sharpness
from quotax.sharpness.search import effort

ROOT = pathlib.Path(__file__).parents[2]


def loss(p, batch):
    x, y = batch
    return jnp.mean((jnp.tanh(x @ p["W1"].T) @ p["W2"].T - y) ** 2)


def problem():
    one, two, three, four = jax.random.split(jax.random.key(0), 4)
    params = {"W1": jax.random.normal(one, (5, 4)), "W2": jax.random.normal(two, (3, 5))}
    return params, (jax.random.normal(three, (32, 4)), jax.random.normal(four, (32, 3)))


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(effort, "MEMORY_BYTES", 64)


def test_how_much_is_kept_depends_on_the_size():
    small, large, huge = (effort.plan(200, size, 4, None, None, None) for size in (10**4, 2 * 10**7, 10**8))
    assert (small.memory, small.kept, small.single) == (effort.LONGEST_MEMORY, effort.KEPT, False)
    assert 1 <= large.memory < small.memory
    assert huge.single


@pytest.mark.slow
def test_a_single_ascent_is_feasible_monotone_and_counted(little_memory):
    params, batch = problem()
    found = sharpness(loss, params, 0.8, batch=batch, microbatch=8, budget=60)
    size = np.sqrt(sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(found.perturbation)))
    assert size <= 0.8 * (1 + 1e-9)
    assert found.evaluations == found.history.size <= 60
    assert np.all(np.diff(found.history) >= 0)
    moved = jax.tree.map(jnp.add, params, found.perturbation)
    assert found.value == pytest.approx(float(loss(moved, batch) - loss(params, batch)), rel=1e-9)
    assert found.value > 0.5


@pytest.mark.slow
def test_it_reaches_the_maximum_of_a_quadratic(little_memory):
    curvature = jnp.arange(1.0, 7.0)
    found = sharpness(lambda p: jnp.sum(curvature * p**2) + p[0], jnp.zeros(6) + 0.1, 0.5, budget=200)
    best = sharpness(lambda p: jnp.sum(curvature * p**2) + p[0], jnp.zeros(6) + 0.1, 0.5, budget=200, bound=True)
    assert found.status in ("stationary", "rounding")
    assert best.gap == pytest.approx(0, abs=1e-6)
    assert found.value == pytest.approx(best.value + best.gap, rel=1e-6)


def test_it_can_be_interrupted_and_resumed(little_memory):
    params, batch = problem()
    calls = []

    def stop(line):
        calls.append(line)
        if len(calls) == 2:
            raise KeyboardInterrupt

    whole = sharpness(loss, params, 0.8, batch=batch, budget=30)
    cut = sharpness(loss, params, 0.8, batch=batch, budget=30, progress=stop)
    assert cut.status == "interrupted"
    on = sharpness(loss, params, 0.8, batch=batch, budget=30, state=cut.state)
    assert on.value == pytest.approx(whole.value, rel=1e-12)


@pytest.mark.slow
def test_a_hundred_million_parameters_take_eight_times_their_bytes():
    script = ROOT / "tests" / "benchmarks" / "peak_memory.py"
    run = subprocess.run(
        [sys.executable, str(script), "100_000_000"],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    ratio = float(re.search(r"= ([0-9.]+) x the parameters", run.stdout).group(1))
    assert ratio <= 8

"""Eight virtual devices, and two processes that talk over loopback, find what one device finds."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quotax.errors import SharpnessError
from quotax.sharpness import sharpness

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "sharpness" / "on_devices.py"


def start(*arguments, devices):
    environment = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT / "src"),
    }
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *map(str, arguments)], env=environment, stdout=subprocess.PIPE, text=True
    )


def finish(process):
    out, _ = process.communicate(timeout=400)
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def found():
    """By kind, what one device finds and what eight do: a process for each."""
    kinds = {1: ("one", "others"), 8: ("mesh", "restarts", "others on a mesh", "last")}
    processes = [start(*asked, devices=count) for count, asked in kinds.items()]
    return {
        k: v
        for asked, one in zip(kinds.values(), processes, strict=True)
        for k, v in zip(asked, finish(one), strict=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mesh", "restarts"])
def test_a_mesh_of_eight_devices_finds_the_same(found, kind):
    values, places = found[kind]
    np.testing.assert_allclose(values, found["one"][0], rtol=1e-6)
    assert places == list(range(8))


@pytest.mark.slow
def test_the_other_measures_on_a_mesh_are_the_same(found):
    np.testing.assert_allclose(found["others on a mesh"][0], found["others"][0], rtol=1e-6)


@pytest.mark.slow
def test_arrays_stay_on_the_device_they_are_on(found):
    values, places = found["last"]
    assert values[0] == pytest.approx(found["one"][0][0], rel=1e-6)
    assert places == [7]


@pytest.mark.slow
def test_two_processes_find_the_same(found):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [start(port, process, devices=2) for process in (0, 1)]
    for ((values, _),) in map(finish, both):
        np.testing.assert_allclose(values, found["one"][0], rtol=1e-6)


def test_meshes_that_cannot_be_used_are_refused():
    def loss(p, batch):
        return jnp.sum(p**2) * jnp.mean(batch)

    explicit = jax.make_mesh((1,), ("data",))
    if explicit.axis_types[0] != jax.sharding.AxisType.Auto:
        with pytest.raises(SharpnessError, match="needs a mesh with Auto axes"):
            sharpness(loss, jnp.ones(3), 0.1, batch=jnp.ones(4), mesh=explicit)
    with pytest.raises(SharpnessError, match=r"needs mesh= a jax.sharding.Mesh, got int; try jax.make_mesh"):
        sharpness(loss, jnp.ones(3), 0.1, batch=jnp.ones(4), mesh=8)

"""Activation: what it loads, what it leaves alone, what it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import quotax.geomstats_jax as geomstats_jax

SOURCE = Path(__file__).parents[2] / "src"


def fresh(code: str, **environment: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "JAX_PLATFORMS": "cpu", **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_activation_leaves_no_trace():
    code = """
import jax, logging, os, sys, warnings, random
import numpy as np, quotax
loaded = set(sys.modules)
import quotax.geomstats_jax as geomstats_jax
added = {name for name in set(sys.modules) - loaded if not name.startswith("quotax.geomstats_jax")}
print(added, "geomstats" in sys.modules, geomstats_jax.is_active())
def state():
    root = logging.getLogger()
    return (root.level, list(root.handlers), dict(os.environ), list(warnings.filters), dict(jax.config.values),
            np.random.get_state()[1].tolist(), random.getstate(), np.geterr())
before = state()
gs = geomstats_jax.activate()
print(geomstats_jax.is_active(), geomstats_jax.activate() is gs, gs.__name__)
gs.random.rand(3)
print([b == a for b, a in zip(before, state())])
"""
    assert fresh(code).splitlines() == [
        "set() False False",
        "True True geomstats.jax",
        str([True] * 8),
    ]


def test_another_backend_is_refused():
    code = """
import numpy as np, warnings
warnings.simplefilter("ignore")
np.trapz = getattr(np, "trapz", None) or np.trapezoid
import geomstats.backend
import quotax.geomstats_jax as g
try:
    g.activate()
except g.BackendError as error:
    print(g.is_active(), error)
"""
    message = fresh(code, GEOMSTATS_BACKEND="numpy")
    assert message.startswith("False `quotax.geomstats_jax.activate()`: geomstats is already loaded with its 'numpy'")
    assert "before anything imports geomstats, or start a fresh process" in message


def test_activation_after_an_import_of_geomstats_that_failed():
    code = """
import os, quotax.geomstats_jax as g
try:
    import geomstats
except RuntimeError as error:
    print(error)
g.activate()
from geomstats.geometry.hypersphere import Hypersphere
print(g.is_active(), type(Hypersphere(2).random_point()).__name__, os.environ["GEOMSTATS_BACKEND"])
"""
    assert fresh(code, GEOMSTATS_BACKEND="unheard_of").splitlines() == [
        "Unknown backend 'unheard_of'",
        "True ArrayImpl unheard_of",
    ]


@pytest.mark.slow
def test_arrays_may_be_sharded():
    code = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
jax.config.update("jax_enable_x64", True)
import quotax.geomstats_jax as g
gs = g.activate()
from geomstats.geometry.spd_matrices import SPDMatrices, SPDBuresWassersteinMetric
space = SPDMatrices(3, equip=False).equip_with_metric(SPDBuresWassersteinMetric)
gs.random.seed(1)
p, q = space.random_point(4), space.random_point(4)
sharding = NamedSharding(Mesh(np.array(jax.devices()), "d"), PartitionSpec("d"))
f = jax.jit(lambda a, b: (space.metric.log(a, b), gs.linalg.logm(a @ b)))
split = f(jax.device_put(p, sharding), jax.device_put(q, sharding))
print(len(jax.devices()), max(float(abs(np.asarray(a) - np.asarray(b)).max()) for a, b in zip(split, f(p, q))) < 1e-12)
"""
    assert fresh(code, XLA_FLAGS="--xla_force_host_platform_device_count=2") == "2 True"


@pytest.mark.slow
def test_float32_without_x64():
    code = """
import warnings; warnings.simplefilter("error")
import jax, quotax.geomstats_jax as g
gs = g.activate()
from geomstats.geometry.hypersphere import Hypersphere
from geomstats.geometry.skew_symmetric_matrices import SkewSymmetricMatrices
sphere, skew = Hypersphere(2), SkewSymmetricMatrices(3)
p, q = sphere.random_point(2)
out = [p, sphere.metric.log(p, q), gs.linalg.logm(2 * gs.eye(2)), gs.zeros(2)]
out.append(skew.baker_campbell_hausdorff(*skew.random_point(2), order=3))
print({str(x.dtype) for x in out}, gs.atol)
with jax.enable_x64(True):
    print(sphere.random_point().dtype, gs.get_default_dtype(), gs.get_default_cdtype(), gs.array([1.0]).dtype)
"""
    assert fresh(code).splitlines() == ["{'float32'} 1e-06", "float64 float64 complex128 float64"]


@pytest.mark.parametrize("kind", [ValueError, RuntimeError])
def test_backend_error_is_both(kind):
    assert issubclass(geomstats_jax.BackendError, kind)

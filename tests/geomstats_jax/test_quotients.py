"""geomstats' built-in quotients under this backend against its numpy backend, in a process of its own."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from quotax.geomstats_jax import activate, corrections

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("quotients.py")
OPERATIONS = [
    *("submersion", "lift", "horizontal", "vertical", "tangent", "horizontal_lift"),
    *("inner", "exp", "log", "dist"),
]
RESULTS = [
    *(f"{name}_{key}" for name in ("shapes", "psd", "correlation") for key in OPERATIONS),
    *(f"{name}_metric_{key}" for name in ("shapes", "correlation") for key in ("log", "dist")),
    "shapes_curvature",
]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    path = tmp_path_factory.mktemp("quotients") / "numpy.npz"
    done = subprocess.run([sys.executable, str(SCRIPT), str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    activate()
    specification = importlib.util.spec_from_file_location("quotients", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    with np.load(path) as archive:
        return module.compute(by_equation=False), dict(archive)


def test_all_results_are_compared(both):
    assert set(both[0]) == set(both[1]) == set(RESULTS)


@pytest.mark.parametrize("name", RESULTS)
def test_jax_and_numpy_agree(both, name):
    assert np.all(np.isfinite(both[0][name]))
    np.testing.assert_allclose(both[0][name], both[1][name], atol=1e-8, rtol=1e-8)


@pytest.fixture
def installed(monkeypatch):
    gs = activate()
    from geomstats.geometry.matrices import Matrices

    monkeypatch.setattr(Matrices, "align_matrices", Matrices.__dict__["align_matrices"])
    corrections.install()
    return gs


def test_shapes_are_jitted_vmapped_and_differentiated(installed):
    gs = installed
    from geomstats.geometry.pre_shape import PreShapeSpace

    space = PreShapeSpace(4, 3)
    space.equip_with_group_action("rotations")
    space.equip_with_quotient()
    gs.random.seed(0)
    points, other = space.random_point(3), space.random_point()
    metric = space.quotient.metric
    eager = np.stack([metric.dist(p, other) for p in points])
    np.testing.assert_allclose(jax.jit(metric.dist)(points, other), eager, atol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.vmap(metric.dist, (0, None)))(points, other), eager, atol=1e-12)
    # The gradient of half the squared distance is minus the logarithm, up to the directions normal to the sphere.
    gradient = jax.grad(lambda p: metric.squared_dist(p, other) / 2)(points[0])
    np.testing.assert_allclose(space.to_tangent(gradient, points[0]), -metric.log(other, points[0]), atol=1e-10)


def test_alignment_is_geomstats_own(installed):
    gs = installed
    from geomstats.geometry.matrices import Matrices

    gs.random.seed(1)
    point, base_point = gs.random.normal(size=(5, 4, 3)), gs.random.normal(size=(5, 4, 3))
    left, _, right = np.linalg.svd(np.swapaxes(point, 1, 2) @ base_point)
    flip = np.ones((5, 1, 3))
    flip[:, 0, -1] = np.linalg.det(left @ right)
    np.testing.assert_allclose(Matrices.align_matrices(point, base_point), point @ ((left * flip) @ right), atol=1e-12)


def test_gradient_of_the_bures_wasserstein_distance():
    gs = activate()
    from geomstats.geometry.spd_matrices import SPDBuresWassersteinMetric, SPDMatrices

    metric = SPDMatrices(3, equip=False).equip_with_metric(SPDBuresWassersteinMetric).metric
    gradient = jax.jit(jax.grad(lambda p: metric.squared_dist(p, gs.eye(3))))(gs.array(np.diag([1.0, 4.0, 9.0])))
    # d^2(P, I) = tr P + 3 - 2 tr P^1/2, whose gradient is I - P^-1/2.
    np.testing.assert_allclose(gradient, np.diag([0, 1 / 2, 2 / 3]), atol=1e-12)

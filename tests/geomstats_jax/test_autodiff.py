"""`gs.autodiff` against hand-derived derivatives, for points and batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quotax.geomstats_jax import activate

gs = activate()
rng = np.random.default_rng(2)
Q = rng.normal(size=(3, 3))
POINT, POINTS = rng.normal(size=3), rng.normal(size=(5, 3))


def quadratic(x):
    return gs.einsum("...i,ij,...j->...", x, Q, x)


def cubes(x):
    return gs.stack([x[0] ** 3, x[0] * x[1], x[2]])


def cubes_jacobian(x):
    return np.array([[3 * x[0] ** 2, 0, 0], [x[1], x[0], 0], [0, 0, 1]])


def cubes_hessian(x):
    out = np.zeros((3, 3, 3))
    out[0, 0, 0] = 6 * x[0]
    out[1, 0, 1] = out[1, 1, 0] = 1
    return out


def branching(x):
    return x[0] ** 2 if x[0] > 0 else -(x[0] ** 3)


@pytest.mark.parametrize("points", [POINT, POINTS])
def test_value_and_grad(points):
    value, grad = gs.autodiff.value_and_grad(quadratic)(points)
    np.testing.assert_allclose(value, quadratic(points))
    np.testing.assert_allclose(grad, points @ (Q + Q.T))


def test_value_and_grad_of_matrices_and_of_two_arguments():
    def trace(a, b):
        return gs.trace(gs.matmul(a, b))

    a, b = rng.normal(size=(4, 3, 3)), rng.normal(size=(3, 3))
    value, grads = gs.autodiff.value_and_grad(trace, argnums=(0, 1), point_ndims=2)(a, b)
    np.testing.assert_allclose(value, np.trace(a @ b, axis1=1, axis2=2))
    np.testing.assert_allclose(grads[0], np.broadcast_to(b.T, a.shape))
    np.testing.assert_allclose(grads[1], np.swapaxes(a, 1, 2))


def test_value_and_grad_serves_scipy():
    import scipy.optimize

    start = np.ones(3)
    result = scipy.optimize.minimize(
        gs.autodiff.value_and_grad(lambda x: gs.sum((x - POINT) ** 2)), start, jac=True, tol=1e-12
    )
    np.testing.assert_allclose(result.x, POINT, atol=1e-6)


def test_jacobians_and_hessians():
    np.testing.assert_allclose(gs.autodiff.jacobian(cubes)(POINT), cubes_jacobian(POINT))
    np.testing.assert_allclose(gs.autodiff.hessian(quadratic)(POINT), Q + Q.T)
    np.testing.assert_allclose(gs.autodiff.hessian(cubes, func_out_ndim=3)(POINT), cubes_hessian(POINT))


@pytest.mark.parametrize("batch", [(), (2, 2)])
def test_derivatives_of_batches(batch):
    points = rng.normal(size=(*batch, 3))
    flat = points.reshape(-1, 3)
    values = np.stack([cubes(x) for x in flat]).reshape(*batch, 3)
    jacobians = np.stack([cubes_jacobian(x) for x in flat]).reshape(*batch, 3, 3)
    hessians = np.stack([cubes_hessian(x) for x in flat]).reshape(*batch, 3, 3, 3)
    np.testing.assert_allclose(gs.autodiff.jacobian_vec(cubes)(points), jacobians)
    np.testing.assert_allclose(gs.autodiff.hessian_vec(cubes, func_out_ndim=3)(points), hessians)
    for actual, expected in (
        (gs.autodiff.value_and_jacobian(cubes)(points), (values, jacobians)),
        (gs.autodiff.jacobian_and_hessian(cubes)(points), (jacobians, hessians)),
        (gs.autodiff.value_jacobian_and_hessian(cubes)(points), (values, jacobians, hessians)),
    ):
        for a, e in zip(actual, expected, strict=True):
            np.testing.assert_allclose(a, e)


def test_functions_that_branch_on_values():
    points = np.array([[2.0], [-2.0]])
    np.testing.assert_allclose(gs.autodiff.jacobian_vec(branching)(points), [[4.0], [-12.0]])
    np.testing.assert_allclose(gs.autodiff.hessian(branching)(points[1]), [[12.0]])


def test_custom_gradient_is_used_in_both_modes():
    @gs.autodiff.custom_gradient(lambda x, y: 7 * x, lambda x, y: y)
    def declared(x, y):
        return gs.sum(x, axis=-1) * gs.sum(y, axis=-1)

    x, y = POINT, rng.normal(size=3)
    np.testing.assert_allclose(jax.grad(declared, argnums=(0, 1))(x, y), (7 * x, y))
    np.testing.assert_allclose(jax.jvp(declared, (x, y), (y, x))[1], 8 * np.sum(x * y))
    value, grad = gs.autodiff.value_and_grad(declared)(POINTS, jnp.broadcast_to(y, POINTS.shape))
    np.testing.assert_allclose(value, POINTS.sum(-1) * y.sum())
    np.testing.assert_allclose(grad, 7 * POINTS)


def test_derivatives_under_jit():
    jitted = jax.jit(gs.autodiff.value_jacobian_and_hessian(cubes))(POINTS)
    for a, e in zip(jitted, gs.autodiff.value_jacobian_and_hessian(cubes)(POINTS), strict=True):
        np.testing.assert_allclose(a, e, atol=1e-14)

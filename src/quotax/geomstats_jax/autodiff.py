"""`gs.autodiff`: geomstats' derivatives, with its conventions for batches of points.

A function of points (arrays with `point_ndim` axes) is differentiated point by point: the derivative of a batch of
points is the batch of the derivatives. Reverse mode runs the function once on its values, so functions that branch on
values can be differentiated outside jit.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from quotax.geomstats_jax.dtypes import inexact

Smooth = Callable[..., Any]


def value_and_grad(func: Smooth, argnums: int | tuple[int, ...] = 0, point_ndims: Any = 1) -> Smooth:
    """The value of a scalar function and its gradient, for points or batches of points.

    The value of a batch is a batch of values, each a function of its own point, so the gradient of their sum is the
    batch of gradients.
    """
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def value_and_grad_of(*inputs: Any, **kwargs: Any) -> tuple[jax.Array, Any]:
        points = list(map(inexact, inputs))
        ndims = (point_ndims,) * len(points) if isinstance(point_ndims, int) else tuple(point_ndims)
        batches = [point.shape[: max(point.ndim - k, 0)] for point, k in zip(points, ndims, strict=False)]
        batch = jnp.broadcast_shapes(*batches)
        for i, k in enumerate(ndims[: len(points)]):
            if len(points) > 1 and points[i].ndim >= k:
                points[i] = jnp.broadcast_to(points[i], batch + points[i].shape[points[i].ndim - k :])

        def of_wanted(*chosen: jax.Array) -> jax.Array:
            full = list(points)
            for i, point in zip(wanted, chosen, strict=True):
                full[i] = point
            return inexact(func(*full, **kwargs))

        value, pullback = jax.vjp(of_wanted, *(points[i] for i in wanted))
        grads = pullback(jnp.ones_like(value))
        return value, grads[0] if isinstance(argnums, int) else grads

    return value_and_grad_of


def jacobian(func: Smooth) -> Smooth:
    """The Jacobian at one point: shape of the value, then shape of the point."""

    def jacobian_of(point: Any) -> jax.Array:
        return jax.jacrev(lambda x: inexact(func(x)))(inexact(point))

    return jacobian_of


def hessian(func: Smooth, func_out_ndim: int | None = 0) -> Smooth:
    """The Hessian at one point: shape of the value, then the shape of the point twice."""
    return jacobian(jacobian(func))


def jacobian_vec(func: Smooth, point_ndim: int = 1) -> Smooth:
    """The Jacobian at points or batches of points."""
    return partial(_each, jacobian(func), point_ndim)


def hessian_vec(func: Smooth, point_ndim: int = 1, func_out_ndim: int | None = 0) -> Smooth:
    """The Hessian at points or batches of points."""
    return partial(_each, hessian(func), point_ndim)


def value_and_jacobian(func: Smooth, point_ndim: int = 1) -> Smooth:
    """The value and the Jacobian at points or batches of points, in one evaluation."""

    def value_and_jacobian_of(point: jax.Array) -> tuple[jax.Array, jax.Array]:
        def twice(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            value = inexact(func(x))
            return value, value

        jac, value = jax.jacrev(twice, has_aux=True)(inexact(point))
        return value, jac

    return partial(_each, value_and_jacobian_of, point_ndim)


def jacobian_and_hessian(func: Smooth, func_out_ndim: int | None = 0, point_ndim: int = 1) -> Smooth:
    """The Jacobian and the Hessian at points or batches of points."""
    return value_and_jacobian(jacobian(func), point_ndim)


def value_jacobian_and_hessian(func: Smooth, func_out_ndim: int | None = 0, point_ndim: int = 1) -> Smooth:
    """The value, the Jacobian and the Hessian at points or batches of points."""

    def all_three(point: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return inexact(func(point)), jacobian(func)(point), hessian(func)(point)

    return partial(_each, all_three, point_ndim)


def custom_gradient(*grad_funcs: Smooth) -> Callable[[Smooth], Smooth]:
    r"""Declare the gradients of a scalar function, one function for each argument.

    The rule is $df = \sum_i \langle \mathrm{grad}_i, dx_i \rangle$, over the axes of a point, which serves forward and
    reverse mode. Arguments without a gradient function are constants.
    """

    def decorator(func: Smooth) -> Smooth:
        def with_gradient(*args: Any, **kwargs: Any) -> Any:
            declared = jax.custom_jvp(lambda *points: inexact(func(*points, **kwargs)))

            @declared.defjvp
            def _(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
                value = declared(*primals)
                change = jnp.zeros_like(value)
                for grad_func, tangent in zip(grad_funcs, tangents, strict=False):
                    grad = inexact(grad_func(*primals, **kwargs))
                    product = grad * tangent
                    change = change + jnp.sum(product, axis=tuple(range(value.ndim, product.ndim)))
                return value, change

            return declared(*map(inexact, args))

        return with_gradient

    return decorator


def _each(function: Smooth, point_ndim: int, points: Any) -> Any:
    points = inexact(points)
    batch = points.shape[: points.ndim - point_ndim]
    if not batch:
        return function(points)
    flat = points.reshape((-1, *points.shape[len(batch) :]))
    try:
        out = jax.vmap(function)(flat)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        # A function that branches on values cannot be vmapped: take the points one by one.
        out = jax.tree.map(lambda *rows: jnp.stack(rows), *map(function, flat))
    return jax.tree.map(lambda leaf: leaf.reshape(batch + leaf.shape[1:]), out)


NAMESPACE = {
    "custom_gradient": custom_gradient,
    "hessian": hessian,
    "hessian_vec": hessian_vec,
    "jacobian": jacobian,
    "jacobian_and_hessian": jacobian_and_hessian,
    "jacobian_vec": jacobian_vec,
    "value_and_grad": value_and_grad,
    "value_and_jacobian": value_and_jacobian,
    "value_jacobian_and_hessian": value_jacobian_and_hessian,
}

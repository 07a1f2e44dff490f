r"""Parallel transport in the quotient, and the covariant derivative of its curvature.

Along the horizontal lift $c$ of a curve, a horizontal field $Z$ is parallel when $\mathrm{hor}\,\nabla_{c'} Z = 0$. As
$V Z = 0$ along the way, the vertical part of $Z'$ is $-(D_{c'} V) Z$, and so
$$Z' = -\mathrm{hor}\,\Gamma(c', Z) - (D_{c'} V) Z.$$
Where the metric is Euclidean, and among canonical representatives (see `curvature`), the first term is zero.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from quotax.geometry.between import Between, BetweenAbsorbed
from quotax.geometry.curvature import Riemannian, christoffel, flat_change, flat_tensor, tensor
from quotax.geometry.geodesics import kempf_ness
from quotax.geometry.metrics import Metric, MovingFrame
from quotax.geometry.vertical import Named


def is_flat(metric: Metric) -> bool:
    """Whether the quotient is that of a flat space, or of canonical representatives in one."""
    return metric.euclidean or (isinstance(metric, MovingFrame) and metric.tangent)


@functools.partial(jax.jit, static_argnums=0)
def transport(metric: Metric, arrays: Named, direction: Named, v: Named) -> Named:
    """The horizontal part of `v`, transported along the geodesic of the horizontal part of `direction` to its end."""
    data = metric.prepare(arrays)
    direction, v = (_horizontal(metric, data, arrays, w) for w in (direction, v))
    if metric.euclidean:

        def turn(t: Any, z: Named, _: Any) -> Named:
            there = {name: arrays[name] + t * direction[name] for name in arrays}
            return _negative(flat_change(metric.parts, there, direction, z))

        return _solve(turn, v, None)
    if isinstance(metric, MovingFrame) and metric.tangent:
        here = data.canonical.arrays
        path = kempf_ness(metric.parts, here, metric.whiten(data, arrays, direction))

        def rate(t: Any, state: Any, system: Any) -> Any:
            origin, z = state
            return _rate(path, system, origin), _negative(
                flat_change(metric.parts, origin[0], _velocity(path, system, origin), z)
            )

        z = _solve(rate, (path.origin, metric.whiten(data, arrays, v)), path.system)[1]
        # The frame of the end is that of the start: the canonical path is moved by the inverse of one element.
        end = metric.back(data, path.end)
        return metric.unwhiten(_at(metric, data, path.end), end, z)
    return transport_above(metric, metric._riemannian, arrays, direction, v)


def carried(between: Between | BetweenAbsorbed, arrays: Named, reference: Named, v: Named) -> tuple[Named, Named]:
    """`arrays` and a vector there, moved by the element that brings them closest to `reference`."""
    return jax.jvp(between.mover(arrays, reference), (arrays,), (v,))


@functools.partial(jax.jit, static_argnums=0)
def curvature_derivative(metric: Metric, arrays: Named, h: Named, x: Named, y: Named, z: Named) -> Named:
    r"""$(\nabla_h R)(x, y) z$: the derivative of `R(X, Y) Z` along `h` for fields that are parallel along it."""
    data = metric.prepare(arrays)
    h, x, y, z = (_horizontal(metric, data, arrays, v) for v in (h, x, y, z))
    if is_flat(metric):
        at = arrays if metric.euclidean else data.canonical.arrays
        h, x, y, z = (metric.whiten(data, arrays, v) for v in (h, x, y, z))
        rates = [_negative(flat_change(metric.parts, at, h, v)) for v in (x, y, z)]
        _, change = jax.jvp(functools.partial(flat_tensor, metric.parts), (at, x, y, z), (h, *rates))
        return _horizontal(metric, data, arrays, metric.unwhiten(data, arrays, change))
    return derivative_above(metric._riemannian, arrays, h, x, y, z)


@functools.partial(jax.jit, static_argnums=0)
def derivative_above(riemannian: Riemannian, arrays: Named, h: Named, x: Named, y: Named, z: Named) -> Named:
    """The same by derivatives of the metric, for horizontal vectors; every vector is where nothing is divided out."""
    rates = [_drift(riemannian, arrays, h, v) for v in (x, y, z)]
    value, change = jax.jvp(functools.partial(tensor, riemannian), (arrays, x, y, z), (h, *rates))
    bend = christoffel(riemannian, arrays, h, value)
    return riemannian.horizontal(arrays, {name: change[name] + bend[name] for name in change})


@functools.partial(jax.jit, static_argnums=(0, 1))
def transport_above(metric: Metric, riemannian: Riemannian, arrays: Named, direction: Named, v: Named) -> Named:
    """`v` transported along the geodesic of `direction`, by Hamilton's equations and derivatives of the metric."""
    path: Any = Metric.path(metric, metric.prepare(arrays), arrays, direction)

    def rate(t: Any, state: Any, system: Any) -> Any:
        origin, z = state
        return _rate(path, system, origin), _drift(riemannian, origin[0], _velocity(path, system, origin), z)

    return _solve(rate, (path.origin, v), path.system)[1]


def _drift(riemannian: Riemannian, arrays: Named, velocity: Named, z: Named) -> Named:
    bend = riemannian.horizontal(arrays, christoffel(riemannian, arrays, velocity, z))
    # The derivative of the horizontal projection is the negative of that of the vertical one.
    change = jax.jvp(lambda a: riemannian.horizontal(a, z), (arrays,), (velocity,))[1]
    return {name: change[name] - bend[name] for name in z}


def _horizontal(metric: Metric, data: Any, arrays: Named, v: Named) -> Named:
    along = metric.vertical(data, arrays, v)
    return {name: v[name] - along[name] for name in v}


def _at(metric: Any, data: Any, canonical: Named) -> Any:
    return data._replace(canonical=data.canonical._replace(arrays=canonical))


def _negative(v: Named) -> Named:
    return {name: -array for name, array in v.items()}


def _rate(path: Any, system: Any, origin: Any) -> Any:
    return jax.tree.map(lambda rate: path.duration * rate, system.rate(origin))


def _velocity(path: Any, system: Any, origin: Any) -> Named:
    return {name: path.duration * rate for name, rate in system.velocity(origin).items()}


def _solve(rate: Any, start: Any, arguments: Any) -> Any:
    """The solution at t = 1 of `y' = rate(t, y, arguments)`."""
    import diffrax  # its import takes longer than quotax's own

    dtype = jnp.result_type(*jax.tree.leaves(start))
    tolerance = 1e-11 if jnp.finfo(dtype).bits >= 64 else 1e-6
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(rate),
        diffrax.Dopri8(),
        t0=jnp.zeros((), dtype),
        t1=jnp.ones((), dtype),
        dt0=jnp.asarray(0.05, dtype),
        y0=start,
        args=arguments,
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
        max_steps=2048,
        throw=False,
    )
    return jax.tree.map(lambda x: x[-1], solution.ys)

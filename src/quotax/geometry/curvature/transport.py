r"""Parallel transport in the quotient, and the covariant derivative of its curvature.

Along the horizontal lift $c$ of a curve, a horizontal field $Z$ is parallel when $\mathrm{hor}\,\nabla_{c'} Z = 0$. As
$V Z = 0$ along the way, the vertical part of $Z'$ is $-(D_{c'} V) Z$, and so
$$Z' = -\mathrm{hor}\,\Gamma(c', Z) - (D_{c'} V) Z.$$
Where the metric is Euclidean, and among canonical representatives (see `riemann`), the first term is zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from quotax.geometry.curvature.riemann import Riemannian, christoffel, flat_change, flat_tensor, tensor
from quotax.geometry.linalg.named import Named
from quotax.geometry.matching.two_points import Between, BetweenAbsorbed
from quotax.geometry.metrics.metric import Metric
from quotax.geometry.metrics.moving_frame import MovingFrame
from quotax.geometry.paths.equation import Equation, State, flow
from quotax.geometry.paths.geodesic_equations import kempf_ness
from quotax.geometry.paths.path import path_type


def is_flat(metric: Metric) -> bool:
    """Whether the quotient is that of a flat space, or of canonical representatives in one."""
    return metric.euclidean or (isinstance(metric, MovingFrame) and metric.tangent)


@functools.partial(jax.jit, static_argnums=0)
def transport(metric: Metric, arrays: Named, direction: Named, v: Named) -> Named:
    """The horizontal part of `v`, transported along the geodesic of the horizontal part of `direction` to its end."""
    data = metric.prepare(arrays)
    direction, v = (_horizontal(metric, data, arrays, w) for w in (direction, v))
    if metric.euclidean:
        return _along(Line(), (arrays, direction), v, functools.partial(_flat_law, metric.parts))
    if isinstance(metric, MovingFrame) and metric.tangent:
        along, vector = (metric.whiten(data, arrays, w) for w in (direction, v))
        path = kempf_ness(metric.parts, data.canonical.arrays, along, factors=data.factors, watch=False)
        z = _along(path.system, path.origin, vector, functools.partial(_flat_law, metric.parts), path.duration)
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
    return _along(path.system, path.origin, v, functools.partial(_drift, riemannian), path.duration)


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


def _flat_law(parts: Any, arrays: Named, velocity: Named, z: Named) -> Named:
    return _negative(flat_change(parts, arrays, velocity, z))


# --- along a path


@path_type()
class Line(Equation):
    """Straight lines, as pairs of position and velocity."""

    def rate(self, state: State) -> State:
        """A constant velocity."""
        return state[1], {name: jnp.zeros_like(array) for name, array in state[1].items()}

    def velocity(self, state: State) -> Named:
        """The second half."""
        return state[1]


@path_type(static=("law",))
class Along(Equation):
    """A path, both halves of its state in one, and a vector `z' = law(position, velocity, z)` that it carries."""

    path: Any
    duration: jax.Array
    law: Callable[[Named, Named, Named], Named]

    def rate(self, state: State) -> State:
        """The derivatives of the path and of the vector."""
        halves = _halves(state[0])
        rates = self.path.rate(halves)
        velocity = {name: self.duration * v for name, v in self.path.velocity(halves).items()}
        return _joined(*({n: self.duration * r for n, r in half.items()} for half in rates)), self.law(
            halves[0], velocity, state[1]
        )

    def forms(self) -> Any:
        """Those of the path."""
        return self.path.forms()

    def having(self, forms: Any) -> Along:
        """Along the path with other such arrays."""
        return Along(self.path.having(forms), self.duration, self.law)


def _along(path: Any, origin: State, v: Named, law: Any, duration: Any = 1.0) -> Named:
    """`v` carried to the end of the path that starts so."""
    dtype = jnp.result_type(*origin[0].values())
    equation = Along(path, jnp.asarray(duration, dtype), law)
    return flow(equation, (_joined(*origin), v), jnp.ones((), dtype))[0][1]


def _joined(position: Named, other: Named) -> Named:
    return {f"position {n}": a for n, a in position.items()} | {f"other {n}": a for n, a in other.items()}


def _halves(both: Named) -> State:
    position, other = (
        {name.removeprefix(own): array for name, array in both.items() if name.startswith(own)}
        for own in ("position ", "other ")
    )
    return position, other

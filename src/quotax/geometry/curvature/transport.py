r"""Parallel transport in the quotient, and the covariant derivative of its curvature.

Along the horizontal lift $c$ of a curve, a horizontal field $Z$ is parallel when $\mathrm{hor}\,\nabla_{c'} Z = 0$. As
$V Z = 0$ along the way, the vertical part of $Z'$ is $-(D_{c'} V) Z$, and so
$$Z' = -\mathrm{hor}\,\Gamma(c', Z) - (D_{c'} V) Z.$$
Where the metric is Euclidean, and among canonical representatives (see `riemann`), the first term is zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from quotax.geometry.curvature.riemann import Parts, Riemannian, christoffel, flat_change, flat_tensor, tensor
from quotax.geometry.linalg.named import Named
from quotax.geometry.paths.equation import Equation, State, Time, flow
from quotax.geometry.paths.path import path_type
from quotax.trees import Tree


def flat_derivative(parts: Parts, arrays: Named, h: Named, x: Named, y: Named, z: Named) -> Named:
    r"""$(\nabla_h R)(x, y) z$: the derivative of `R(X, Y) Z` along `h`, for fields that are parallel along it."""
    rates = [flat_drift(parts, arrays, h, v) for v in (x, y, z)]
    return jax.jvp(functools.partial(flat_tensor, parts), (arrays, x, y, z), (h, *rates))[1]


@functools.partial(jax.jit, static_argnums=0)
def derivative_above(riemannian: Riemannian, arrays: Named, h: Named, x: Named, y: Named, z: Named) -> Named:
    """The same by derivatives of the metric, for horizontal vectors; every vector is where nothing is divided out."""
    rates = [drift(riemannian, arrays, h, v) for v in (x, y, z)]
    value, change = jax.jvp(functools.partial(tensor, riemannian), (arrays, x, y, z), (h, *rates))
    bend = christoffel(riemannian, arrays, h, value)
    return riemannian.horizontal(arrays, {name: change[name] + bend[name] for name in change})


def drift(riemannian: Riemannian, arrays: Named, velocity: Named, z: Named) -> Named:
    """The derivative of a parallel field, by derivatives of the metric."""
    bend = riemannian.horizontal(arrays, christoffel(riemannian, arrays, velocity, z))
    # The derivative of the horizontal projection is the negative of that of the vertical one.
    change = jax.jvp(lambda a: riemannian.horizontal(a, z), (arrays,), (velocity,))[1]
    return {name: change[name] - bend[name] for name in z}


def flat_drift(parts: Parts, arrays: Named, velocity: Named, z: Named) -> Named:
    """The same where the metric is Euclidean, and among canonical representatives."""
    return {name: -array for name, array in flat_change(parts, arrays, velocity, z).items()}


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

    path: Tree
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


def transported(
    path: Tree, origin: State, v: Named, law: Callable[[Named, Named, Named], Named], duration: Time = 1.0
) -> Named:
    """`v` carried to the end of the path that starts so, changing by the law."""
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

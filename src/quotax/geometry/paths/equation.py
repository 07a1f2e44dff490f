"""Geodesics that solve a differential equation, and when they leave their domain.

Geodesics are homogeneous, `gamma(t; v) = gamma(k t; v / k)`, so every equation is solved for a velocity of the size of
the parameters over a duration `k`: one tolerance then serves positions and velocities alike.
"""

from __future__ import annotations

import abc
import functools
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike

from quotax.geometry.linalg.named import Named, norm
from quotax.geometry.paths.extrapolation import Reached, begin, integrate, tolerance
from quotax.geometry.paths.path import Path, Time, path_type
from quotax.trees import AnyArray, Tree

State = tuple[Named, Named]
"""The position, and its velocity or covector."""

_SAMPLES, _ZOOMS = 41, 6
"""Each zoom brackets a zero 20 times closer: from a 32nd of the path to 1e-9 of it."""

_FEW = 3
"""Times to look at before any others, where it is known how fast a regularity can fall."""

SURELY = 0.95
"""What rounding leaves of a regularity or a length that is known to be safe."""


class Equation(abc.ABC):
    """An ordinary differential equation; a pytree."""

    @abc.abstractmethod
    def rate(self, state: State) -> State:
        """The derivative of the state."""


class System(Equation):
    """An equation whose solutions are geodesics."""

    @abc.abstractmethod
    def velocity(self, state: State) -> Named:
        """The position's derivative."""

    @abc.abstractmethod
    def regularity(self, state: State) -> jax.Array | None:
        """A number that is 1 at the start and reaches zero on the boundary, to first order; `None` if unknown."""

    def fall(self, state: State) -> jax.Array:
        """How fast the regularity of the path of this position and velocity can fall; `inf` where nothing is known."""
        return jnp.full((), jnp.inf, jnp.result_type(*state[0].values()))

    def unwatched(self) -> Self:
        """The equation alone, without what its regularity is measured by."""
        return self

    @abc.abstractmethod
    def drift(self, start: State, end: State) -> jax.Array:
        """How much what should have stayed constant has changed, relatively."""

    def acceleration(self, state: State) -> Named:
        """The position's second derivative."""
        return jax.jvp(self.velocity, (state,), (self.rate(state),))[1]


@path_type()
class Trajectory(Path):
    """A geodesic as the solution of a differential equation; each time asked for is a solve, except t = 1."""

    system: System
    origin: State
    duration: jax.Array
    final: State

    def at(self, t: Time) -> Named:
        """The parameters at time `t`."""
        return _flow(self.system, self.origin, self.duration * t)[0]

    def velocity(self, t: Time) -> Named:
        """The derivative at time `t`."""
        state = _flow(self.system, self.origin, self.duration * t)
        return {name: self.duration * v for name, v in self.system.velocity(state).items()}

    @property
    def acceleration(self) -> Named:
        """The second derivative at t = 0."""
        return {name: self.duration**2 * a for name, a in self.system.acceleration(self.origin).items()}

    @property
    def end(self) -> Named:
        """The parameters at t = 1, or not-a-number where they are not reached."""
        return self.final[0]


@functools.partial(jax.jit, static_argnames="forward")
def trajectory(system: System, start: Named, direction: Named, momentum: Named, *, forward: bool = False) -> Trajectory:
    """Solve as far as t = 1 from the state `(start, momentum)`, whose velocity is `direction`.

    What is solved here has derivatives in reverse mode, or `forward` ones.
    """
    dtype = jnp.result_type(*start.values())
    size, speed = (jax.lax.stop_gradient(norm(x)).astype(dtype) for x in (start, direction))
    duration = jnp.where((size > 0) & (speed > 0), speed / jnp.where(size > 0, size, 1), 1)
    origin = (start, {name: p / duration for name, p in momentum.items()})
    still, held = jax.lax.stop_gradient((origin, system))
    # The end and the exit are two loops, so that a program that asks for one of them is spared the other.
    final, reached, steps = (ahead if forward else flow)(system.unwatched(), origin, duration)
    if jax.eval_shape(held.regularity, still) is None:
        exit_time = jnp.where(reached < 1, reached, jnp.inf)
    else:
        exit_time = _exit(held, still, duration)
    drift = held.drift(still, jax.lax.stop_gradient(final))
    error = jnp.where(reached < 1, jnp.inf, jnp.maximum(drift, steps.astype(dtype) * tolerance(dtype)))
    return Trajectory(
        start, direction, exit_time.astype(dtype), error.astype(dtype), system.unwatched(), origin, duration, final
    )


def resolution(dtype: DTypeLike) -> float:
    """A regularity below this is a zero: a path that comes so close to the boundary cannot be told from one that hits.

    Regularities are roots of eigenvalues, and so is their rounding error.
    """
    return 1e-5 if jnp.finfo(dtype).bits >= 64 else 2e-3


# --- the flow, in the time that runs from 0 to 1, and its derivative


def _rate(system: Equation, duration: jax.Array, state: State) -> State:
    return jax.tree.map(lambda x: duration.astype(x.dtype) * x, system.rate(state))


def ahead(system: Equation, origin: State, duration: Time) -> tuple[State, jax.Array, jax.Array]:
    """The state at t = 1, how far the solver came, and its steps; with derivatives in forward mode."""
    dtype = jnp.result_type(*jax.tree.leaves(origin))
    duration = jnp.asarray(duration, dtype)
    start, unravel = ravel_pytree(origin)
    scale = jnp.full_like(start, _size(jax.lax.stop_gradient(origin)))
    rate = lambda y: ravel_pytree(_rate(system, duration, unravel(y)))[0]
    end = integrate(rate, begin(start, duration), jnp.ones((), dtype), scale)
    return unravel(jnp.where(end.t < 1, jnp.nan, end.y)), end.t, end.steps


@jax.custom_vjp
def flow(system: Equation, origin: State, duration: Time) -> tuple[State, jax.Array, jax.Array]:
    """The same, with derivatives in reverse mode: by the adjoint equation, solved backwards from the end."""
    return ahead(system, origin, duration)


def _flowed(system: Equation, origin: State, duration: Time) -> tuple[Tree, Tree]:
    found = ahead(system, origin, duration)
    return found, (system, found[0], duration)


def _pulled(saved: Tree, change: Tree) -> tuple[Equation, State, jax.Array]:
    system, final, duration = saved
    dtype = jnp.result_type(*jax.tree.leaves(final))
    duration = jnp.asarray(duration, dtype)
    slope = change[0]
    size = norm(slope) / max(sum(x.size for x in jax.tree.leaves(slope)), 1) ** 0.5
    start, unravel = ravel_pytree((final, slope))
    sizes = jax.tree.map(lambda x: jnp.full_like(x, _size(final)), final)
    scale, _ = ravel_pytree((sizes, jax.tree.map(lambda x: jnp.full_like(x, size), slope)))

    def rate(y: jax.Array) -> jax.Array:
        state, slope = unravel(y)
        forth, pull = jax.vjp(functools.partial(_rate, system, duration), state)
        return ravel_pytree((jax.tree.map(jnp.negative, forth), *pull(slope)))[0]

    end = integrate(rate, begin(start, duration), jnp.ones((), dtype), scale)
    speed = jax.tree.map(lambda a, b: jnp.vdot(a, b), slope, system.rate(final))
    nothing: AnyArray = jax.tree.map(jnp.zeros_like, system)
    return nothing, unravel(end.y)[1], sum(jax.tree.leaves(speed), start=jnp.zeros((), dtype))


flow.defvjp(_flowed, _pulled)


@jax.jit
def _flow(system: System, origin: State, duration: Time) -> State:
    return flow(system, origin, duration)[0]


def _size(state: State) -> jax.Array:
    """The root mean square of the smaller of position and momentum, which the absolute tolerance refers to."""
    sizes = jnp.stack([norm(half) / max(sum(x.size for x in half.values()), 1) ** 0.5 for half in state])
    size = jnp.maximum(jnp.min(sizes), 1e-3 * jnp.max(sizes))
    return jnp.where(size > 0, size, 1)


# --- the boundary


class _BoundarySearch(NamedTuple):
    """The times to look at next, candidates of the first look that are left, zooms into the present one, the answer.

    `zooms` is -1 in the first look, and -2 in a coarse one before it.
    """

    times: jax.Array
    seen: jax.Array
    zooms: jax.Array
    exit_time: jax.Array
    done: jax.Array


def _exit(system: System, origin: State, duration: jax.Array) -> jax.Array:
    """When the regularity is first zero, or the solver can go no further: a blow-up, or what is too close to see past.

    One loop looks at all times in turn, so that the equation and the regularity are compiled once.
    """
    dtype = duration.dtype
    grid = _grid(dtype)
    start, unravel = ravel_pytree(origin)
    scale = jnp.full_like(start, _size(origin))
    rate = lambda y: ravel_pytree(_rate(system, duration, unravel(y)))[0]

    def look(times: jax.Array) -> tuple[jax.Array, jax.Array]:
        def there(now: Reached, t: jax.Array) -> tuple[Reached, jax.Array]:
            now = integrate(rate, now, t, scale)
            value = system.regularity(unravel(now.y))
            assert value is not None
            return now, jnp.where(now.t < t, jnp.inf, value).astype(dtype)

        def visit(seen: tuple[Reached, jax.Array], t: jax.Array) -> tuple[tuple[Reached, jax.Array], jax.Array]:
            seen = jax.lax.cond(t > seen[0].t, lambda: there(seen[0], t), lambda: seen)
            return seen, seen[1]

        (end, _), values = jax.lax.scan(visit, (begin(start, duration), jnp.ones((), dtype)), times)
        return values, end.t

    def further(state: _BoundarySearch) -> _BoundarySearch:
        values, reached = look(state.times)
        coarse, first = state.zooms == -2, state.zooms == -1
        # The start is no candidate: there the regularity is 1.
        seen = jnp.where(first, _valleys(values).at[0].set(False), state.seen)
        stopped = jnp.where(first & (reached < 1), reached, state.exit_time)
        valleys = _valleys(values)
        k = jnp.where(jnp.any(valleys), jnp.argmax(valleys), jnp.argmin(values))
        low, high = (state.times[jnp.clip(k + side, 0, _SAMPLES - 1)] for side in (-1, 1))
        closest = state.zooms == _ZOOMS - 1
        found = closest & (values[k] <= resolution(dtype))
        seen = jnp.where(closest, seen.at[jnp.argmax(seen)].set(False), seen)
        start_over = first | closest
        j = jnp.argmax(seen)
        low = jnp.where(start_over, grid[jnp.maximum(j - 1, 0)], low)
        high = jnp.where(start_over, grid[jnp.minimum(j + 1, _SAMPLES - 1)], high)
        zooms = jnp.where(start_over, 0, state.zooms + 1)
        times = jnp.linspace(low, high, _SAMPLES, dtype=dtype)
        exit_time = jnp.where(found, jnp.minimum(state.times[k], stopped), stopped)
        done = jnp.where(coarse, inside(state.times, values), found | (start_over & ~jnp.any(seen)))
        return _BoundarySearch(jnp.where(coarse, grid, times), seen, jnp.where(coarse, -1, zooms), exit_time, done)

    nothing = jnp.zeros(_SAMPLES, bool)
    # In time that runs from 0 to 1.
    fall = system.fall((origin[0], {name: duration * v for name, v in system.velocity(origin).items()}))

    def inside(times: jax.Array, values: jax.Array) -> jax.Array:
        """Whether no zero fits between the samples."""
        return jnp.all(jnp.diff(times) * fall < SURELY * (values[1:] + values[:-1])) & jnp.all(jnp.isfinite(values))

    coarse = jnp.minimum(jnp.arange(_SAMPLES, dtype=dtype) / _FEW, 1)
    begun = _BoundarySearch(
        jnp.where(jnp.isfinite(fall), coarse, grid),
        nothing,
        jnp.where(jnp.isfinite(fall), -2, -1),
        jnp.asarray(jnp.inf, dtype),
        fall < SURELY,
    )
    return jax.lax.while_loop(lambda state: ~state.done, further, begun).exit_time


def _grid(dtype: DTypeLike) -> jax.Array:
    """Where the regularity is looked at: evenly, and closer and closer towards the start.

    A zero at t0 shows as a valley of width about t0, because a regularity is 1 at the start.
    """
    early = 2.0 ** -np.arange(12, 5, -1)
    return jnp.asarray(np.concatenate([[0], early, 1.5 * early[-1:], np.arange(1, 33) / 32]), dtype)


def _valleys(values: jax.Array) -> jax.Array:
    """Samples next to which a zero may lie: lowest among neighbours, and lower than the way down to them."""
    high = jnp.where(jnp.isfinite(values), values, jnp.inf)
    left, right = jnp.roll(high, 1).at[0].set(jnp.inf), jnp.roll(high, -1).at[-1].set(jnp.inf)
    drop = jnp.maximum(*(jnp.where(jnp.isfinite(side), jnp.abs(side - high), 0) for side in (left, right)))
    return (high <= left) & (high <= right) & (high <= 1.5 * drop + resolution(values.dtype))

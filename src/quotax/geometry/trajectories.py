"""Geodesics that solve a differential equation, and when they leave their domain.

Geodesics are homogeneous, `gamma(t; v) = gamma(k t; v / k)`, so every equation is solved for a velocity of the size of
the parameters over a duration `k`: one tolerance then serves positions and velocities alike.
"""

from __future__ import annotations

import abc
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.geometry.paths import Path, Time, path_type
from quotax.geometry.vectors import Named, norm

State = tuple[Named, Named]
"""The position, and its velocity or covector."""

_MAX_STEPS = 2048
_SAMPLES, _ZOOMS = 17, 8
"""Each zoom brackets a zero 8 times closer: from a 32nd of the path to 2e-9 of it."""


class System(abc.ABC):
    """An ordinary differential equation whose solutions are geodesics; a pytree."""

    @abc.abstractmethod
    def rate(self, state: State) -> State:
        """The derivative of the state."""

    @abc.abstractmethod
    def velocity(self, state: State) -> Named:
        """The position's derivative."""

    @abc.abstractmethod
    def regularity(self, state: State) -> jax.Array | None:
        """A number that is 1 at the start and reaches zero on the boundary, to first order; `None` if unknown."""

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
    watched = jax.eval_shape(held.regularity, still) is not None

    grid = _grid(dtype)
    final, reached, steps, values = _solve(
        system, origin, duration, grid if watched else None, differentiable=not forward
    )
    # A solver that stops early has met a blow-up (or a boundary too close to see past): its last step is the exit.
    stopped = jnp.where(reached < 1, reached, jnp.inf)
    leaves = _first_zero(held, still, duration, grid, jax.lax.stop_gradient(values)) if watched else jnp.inf
    drift = held.drift(still, jax.lax.stop_gradient(final))
    error = jnp.where(jnp.isfinite(stopped), jnp.inf, jnp.maximum(drift, steps * _tolerance(dtype)))
    exit_time = jnp.minimum(leaves, stopped).astype(dtype)
    return Trajectory(start, direction, exit_time, error.astype(dtype), system, origin, duration, final)


def _grid(dtype: Any) -> jax.Array:
    """Where the regularity is looked at: evenly, and closer and closer towards the start.

    A zero at t0 shows as a valley of width about t0, because a regularity is 1 at the start.
    """
    early = 2.0 ** -np.arange(12, 5, -1)
    return jnp.asarray(np.concatenate([[0], early, 1.5 * early[-1:], np.arange(1, 33) / 32]), dtype)


# --- the solver


def resolution(dtype: Any) -> float:
    """A regularity below this is a zero: a path that comes so close to the boundary cannot be told from one that hits.

    Regularities are roots of eigenvalues, and so is their rounding error.
    """
    return 1e-5 if jnp.finfo(dtype).bits >= 64 else 2e-3


def _tolerance(dtype: Any) -> float:
    return 1e-12 if jnp.finfo(dtype).bits >= 64 else 1e-6


def _rate(t: Any, state: State, arguments: Any) -> State:
    """In the time that runs from 0 to 1."""
    system, duration = arguments
    return jax.tree.map(lambda x: duration.astype(x.dtype) * x, system.rate(state))


def _watch(t: Any, state: State, arguments: Any) -> jax.Array:
    return arguments[0].regularity(jax.lax.stop_gradient(state))


@jax.jit
def _flow(system: System, origin: State, duration: Time) -> State:
    return _solve(system, origin, duration, None)[0]


def _solve(
    system: System, origin: State, duration: Time, watched: jax.Array | None, *, differentiable: bool = True
) -> tuple[State, jax.Array, jax.Array, jax.Array]:
    """The final state, the part of the duration that was solved, the number of steps, the regularity when watched."""
    import diffrax  # its import takes longer than quotax's own

    dtype = jnp.result_type(*jax.tree.leaves(origin))
    tolerance = _tolerance(dtype)
    duration = jnp.asarray(duration, dtype)
    saved = [
        diffrax.SubSaveAt(t1=True),
        diffrax.SubSaveAt(steps=True, fn=lambda t, y, args: jnp.zeros((), bool)),
    ]
    if watched is not None:
        saved.append(diffrax.SubSaveAt(ts=watched, fn=_watch))
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(_rate),
        diffrax.Dopri8(),
        t0=jnp.zeros((), dtype),
        t1=jnp.ones((), dtype),
        dt0=1 / (1 + 10 * jnp.abs(duration)),
        y0=origin,
        args=(system, duration),
        saveat=diffrax.SaveAt(subs=saved),
        stepsize_controller=diffrax.PIDController(
            rtol=tolerance,
            atol=tolerance * _size(jax.lax.stop_gradient(origin)),
            dtmin=100 * tolerance,
            force_dtmin=False,
        ),
        adjoint=diffrax.RecursiveCheckpointAdjoint() if differentiable else diffrax.ForwardMode(),
        max_steps=_MAX_STEPS,
        throw=False,
    )
    final = jax.tree.map(lambda x: x[0], solution.ys[0])
    times = solution.ts[1]
    reached = jnp.max(jnp.where(jnp.isfinite(times), times, 0), initial=0)
    reached = jnp.where(solution.result == diffrax.RESULTS.successful, 1, reached)
    values = solution.ys[2] if watched is not None else jnp.zeros(0, dtype)
    return final, reached, solution.stats["num_steps"], values


def _size(state: State) -> jax.Array:
    """The root mean square of the smaller of position and momentum, which the absolute tolerance refers to."""
    sizes = jnp.stack([norm(half) / max(sum(x.size for x in half.values()), 1) ** 0.5 for half in state])
    size = jnp.maximum(jnp.min(sizes), 1e-3 * jnp.max(sizes))
    return jnp.where(size > 0, size, 1)


# --- the boundary


def _valleys(values: jax.Array) -> jax.Array:
    """Samples next to which a zero may lie: lowest among neighbours, and lower than the way down to them."""
    high = jnp.where(jnp.isfinite(values), values, jnp.inf)
    left, right = jnp.roll(high, 1).at[0].set(jnp.inf), jnp.roll(high, -1).at[-1].set(jnp.inf)
    drop = jnp.maximum(*(jnp.where(jnp.isfinite(side), jnp.abs(side - high), 0) for side in (left, right)))
    return (high <= left) & (high <= right) & (high <= 1.5 * drop + resolution(values.dtype))


def _first_zero(system: System, origin: State, duration: jax.Array, times: jax.Array, values: jax.Array) -> jax.Array:
    """The first time at which the regularity is zero, or infinity."""

    def zoom(_: Any, bracket: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
        low, high, _ = bracket
        part = jnp.linspace(low / high, 1, _SAMPLES, dtype=times.dtype)
        found = _solve(system, origin, duration * high, part, differentiable=False)[3]
        seen = _valleys(found)
        k = jnp.where(jnp.any(seen), jnp.argmax(seen), jnp.argmin(found))
        left, right = (part[jnp.clip(k + side, 0, _SAMPLES - 1)] for side in (-1, 1))
        return left * high, right * high, found[k]

    def search(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        seen, _ = carry
        k = jnp.argmax(seen)
        low, high = times[jnp.maximum(k - 1, 0)], times[jnp.minimum(k + 1, len(times) - 1)]
        low, high, value = jax.lax.fori_loop(0, _ZOOMS, zoom, (low, high, values[k]))
        return seen.at[k].set(False), jnp.where(value <= resolution(times.dtype), (low + high) / 2, jnp.inf)

    more = lambda carry: jnp.any(carry[0]) & jnp.isinf(carry[1])
    # The start is no candidate: there the regularity is 1.
    seen = _valleys(values).at[0].set(False)
    return jax.lax.while_loop(more, search, (seen, jnp.asarray(jnp.inf, times.dtype)))[1]

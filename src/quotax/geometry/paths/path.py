"""Paths through parameter space: what a geodesic is to its users, and the paths that need no differential equation.

A path starts at `start` with velocity `direction` and is asked for times, one at a time (`jax.vmap` asks for many).
Paths are pytrees: they pass through `jit` and `vmap`, and everything but `error` has a derivative in the start and the
direction, in reverse mode too; `exit_time` has one where the path's `smooth_exit` says so.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import dataclass_transform

import jax
import jax.numpy as jnp

from quotax.geometry.linalg.named import Named, norm
from quotax.trees import Tree

Time = float | jax.Array


@dataclass(frozen=True, eq=False)
class Path(abc.ABC):
    """A curve `t -> parameters`.

    - `exit_time`: when it leaves the domain, `inf` if it does not. A path that solves a differential equation looks as
      far as t = 1.
    - `error`: an estimate of the relative error at t = 1; zero for a straight line.
    """

    start: Named
    direction: Named
    exit_time: jax.Array
    error: jax.Array

    @abc.abstractmethod
    def at(self, t: Time) -> Named:
        """The parameters at time `t`."""

    @abc.abstractmethod
    def velocity(self, t: Time) -> Named:
        """The derivative at time `t`."""

    @property
    @abc.abstractmethod
    def acceleration(self) -> Named:
        """The second derivative at t = 0."""

    @property
    def end(self) -> Named:
        """The parameters at t = 1."""
        return self.at(1.0)

    @property
    def ok(self) -> jax.Array:
        """Whether the path reaches t = 1 inside its domain."""
        return self.exit_time > 1

    @property
    def smooth_exit(self) -> bool:
        """Whether `exit_time` has a derivative."""
        return False

    def taylor(self, t: Time) -> Named:
        """`start + t v + t^2 a / 2`."""
        return jax.tree.map(lambda x, v, a: x + t * (v + t / 2 * a), self.start, self.direction, self.acceleration)

    def taylor_error(self, t: Time) -> jax.Array:
        """`|taylor(t) - at(t)| / |t v|`, in the Euclidean norm."""
        length = jnp.abs(t) * norm(self.direction)
        gap = norm(jax.tree.map(jnp.subtract, self.taylor(t), self.at(t)))
        return jnp.where(length > 0, gap / jnp.where(length > 0, length, 1), 0)


@dataclass_transform(frozen_default=True)
def path_type(*, static: tuple[str, ...] = ()) -> Callable[[type], type]:
    """Make a frozen dataclass of a path, or of a part of one, and a pytree, `static` fields being its structure."""

    def register(cls: type) -> type:
        made = dataclass(frozen=True, eq=False)(cls)
        fields = [name for name in made.__dataclass_fields__ if name not in static]
        return jax.tree_util.register_dataclass(made, data_fields=fields, meta_fields=list(static))

    return register


# --- paths without a differential equation


@path_type()
class Quadratic(Path):
    """`start + t v + t^2 a / 2`: a straight line, or the second-order stand-in for a geodesic."""

    bend: Named

    @property
    def smooth_exit(self) -> bool:
        """It never leaves."""
        return True

    def at(self, t: Time) -> Named:
        """The parameters at time `t`."""
        return self.taylor(t)

    def velocity(self, t: Time) -> Named:
        """The derivative at time `t`."""
        return jax.tree.map(lambda v, a: v + t * a, self.direction, self.bend)

    @property
    def acceleration(self) -> Named:
        """The second derivative."""
        return self.bend


def straight(arrays: Mapping[str, jax.Array], velocity: Mapping[str, jax.Array]) -> Quadratic:
    """The straight line: the geodesic of a constant metric.

    >>> path = straight({"w": jnp.ones(2)}, {"w": jnp.array([0.0, 2.0])})
    >>> path.at(0.5)["w"].tolist(), bool(path.ok)
    ([1.0, 2.0], True)
    """
    return quadratic(arrays, velocity, {name: jnp.zeros_like(array) for name, array in arrays.items()})


def quadratic(
    arrays: Mapping[str, jax.Array], velocity: Mapping[str, jax.Array], acceleration: Mapping[str, jax.Array]
) -> Quadratic:
    """The parabola with these derivatives; its error as a geodesic is the geodesic's `taylor_error`."""
    dtype = jnp.result_type(*arrays.values())
    return Quadratic(
        dict(arrays), dict(velocity), jnp.asarray(jnp.inf, dtype), jnp.zeros((), dtype), dict(acceleration)
    )


# --- paths made of paths


@path_type(static=("move",))
class Moved(Path):
    """`move(data, path.at(t))`: a path carried along by a map, as by a group element."""

    path: Path
    move: Callable[[Tree, Named], Tree]
    data: Tree

    @property
    def smooth_exit(self) -> bool:
        """As of the path that is carried."""
        return self.path.smooth_exit

    def at(self, t: Time) -> Named:
        """The parameters at time `t`."""
        return self.move(self.data, self.path.at(t))

    def velocity(self, t: Time) -> Named:
        """The derivative at time `t`."""
        apply = functools.partial(self.move, self.data)
        return jax.jvp(apply, (self.path.at(t),), (self.path.velocity(t),))[1]

    @property
    def end(self) -> Named:
        """The parameters at t = 1."""
        return self.move(self.data, self.path.end)

    @property
    def acceleration(self) -> Named:
        """The second derivative at t = 0: of the map along the path's parabola."""
        along = lambda t: self.move(self.data, self.path.taylor(t))
        zero, one = jnp.zeros_like(self.exit_time), jnp.ones_like(self.exit_time)
        return jax.jvp(lambda t: jax.jvp(along, (t,), (one,))[1], (zero,), (one,))[1]


def moved(path: Path, move: Callable[[Tree, Named], Tree], data: Tree = ()) -> Moved:
    """`path` under the map `p -> move(data, p)`; `move` is a hashable function, the arrays it needs are `data`.

    What `move` returns may be any tree of arrays.
    """
    apply = functools.partial(move, data)
    start, direction = jax.jvp(apply, (path.start,), (path.direction,))
    return Moved(start, direction, path.exit_time, path.error, path, move, data)


@path_type()
class Joined(Path):
    """Paths of different parameters, run through at the same time."""

    paths: tuple[Path, ...]

    @property
    def smooth_exit(self) -> bool:
        """As of all paths."""
        return all(path.smooth_exit for path in self.paths)

    def at(self, t: Time) -> Named:
        """The parameters at time `t`."""
        return _union(path.at(t) for path in self.paths)

    def velocity(self, t: Time) -> Named:
        """The derivative at time `t`."""
        return _union(path.velocity(t) for path in self.paths)

    @property
    def acceleration(self) -> Named:
        """The second derivative at t = 0."""
        return _union(path.acceleration for path in self.paths)

    @property
    def end(self) -> Named:
        """The parameters at t = 1."""
        return _union(path.end for path in self.paths)


def joined(*paths: Path) -> Joined:
    """The product of paths that have no parameter in common: it leaves its domain when the first of them does."""
    exit_time = functools.reduce(jnp.minimum, (path.exit_time for path in paths))
    error = functools.reduce(jnp.maximum, (path.error for path in paths))
    start, direction = _union(path.start for path in paths), _union(path.direction for path in paths)
    return Joined(start, direction, exit_time, error, paths)


def _union(parts: Iterable[Named]) -> Named:
    return functools.reduce(lambda a, b: a | b, parts, {})

"""A geodesic of a quotient as its users see it: a path of parameter trees."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import jax

from quotax.geometry.paths.path import Path
from quotax.geometry.quotient import SizedModel
from quotax.presenting import Result
from quotax.trees import Tree


@functools.partial(jax.tree_util.register_dataclass, data_fields=["path"], meta_fields=["network"])
@dataclass(frozen=True, repr=False)
class Geodesic(Result):
    """The geodesic of a horizontal vector. A pytree: it passes through jit, vmap, and derivatives in the vector.

    - `exit_time`: when it leaves the domain of the metric, `inf` if it does not (an equation is followed to t = 1).
    - `ok`: whether it reaches t = 1.
    - `error`: an estimate of the relative error at t = 1, zero where the path has a closed form.
    """

    path: Path
    network: SizedModel

    def _presented(self) -> Iterator[tuple[str, object]]:
        yield from (("ok", self.ok), ("exit_time", self.exit_time), ("error", self.error))

    def at(self, t: float | jax.Array) -> Tree:
        """The parameters at time `t`."""
        return self.network.tree(self.path.at(t))

    def velocity(self, t: float | jax.Array) -> Tree:
        """The derivative at time `t`."""
        return self.network.tree(self.path.velocity(t))

    @property
    def end(self) -> Tree:
        """The parameters at t = 1."""
        return self.network.tree(self.path.end)

    @property
    def exit_time(self) -> jax.Array:
        """When the path leaves the domain."""
        return self.path.exit_time

    @property
    def smooth_exit(self) -> bool:
        """Whether `exit_time` has a derivative in the vector, among horizontal ones."""
        return self.path.smooth_exit

    @property
    def ok(self) -> jax.Array:
        """Whether the path reaches t = 1 inside its domain."""
        return self.path.ok

    @property
    def error(self) -> jax.Array:
        """An estimate of the relative error at t = 1."""
        return self.path.error

    def taylor(self, t: float | jax.Array) -> Tree:
        """The second-order stand-in, `params + t v + t^2 a / 2`."""
        return self.network.tree(self.path.taylor(t))

    def taylor_error(self, t: float | jax.Array) -> jax.Array:
        """How far the second-order stand-in is from the path at `t`, relative to the way `|t v|`."""
        return self.path.taylor_error(t)

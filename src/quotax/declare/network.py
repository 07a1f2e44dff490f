"""`Network`: an architecture at given sizes, a pure function of parameters and inputs."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike

from quotax.artifacts import ArraySpec
from quotax.checks import unfinite
from quotax.declare.fused_axes import DeclaredArray
from quotax.declare.initialisers import default_initialiser
from quotax.errors import ArchitectureError, ParameterError
from quotax.parts import taken_apart, tree
from quotax.presenting import shown
from quotax.trees import AnyArray, Tree, named, nest

if TYPE_CHECKING:
    from quotax.declare.architecture import Architecture


class Network:
    """A sized model: `net.init(key)` makes parameters, `net(params, x)` runs it; jit, vmap and grad apply."""

    def __init__(self, architecture: Architecture, sizes: Mapping[str, int]) -> None:
        """Bind checked sizes; `Architecture.at` is the way to get one."""
        self.architecture = architecture
        self.sizes: dict[str, int] = dict(sizes)
        self.shapes: dict[str, tuple[int, ...]] = {s.name: s.shape(sizes) for s in architecture.params}
        self._declared = {array.name: array.shape(sizes) for array in architecture.arrays}

    @property
    def num_parameters(self) -> int:
        """How many numbers the parameters hold."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def init(self, key: jax.Array, dtype: DTypeLike | None = None) -> dict[str, Tree]:
        """Random parameters: LeCun normal weights, zero biases, unit gains, and the declaration's own `init`.

        Every parameter has a key of its own, folded from its name, so that declaring one more changes no other.
        """
        if not hasattr(key, "dtype"):
            raise ParameterError(f"`{self._call}.init(key)` needs a key, as jax.random.key(0) makes it, got {key!r}.")
        dtype = jnp.result_type(float if dtype is None else dtype)
        arrays = {}
        for spec in self.architecture.arrays:
            initialise = self.architecture.init.get(spec.name) or default_initialiser(spec, self.sizes)
            own_key = jax.random.fold_in(key, zlib.crc32(spec.name.encode()) & 0x7FFFFFFF)
            array = jnp.asarray(initialise(own_key, self._declared[spec.name], dtype))
            if array.shape != self._declared[spec.name]:
                raise ArchitectureError(
                    f"`{self._call}.init`: the initialiser of {spec.name!r} returned shape {array.shape}, "
                    f"but its axes {spec.axes_text!r} give {self._declared[spec.name]}."
                )
            arrays[spec.name] = array
        return nest(arrays)

    def __call__(self, params: Tree, *inputs: Tree) -> Tree:
        """The output for these parameters and inputs."""
        self.check_params(params, call=f"{self._call}(params, ...)")
        sizes = self._check_inputs(inputs)
        return self.architecture.call(params, *inputs, sizes=sizes)

    def check_params(self, params: Tree, *, call: str, finite: bool = False) -> dict[str, Tree]:
        """The arrays of `params` by name, as the user passes them: the parts are `taken_apart`.

        Refused when names, shapes or (with `finite`) values do not fit.
        """
        found = self._named(params, call)
        expected = list(self._declared)
        if set(found) != set(expected):
            missing = [n for n in expected if n not in found]
            unknown = [n for n in found if n not in expected]
            parts = [f"missing {', '.join(missing)}"] * bool(missing) + [f"unknown {', '.join(unknown)}"] * bool(
                unknown
            )
            raise ParameterError(
                f"`{call}`: the parameters are not those of {self.architecture.name}: {'; '.join(parts)}. "
                f"It has {', '.join(expected)}; `net.init(key)` makes them."
            )
        for spec in self.architecture.arrays:
            shape = np.shape(found[spec.name])
            if shape != self._declared[spec.name]:
                raise ParameterError(
                    f"`{call}`: params[{spec.name!r}] has shape {shape}, "
                    f"but its axes {spec.axes_text!r} at {_sizes_text(self.sizes, spec)} "
                    f"give {self._declared[spec.name]}."
                )
            if finite and not isinstance(found[spec.name], Tracer):
                bad = unfinite(found[spec.name])
                if bad:
                    raise ParameterError(
                        f"`{call}`: params[{spec.name!r}] holds {bad} value(s) that are NaN or infinite; "
                        "find where they arise before measuring anything."
                    )
        return {name: found[name] for name in expected}

    def _named(self, params: Tree, call: str) -> dict[str, Tree]:
        if not isinstance(params, Mapping):
            raise ParameterError(
                f"`{call}`: params must be a dict of arrays as `net.init(key)` returns it, got {shown(params)}."
            )
        return named(params)

    def taken_apart(self, arrays: Mapping[str, AnyArray]) -> dict[str, Tree]:
        """The parts of checked arrays, by name: what every stage sees."""
        return taken_apart(self.architecture.params, arrays, self.sizes) if self._fused else dict(arrays)

    def tree(self, arrays: Mapping[str, AnyArray], like: Tree = None) -> Tree:
        """Parts by name, as the user's tree; what it holds besides is taken from `like`."""
        return tree(self.architecture.params, arrays, self.sizes)

    @property
    def _fused(self) -> bool:
        return any(spec.cuts for spec in self.architecture.params)

    def _check_inputs(self, inputs: tuple[Tree, ...]) -> dict[str, int]:
        """The sizes with the inputs' own axes filled in."""
        specs = self.architecture.inputs
        call = f"{self._call}(params, {', '.join(s.name for s in specs)})"
        if len(inputs) != len(specs):
            raise ArchitectureError(f"`{call}` takes {len(specs)} input(s), got {len(inputs)}.")
        sizes = dict(self.sizes)
        for spec, value in zip(specs, inputs, strict=True):
            shape = np.shape(value)
            if len(shape) != len(spec.axes):
                raise ArchitectureError(
                    f"`{call}`: {spec.name} has rank {len(shape)} (shape {shape}), but its axes {spec.axes_text!r} "
                    f"give rank {len(spec.axes)}; use jax.vmap for a batch."
                )
            for axis, length in zip(spec.axes, shape, strict=True):
                self._bind_axis(axis, length, sizes, spec, shape, call)
            if spec.kind == "tokens" and not jnp.issubdtype(jnp.result_type(value), jnp.integer):
                raise ArchitectureError(
                    f"`{call}`: {spec.name} holds tokens and must be integers, got {jnp.result_type(value)}."
                )
        return self.architecture.relations.completed(sizes, call)

    def _bind_axis(
        self,
        axis: tuple[Tree, ...],
        length: int,
        sizes: dict[str, int],
        spec: ArraySpec,
        shape: tuple[int, ...],
        call: str,
    ) -> None:
        unknown = [f for f in axis if isinstance(f, str) and f not in sizes]
        known = math.prod(f if isinstance(f, int) else sizes[f] for f in axis if f not in unknown)
        if len(unknown) == 1 and length % known == 0:
            sizes[unknown[0]] = length // known
        elif not unknown and length != known:
            raise ArchitectureError(
                f"`{call}`: {spec.name} has shape {shape}, but its axes {spec.axes_text!r} "
                f"at {_sizes_text(sizes, spec)} give {spec.shape(sizes)}."
            )

    @property
    def _call(self) -> str:
        return self.architecture.name

    def __repr__(self) -> str:
        """Name, sizes and the number of parameters."""
        sizes = ", ".join(f"{axis}={size}" for axis, size in self.sizes.items())
        return f"Network {self.architecture.name}({sizes}) with {self.num_parameters:,} parameters"


def _sizes_text(sizes: Mapping[str, int], spec: ArraySpec | DeclaredArray) -> str:
    return ", ".join(f"{axis}={sizes[axis]}" for axis in spec.axis_names) or "fixed sizes"

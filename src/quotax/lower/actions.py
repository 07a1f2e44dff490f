"""One action lowered to JAX: the finite action, its derivative at the identity, and the group's own operations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import sympy as sp
from jax.core import Tracer

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.symmetry import ELEMENT, INVERSE, TANGENT, Action, Arrays, Entry, Group, Term, read, variable

Named = dict[str, jax.Array]
"""Arrays by parameter name, in their declared shapes."""


@dataclass(frozen=True)
class LoweredAction:
    """A symmetry at given sizes, as JAX functions on named arrays; jit, vmap and grad apply."""

    action: Action
    specs: tuple[ArraySpec, ...]
    sizes: Mapping[str, int]

    @property
    def name(self) -> str:
        """The symmetry's name."""
        return self.action.name

    @property
    def group(self) -> Group:
        """The symmetry's group."""
        return self.action.group

    @property
    def moved(self) -> tuple[str, ...]:
        """The parameters that the action moves."""
        return tuple(entry.name for entry in self.action.entries)

    @property
    def dimension(self) -> int:
        """The dimension of the group at these sizes."""
        return self.group.dimension(self.sizes)

    @property
    def terms(self) -> tuple[Term, ...] | None:
        """The bilinear terms of the field, or nothing when it has another form."""
        return self.action.terms

    @property
    def splits(self) -> Mapping[str, tuple[int, ...]]:
        """The moved and source parameters' shapes with fused axes taken apart, as `terms` index them."""
        return {spec.name: self._split_shape(spec) for spec in self.specs}

    def act(self, arrays: Mapping[str, Any], g: Any) -> Named:
        """The parameters moved by `g`."""
        moved = self._moved if _traced(arrays, g) else self._compiled[0]
        return {**arrays, **moved(arrays, g)}

    def field(self, arrays: Mapping[str, Any], xi: Any) -> Named:
        """The velocity of the moved parameters along `xi`; linear in `xi`."""
        velocity = self._velocity if _traced(arrays, xi) else self._compiled[1]
        return velocity(arrays, xi)

    @functools.cached_property
    def _compiled(self) -> tuple[Callable[..., Named], Callable[..., Named]]:
        """One program each for a caller who traces nothing: step by step it would be one for every product."""
        return jax.jit(self._moved), jax.jit(self._velocity)

    def _moved(self, arrays: Mapping[str, Any], g: Any) -> Named:
        inverse = {INVERSE: self.group.inverse(g)} if self.group.layout == "matrix" else {}
        return self._read(self.action.entries, arrays, {ELEMENT: g, **inverse})

    def _velocity(self, arrays: Mapping[str, Any], xi: Any) -> Named:
        return self._read(self.action.infinitesimal, arrays, {TANGENT: xi})

    def _read(self, entries: tuple[Entry, ...], arrays: Mapping[str, Any], element: Mapping[str, Any]) -> Named:
        specs = {spec.name: spec for spec in self.specs}
        environment = {variable(n): self._split(specs[n], a) for n, a in arrays.items()} | dict(element)
        results = {}
        for entry in entries:
            old = jnp.asarray(arrays[entry.name])
            new = read(entry, environment, self.sizes, _jax_arrays(old.dtype))
            results[entry.name] = jnp.broadcast_to(new, self._split_shape(specs[entry.name])).reshape(old.shape)
        return results

    def _split_shape(self, spec: ArraySpec) -> tuple[int, ...]:
        return tuple(_length(factor, self.sizes) for axis in spec.axes for factor in axis)

    def _split(self, spec: ArraySpec, array: Any) -> jax.Array:
        """Fused axes taken apart, as entries are written."""
        return jnp.asarray(array).reshape(self._split_shape(spec))


def lower_action(action: Action, specs: tuple[ArraySpec, ...], sizes: Mapping[str, int]) -> LoweredAction:
    """`action` at these sizes; refused when the group cannot act on them."""
    action.group.check_sizes(sizes)
    return LoweredAction(action, specs, dict(sizes))


def _traced(*trees: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


def _length(factor: AxisFactor, sizes: Mapping[str, int]) -> int:
    return factor if isinstance(factor, int) else sizes[factor]


@functools.cache
def _jax_arrays(dtype: Any) -> Arrays:
    """JAX as entries read it; constants take the dtype of the parameter that moves."""
    return Arrays(
        einsum=functools.partial(jnp.einsum, precision="highest"),
        constant=lambda value: jnp.asarray(float(value), dtype),
        functions={sp.exp: jnp.exp, sp.log: jnp.log},
        power=lambda base, exponent: base ** (int(exponent) if exponent.is_Integer else float(exponent)),
        eye=lambda n: jnp.eye(n, dtype=dtype),
    )

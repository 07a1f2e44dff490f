"""A model's jaxpr, at sizes that are numbers or symbols, and what the stages need to know of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from quotax.artifacts.array_specs import ArraySpec
from quotax.trees import Dim, Tree

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr


@dataclass(frozen=True)
class Trace:
    """One jaxpr of a model at given sizes, with the names of what goes in.

    The jaxpr's inputs are the parameters in the order of `params`, then the inputs in the order of `inputs`.
    It is traced in float64, so that Python constants keep every digit.
    """

    jaxpr: ClosedJaxpr
    params: tuple[ArraySpec, ...]
    inputs: tuple[ArraySpec, ...]
    sizes: Mapping[str, int]
    out_tree: Tree
    _written: ClosedJaxpr | None = None
    """The user's program, where `jaxpr` is that program taken apart."""

    @property
    def written(self) -> ClosedJaxpr:
        """The program as the user wrote it, of the same arrays: nothing in it was taken apart."""
        return self.jaxpr if self._written is None else self._written

    @property
    def arrays(self) -> tuple[ArraySpec, ...]:
        """Parameters, then inputs."""
        return self.params + self.inputs


@dataclass(frozen=True)
class OpenTrace:
    """One jaxpr of a model whose sizes stay symbols: what is read off it holds for every width.

    Attributes:
        sizes: the size of every axis, as a polynomial in symbols.
        conditions: comparisons of sizes that Python made, as they were answered: `h ≠ 64`.
        asked: the lines at which Python asked for the float of a size.
        numbers: by the `id` of a literal, its values for several sizes, where it depends on such a float.
    """

    jaxpr: ClosedJaxpr
    params: tuple[ArraySpec, ...]
    inputs: tuple[ArraySpec, ...]
    sizes: Mapping[str, Dim]
    out_tree: Tree
    conditions: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    numbers: Mapping[int, tuple[float, ...]] = field(default_factory=dict)


class Model(Protocol):
    """What the stages need to know of an architecture."""

    @property
    def name(self) -> str:
        """What messages and claims call it."""
        ...

    @property
    def params(self) -> tuple[ArraySpec, ...]:
        """Its parameters."""
        ...

    @property
    def inputs(self) -> tuple[ArraySpec, ...]:
        """Its inputs."""
        ...

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Every axis name of the parameters and inputs."""
        ...

    @property
    def fixed(self) -> Mapping[str, int | str]:
        """Axes whose size is settled: a number, or a product of others: `{"D": 8, "d": "heads*k", "f": "4*h"}`."""
        ...

    def trace(self, sizes: Mapping[str, int]) -> Trace:
        """The model's jaxpr at these sizes."""
        ...

    def open(self, axes: Mapping[str, int | str]) -> OpenTrace:
        """The model's jaxpr at sizes some of which stay symbols: `{"h": "h", "k": "2*k", "head": 2}`."""
        ...

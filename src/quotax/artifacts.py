"""The frozen records that stages hand to each other.

Stages do not import one another; what they exchange is defined here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

AxisFactor = str | int
"""An axis name, or a fixed size."""


@dataclass(frozen=True)
class ArraySpec:
    """Name and axes of one array; each axis is a product of factors (`head*k` fuses two).

    `kind` and `below` matter for inputs only: what an input may be decides which symmetries exist.
    """

    name: str
    axes: tuple[tuple[AxisFactor, ...], ...]
    kind: Literal["real", "tokens", "mask"] = "real"
    below: AxisFactor | None = None

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Every axis name that occurs, in order, each once."""
        return tuple(dict.fromkeys(f for axis in self.axes for f in axis if isinstance(f, str)))

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The array's shape once every axis has a size."""
        shape = []
        for axis in self.axes:
            size = 1
            for factor in axis:
                size *= factor if isinstance(factor, int) else sizes[factor]
            shape.append(size)
        return tuple(shape)

    @property
    def axes_text(self) -> str:
        """The axes as the user writes them: `"head*k x"`."""
        return " ".join("*".join(str(f) for f in axis) for axis in self.axes)


@dataclass(frozen=True)
class Trace:
    """One jaxpr of a model at given sizes, with the names of what goes in.

    The jaxpr's inputs are the parameters in the order of `params`, then the inputs in the order of `inputs`.
    It is traced in float64, so that Python constants keep every digit.
    """

    jaxpr: Any
    params: tuple[ArraySpec, ...]
    inputs: tuple[ArraySpec, ...]
    sizes: Mapping[str, int]
    out_tree: Any

    @property
    def arrays(self) -> tuple[ArraySpec, ...]:
        """Parameters, then inputs."""
        return self.params + self.inputs


class Model(Protocol):
    """What the stages need to know of an architecture."""

    name: str
    params: tuple[ArraySpec, ...]
    inputs: tuple[ArraySpec, ...]

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Every axis name of the parameters and inputs."""
        ...

    def trace(self, sizes: Mapping[str, int]) -> Trace:
        """The model's jaxpr at these sizes."""
        ...


Status = Literal["proved", "refuted", "undecided"]


@dataclass(frozen=True)
class Witness:
    """A counterexample: at `params`, `element` and `inputs` the two outputs differ."""

    sizes: Mapping[str, int]
    params: Any
    element: Any
    inputs: Mapping[str, Any]
    output: Any
    transformed_output: Any
    transformed_params: Any = None

    @property
    def difference(self) -> float:
        """Largest absolute difference between the two outputs."""
        import jax
        import numpy as np

        pairs = zip(jax.tree.leaves(self.output), jax.tree.leaves(self.transformed_output), strict=True)
        return max(float(np.max(np.abs(np.asarray(a) - np.asarray(b)), initial=0.0)) for a, b in pairs)


@dataclass(frozen=True)
class Certificate:
    """What was claimed, whether it holds, and exactly where that was established.

    `bool(certificate)` is true for a proof and nothing else.
    """

    claim: str
    status: Status
    scope: str
    steps: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    witness: Witness | None = None
    residual: str | None = None
    recipe: Callable[[], Certificate] | None = field(default=None, compare=False, repr=False)

    def __bool__(self) -> bool:
        """Whether the claim is proved."""
        return self.status == "proved"

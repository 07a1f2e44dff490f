"""Arrays as they are declared: names, axes that are products of factors, and parts of fused arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

AxisFactor = str | int
"""An axis name, or a fixed size."""


@dataclass(frozen=True)
class Cut:
    """Where a part lies in the array that holds it: an axis is `before * (pieces one after another) * after`.

    Attributes:
        axis: the array's axis, counted from its end.
        pieces: what every part has of the axis, a product of factors each; the empty product is one.
        index: which of them this part is.
        before: what runs slower than the parts along the axis: heads, in `head*3*k`.
        after: what runs faster: heads and their columns, in `3*head*k`.
        stacked: the parts lie along an axis of its own, which they do not have.
    """

    axis: int
    pieces: tuple[tuple[AxisFactor, ...], ...]
    index: int
    before: tuple[AxisFactor, ...] = ()
    after: tuple[AxisFactor, ...] = ()
    stacked: bool = False


@dataclass(frozen=True)
class ArraySpec:
    """Name and axes of one array; each axis is a product of factors (`head*k` fuses two).

    `kind` and `below` matter for inputs only: what an input may be decides which symmetries exist. `cuts` says where
    the array lies in the one that the user declared and passes, if it is a part of one: the outermost cut first.
    """

    name: str
    axes: tuple[tuple[AxisFactor, ...], ...]
    kind: Literal["real", "positive", "tokens", "mask"] = "real"
    below: AxisFactor | None = None
    cuts: tuple[Cut, ...] = ()

    @property
    def discrete(self) -> bool:
        """Whether an entry is one of finitely many numbers."""
        return self.kind in ("tokens", "mask")

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Every axis name that occurs, in order, each once."""
        return tuple(dict.fromkeys(f for axis in self.axes for f in axis if isinstance(f, str)))

    @property
    def factors(self) -> tuple[AxisFactor, ...]:
        """The axes with fused ones taken apart."""
        return tuple(factor for axis in self.axes for factor in axis)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The array's shape once every axis has a size."""
        return tuple(math.prod(_length(factor, sizes) for factor in axis) for axis in self.axes)

    def split_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape with fused axes taken apart."""
        return tuple(_length(factor, sizes) for factor in self.factors)

    def bound(self, sizes: Mapping[str, int]) -> int:
        """How many values a token may take."""
        assert self.below is not None
        return _length(self.below, sizes)

    @property
    def axes_text(self) -> str:
        """The axes as the user writes them: `"head*k x"`."""
        return " ".join("*".join(str(f) for f in axis) for axis in self.axes)


def _length(factor: AxisFactor, sizes: Mapping[str, int]) -> int:
    return factor if isinstance(factor, int) else sizes[factor]

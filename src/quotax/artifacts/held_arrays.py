"""Arrays of numbers that a model closes over and an action reads: running statistics, which nothing moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quotax.artifacts.array_specs import ArraySpec


@dataclass(frozen=True)
class HeldArray:
    """An array by name, with its axes; the numbers are kept as bytes of float64, so that equal arrays are equal."""

    spec: ArraySpec
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, spec: ArraySpec, values: Any) -> HeldArray:
        """The array of these numbers."""
        array = np.asarray(values, np.float64)
        return cls(spec, array.shape, array.tobytes())

    @property
    def name(self) -> str:
        """What actions call it."""
        return self.spec.name

    @property
    def values(self) -> np.ndarray:
        """The numbers."""
        return np.frombuffer(self.data, np.float64).reshape(self.shape)

    def __repr__(self) -> str:
        """The name and the axes."""
        return f"{self.name}: {self.spec.axes_text}"

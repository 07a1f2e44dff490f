"""What a worst-case sharpness measurement returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sharpness:
    """The largest rise `max L(params + delta) - L(params)` that was found, and how it was found.

    Attributes:
        value: the rise at `perturbation`; never negative, because `delta = 0` counts as visited.
        perturbation: where it is reached: shaped like the parameters, inside the ball, horizontal if a space was given.
        evaluations: gradients spent; a Hessian-vector product counts as one, a value with its gradient as one.
        history: the best rise so far, before the first step and after each; it never decreases.
        status: why the search stopped, for the restart that won: `"stationary"` (the first-order conditions of the
            ball hold to the tolerance, and the quadratic model sees no way up), `"rounding"` (the steps left would
            gain less than the loss can resolve), `"budget"` (`steps` ran out), `"flat"` (no visited point differs
            from the centre), `"loss is nan at params"` and `"loss is inf at params"`.
        radius: the ball's radius.
        base: the loss at the centre.
        restart_values: the rise each restart ended with. Their spread is evidence, not a bound, on what was missed.
        nonfinite: visited points where the loss or its gradient was not finite; none of them is ever selected.
    """

    value: float
    perturbation: Any = field(repr=False)
    evaluations: int
    history: np.ndarray = field(repr=False)
    status: str
    radius: float
    base: float
    restart_values: np.ndarray = field(repr=False)
    nonfinite: int = 0

    def __str__(self) -> str:
        """One readable line."""
        text = f"sharpness {self.value:.6g} at radius {self.radius:g} ({self.status}, {self.evaluations} gradients"
        if self.restart_values.size > 1:
            text += f"; {self.restart_values.size} restarts from {self.restart_values.min():.6g}"
        if self.nonfinite:
            text += f"; the loss was not finite at {self.nonfinite} visited points"
        return text + ")"

"""What a worst-case sharpness measurement returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quotax.presenting import Result
from quotax.presenting.drawing import counted, drawn, says
from quotax.sharpness.verdicts.along_orbit import Spread
from quotax.sharpness.verdicts.arithmetic import Arithmetic
from quotax.trees import Tree


@dataclass(frozen=True, repr=False)
class Sharpness(Result):
    """The largest rise `max L(params + delta) - L(params)` that was found, and how it was found.

    Attributes:
        value: the rise at `perturbation`; never negative, because `delta = 0` counts as visited.
        perturbation: where it is reached: shaped like the parameters, inside the ball, horizontal if a space was given.
            For a geodesic ball, the initial velocity: `space.geodesic(params, perturbation).end` is the point.
        evaluations: gradients spent; a value with its gradient counts as one, a Hessian-vector product as two.
        history: the best rise after each gradient, from 0 at the centre; it never decreases.
        status: why the search stopped, for the restart that won: `"stationary"` (the first-order conditions of the
            ball hold to the tolerance, and the quadratic model sees no way up), `"rounding"` (the steps left would
            gain less than the loss can resolve), `"budget"` (ran out), `"flat"` (no visited point differs
            from the centre), `"domain"` (the best point lies at the edge of the metric's domain, which the geodesic
            ball exceeds: the search was restricted to what is inside), `"loss is nan at params"` and `"loss is inf at
            params"`.
        radius: the ball's radius.
        base: the loss at the centre.
        restart_values: the rise each restart ended with. Their spread is evidence, not a bound, on what was missed.
        nonfinite: visited points where the loss or its gradient was not finite; none of them is ever selected.
        gap: what is known or supposed to be possible, minus `value`.
        gap_kind: which of the two: exact for quadratic losses, the quadratic model's maximum (with `bound=True`), or
            the spread over restarts, which is evidence and no bound.
        state: of the search, a pytree of arrays to take it up again with `state=`: kept if it was interrupted, or on
            request.
        invariant: whether this measure is a function on the quotient, the same for every representative of an orbit:
            True is proved, False is refuted, None is not known.
        reason: why.
        arithmetic: what was kept of the digits; nothing without a quotient.
        kink: whether second differences along the perturbation fail to converge: the loss has kinks within the ball,
            and its Hessian does not describe it there. None where rounding hides the answer.
        spread: the values at random representatives, if asked for.
    """

    value: float
    perturbation: Tree = field(repr=False)
    evaluations: int
    history: np.ndarray = field(repr=False)
    status: str
    radius: float
    base: float
    restart_values: np.ndarray = field(repr=False)
    nonfinite: int = 0
    gap: float = float("nan")
    gap_kind: str = ""
    state: Tree = field(default=None, repr=False, compare=False)
    invariant: bool | None = None
    reason: str = ""
    arithmetic: Arithmetic | None = None
    kink: bool | None = None
    spread: Spread | None = None

    def __str__(self) -> str:
        """One readable line, and one more for each thing to know about it."""
        text = f"sharpness {self.value:.6g} at radius {self.radius:g} ({self.status}, {self.evaluations} gradients"
        if self.restart_values.size > 1:
            text += f"; {self.restart_values.size} restarts from {self.restart_values.min():.6g}"
        if self.nonfinite:
            text += f"; the loss was not finite at {self.nonfinite} visited points"
        lines = [text + ")"]
        if self.kink:
            lines.append("kinks: the loss bends at points, not smoothly; its Hessian does not describe this ball")
        return "\n".join([*lines, *standing(self.invariant, self.reason, self.spread)])

    def plot(self, ax: Any = None, *, label: str | None = None) -> Any:
        """The largest rise found, by gradients spent; `.spread` has a picture of its own.

        Several searches share axes: `quot.plot(full.plot(label="full"), label="quotient")`.
        """
        with drawn(ax, "sharpness.plot()") as (ax, look):
            often = max(self.history.size // 8, 1)
            spent = np.arange(self.history.size)
            ax.plot(spent, self.history, drawstyle="steps-post", label=label, markevery=often, **look)
            counted(ax)
            ax.set_xlabel("gradients spent")
            ax.set_ylabel("largest rise found")
            if not np.isfinite(self.history).any():
                says(ax, self.status)
        return ax


def standing(invariant: bool | None, reason: str, spread: Spread | None = None) -> list[str]:
    """The last lines of a measure's text: whether it is a function on the quotient and why, and its values there."""
    return [f"{_FUNCTION[invariant]}: {reason}"] * bool(reason) + [str(spread)] * (spread is not None)


_FUNCTION = {
    True: "a function on the quotient",
    False: "not a function on the quotient",
    None: "not known to be a function on the quotient",
}
"""What `invariant` says, in words."""

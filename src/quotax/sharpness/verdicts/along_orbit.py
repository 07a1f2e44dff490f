"""What a measure is at random representatives of one orbit, and what that says of the verdict.

A function on the quotient is the same at all of them, up to rounding, and up to what it is estimated with. Where more
than that lies between the values, what was returned is not the same at every representative, whatever is proved of the
measure in exact arithmetic. For a largest rise there is a test of the cause: the perturbation that was found is moved
along with the parameters. If it is worth the same there, then ball and loss are the same, and the searches ended at
different local maxima; if not, the loss is another one there, or rounding has made it so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from quotax.errors import SharpnessError
from quotax.presenting import Result
from quotax.presenting.drawing import counted, drawn, says
from quotax.sharpness.problem.arguments import key_of
from quotax.sharpness.problem.setting import Measurement, Setting
from quotax.sharpness.problem.vectors import Tree
from quotax.sharpness.verdicts.arithmetic import KEPT, arithmetic
from quotax.sharpness.verdicts.invariance import Verdict

ERRORS = 6.0
"""Estimates from other samples agree to so many standard errors."""


class Elsewhere(NamedTuple):
    """A measure at one representative: its value, whether rounding lost it, what a carried perturbation is worth."""

    value: float
    lost: bool
    carried: float | None = None

    @classmethod
    def of(cls, value: float, setting: Setting) -> Elsewhere:
        """With what the representative says of its own digits."""
        kept = arithmetic(setting)
        return cls(value, kept is not None and bool(kept.lost))


@dataclass(frozen=True, repr=False)
class Spread(Result):
    """A measure at random representatives of one orbit, `space.act(params, space.random_element(key, scale))`.

    Attributes:
        values: what it is there.
        relative: the largest minus the smallest, over the largest absolute value. Zero for a function on the quotient,
            up to rounding, and up to the search or the sampling that the measure itself is made with.
        scale: of the random elements.
        lost: at how many of them rounding has changed the network itself; these say nothing.
    """

    values: np.ndarray
    relative: float
    scale: float
    lost: int = 0

    def __str__(self) -> str:
        """One readable line."""
        low, high = float(self.values.min()), float(self.values.max())
        text = f"{self.values.size} representatives: {low:.6g} to {high:.6g}, relative spread {self.relative:.1e}"
        return text + (f", rounding lost the network at {self.lost} of them" if self.lost else "")

    def plot(self, ax: Any = None, *, label: str | None = None) -> Any:
        """The values at the representatives, in ascending order.

        Several share axes: `quot.spread.plot(full.spread.plot(label="full"), label="quotient")`. For values along one
        curve in the orbit there is `quotax.orbit_drift`.
        """
        with drawn(ax, "spread.plot()") as (ax, look):
            ax.plot(np.arange(1, self.values.size + 1), np.sort(self.values), label=label, **look)
            counted(ax)
            ax.set_xlabel("representative of the orbit, by value")
            ax.set_ylabel("value")
            if not np.isfinite(self.values).any():
                says(ax, "no value is a number")
            elif len([line for line in ax.lines if line.get_gid() == "curve"]) == 1:
                # a spread of rounding is none
                centre, half = float(np.nanmean(self.values)), float(np.ptp(self.values[np.isfinite(self.values)])) / 2
                half = max(half, 0.05 * abs(centre), np.finfo(float).tiny)
                ax.set_ylim(centre - 1.2 * half, centre + 1.2 * half)
            else:
                ax.autoscale(axis="y")
        return ax


def representatives(request: Measurement, params: Tree) -> Iterator[tuple[Tree, Callable[[Tree], Tree]]]:
    """As many random ones as are asked for, each with what moves tangent vectors there."""
    call, count, scale = request.call, request.representatives, request.spread_scale
    space: Any = request.space
    if not (callable(getattr(space, "act", None)) and callable(getattr(space, "random_element", None))):
        raise SharpnessError(
            f"`{call}` needs space= with `act` and `random_element` for representatives={count}, got "
            f"{type(space).__name__}; to measure the full ball along the orbits of a space, pass ball='full' with it."
        )
    for key in jax.random.split(key_of(call, request.key), count):
        element = space.random_element(key, scale=scale)
        act = lambda p, element=element: space.act(p, element)
        yield act(params), lambda v, act=act: jax.jvp(act, (params,), (v,))[1]


def compared(
    known: Verdict, request: Measurement, value: float, seen: Sequence[Elsewhere], error: float = 0.0
) -> tuple[Verdict, Spread]:
    """The verdict, which is not `True` where representatives differ by more than is explained; and their spread.

    `error` is a standard error of `value` if other samples are drawn there.
    """
    values = np.asarray([each.value for each in seen])
    largest = float(np.max(np.abs(values)))
    relative = float(values.max() - values.min()) / largest if largest > 0 else 0.0
    spread = Spread(values, relative, request.spread_scale, sum(each.lost for each in seen))
    told = [each for each in seen if not each.lost]
    if known.invariant is not True or not told or not math.isfinite(value):
        return known, spread
    worst = max(told, key=lambda each: abs(each.value - value))
    size = max(abs(worst.value), abs(value))
    if abs(worst.value - value) <= max(KEPT * size, ERRORS * error):
        return known, spread
    why = f"at another representative {worst.value:.6g} was found, and here {value:.6g}: {_cause(value, worst)}"
    return Verdict(None, f"{why} In exact arithmetic it is one: {known.reason}"), spread


def _cause(value: float, there: Elsewhere) -> str:
    if there.carried is None:
        return "more than rounding of the parameters explains."
    worth = f"this perturbation is worth {there.carried:.6g} there"
    if abs(there.carried - value) <= KEPT * abs(value):
        return f"{worth}, so that the searches ended at different local maxima. Take a larger budget=."
    return f"{worth}: the loss depends on more than the network computes, or rounding lost it."

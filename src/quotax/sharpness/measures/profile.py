"""Worst-case sharpness as a function of the radius."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from quotax.errors import SharpnessError
from quotax.presenting import Result
from quotax.presenting.drawing import Axes, drawn, few_decades, says
from quotax.programs.threads import one_thread
from quotax.sharpness.measures.worst_case import Rising
from quotax.sharpness.problem.arguments import check_radius
from quotax.sharpness.problem.objective import Loss
from quotax.sharpness.problem.setting import Measurement
from quotax.sharpness.search.effort import Wanted
from quotax.sharpness.search.run import Search, at_radius, maximise
from quotax.sharpness.search.watching import Watch
from quotax.sharpness.verdicts.arithmetic import Arithmetic
from quotax.sharpness.verdicts.result import Sharpness, standing
from quotax.trees import Keyword, Tree

CALL = "quotax.profile"

REQUEST = {"space", "ball", "norm", "adaptive", "mask", "per_layer", "batch", "microbatch", "mesh", "key"}
EFFORT = {"budget", "steps", "restarts", "curvature", "memory", "tolerance"}
SEARCH = {"bound", "progress"}
"""Settings of `quotax.sharpness`: of the loss and its ball, of the effort, and of the search as a whole."""

_HEAD = "radius", "sharpness", "2 S / r^2", "status"


@dataclass(frozen=True, repr=False)
class Profile(Result):
    """Worst-case sharpness at several radii.

    Attributes:
        radii: ascending.
        values: the sharpness at each; never decreasing, because a ball holds the smaller ones.
        results: the measurement at each radius. Where the search in a ball found less than the one before it did, the
            earlier perturbation counts, and stands in the later result too.
        evaluations: gradients spent in all.
        invariant: whether it is a function on the quotient (None: not known), and `reason` why.
        arithmetic: what was kept of the digits, at the radius where it was least; nothing without a quotient.
    """

    radii: np.ndarray
    values: np.ndarray
    results: tuple[Sharpness, ...] = field(repr=False)
    evaluations: int
    invariant: bool | None
    reason: str
    arithmetic: Arithmetic | None = None

    def __str__(self) -> str:
        """A table: the value beside twice its ratio to the squared radius, which tends to the largest eigenvalue."""
        lines = [f"{r:>10} {s:>12} {q:>12}  {status}" for r, s, q, status in (_HEAD, *self._rows()[1])]
        return "\n".join([*lines, *self._below()])

    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        """The sharpness against the radius, both logarithmic.

        Several profiles share axes: `quot.plot(full.plot(label="full"), label="quotient")`.
        """
        with drawn(ax, "profile.plot()") as (ax, look):
            ax.loglog(self.radii, self.values, label=label, **look)
            ax.set_xlabel("radius")
            ax.set_ylabel("largest rise of the loss")
            few_decades(ax, "x")
            few_decades(ax)
            if not np.any(self.values > 0):
                says(ax, "no rise is a positive number")
        return ax

    def _below(self) -> list[str]:
        return standing(self.invariant, self.reason)

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        rows = []
        for radius, value, found in zip(self.radii, self.values, self.results, strict=True):
            status = found.status + (", kink" if found.kink else "")
            rows.append((f"{radius:.4g}", f"{value:.6g}", f"{2 * value / radius**2:.6g}", status))
        return _HEAD, rows


@one_thread
@np.errstate(all="ignore")  # what is no number is named in the result
def profile(loss: Loss, params: Tree, radii: Iterable[float], **settings: Keyword) -> Profile:
    """Worst-case sharpness over a range of radii.

    Every search also starts where the next smaller ball's ended, so the values never decrease; what is measured at the
    centre is measured once. `settings` are those of `quotax.sharpness` that describe a loss, its ball, the effort and
    the devices: `space`, `ball`, `norm`, `batch`, `budget`, `bound`, `progress` and so on. An interrupt from the
    keyboard ends the measurement at that radius with what was found, and those at the larger ones.

    Example:
        >>> import jax.numpy as jnp
        >>> profile(lambda p: jnp.sum(p**2), jnp.zeros(3), [0.2, 0.1]).values.round(6)
        array([0.01, 0.04])
    """
    for name in ("start", "representatives", "state", "resumable"):
        given = settings.get(name)
        if given is not None and not (isinstance(given, int) and not given):
            raise SharpnessError(f"`{CALL}` starts every search itself and measures one point: drop {name}=.")
    listed = list(radii) if isinstance(radii, Iterable) and not isinstance(radii, str) else [radii]
    if not listed:
        raise SharpnessError(f"`{CALL}` needs radii= at least one positive number, got none.")
    ordered = sorted(check_radius(CALL, radius) for radius in listed)
    unknown = set(settings) - REQUEST - EFFORT - SEARCH - {"start", "representatives", "state", "resumable"}
    if unknown:
        raise TypeError(f"`{CALL}` takes the settings of `quotax.sharpness`, and {sorted(unknown)[0]!r} is none")
    chosen = lambda names: {name: value for name, value in settings.items() if name in names}
    rising = Rising.of(Measurement(CALL, loss, **chosen(REQUEST)), Wanted(**chosen(EFFORT)), params)
    measured = _measured(rising, ordered, settings.get("progress"), bool(settings.get("bound")))
    results: list[Sharpness] = []
    for found in measured:
        better = results and found.value < results[-1].value
        results.append(_at_least(found, results[-1]) if better else found)
    # What rounding lost at one radius is lost to the profile: that is the smallest, if the others were large enough.
    told = next((found for found in results if found.arithmetic and found.arithmetic.lost), results[-1])
    values = np.asarray([found.value for found in results])
    spent = sum(found.evaluations for found in results)
    seen = np.asarray(ordered[: len(results)])
    return Profile(seen, values, tuple(results), spent, told.invariant, told.reason, told.arithmetic)


def _measured(
    rising: Rising, radii: list[float], progress: Callable[[str], object] | None, bound: bool
) -> Iterator[Sharpness]:
    """A search at every radius, the first of which counts the gradients at the centre."""
    search: Search | None = None
    start: Tree = None
    for radius in radii:
        job = rising.job(radius, start)
        watch = Watch(CALL, job.most, progress)
        if search is not None and search.ascent is None:
            search, interrupted = maximise(job, watch, at_radius(search, radius), mine=True)
        else:  # a single ascent keeps nothing of the centre
            search, interrupted = maximise(job, watch)
        found = rising.conclude(search, bound)
        yield replace(found, status="interrupted") if interrupted else found
        if interrupted:
            return
        start = found.perturbation if found.value > 0 else start


def _at_least(found: Sharpness, before: Sharpness) -> Sharpness:
    """The later result with the earlier one's perturbation, which lies in the larger ball too."""
    history = np.maximum(found.history, before.value)
    history[0] = 0.0
    return replace(found, value=before.value, perturbation=before.perturbation, history=history)

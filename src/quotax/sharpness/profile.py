"""Worst-case sharpness as a function of the radius."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.errors import SharpnessError
from quotax.sharpness.arguments import check_params, check_radius, random_key
from quotax.sharpness.arithmetic import Arithmetic, settled
from quotax.sharpness.effort import Effort
from quotax.sharpness.objective import Loss
from quotax.sharpness.result import FUNCTION, Sharpness
from quotax.sharpness.setting import Setting, prepare
from quotax.sharpness.sweep import sweep
from quotax.sharpness.vectors import layout
from quotax.sharpness.worst_case import conclude, plan_for, sharpness, small_share

CALL = "quotax.profile"

# Settings of `quotax.sharpness`: of the loss and its ball, of the effort, those of the search as a whole, and those
# that only single measurements have.
SETTING = {"space", "batch", "microbatch", "ball", "norm", "adaptive", "mask", "per_layer"}
EFFORT = {"budget", "steps", "restarts", "curvature", "memory"}
SEARCH = {"tolerance", "key", "bound"}
APART = {"mesh", "progress", "state", "resumable", "spread_scale"}


@dataclass(frozen=True)
class Profile:
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
        lines = [f"{'radius':>10} {'sharpness':>12} {'2 S / r^2':>12}  status"]
        for radius, value, found in zip(self.radii, self.values, self.results, strict=True):
            status = found.status + (", kink" if found.kink else "")
            lines.append(f"{radius:>10.4g} {value:>12.6g} {2 * value / radius**2:>12.6g}  {status}")
        return "\n".join([*lines, f"{FUNCTION[self.invariant]}: {self.reason}"])


def profile(loss: Loss, params: Any, radii: Iterable[float], **settings: Any) -> Profile:
    """Worst-case sharpness over a range of radii, in one compiled sweep.

    Every search also starts where the next smaller ball ended, so the values never decrease. `settings` are those of
    `quotax.sharpness`: `space`, `ball`, `norm`, `batch` and all others but `start`. With `progress` or `mesh`, in balls
    that are products, and for networks of which few copies fit into memory, the radii are taken one after the other,
    by programs that are compiled once too, and that show where they are.

    Example:
        >>> import jax.numpy as jnp
        >>> profile(lambda p: jnp.sum(p**2), jnp.zeros(3), [0.2, 0.1]).values.round(6)
        array([0.01, 0.04])
    """
    for name in ("start", "representatives"):
        if settings.get(name) is not None:
            raise SharpnessError(f"`{CALL}` starts every search itself and measures one point: drop {name}=.")
    listed = list(radii) if isinstance(radii, Iterable) and not isinstance(radii, str) else [radii]
    if not listed:
        raise SharpnessError(f"`{CALL}` needs radii= at least one positive number, got none.")
    ordered = sorted(check_radius(CALL, radius) for radius in listed)
    params = check_params(CALL, params)
    unknown = set(settings) - SETTING - EFFORT - SEARCH - APART - {"start", "representatives"}
    if unknown:
        raise TypeError(f"`{CALL}` takes the settings of `quotax.sharpness`, and {sorted(unknown)[0]!r} is none")
    together = not (set(settings) & APART) and not settings.get("per_layer") and settings.get("norm", "l2") == "l2"
    setting, effort = None, None
    if together:
        asked: dict[str, Any] = {"space": None, "batch": None, "microbatch": None}
        setting = settled(prepare(CALL, loss, params, **asked | {k: v for k, v in settings.items() if k in SETTING}))
        effort = plan_for(setting, **{k: v for k, v in settings.items() if k in EFFORT})
    if setting is None or effort is None or effort.single:
        measured = _one_by_one(loss, params, ordered, settings)
    else:
        measured = _together(setting, effort, ordered, settings)
    results: list[Sharpness] = []
    for found in measured:
        better = results and found.value < results[-1].value
        results.append(_at_least(found, results[-1]) if better else found)
    # What rounding lost at one radius is lost to the profile: that is the smallest, if the others were large enough.
    told = next((found for found in results if found.arithmetic and found.arithmetic.lost), results[-1])
    values = np.asarray([found.value for found in results])
    spent = sum(found.evaluations for found in results)
    return Profile(np.asarray(ordered), values, tuple(results), spent, told.invariant, told.reason, told.arithmetic)


def _together(setting: Setting, effort: Effort, radii: list[float], settings: dict[str, Any]) -> Iterator[Sharpness]:
    """All radii in one program; the first result counts the gradients at the centre."""
    random = random_key(CALL, settings.get("key"))
    sizes = jnp.asarray(radii, setting.layout.dtype)
    legs = sweep(setting, sizes, small_share(setting, settings.get("tolerance")), effort, random)
    for radius, size, found in zip(radii, sizes, legs, strict=True):
        measured = conclude(setting, size, found, int(found.spent), random, bool(settings.get("bound")))
        yield replace(measured, radius=radius)


def _one_by_one(loss: Loss, params: Any, radii: list[float], settings: dict[str, Any]) -> Iterator[Sharpness]:
    """One measurement after the other, by the same programs."""
    flat = layout(params)
    # Any direction: so that the first search is the same program as the others.
    start = flat.nested(jax.random.normal(random_key(CALL, settings.get("key")), (flat.size,), flat.dtype))
    for radius in radii:
        found = sharpness(loss, params, radius, start=start, **settings)
        yield found
        start = found.perturbation if found.value > 0 else start


def _at_least(found: Sharpness, before: Sharpness) -> Sharpness:
    """The later result with the earlier one's perturbation, which lies in the larger ball too."""
    history = np.maximum(found.history, before.value)
    history[0] = 0.0
    return replace(found, value=before.value, perturbation=before.perturbation, history=history)

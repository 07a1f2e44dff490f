"""Worst-case sharpness as a function of the radius."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from quotax.errors import SharpnessError
from quotax.sharpness.arguments import check_params, check_radius, random_key
from quotax.sharpness.objective import Loss
from quotax.sharpness.result import FUNCTION, Sharpness
from quotax.sharpness.vectors import layout
from quotax.sharpness.worst_case import sharpness

CALL = "quotax.profile"


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
    """

    radii: np.ndarray
    values: np.ndarray
    results: tuple[Sharpness, ...] = field(repr=False)
    evaluations: int
    invariant: bool | None
    reason: str

    def __str__(self) -> str:
        """A table: the value beside twice its ratio to the squared radius, which tends to the largest eigenvalue."""
        lines = [f"{'radius':>10} {'sharpness':>12} {'2 S / r^2':>12}  status"]
        for radius, value, found in zip(self.radii, self.values, self.results, strict=True):
            status = found.status + (", kink" if found.kink else "")
            lines.append(f"{radius:>10.4g} {value:>12.6g} {2 * value / radius**2:>12.6g}  {status}")
        return "\n".join([*lines, f"{FUNCTION[self.invariant]}: {self.reason}"])


def profile(loss: Loss, params: Any, radii: Iterable[float], **settings: Any) -> Profile:
    """Worst-case sharpness over a range of radii, in one compiled program.

    Every search also starts where the next smaller ball ended, so the values never decrease. `settings` are those of
    `quotax.sharpness`: `space`, `ball`, `norm`, `batch` and all others but `start`.

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
    flat = layout(params)
    # Any direction: so that the first search is the same program as the others.
    start = flat.nested(jax.random.normal(random_key(CALL, settings.get("key")), (flat.size,), flat.dtype))
    results: list[Sharpness] = []
    for radius in ordered:
        found = sharpness(loss, params, radius, start=start, **settings)
        if results and found.value < results[-1].value:
            found = _at_least(found, results[-1])
        results.append(found)
        start = found.perturbation if found.value > 0 else start
    last = results[-1]
    values = np.asarray([found.value for found in results])
    spent = sum(found.evaluations for found in results)
    return Profile(np.asarray(ordered), values, tuple(results), spent, last.invariant, last.reason)


def _at_least(found: Sharpness, before: Sharpness) -> Sharpness:
    """The later result with the earlier one's perturbation, which lies in the larger ball too."""
    history = np.maximum(found.history, before.value)
    history[0] = 0.0
    return replace(found, value=before.value, perturbation=before.perturbation, history=history)

"""What a measurement in a quotient kept of its digits, and the representative at which it keeps most of them.

A measure that is a function on the quotient may be computed at any representative. Where the parameters lie far along
their orbit, so far that rounding there would be visible, it is computed at a balanced one, and what belongs to the
parameters (a perturbation, eigenvectors) is carried back. What rounding of the parameters themselves has taken cannot
be had back: the verdict then is not `True`, because the same network stored at another representative is another one.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from quotax.errors import MetricWarning
from quotax.presenting import Result
from quotax.sharpness.problem.devices import replicated
from quotax.sharpness.problem.setting import Setting, oriented
from quotax.sharpness.problem.vectors import layout
from quotax.sharpness.verdicts.invariance import Verdict, verdict
from quotax.trees import Tree

KEPT = 1e-3
"""Values that agree to this share at all representatives are called the same."""

SEEN = 5e-6
"""Rounding above this is amplified to something visible in a loss, in its small differences and derivatives."""

LEFT = 1e-4
"""A projection that leaves this share of what it is to remove is none."""

FLOAT64 = "float64: jax.config.update('jax_enable_x64', True)"

RISES = 2.0
"""A difference of losses is known up to this many roundings of the loss."""


@dataclass(frozen=True, repr=False)
class Arithmetic(Result):
    """What a measurement in a quotient kept of its digits.

    Attributes:
        dtype: of the coarsest array of parameters.
        attained: whether the canonical representative, which an invariant metric is made with, exists and was reached;
            None where the metric needs none.
        condition: of the element that leads there from the parameters.
        rounding: what rounding of the parameters amounts to as a relative change of that representative, at most.
        moved: whether the measurement was made at a balanced representative instead of at the parameters, because
            `rounding` would have been visible there. Perturbations and eigenvectors are at the parameters all the same.
        elsewhere: if it was considered, by how much the loss differs there, relative.
        verticality: the share of a random vector's vertical part that is left in its horizontal one.
        resolution: of a rise of the loss: one rounding of the loss relative to it.
        lost: what was lost, and what to do about it; empty if nothing was.
    """

    dtype: str
    attained: bool | None
    condition: float
    rounding: float
    moved: bool
    elsewhere: float | None
    verticality: float
    resolution: float | None = None
    lost: str = ""

    def __str__(self) -> str:
        """One readable line."""
        known = {True: "attained", False: "NOT attained", None: "not needed"}[self.attained]
        text = (
            f"{self.dtype}: canonical representative {known}, condition {self.condition:.2g}, rounding "
            f"{self.rounding:.1e}, verticality {self.verticality:.1e}"
        )
        text += "" if self.resolution is None else f", resolution {self.resolution:.1e}"
        return text + (", measured at a balanced representative" if self.moved else "")


def settled(setting: Setting) -> Setting:
    """The setting, at a balanced representative where rounding at the parameters would be visible and it may be."""
    if setting.point is None or not callable(getattr(setting.point, "footing", None)):
        return setting
    footing = setting.point.footing()
    setting = replace(setting, footing=footing)
    if footing.attained is not False and footing.rounding <= SEEN:
        return setting
    if not getattr(setting.space, "metric_certificate", None):
        return setting
    ground = setting.point.grounded()
    there = _at(setting, ground)
    if there is None or (footing.attained is False and not ground.attained):
        return setting
    known = verdict(there)
    if known.invariant is not True:
        return setting
    here, other = (each.problem.look(each.problem.origin)[0] for each in (setting, there))
    apart = abs(other - here) / max(abs(here), abs(other), float(jnp.finfo(setting.layout.dtype).tiny))
    if not apart <= min(max(30 * footing.rounding, 100 * setting.layout.eps), 0.1):
        return replace(setting, elsewhere=apart, known=known)
    attained = footing.attained if footing.attained is None else ground.attained
    footing = replace(footing, attained=attained, condition=ground.condition)
    return replace(there, footing=footing, elsewhere=apart, known=known)


def judged(
    setting: Setting, known: Verdict, *, rise: float | None = None, base: float | None = None, moving: bool = False
) -> tuple[Verdict, Arithmetic | None]:
    """The verdict, which is not `True` where rounding lost it or the loss changes on the orbit; and what was kept.

    That a loss is a function of what the network computes cannot be proved of a function in Python: where it is asked
    for (`moving`: a program is there that costs nothing more) it is compared at a random representative, at which
    rounding is tried too.

    `rise` is the value of a measure that is a difference of losses, `base` the loss that it starts from.
    """
    kept = arithmetic(setting, rise=rise, base=base)
    if known.invariant is not True:
        return known, kept
    if kept is not None and kept.lost:
        return Verdict(None, f"{kept.lost} In exact arithmetic it is one: {known.reason}"), kept
    if moving and setting.strayed is not None and not setting.strayed[0] <= setting.strayed[1]:
        change, explained = setting.strayed
        why = (
            f"the loss itself is not: a random group element changes it by {change:.1e} relative, of which rounding of "
            f"the parameters explains {explained:.0e}. It depends on more than the network computes (weight decay "
            f"does), or computes in fewer digits than the parameters have"
        )
        return Verdict(None, f"{why}; of the ball: {known.reason}"), kept
    return known, kept


def arithmetic(setting: Setting, *, rise: float | None = None, base: float | None = None) -> Arithmetic | None:
    """What was kept of a measurement in this setting; nothing without a quotient that knows."""
    footing = setting.footing
    if footing is None:
        return None
    coarsest = max(setting.layout.dtypes, key=lambda dtype: float(jnp.finfo(dtype).eps))
    resolution = None
    if rise and base is not None and math.isfinite(rise) and math.isfinite(base):
        resolution = RISES * setting.layout.eps * abs(base) / abs(rise)
    kept = Arithmetic(
        jnp.dtype(coarsest).name, footing.attained, footing.condition, footing.rounding, setting.ground is not None,
        setting.elsewhere, float(setting.point.verticality()), resolution,
    )  # fmt: skip
    return replace(kept, lost=_lost(kept))


def warned(setting: Setting) -> None:
    """A warning of what was lost, for a measure that returns a bare number."""
    kept = arithmetic(setting)
    if kept is not None and kept.lost and getattr(setting.space, "metric_certificate", None):
        warnings.warn(f"`{setting.call}`: {kept.lost}", MetricWarning, stacklevel=3)


def _lost(kept: Arithmetic) -> str:
    """What was lost, in words, and what to do; empty if nothing was."""
    dtype, far = kept.dtype, f"the element that leads to the balanced representative has condition {kept.condition:.1e}"
    if kept.attained is False:
        why = f"{far}, and that representative, which the metric is made with, was not reached"
        return f"{why}: the orbit only comes near it, or {dtype} lost it." + _advice(dtype)
    if not kept.rounding <= KEPT:
        return f"{dtype} lost it: {far}; rounding changes the network by up to {kept.rounding:.0e}." + _advice(dtype)
    if not kept.verticality <= LEFT:
        return f"{dtype} lost it: the projection leaves {kept.verticality:.0e} of what is vertical." + _advice(dtype)
    if not kept.moved and kept.rounding > SEEN:
        apart = "" if kept.elsewhere is None else f", where the loss differs by {kept.elsewhere:.1e} relative"
        why = f"{far}{apart}: the loss depends on more than the network computes"
        return f"{why}, or {dtype} lost it." + _advice(dtype)
    if kept.resolution is not None and kept.resolution > KEPT:
        larger = "a larger radius" if dtype == "float64" else f"a larger radius, or {FLOAT64}"
        return f"{dtype} lost it: of so small a rise it keeps {kept.resolution:.0e} only. Take {larger}."
    return ""


def _advice(dtype: str) -> str:
    balanced = "measure at space.canonical(params).params"
    if dtype == "float64":
        return f" What there is to try: {balanced}."
    return f" Switch on {FLOAT64}, before the parameters are moved there, or {balanced}."


def _at(setting: Setting, ground: Tree) -> Setting | None:
    """The setting at another representative; nothing where the parameters are a tree of another kind."""
    params = ground.point.params
    if jax.tree.structure(params) != jax.tree.structure(setting.params):
        return None
    params = replicated(setting.request.mesh, params)
    point, steady, unsteady = oriented(ground.point)
    return replace(
        setting, params=params, layout=layout(params), point=point, steady=steady, unsteady=unsteady,
        ground=ground, origin=setting.params,
    )  # fmt: skip

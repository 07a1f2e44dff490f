"""A model written out at sizes that are symbols, multiples of symbols, or integers; no claim has touched it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from jax.extend.core import Jaxpr

from quotax.artifacts import Model, OpenTrace, Trace
from quotax.errors import ArchitectureError, QuotaxError
from quotax.interpret.laws.sources import GUARD
from quotax.interpret.laws.tensors import NoLaw
from quotax.interpret.sheets import write_sheet
from quotax.interpret.tracing.symbolic_sizes import SizesMatter
from quotax.kernel.atoms import Application
from quotax.kernel.polynomials import TooLarge
from quotax.kernel.sheet import Sheet
from quotax.programs.jaxprs import bare, bodies


@dataclass(frozen=True)
class Opening:
    """A trace written out: it does not depend on a claim, and is made once for each model."""

    axes: Mapping[str, int | str]
    trace: OpenTrace | Trace
    sheet: Sheet
    casts: int

    @property
    def held(self) -> dict[str, int]:
        """The axes whose sizes are integers."""
        return {a: n for a, n in self.axes.items() if isinstance(n, int)}

    @property
    def conditions(self) -> tuple[str, ...]:
        """What sizes have to be for the trace to be the model: what Python asked, and entries that have to exist."""
        return (*getattr(self.trace, "conditions", ()), *self.sheet.conditions)


_KEPT: dict[int, tuple[Model, dict[Hashable, Opening | str]]] = {}
"""The last models that were written out, by identity: several claims are made about one model."""


def opened(model: Model, axes: Mapping[str, int | str]) -> Opening | str:
    """The model written out at these sizes, or why that cannot be done."""
    if id(model) not in _KEPT or _KEPT[id(model)][0] is not model:
        while len(_KEPT) >= 8:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[id(model)] = (model, {})
    made = _KEPT[id(model)][1]
    key = tuple(axes.items())
    if key not in made:
        made[key] = written_out(model, axes)
    return made[key]


def written_out(model: Model, axes: Mapping[str, int | str]) -> Opening | str:
    """As `opened`, anew."""
    try:
        if all(isinstance(size, int) for size in axes.values()) and axes:
            trace: OpenTrace | Trace = model.trace({a: int(n) for a, n in axes.items()})
        else:
            trace = model.open(axes)
    except SizesMatter as error:
        return f"the model cannot be traced with sizes that stay symbols ({error})"
    except (ArchitectureError, ZeroDivisionError) as error:
        return str(error)
    return trace_written_out(trace, axes)


def trace_written_out(trace: OpenTrace | Trace, axes: Mapping[str, int | str]) -> Opening | str:
    """A trace at these sizes, or why it cannot be written out."""
    try:
        sheet, writer = write_sheet(trace)
    except (NoLaw, QuotaxError, TooLarge) as error:
        return f"no law for {str(error) or 'polynomials that are too large'}"
    return Opening(axes, trace, sheet, writer.casts)


def guarded(model: Model, sizes: Mapping[str, int]) -> tuple[str | None, tuple[str, ...]]:
    """Why an identity of formulas is no proof at these sizes, or nothing; and the domains that the formulas assume.

    `isnan` and its like are constants to a formula, and of a choice it says nothing where the case that is not taken
    has no value. Where the model cannot be written out, any of them will do.
    """
    opening = opened(model, dict(sizes))
    if isinstance(opening, Opening):
        sheet = opening.sheet
        found = [g.condition for g in sheet.guards]
        if any(isinstance(a.what, Application) and a.name == GUARD for a in sheet.atoms.made):
            found.append("a value is a number")
        why = f"the model has a value where this does not hold: {found[0]}" if found else None
        return why, sheet.assumptions
    looks = _looks(model.trace(sizes).jaxpr.jaxpr)
    return ("the model looks whether values are finite" if looks else None), ()


def _looks(jaxpr: Jaxpr) -> bool:
    for equation in jaxpr.eqns:
        same = equation.primitive.name in ("eq", "ne") and equation.invars[0] is equation.invars[1]
        if same or equation.primitive.name == "is_finite":
            return True
        if any(_looks(bare(b)) for v in equation.params.values() for b in bodies(v)):
            return True
    return False

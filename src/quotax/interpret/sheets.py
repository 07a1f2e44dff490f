"""A trace written out as a sheet, by the laws of the primitive table."""

from __future__ import annotations

from dataclasses import replace

from quotax.artifacts import OpenTrace, Trace
from quotax.interpret.interpreter import evaluate
from quotax.interpret.laws import writing
from quotax.interpret.primitives import TABLE
from quotax.interpret.shared.mask_levels import read_masks
from quotax.interpret.symbolic.domain import SYMBOLIC
from quotax.kernel.sheet import Sheet


def laws() -> dict[str, writing.Rule]:
    """The rules by primitive."""
    return {name: row.laws for name, row in TABLE.items() if row.laws is not None}


def write_sheet(program: OpenTrace | Trace) -> tuple[Sheet, writing.Writer]:
    """What a trace computes, written out. Raises `NoLaw` where an operation is not read.

    Large negative constants of masks are read as minus infinity, and the sheet lists that with its assumptions. Of a
    row that a mask leaves nothing of, that says nothing: where inputs can make such rows, a mask that is added stays a
    number, which it can be, and where nothing else is seen to happen, every mask does.
    """
    notes: tuple[str, ...] = ()
    for added in (True, False):
        jaxpr, notes = read_masks(program.jaxpr, added)
        sheet, writer = _written(replace(program, jaxpr=jaxpr))
        if not notes or not writer.emptied:
            break
    if notes and writer.emptied == "always":
        return _written(program)
    sheet.assumptions = (*sheet.assumptions, *notes)
    return sheet, writer


def _written(program: OpenTrace | Trace) -> tuple[Sheet, writing.Writer]:
    return writing.write_sheet(program, laws(), lambda closed, values: evaluate(closed, SYMBOLIC, values))

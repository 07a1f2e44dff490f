"""What a proof from a trace covers: the widths, the conditions on them, and what is taken for granted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quotax.artifacts import OpenTrace, sizes_text
from quotax.certify.every_width.opening import Opening

EVERY_WIDTH = "every width"
"""The scope of a proof that covers all sizes of all axes."""
_PYTHON = "Python code sees sizes by arithmetic and comparison alone, not by their types or by what JAX refuses"


def scope_of(opening: Opening, singles: Sequence[str], seen: Sequence[tuple[str, int]] = ()) -> str:
    """What a proof from this trace covers, when these sizes of axes have proofs of their own.

    `singles` are axes at multiples of a number, of which the model exists at 1 as well.
    """
    held = opening.held
    varied = [a for a in opening.axes if a not in held]
    if held and not varied:
        return f"widths ({sizes_text(held)})"
    conditions = (*opening.conditions, *(f"{axis} ≥ 2" for axis in singles))
    left = [c for c in conditions if any(e not in seen for e in exceptions(c) or [None])]
    left = [*(f"{a} = {size}" for a, size in tied(opening).items()), *_at_least(opening), *left]
    left = [*(f"{a} a multiple of {n}" for a, n in _multiples(opening) if n in opening.axes), *left]
    shown = f" with {', '.join(left)}" if left else ""
    if not held:
        return EVERY_WIDTH + shown
    return f"every width of {', '.join(varied)} at {sizes_text(held)}{shown}"


def tied(opening: Opening) -> dict[str, str]:
    """The axes whose size is a product of numbers and of other axes' sizes, none of it a symbol of its own."""
    symbols = {a for a, size in opening.axes.items() if size == a}
    known = lambda size: all(f.isdecimal() or f in symbols for f in size.split("*"))
    return {a: s for a, s in opening.axes.items() if isinstance(s, str) and s != a and known(s)}


def _at_least(opening: Opening) -> list[str]:
    """The axes that were traced from the size of another on: `m ≥ t`, where m is `t + m_past_t - 1`."""
    found = {a: re.fullmatch(r"(\w+) \+ \w+(?: ([+-]) (\d+))?", str(size)) for a, size in opening.axes.items()}
    out = []
    for axis, said in found.items():
        if said is not None:
            more = 1 + int(f"{said[2]}{said[3]}" if said[2] else 0)
            out.append(f"{axis} ≥ {said[1]}" + (f" {'+' if more > 0 else '-'} {abs(more)}" if more else ""))
    return out


def _multiples(opening: Opening) -> list[tuple[str, str]]:
    """The axes that were traced at multiples alone, with the number or the axis that they are multiples of."""
    out = []
    for axis, size in opening.axes.items():
        if isinstance(size, str) and "*" in size and axis not in tied(opening):
            multiple = size.rpartition("*")[0]
            out.append((axis, next((a for a, n in opening.axes.items() if n == multiple), multiple)))
    return out


def exceptions(condition: str) -> list[tuple[str, int]]:
    """The few sizes of one axis that a condition leaves out: of `h ≥ 3` one and two, of `h ≠ 64` that one."""
    least = re.fullmatch(r"(\w+) ≥ (\d+)", condition)
    if least is not None:
        return [(least[1], n) for n in range(1, int(least[2]))]
    unequal = re.fullmatch(r"(\w+) ≠ (\d+)", condition)
    return [] if unequal is None else [(unequal[1], int(unequal[2]))]


def assumptions_of(opening: Opening) -> tuple[str, ...]:
    """What every proof from this trace takes for granted."""
    casts = f": {opening.casts} casts between floating-point types are read away" if opening.casts else ""
    out = [f"numbers are exact reals{casts}", *opening.sheet.assumptions]
    if isinstance(opening.trace, OpenTrace):
        out.append(_PYTHON)
        out += [f"{line}, and computes one number of it by one formula" for line in opening.trace.asked]
    for axis, multiple in _multiples(opening):
        if multiple not in opening.axes:
            out.append(f"every even {axis}" if multiple == "2" else f"every {axis} that is a multiple of {multiple}")
    return tuple(out)

"""What a proof from a trace covers: the widths, the conditions on them, and what is taken for granted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quotax.artifacts import CoveredSizes, OpenTrace
from quotax.certify.every_width.opening import Opening

_PYTHON = "Python code sees sizes by arithmetic and comparison alone, not by their types or by what JAX refuses"


def covered_by(
    opening: Opening, singles: Sequence[tuple[str, int]], seen: Sequence[tuple[str, int]] = ()
) -> CoveredSizes:
    """What a proof from this trace covers, when these sizes of axes have proofs of their own.

    `singles` are axes at multiples of a number, with sizes that are none at which the model exists as well.
    """
    conditions = (*opening.conditions, *(f"{axis} ≥ 2" if n == 1 else f"{axis} ≠ {n}" for axis, n in singles))
    left = [c for c in conditions if any(e not in seen for e in exceptions(c) or [None])]
    made = {size: axis for axis, size in opening.axes.items() if isinstance(size, str) and " + " in size}
    for size, axis in made.items():
        left = [condition.replace(size, axis) for condition in left]
    return CoveredSizes(tuple(opening.axes.items()), tuple(left))


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
    for axis, multiple in covered_by(opening, ()).multiples:
        if multiple not in opening.axes:
            out.append(f"every even {axis}" if multiple == "2" else f"every {axis} that is a multiple of {multiple}")
    return tuple(out)

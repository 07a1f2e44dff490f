"""Sizes of axes: as text, and those that others settle."""

from __future__ import annotations

import math
from collections.abc import Mapping

from quotax.errors import ArchitectureError
from quotax.trees import Dim


def sizes_text(sizes: Mapping[str, int | str]) -> str:
    """For example `h=2, x=3, y=4`."""
    return ", ".join(f"{axis}={size}" for axis, size in sizes.items()) or "fixed sizes"


def settled(sizes: Mapping[str, Dim], fixed: Mapping[str, int | str]) -> dict[str, Dim]:
    """Sizes with those that are settled in the place of any others; products of symbols are written as text.

    >>> settled({"D": 5, "n": 2, "k": 3}, {"D": "n*k"}), settled({"D": 5, "n": 2, "k": "k"}, {"D": "n*k"})
    ({'D': 6, 'n': 2, 'k': 3}, {'D': '2*k', 'n': 2, 'k': 'k'})
    """
    out = dict(sizes) | {axis: size for axis, size in fixed.items() if isinstance(size, int)}
    for axis, size in fixed.items():
        if isinstance(size, str):
            factors = [int(f) if f.isdecimal() else out[f] for f in size.split("*")]
            number = math.prod(f for f in factors if isinstance(f, int))
            symbols = [f for f in factors if not isinstance(f, int)]
            out[axis] = "*".join([*([str(number)] if number != 1 else []), *symbols]) if symbols else number
    return out


def completed(sizes: Mapping[str, int], fixed: Mapping[str, int | str], call: str) -> dict[str, int]:
    """Sizes with those that are settled by the others, a product by its factors or a factor by the rest.

    What does not fit is refused.

    >>> completed({"D": 6, "k": 3}, {"D": "n*k"}, "net.at")
    {'D': 6, 'k': 3, 'n': 2}
    """
    out = dict(sizes)
    for axis, size in [*fixed.items()] * (len(fixed) + 1):
        factors = [int(f) if f.isdecimal() else f for f in str(size).split("*")]
        missing = [f for f in factors if isinstance(f, str) and f not in out]
        known = math.prod(f if isinstance(f, int) else out.get(f, 1) for f in factors)
        if not missing and axis not in out:
            out[axis] = known
        elif axis in out and (out[axis] % known if missing else out[axis] != known):
            names = dict.fromkeys([*(f for f in factors if isinstance(f, str)), axis])
            given = ", ".join(f"{name}={out[name]}" for name in names if name in out)
            found = "" if missing or isinstance(size, int) else f" = {known}"
            raise ArchitectureError(
                f"`{call}`: {axis} is {size}{found}, which {given} does not fit; "
                + (f"leave out {axis}, or give sizes that fit." if size != known else f"leave out {axis}.")
            )
        elif len(missing) == 1 and axis in out:
            out[missing[0]] = out[axis] // known
    return out

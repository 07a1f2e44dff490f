"""The sizes that a proof covers, as data: how each axis was traced, and what else has to hold."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quotax.artifacts.axis_sizes import sizes_text
from quotax.presenting import Json

_EVERY_WIDTH = "every width"
"""What a proof covers that is for all sizes of all axes."""


@dataclass(frozen=True)
class CoveredSizes:
    """What one proof covers.

    Attributes:
        sizes: of every axis its own name, where it may have any size; a product of names and numbers; the name
            of another axis and something more; or a number.
        conditions: what else has to hold of sizes: `h ≠ 64`.
    """

    sizes: tuple[tuple[str, int | str], ...]
    conditions: tuple[str, ...] = ()

    @property
    def axes(self) -> dict[str, int | str]:
        """The sizes by axis."""
        return dict(self.sizes)

    @property
    def held(self) -> dict[str, int]:
        """The axes at numbers."""
        return {axis: size for axis, size in self.sizes if isinstance(size, int)}

    @property
    def tied(self) -> dict[str, str]:
        """The axes whose size is a product of numbers and of other axes' sizes, none of it a symbol of its own."""
        symbols = {axis for axis, size in self.sizes if size == axis}
        known = lambda size: all(f.isdecimal() or f in symbols for f in size.split("*"))
        return {a: s for a, s in self.sizes if isinstance(s, str) and s != a and known(s)}

    @property
    def multiples(self) -> list[tuple[str, str]]:
        """The axes that were traced at multiples alone, with the number or the axis that they are multiples of."""
        out = []
        for axis, size in self.sizes:
            if isinstance(size, str) and "*" in size and axis not in self.tied:
                multiple = size.rpartition("*")[0]
                out.append((axis, next((a for a, n in self.sizes if n == multiple), multiple)))
        return out

    @property
    def longer(self) -> dict[str, tuple[str, int]]:
        """The axes that were traced from the size of another on, or so many more: m at `t + m_past_t - 1` from t on."""
        found = {a: re.fullmatch(r"(\w+) \+ \w+(?: ([+-]) (\d+))?", str(size)) for a, size in self.sizes}
        return {a: (f[1], 1 + int(f"{f[2]}{f[3]}" if f[2] else 0)) for a, f in found.items() if f is not None}

    def __str__(self) -> str:
        """For example `every width of x at h=2 with y ≠ 64`."""
        varied = [axis for axis, size in self.sizes if isinstance(size, str)]
        if self.held and not varied:
            return f"widths ({sizes_text(self.held)})"
        left = [f"{a} a multiple of {n}" for a, n in self.multiples if n in self.axes]
        left += [f"{a} = {size}" for a, size in self.tied.items()]
        more = lambda gap: f" {'+' if gap > 0 else '-'} {abs(gap)}" if gap else ""
        left += [f"{axis} ≥ {other}{more(gap)}" for axis, (other, gap) in self.longer.items()]
        left += self.conditions
        shown = f" with {', '.join(left)}" if left else ""
        if not self.held:
            return _EVERY_WIDTH + shown
        return f"every width of {', '.join(varied)} at {sizes_text(self.held)}{shown}"

    def surely(self, sizes: Mapping[str, int]) -> bool:
        """Whether it covers these: of its conditions those are understood that compare an axis with a number."""
        if not all(_meets(sizes, condition) for condition in self.conditions) or self.multiples:
            return False
        if any(sizes[axis] != size for axis, size in self.held.items()):
            return False
        if any(sizes[axis] < sizes[other] + more for axis, (other, more) in self.longer.items()):
            return False
        value = lambda f: int(f) if f.isdecimal() else sizes[f]
        return all(sizes[axis] == math.prod(map(value, size.split("*"))) for axis, size in self.tied.items())

    def to_dict(self) -> dict[str, Json]:
        """JSON values."""
        return {"sizes": self.axes, "conditions": list(self.conditions)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> CoveredSizes:
        """What `to_dict` wrote."""
        return cls(tuple(data["sizes"].items()), tuple(data["conditions"]))


def _meets(sizes: Mapping[str, int], condition: str) -> bool:
    """Whether these sizes are surely what a condition asks for."""
    compared = re.fullmatch(r"(\w+) ([≥≠]) (\d+)", condition)
    if compared is None or compared[1] not in sizes:
        return False
    size, number = sizes[compared[1]], int(compared[3])
    return size >= number if compared[2] == "≥" else size != number


def covered_text(covers: Sequence[CoveredSizes]) -> str:
    """What several proofs of one claim cover: `widths (h=2) and (h=3)`."""
    if all(len(one.held) == len(one.sizes) for one in covers):
        return "widths " + " and ".join(f"({sizes_text(one.held)})" for one in covers)
    return " and ".join(map(str, covers))

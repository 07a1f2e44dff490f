"""Along which axis each parameter is split over devices, so that families move it where it lies.

A matrix group mixes the indices of its axis: an array that is split along that axis has to be exchanged before it
is moved or projected. Along every other axis moving it is local, and what a Gram matrix or a covector sums over that
axis is a sum over devices, of as many numbers as the algebra has coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.geometry.families.velocities import Family
from quotax.parts import groups, whole_shape


def mixed_axes(families: Sequence[Family]) -> dict[str, set[str]]:
    """The axes of each parameter that some continuous family mixes."""
    found: dict[str, set[str]] = {}
    for family in families:
        if family.dimension and family.group.layout == "matrix" and family.group.axis:
            for name in family.moved:
                found.setdefault(name, set()).add(family.group.axis)
    return found


def split_axes(
    families: Sequence[Family], specs: Sequence[ArraySpec], sizes: Mapping[str, int], devices: int
) -> dict[str, int | None]:
    """For each array as the user passes it the longest axis that no family mixes and the devices divide, or None."""
    mixed = mixed_axes(families)
    found: dict[str, int | None] = {}
    for name, parts in groups(specs).items():
        shape = whole_shape(parts[0], sizes)
        allowed = set(range(len(shape)))
        for spec in parts:
            own = mixed.get(spec.name, set())
            allowed &= {
                place
                for place, axis in zip(_places(spec), spec.axes, strict=True)
                if place is not None and _divides(axis, own, sizes, devices)
            }
        found[name] = max(allowed, key=lambda place: shape[place], default=None)
    return found


def _places(spec: ArraySpec) -> list[int | None]:
    """Where each axis of a part is in the array that holds it; none for an axis that is cut."""
    places: list[int | None] = list(range(len(spec.axes)))
    for cut in reversed(spec.cuts):
        rank = len(places)
        if cut.stacked:
            at = rank + 1 + cut.axis
            places = [place + (place >= at) if place is not None else None for place in places]
        else:
            places[cut.axis] = None
    return places


def _divides(axis: tuple[AxisFactor, ...], mixed: set[str], sizes: Mapping[str, int], devices: int) -> bool:
    """Whether the devices divide the axis into parts within which whatever is mixed stays together."""
    lengths = [factor if isinstance(factor, int) else sizes[factor] for factor in axis]
    apart = 0
    while apart < len(axis) and axis[apart] not in mixed:
        apart += 1
    return bool(apart) and math.prod(lengths[:apart]) % devices == 0

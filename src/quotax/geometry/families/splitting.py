"""Along which axis each parameter is split over devices, so that families move it where it lies.

A matrix group mixes the indices of its axis: an array that is split along that axis has to be exchanged before it
is moved or projected. Along every other axis moving it is local, and what a Gram matrix or a covector sums over that
axis is a sum over devices, of as many numbers as the algebra has coordinates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import jax
from jax.sharding import AxisType

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.geometry.families.labelled import SplitPlaces
from quotax.parts import groups, whole_shape
from quotax.symmetry import Family


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


def shared(families: tuple[Family, ...], arrays: Mapping[str, jax.Array]) -> SplitPlaces | None:
    """How the parameters of these families are split, as far as a program knows: nothing in one place.

    A program knows the mesh of its arrays and not where on it they lie, which is taken to be where `split_axes` puts
    them. If they lie elsewhere, or on other axes of a mesh that has several, sums are right and more is sent.
    """
    devices = _devices(arrays)
    places = places_of(families, devices) if devices > 1 else {}
    return SplitPlaces(devices, places) if places else None


def _devices(arrays: Mapping[str, jax.Array]) -> int:
    """The devices along the shortest axis of the arrays' mesh, if they divide the other axes too."""
    found = set()
    for array in arrays.values():
        mesh = jax.typeof(array).sharding.mesh
        lengths = [size for size in mesh.axis_sizes if size > 1]
        if lengths and all(kind == AxisType.Auto for kind in mesh.axis_types):
            found.add(min(lengths) if all(size % min(lengths) == 0 for size in lengths) else 1)
    return found.pop() if len(found) == 1 else 1


@functools.lru_cache(maxsize=256)
def places_of(families: tuple[Family, ...], devices: int) -> dict[str, int]:
    """For each parameter that families with terms move, the place among its factors at which it is split."""
    mixed: dict[str, set[int]] = {}
    for family in families:
        for term in family.terms or ():
            if family.group.layout == "matrix":
                own = {place for place, label in enumerate(term.target_labels) if label in term.element[-2:]}
                mixed.setdefault(term.target, set()).update(own)
    specs = {spec.name: (spec, family.sizes) for family in families for spec in family.specs}
    found: dict[str, int] = {}
    for name in mixed.keys() | {name for family in families for name in family.moved}:
        if name not in specs:
            continue
        spec, sizes = specs[name]
        first, longest = 0, 0
        for whole, axis in zip(_places(spec), spec.axes, strict=True):
            lengths = [factor if isinstance(factor, int) else sizes[factor] for factor in axis]
            apart = [n for n in range(len(axis)) if first + n in mixed.get(name, ())]
            free = math.prod(lengths[: apart[0] if apart else len(axis)])
            length = math.prod(lengths)
            if whole is not None and length > longest and axis and (not apart or apart[0]) and free % devices == 0:
                longest = length
                found[name] = first
            first += len(axis)
        if name in found and spec.split_shape(sizes)[found[name]] % devices:
            del found[name]  # several factors are split together
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

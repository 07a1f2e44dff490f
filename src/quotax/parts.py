r"""Arrays that hold several: every stage sees their parts, people's trees hold the whole.

An axis $B \cdot (p_1 + \dots + p_n) \cdot A$ of a declared array, such as `3*head*k`, `head*3*k` or `(head+2*group)*k`,
divides it into $n$ arrays with the axis $B p_i A$, and what acts on a part of an axis acts on the whole axis of an
array of its own. Nothing else changes: taking an array apart is a permutation of numbers, linear and an isometry of the
Euclidean metric, so that fields, orbits, charges and horizontal vectors of the parts are those of the whole.

Parts are named after their array, `c_attn/w.q`, or `c_attn/w.0` where the declaration names none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from types import ModuleType

import jax.numpy as jnp
import numpy as np

from quotax.artifacts import ArraySpec, AxisFactor, Cut
from quotax.trees import AnyArray, Dim, Tree, nest


def whole_name(spec: ArraySpec) -> str:
    """The name of the array that the user passes.

    >>> whole_name(ArraySpec("W.q", (("k",),), cuts=(Cut(-1, ((), ()), 0, after=("k",)),)))
    'W'
    """
    return spec.name.rsplit(".", len(spec.cuts))[0] if spec.cuts else spec.name


def whole_shape(spec: ArraySpec, sizes: Mapping[str, Dim]) -> tuple[Dim, ...]:
    """The shape of that array."""
    shape = list(spec.shape(sizes))
    for cut in reversed(spec.cuts):
        before, lengths, after = layout(cut, sizes)
        length = before * sum(lengths) * after
        if cut.stacked:
            shape.insert(len(shape) + 1 + cut.axis, length)
        else:
            shape[cut.axis] = length
    return tuple(shape)


def layout(cut: Cut, sizes: Mapping[str, Dim]) -> tuple[Dim, list[Dim], Dim]:
    """The sizes that a cut is made of: before, of each piece, after."""
    size = lambda factors: math.prod(f if isinstance(f, int) else sizes[f] for f in factors)
    return size(cut.before), [size(piece) for piece in cut.pieces], size(cut.after)


def groups(specs: Sequence[ArraySpec]) -> dict[str, list[ArraySpec]]:
    """The specs of each array that the user passes, by its name."""
    return {name: list(own) for name, own in itertools.groupby(specs, key=whole_name)}


def tree(specs: Sequence[ArraySpec], arrays: Mapping[str, AnyArray], sizes: Mapping[str, Dim]) -> dict[str, Tree]:
    """The user's tree of these parts; leading axes may be added. What is no part, or lacks others, keeps its name."""
    whole = dict(arrays)
    for name, own in groups(specs).items():
        if own[0].cuts and all(spec.name in arrays for spec in own) and _complete([spec.cuts for spec in own]):
            whole[name] = _joined([(spec.cuts, whole.pop(spec.name)) for spec in own], sizes)
    return nest({name: whole[name] for name in _in_order(specs, whole)})


def _complete(cuts: Sequence[tuple[Cut, ...]]) -> bool:
    """Whether these are the cuts of all parts of an array."""
    if not cuts[0]:
        return len(cuts) == 1
    within: dict[int, list[tuple[Cut, ...]]] = {}
    for outer, *inner in cuts:
        within.setdefault(outer.index, []).append(tuple(inner))
    return list(within) == list(range(len(cuts[0][0].pieces))) and all(map(_complete, within.values()))


def _in_order(specs: Sequence[ArraySpec], names: Mapping[str, object]) -> list[str]:
    """The names as they were declared, then others."""
    declared = dict.fromkeys(name for spec in specs for name in (whole_name(spec), spec.name) if name in names)
    return [*declared, *(name for name in names if name not in declared)]


def taken_apart(specs: Sequence[ArraySpec], whole: Mapping[str, AnyArray], sizes: Mapping[str, Dim]) -> dict[str, Tree]:
    """The parts of the user's arrays, by name."""
    found = {}
    for spec in specs:
        array = whole[whole_name(spec)]
        for cut in spec.cuts:
            array = _piece(array, cut, sizes)
        found[spec.name] = array
    return found


def _joined(members: list[tuple[tuple[Cut, ...], AnyArray]], sizes: Mapping[str, Dim]) -> Tree:
    cuts, array = members[0]
    if not cuts:
        return array
    pieces = []
    for _, own in itertools.groupby(members, key=lambda member: member[0][0].index):
        pieces.append(_joined([(inner[1:], a) for inner, a in own], sizes))
    return _put_together(cuts[0], pieces, sizes)


def _put_together(cut: Cut, pieces: list[AnyArray], sizes: Mapping[str, Dim]) -> Tree:
    xp: ModuleType = np if all(isinstance(piece, np.ndarray) for piece in pieces) else jnp
    if cut.stacked:
        return xp.stack(pieces, cut.axis)
    if not cut.before:
        return xp.concatenate(pieces, cut.axis)
    before, lengths, after = layout(cut, sizes)
    shape, place = np.shape(pieces[0]), len(np.shape(pieces[0])) + cut.axis
    lead, trail = shape[:place], shape[place + 1 :]
    opened = [xp.reshape(p, (*lead, before, n, after, *trail)) for p, n in zip(pieces, lengths, strict=True)]
    return xp.reshape(xp.concatenate(opened, place + 1), (*lead, before * sum(lengths) * after, *trail))


def _piece(array: AnyArray, cut: Cut, sizes: Mapping[str, Dim]) -> Tree:
    xp: ModuleType = np if isinstance(array, np.ndarray) else jnp
    array = xp.asarray(array)
    before, lengths, after = layout(cut, sizes)
    start = sum(lengths[: cut.index])
    stop, place = start + lengths[cut.index], array.ndim + cut.axis
    lead, trail = array.shape[:place], array.shape[place + 1 :]
    everything = (slice(None),) * place
    if cut.stacked:
        return array[(*everything, start)]
    if not cut.before:
        return array[(*everything, slice(start * after, stop * after))]
    opened = xp.reshape(array, (*lead, before, sum(lengths), after, *trail))
    return xp.reshape(
        opened[(*everything, slice(None), slice(start, stop))], (*lead, before * (stop - start) * after, *trail)
    )


def plain(specs: Sequence[ArraySpec]) -> tuple[ArraySpec, list[int]] | None:
    """One declared array as a spec of its own, where all its parts are equal, with the places of what divides it.

    `3*head*k` is then an array with the factors 3, head and k; the places are those of the integers, each among the
    factors that are left when the ones before it are taken out. None where parts differ in size.
    """
    spec, places = specs[0], []
    axes: list[tuple[AxisFactor, ...]] = list(spec.axes)
    for cut in reversed(spec.cuts):
        if any(cut.pieces):
            return None
        if cut.stacked:
            axes.insert(len(axes) + 1 + cut.axis, ())
        at = len(axes) + cut.axis
        axes[at] = (*cut.before, len(cut.pieces), *cut.after)
        places.insert(0, sum(len(axis) for axis in axes[:at]) + len(cut.before))
    return ArraySpec(whole_name(spec), tuple(axes)), places

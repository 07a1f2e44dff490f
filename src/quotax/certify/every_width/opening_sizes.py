"""The sizes at which a model is written out: as many symbols as it can be traced with."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

import sympy as sp

from quotax.artifacts import Model, settled
from quotax.certify.every_width.opening import Opening, opened
from quotax.errors import ArchitectureError
from quotax.symmetry import Group

_SINGLE = 8
"""Sizes below this one are looked at one by one, beside the multiples of a number."""


def openings(
    model: Model, group: Group | None, traced: Mapping[str, int] | None = None
) -> Iterator[dict[str, int | str]]:
    """Sizes to trace at: symbols, multiples of symbols, as many symbols as there can be beside integers, integers.

    Axes that have to keep a size have no symbol.
    """
    axes = model.axis_names
    plain: dict[str, int | str] = settled({a: a for a in axes}, model.fixed)
    pairs: tuple[str, ...] = ()
    if group is not None and group.axis in axes and group.axis not in model.fixed and group.divisor > 1:
        pairs = (str(group.divisor),)
        plain = settled(plain | {group.axis: _multiple(group.axis, pairs, axes)}, model.fixed)
    yield dict(plain)
    if all(axis in model.fixed for axis in axes):
        return
    if above := _at_least(model):
        yield settled(plain | above, model.fixed)
    products = _products(model)
    multiplied = {
        a: _multiple(a, (*pairs, *of) if group is not None and a == group.axis else of, axes)
        for a, of in products.items()
    }
    related = settled(plain | multiplied, model.fixed)
    if products:
        yield dict(related)
    for multiple in (2, 4):
        for axis in axes:
            if plain[axis] == axis and axis not in products and _needed(model, {axis: multiple}, products):
                multiples = {axis: _multiple(axis, (str(multiple),), axes)}
                multiples |= {a: _multiple(a, (multiples[axis],), axes) for a, of in products.items() if axis in of}
                yield settled(related | multiples, model.fixed)
    for multiple in (2, 4, 12):
        if not model.fixed and _needed(model, dict.fromkeys(axes, multiple), {}):
            yield {a: _multiple(a, (str(multiple),), axes) for a in axes}
    sizes = _distinct(model, group) if traced is None else traced
    held: dict[str, int | str] = dict(sizes)
    for axis in sorted(axes, key=lambda a: group is None or a != group.axis):
        freed = settled(held | {axis: plain[axis]}, model.fixed)
        if len(axes) > 1 and axis not in model.fixed and isinstance(opened(model, freed), Opening):
            held = freed
    if held != sizes:
        yield held
    yield dict(sizes)


def begins(model: Model, group: Group | None, axes: Mapping[str, int | str]) -> bool:
    """Whether a proof may begin at these sizes: at others a trace covers less than its scope would say.

    A symbol that two axes share, or a multiple where the model exists at other sizes too, forgets some of them. Sizes
    that are held are in the scope, whichever they are.
    """
    if set(axes) != set(model.axis_names):
        return False
    free = {axis: size for axis, size in axes.items() if isinstance(size, str)}
    if len(free) < len(axes):
        plain = next(openings(model, group))
        return all(plain[axis] == size for axis, size in free.items())
    symbols = lambda sizes: all(isinstance(size, str) for size in sizes.values())
    return any(axes == sizes for sizes in itertools.takewhile(symbols, openings(model, group)))


def _multiple(axis: str, factors: Sequence[str], axes: Sequence[str]) -> str:
    """The size of an axis as a multiple of these factors: `2*h_over_2`. What is multiplied has a name of its own."""
    product = "*".join(factors)
    name = "_".join((axis, "over", *re.findall(r"\w+", product)))
    while name in axes:
        name += "_"
    return f"{product}*{name}"


def _sizes(model: Model, products: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Multiples of 12, no two alike, of which one divides a product of others only where that is asked for.

    Inputs are shorter than tables, which have to hold what is at every position.
    """
    tables, lengths = _tables_and_lengths(model)
    ordered = sorted(model.axis_names, key=lambda a: (a in tables) - (a in lengths))
    sizes = settled({a: 12 * int(sp.prime(3 + k)) for k, a in enumerate(ordered)}, model.fixed)
    return settled({a: n * math.prod(sizes[b] for b in products.get(a, ())) for a, n in sizes.items()}, model.fixed)


def _traces(model: Model, sizes: Mapping[str, int]) -> bool:
    try:
        model.trace(sizes)
    except (ArchitectureError, ZeroDivisionError):
        return False
    return True


def _products(model: Model) -> dict[str, tuple[str, ...]]:
    """Axes whose sizes have to be multiples of another axis' size: the width of all heads, of that of one."""
    if _traces(model, _sizes(model, {})):
        return {}
    for axis, other in itertools.permutations([a for a in model.axis_names if a not in model.fixed], 2):
        sizes = _sizes(model, {axis: (other,)})
        if _traces(model, sizes) and not any(
            _traces(model, sizes | {axis: n}) for n in (12, sizes[other] + 12, 3 * sizes[other] - 12, sizes[axis] + 1)
        ):
            return {axis: (other,)}
    return {}


def _at_least(model: Model) -> dict[str, str]:
    """Axes of parameters that must be as long as an axis of inputs, as a table of positions is: `t + m_past_t - 1`.

    Symbols are at least 1, so this is every size from t on. What tells is where the model is refused: below t, and
    nowhere above.
    """
    used = {name for axis, size in model.fixed.items() for name in (axis, *re.findall(r"\w+", str(size)))}
    sizes, out = _sizes(model, {}), {}
    tables, lengths = ([axis for axis in axes if axis not in used] for axes in _tables_and_lengths(model))
    if not tables or not lengths or not _traces(model, sizes):
        return {}
    for table, length in itertools.product(tables, lengths):
        exists = lambda gap, a=table, b=length: _traces(model, sizes | {a: sizes[b] + gap})
        if table in out or exists(-12):
            continue
        gap = next((gap for gap in range(-4, 9) if exists(gap)), None)
        if gap is None or not all(map(exists, (gap + 1, gap + 2, 12, 13))):
            continue
        past = f"{table}_past_{length}"
        while past in model.axis_names:
            past += "_"
        out[table] = f"{length} + {past}" + (f" {'+' if gap > 0 else '-'} {abs(gap - 1)}" if gap != 1 else "")
    return out


def _tables_and_lengths(model: Model) -> tuple[list[str], list[str]]:
    """The axes that only parameters have, and those that only inputs have."""
    own, read = ({a for spec in arrays for a in spec.axis_names} for arrays in (model.params, model.inputs))
    return [a for a in model.axis_names if a in own - read], [a for a in model.axis_names if a in read - own]


def _needed(model: Model, multiples: Mapping[str, int], products: Mapping[str, Sequence[str]]) -> bool:
    """Whether the model exists at multiples of these numbers alone: it is refused where any of the axes is none.

    Without that, a branch on a size could be decided by asking for multiples, and the other sizes would be forgotten.
    Sizes below twice 2 or 4 are left to `singles`: an array of length 1 broadcasts where a longer one is refused, as in
    `x * cos + rotate_half(x) * sin` with tables of `2 * ceil(k / 2)` at k = 1, and in halves of 1 and 2 at k = 3.
    """
    sizes = _sizes(model, products)
    if not _traces(model, sizes):
        return False
    for axis, multiple in multiples.items():
        for other in (
            multiple + 1 if 2 * multiple > _SINGLE else 4 * multiple + 1,
            6 * multiple - 1,
            24 * multiple + 1,
        ):
            changed = sizes | {axis: other}
            changed |= {a: changed[a] // sizes[axis] * other for a, of in products.items() if axis in of}
            changed = settled(changed, model.fixed)
            if _traces(model, changed):
                return False
    return True


def singles(model: Model, axes: Mapping[str, int | str], group: Group | None) -> tuple[tuple[str, int], ...]:
    """The axes at multiples of a number, with sizes below twice that at which the model exists as well.

    None where the group rules them out.
    """
    out = []
    for axis, size in axes.items():
        multiple = re.match(r"(\d+)\*", str(size))
        ruled_out = group is not None and group.axis == axis and group.divisor > 1
        if multiple and not ruled_out:
            n, base = int(multiple[1]), _sizes(model, _products(model))
            out += [(axis, k) for k in range(1, min(2 * n, _SINGLE)) if k != n and _traces(model, base | {axis: k})]
    return tuple(out)


def _distinct(model: Model, group: Group | None) -> dict[str, int]:
    """Small sizes, no two alike but those that have to be."""
    out: dict[str, int] = {}
    for axis in model.axis_names:
        step = group.divisor if group is not None and group.axis == axis else 1
        size = 2 * step if step > 1 else 2
        while size in out.values():
            size += step
        out[axis] = size
    return settled(out, model.fixed)

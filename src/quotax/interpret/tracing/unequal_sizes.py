"""Axes that cannot be told apart: a model that can be traced only where two of its axes have the same size.

Sizes that coincide hide a wrong declaration: a bias declared along `y` instead of `h` fits wherever h = y, and what is
found there is true of a model that nobody wrote. So sizes are unequal wherever they may be chosen (`unequal`). Where no
unequal sizes are accepted, equal ones are moved apart axis by axis as far as the model allows (`coinciding`); the axes
that stay together are the ones whose declaration is wrong, and `accepted_sizes` says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from quotax.artifacts import Model, settled, sizes_text
from quotax.errors import ArchitectureError

Sizes = dict[str, int]

Traced = Callable[[Sizes], object]
"""Traces a model at these sizes; raises `ArchitectureError` where it does not accept them."""

EQUAL = (4, 6, 8, 3, 2, 5)
"""Sizes at which all axes together are tried."""


class Separation(NamedTuple):
    """An assignment that a model accepts, and the sets of axes that could not be given unequal sizes in it."""

    sizes: Sizes
    together: tuple[tuple[str, ...], ...]


def coinciding(trace: Traced, axes: Sequence[str]) -> Separation | None:
    """Where a model can be traced at all with axes of equal size, and which axes have to be equal there.

    None when nothing is accepted. An empty `together` means that the sizes found are unequal after all.
    """
    for size in EQUAL:
        if _accepted(trace, dict.fromkeys(axes, size)):
            return _apart(trace, dict.fromkeys(axes, size))
    return None


def unequal(base: Mapping[str, int], fixed: Mapping[str, int | str] | None = None) -> Iterator[Sizes]:
    """Assignments of unequal sizes: `base`, then those in which axes are even, multiples or products of one another.

    The k-th assignment asks the same of the axes whatever the base: what fits one base at a place fits others there.
    No size is 1, which broadcasts against any other and so coincides with all of them. `fixed` sizes are kept.
    """
    if fixed:
        others = {axis: size for axis, size in base.items() if axis not in fixed}
        rows = unequal(others) if others else iter([others])
        yield from (settled({axis: row.get(axis, 0) for axis in base}, fixed) for row in rows)
        return
    axes = tuple(base)
    yield dict(base)
    for even in itertools.chain(*(itertools.combinations(axes, count) for count in (1, 2))):
        yield _around(base, {axis: 4 + 2 * place for place, axis in enumerate(even)})
    yield {axis: 4 + 2 * place for place, axis in enumerate(axes)}
    for factor, least in ((2, 3), (3, 2), (4, 2)):
        for large, small in itertools.permutations(axes, 2):
            yield _around(base, {small: least, large: factor * least})
    for large in axes:
        for pair in itertools.permutations([axis for axis in axes if axis != large], 2):
            for first, second in ((2, 3), (2, 4)):
                yield _around(base, dict(zip(pair, (first, second), strict=True)) | {large: first * second})


def kept_apart(sizes: Mapping[str, int], fixed: Mapping[str, int | str]) -> Sizes:
    """The sizes with those that are settled, others made larger where a product coincides with an axis by accident."""
    always = settled(dict(zip(sizes, _PRIMES, strict=False)), fixed)
    out = settled(sizes, fixed)

    def made_of(axis: str) -> set[str]:
        if axis not in fixed:
            return {axis}
        return {root for f in str(fixed[axis]).split("*") if not f.isdecimal() for root in made_of(f)}

    for _ in range(_MOVES):
        equal = ((a, b) for a in fixed for b in out if a != b and out[a] == out[b] and always[a] != always[b])
        apart = next((made_of(a) ^ made_of(b) for a, b in equal), set())
        if not apart:
            break
        moving = next(axis for axis in reversed(list(out)) if axis in apart)
        out |= {moving: next(n for n in itertools.count(out[moving] + 1) if n not in out.values())}
        out = settled(out, fixed)
    return out


_MOVES = 20
_PRIMES = [n for n in range(101, 700) if all(n % k for k in range(2, 27))]


def accepted_sizes(model: Model, call: str, cause: ArchitectureError) -> Sizes:
    """Sizes at which a model is accepted that refuses every unequal one; where there are none, the error that says why.

    A model whose axes have to be equal is refused too: which they are, where they are declared, and what to do.
    """
    if cause.whatever_sizes:
        raise ArchitectureError(f"`{call}`: {cause}") from cause
    separation = coinciding(model.trace, model.axis_names)
    if separation is None:
        raise ArchitectureError(
            f"`{call}`: the model cannot be traced at any of the small sizes that were tried. "
            f"Pass sizes that it accepts, as in sizes={{{', '.join(f'{a!r}: 4' for a in model.axis_names)}}}. {cause}"
        ) from cause
    if not separation.together:
        return separation.sizes
    parts = []
    for axes in separation.together:
        names = _listed([repr(axis) for axis in axes])
        carriers = {axis: [s for s in (*model.params, *model.inputs) if axis in s.axis_names] for axis in axes}
        carried = "; ".join(
            f"{axis!r} is an axis of {_listed([f'{s.name} ({s.axes_text!r})' for s in specs])}"
            for axis, specs in carriers.items()
        )
        parts.append(
            f"the model is accepted only where {names} have the same size, as at {sizes_text(separation.sizes)}. "
            f"{carried}. If they are one axis, declare one name for both; if not, one of these arrays is declared with "
            "the name of the other axis."
        )
    raise ArchitectureError(f"`{call}`: {' Also, '.join(parts)} At unequal sizes: {cause}") from cause


def _around(base: Mapping[str, int], chosen: Mapping[str, int]) -> Sizes:
    """`chosen` with the other axes of `base` in their order, at the smallest sizes that are free."""
    free = (size for size in itertools.count(min(base.values())) if size not in chosen.values())
    others = sorted((axis for axis in base if axis not in chosen), key=lambda axis: base[axis])
    sizes = dict(zip(others, free, strict=False)) | dict(chosen)
    return {axis: sizes[axis] for axis in base}


def _apart(trace: Traced, start: Sizes) -> Separation:
    """Move axes away from the others one by one, then, of those that have to stay, two by two."""
    sizes = dict(start)
    for count in (1, 2):
        for axes in itertools.combinations(start, count):
            shared = [axis for axis in sizes if sizes[axis] == sizes[axes[0]]]
            if len(shared) > count and set(axes) <= set(shared):
                sizes = _moved(trace, sizes, axes)
    classes: dict[int, list[str]] = {}
    for axis, size in sizes.items():
        classes.setdefault(size, []).append(axis)
    return Separation(sizes, tuple(tuple(axes) for axes in classes.values() if len(axes) > 1))


def _moved(trace: Traced, sizes: Sizes, axes: Sequence[str]) -> Sizes:
    """The sizes with these axes at one that no other has, if there is one that the model accepts: multiples first."""
    old = sizes[axes[0]]
    for size in (2 * old, 3 * old, old // 2, 4 * old, *range(2, 3 * old)):
        if size > 1 and size not in sizes.values():
            moved = sizes | dict.fromkeys(axes, size)
            if _accepted(trace, moved):
                return moved
    return sizes


def _accepted(trace: Traced, sizes: Sizes) -> bool:
    try:
        trace(sizes)
    except ArchitectureError:
        return False
    return True


def _listed(words: Sequence[str]) -> str:
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)

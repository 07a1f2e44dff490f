"""The small sizes at which a model is sampled: large enough that nothing degenerates, small enough to be quick.

No two axes have the same size there, because a wrong declaration fits where sizes coincide: see
`interpret.tracing.unequal_sizes`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from quotax.artifacts import Model, settled
from quotax.errors import ArchitectureError
from quotax.interpret.tracing.unequal_sizes import accepted_sizes, kept_apart, unequal

Sizes = dict[str, int]


ACCEPTED = 8
"""So many assignments are looked at for two that differ on every axis: at k = 2 alone a pair is like any other."""
LARGEST = 20_000
"""A network of more parameters is not sampled at its own sizes."""


def small_sizes(model: Model, own: Mapping[str, int] | None = None, count: int = 2) -> list[Sizes]:
    """The first assignments of unequal sizes that the model accepts, or an error that says which axes are to blame.

    A model that accepts none of them is sampled at its `own` sizes, if these are known and not too large.
    """
    found: list[Sizes] = []
    cause: ArchitectureError | None = None
    numbers = {axis for axis, size in model.fixed.items() if isinstance(size, int)}
    own_axes = {name for spec in model.params for name in spec.axis_names} - numbers
    apart = lambda some: sum(len({sizes[axis] for sizes in some}) > 1 for axis in own_axes)
    for first, second in zip(*(unequal(base, model.fixed) for base in _bases(model)), strict=True):
        for sizes in (first, second):
            if sizes in found:
                continue
            try:
                model.trace(sizes)
            except ArchitectureError as error:
                cause = cause or error
                break
            if by_accident(model, sizes):
                break
            found.append(sizes)
        if len(found) >= count:
            best = max(itertools.combinations(found, count), key=apart)
            if apart(best) == len(own_axes) or len(found) >= ACCEPTED:
                return list(best)
    if found:
        return list(max(itertools.combinations(found, min(count, len(found))), key=apart))
    assert cause is not None
    if own is not None and sum(math.prod(spec.shape(own)) for spec in model.params) <= LARGEST:
        return [completed(model, own)]
    return [accepted_sizes(model, f"derive({model.name}, ...)", cause)]


def by_accident(model: Model, sizes: Mapping[str, int]) -> bool:
    """Whether a model exists at an axis of 3, but at no larger odd size of it: halves of one and of two broadcast."""
    most = max(sizes.values(), default=0)
    larger = lambda axis, size: _traced(model, settled({**sizes, axis: size}, model.fixed))
    odd, even = most + 1 + most % 2, most + 2 - most % 2
    return any(
        not larger(axis, odd) and not larger(axis, odd + 2) and larger(axis, even)
        for axis, size in sizes.items()
        if size == 3 and axis not in model.fixed
    )


def _traced(model: Model, sizes: Mapping[str, int]) -> bool:
    try:
        model.trace(sizes)
    except ArchitectureError:
        return False
    return True


def completed(model: Model, own: Mapping[str, int]) -> Sizes:
    """Sizes of parameters with those of the axes that only inputs have."""
    return settled({axis: own.get(axis, free) for axis, free in _bases(model)[0].items()}, model.fixed)


def with_few_outputs(model: Model, sizes: Sizes) -> Sizes:
    """Unequal sizes at which one axis of outputs is 2, if there are such: outputs are copies of one another.

    Exact proofs grow fast with the number of entries. Where fields are only looked for and proved one by one, what a
    narrow output hides or adds costs nothing.
    """
    own, _ = _ordered(model)
    read = {name for spec in model.inputs for name in spec.axis_names}
    ends = [axis for axis in own if axis not in read and len([s for s in model.params if axis in s.axis_names]) == 1]
    if not ends or 2 in sizes.values():
        return sizes
    rest = [axis for axis in (*own, *(a for a in model.axis_names if a not in own)) if axis != ends[0]]
    smaller = _sized(model, [ends[0], *rest], [2, *_free(model, 3)])
    try:
        model.trace(smaller)
    except ArchitectureError:
        return sizes
    return smaller


def with_one_small(model: Model) -> Iterator[Sizes]:
    """Unequal sizes at which one axis is 2, those of outputs first: where arrays have kernels.

    An axis that an input has comes last, if the model writes into it too, or reads it more than once.
    """
    own, _ = _ordered(model)
    rest = [axis for axis in model.axis_names if axis not in own]
    read = {name for spec in model.inputs for name in spec.axis_names}
    inner = lambda axis: axis not in read or sum(axis in spec.axis_names for spec in model.params) > 1
    free = [axis for axis in reversed(own) if axis not in model.fixed and inner(axis)]
    for first in sorted(free, key=lambda axis: axis in read):
        yield _sized(model, [first, *(axis for axis in own if axis != first), *rest], [2, *_free(model, 3)])


def _bases(model: Model) -> tuple[Sizes, Sizes]:
    """Two assignments: sizes rising in the order of the axes, and the same with neighbours exchanged.

    They start at 3, where a matrix, its skew part and its diagonal have different dimensions; an axis that only
    numbers copies may have 2. Axes that only inputs have come last: a short sequence or a small batch has symmetries
    of its own. A size that is written in the declaration is left to the axis that has it.
    """
    own, copies = _ordered(model)
    rest = [axis for axis in model.axis_names if axis not in own]
    pool = _free(model, 2 if copies else 3)
    if len(own) == 1:
        return _sized(model, [*own, *rest], pool), _sized(model, [*own, *rest], pool[1:])
    exchanged = list(own)
    for place in range(0, len(own) - 1, 2):
        exchanged[place], exchanged[place + 1] = own[place + 1], own[place]
    return _sized(model, [*own, *rest], pool), _sized(model, [*exchanged, *rest], pool)


def _free(model: Model, least: int) -> list[int]:
    """Sizes from `least` on that the declaration does not give to anything."""
    fixed = {f for spec in (*model.params, *model.inputs) for f in spec.factors if isinstance(f, int)}
    fixed |= {spec.below for spec in model.inputs if isinstance(spec.below, int)} | {
        n for n in model.fixed.values() if isinstance(n, int)
    }
    return [n for n in range(least, least + len(model.axis_names) + len(fixed) + 1) if n not in fixed]


def _ordered(model: Model) -> tuple[list[str], bool]:
    """The axes of parameters, those between others first; whether the first is one over which matrices are stacked.

    An axis between others, in several parameters and in no input, is where matrices act: no larger than what surrounds
    it, or its matrices have stabilisers. Heads and what is inside a head, which go together wherever they occur, come
    before the stream that they read.
    """
    own = dict.fromkeys(name for spec in model.params for name in spec.axis_names)
    read = {name for spec in model.inputs for name in spec.axis_names}
    carriers = {axis: [spec for spec in model.params if axis in spec.axis_names] for axis in own}
    outside = {axis: (axis in read) + (len(carriers[axis]) == 1) for axis in own}
    inner = [axis for axis in own if not outside[axis]]

    def stacked(axis: str) -> bool:
        beside = [other for other in inner if other != axis and all(other in s.axis_names for s in carriers[axis])]
        return not outside[axis] and bool(beside) and max(len(s.factors) for s in carriers[axis]) > 2

    ordered = sorted(own, key=lambda axis: (outside[axis], not stacked(axis), -len(carriers[axis])))
    return ordered, bool(ordered) and stacked(ordered[0])


def _sized(model: Model, ordered: Sequence[str], pool: Sequence[int]) -> Sizes:
    """The first sizes of the pool in this order, listed as the model lists its axes."""
    chosen = dict(zip([axis for axis in ordered if axis not in model.fixed], pool, strict=False))
    sizes = kept_apart({axis: chosen.get(axis, 0) for axis in model.axis_names}, model.fixed)
    return {axis: sizes[axis] for axis in model.axis_names}

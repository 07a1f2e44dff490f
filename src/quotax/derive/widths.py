"""The small sizes at which a model is sampled: large enough that nothing degenerates, small enough to be quick."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from quotax.artifacts import Model
from quotax.errors import ArchitectureError

Sizes = dict[str, int]


def small_sizes(model: Model, count: int = 2) -> list[Sizes]:
    """The first assignments that the model accepts.

    Axes of parameters start at 3, where a matrix, its skew part and its diagonal have different dimensions; axes that
    only inputs have are longer, because a short sequence or a small batch has symmetries of its own. Axes that must be
    even get 4.
    """
    found: list[Sizes] = []
    refusal: ArchitectureError | None = None
    for sizes in _candidates(model):
        if sizes in found:
            continue
        try:
            model.trace(sizes)
        except ArchitectureError as error:
            refusal = refusal or error
            continue
        found.append(sizes)
        if len(found) == count:
            break
    if not found:
        raise ArchitectureError(
            f"`derive({model.name}, ...)`: the model cannot be traced at the small sizes that were tried. "
            f"Pass sizes that it accepts, as in sizes={{{', '.join(f'{a!r}: 4' for a in model.axis_names)}}}. {refusal}"
        ) from refusal
    return found


def _candidates(model: Model) -> Iterator[Sizes]:
    own = tuple(dict.fromkeys(name for spec in model.params for name in spec.axis_names))
    base = {axis: 3 if axis in own else 4 for axis in model.axis_names}
    yield base
    for axes in itertools.chain(*(itertools.combinations(own, k) for k in (1, 2))):
        yield base | dict.fromkeys(axes, 4)
    yield dict.fromkeys(model.axis_names, 4)
    for axes in itertools.chain(*(itertools.combinations(own, k) for k in (1, 2))):
        yield base | dict.fromkeys(axes, 6)
    second = {axis: 2 if axis in own else 5 for axis in model.axis_names}
    yield second
    for size in (2, 6, 8, 5, 1):
        yield dict.fromkeys(model.axis_names, size)

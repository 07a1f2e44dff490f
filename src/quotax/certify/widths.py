"""The small sizes at which a claim is tried: traces there are cheap, and a false claim rarely survives two of them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from quotax.artifacts import Model, Trace
from quotax.errors import ArchitectureError
from quotax.symmetry import Group, Permutation

Sizes = dict[str, int]


_ENTRIES = 48
"""A second width may have at most this many symbols: exact proofs grow fast with them."""


def trial_sizes(model: Model, group: Group) -> list[Sizes]:
    """Two assignments: every axis 2, then as many axes 3 as the number of symbols allows.

    A matrix of symbols stays 2 by 2, because its inverse grows fast. Permutations start at 3, where the first element
    that is not its own inverse lives; what acts on pairs stays even.
    """
    first = dict.fromkeys(model.axis_names, 2)
    kept = {group.each} if group.each else set()
    if group.axis is not None:
        permutes = isinstance(group, Permutation)
        first[group.axis] = 3 if permutes else 2 * group.divisor
        if group.layout == "matrix":
            kept.add(group.axis)
    second = dict(first)
    for axis in model.axis_names:
        larger = second | {axis: 3}
        if axis not in kept and _entries(model, larger) <= _ENTRIES:
            second = larger
    return [first, second] if first != second else [first]


def _entries(model: Model, sizes: Sizes) -> int:
    return sum(math.prod(spec.shape(sizes)) for spec in (*model.params, *model.inputs))


def traceable(model: Model, sizes: list[Sizes]) -> list[Trace]:
    """The traces at those of `sizes` that the model accepts; the first refusal is raised when it accepts none."""
    traces: list[Trace] = []
    refusal: ArchitectureError | None = None
    for assignment in sizes:
        try:
            traces.append(model.trace(assignment))
        except ArchitectureError as error:
            refusal = refusal or error
    if not traces and refusal is not None:
        raise ArchitectureError(
            f"`verify({model.name}, ...)`: the model cannot be traced at the small sizes that were tried. "
            f"Pass sizes that it accepts, as in sizes={{{', '.join(f'{a!r}: 4' for a in model.axis_names)}}}. {refusal}"
        ) from refusal
    return traces


def sizes_text(sizes: Mapping[str, int]) -> str:
    """For example `h=2, x=2, y=2`."""
    return ", ".join(f"{axis}={size}" for axis, size in sizes.items()) or "fixed sizes"

"""The sizes at which a claim is tried: small ones, no two alike, and one assignment of larger ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from quotax.artifacts import Model, Trace, settled
from quotax.errors import ArchitectureError
from quotax.interpret.tracing.unequal_sizes import accepted_sizes, kept_apart, unequal
from quotax.symmetry import Group

Sizes = dict[str, int]

_ENTRIES = 48
"""A second width of an exact proof may have at most this many symbols: such proofs grow fast with them."""
_TRIES = 60
"""Assignments of unequal sizes that are tried before equal ones are looked at."""
_PRIMES = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103)


def trial_sizes(model: Model, group: Group | None) -> list[Sizes]:
    """Two assignments of small unequal sizes, and one of larger ones.

    A matrix of symbols is kept small, because its inverse grows fast. Permutations start at 3, where the first element
    that is not its own inverse lives, other groups where they are more than those; what acts on pairs stays even.
    """
    return [_base(model, group, 2), _base(model, group, 3), _large(model, group)]


def _base(model: Model, group: Group | None, least: int) -> Sizes:
    sizes: Sizes = {}
    acted = None if group is None else group.axis
    for axis in sorted(model.axis_names, key=lambda a: a != acted):
        if axis == acted:
            size = least if group is None else group.telling(least)
        else:
            size = next(n for n in itertools.count(least) if n not in (*sizes.values(), *model.fixed.values()))
        sizes[axis] = size
    return kept_apart({axis: sizes[axis] for axis in model.axis_names}, model.fixed)


def _large(model: Model, group: Group | None) -> Sizes:
    """Unequal primes that grow in the order of the axes, even where the group needs pairs."""
    acted = None if group is None else group.axis
    sizes = {
        axis: (_PRIMES[k % len(_PRIMES)] + 100 * (k // len(_PRIMES))) * (_divisor(group) if axis == acted else 1)
        for k, axis in enumerate(model.axis_names)
    }
    return settled(sizes, model.fixed)


def _divisor(group: Group | None) -> int:
    return 1 if group is None else group.divisor


def traceable(model: Model, group: Group | None, call: str) -> list[Trace]:
    """The traces of a small, a second and a larger assignment; refused when no unequal sizes are accepted.

    The larger one asks of the axes what the small one had to: even ones, multiples, products. A model that was brought
    with parameters, and is accepted at their sizes alone, is traced there: its axes were read, not declared.
    """
    traces: list[Trace] = []
    cause: ArchitectureError | None = None
    for base in trial_sizes(model, group):
        for sizes in itertools.islice(unequal(base, model.fixed), _TRIES):
            if group is not None and group.axis is not None and sizes[group.axis] % group.divisor:
                continue
            try:
                traces.append(model.trace(sizes))
            except ArchitectureError as error:
                cause = cause or error
                continue
            break
        if not traces:
            break
    if not traces:
        assert cause is not None
        try:
            return [model.trace(accepted_sizes(model, call, cause))]
        except ArchitectureError:
            if own := getattr(model, "own", None):
                return at_sizes(model, [own])
            raise
    return traces


def at_sizes(model: Model, sizes: Sequence[Mapping[str, int]]) -> list[Trace]:
    """The traces at stated sizes that the model accepts; the first refusal is raised when it accepts none."""
    traces: list[Trace] = []
    refused: ArchitectureError | None = None
    for assignment in sizes:
        try:
            traces.append(model.trace(assignment))
        except ArchitectureError as error:
            refused = refused or error
    if not traces and refused is not None:
        raise refused
    return traces


def for_exact_proofs(model: Model, group: Group | None, traces: Sequence[Trace]) -> list[Trace]:
    """Those of the small traces at which an exact proof may end."""
    small = [
        t for t in traces[1:2] if (group is None or group.layout != "matrix") and _entries(model, t.sizes) <= _ENTRIES
    ]
    return [*traces[:1], *small]


def _entries(model: Model, sizes: Mapping[str, int]) -> int:
    return sum(math.prod(spec.shape(sizes)) for spec in (*model.params, *model.inputs))

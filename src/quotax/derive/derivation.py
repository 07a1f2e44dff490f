"""`derive`: sample, search, look at what is left, and hand over what was proved."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from quotax.artifacts import Certificate, Model, sizes_text
from quotax.derive.candidates.continuous import FoundFamilies, sample, search
from quotax.derive.candidates.kernel_shifts import kernels, search_kernels
from quotax.derive.candidates.permutations_and_flips import discrete
from quotax.derive.candidates.polynomial_fields import Ansatz, ansatz_fields
from quotax.derive.candidates.unnamed import LOOKED_AT, Leftover, ProveField, leftover, parameters, remainder
from quotax.derive.depth.repetition import KEPT
from quotax.derive.depth.restating import ProveAlike, Statements, restricted
from quotax.derive.depth.shallow_model import shallow
from quotax.derive.found.loading import Recall, from_data
from quotax.derive.found.symmetry_group import SymmetryGroup
from quotax.derive.sampling.small_sizes import Sizes, small_sizes, with_few_outputs, with_one_small
from quotax.errors import ArchitectureError
from quotax.presenting.telling import Budget
from quotax.programs.threads import one_thread
from quotax.symmetry import Action, Symmetry

KERNELS = 150
"""With more parameters than this, at small sizes at which there are kernels, shifts into them are not looked for."""


@one_thread
def derive(
    model: Model,
    prove: Callable[[Symmetry], Certificate],
    prove_field: ProveField,
    *,
    prove_alike: ProveAlike = lambda proved, claims: [None for _ in claims],
    ansatz: Ansatz = "affine",
    declared: Sequence[Symmetry] = (),
    sizes: Sequence[Mapping[str, int]] | None = None,
    own: Mapping[str, int] | None = None,
    progress: Callable[[str], None] = lambda line: None,
    seed: int = 0,
    budget: Budget | None = None,
) -> SymmetryGroup:
    """The proved symmetries of a model that `declared` does not explain.

    `prove` decides on finite actions, `prove_alike` on those that are like one that is proved, `prove_field` on fields
    without one. `own` are sizes that the model is known to accept. Of blocks
    that repeat a few are searched: what is found is stated of all of them, and proved of the whole model. What the
    budget left no time for, and what the model is too large for, is in `found.unsearched`.
    """
    budget = budget or Budget()
    rng = np.random.default_rng(seed)
    widths = [dict(s) for s in sizes] if sizes else small_sizes(model, own)
    progress("sampling at " + " and ".join(map(sizes_text, widths)))
    blocks = shallow(model, widths)
    looked, known, state = model, list(declared), None
    if blocks is not None:
        looked, state = blocks, Statements(blocks, prove, prove_alike, known, progress, budget)
        known = [s for one in declared if (s := restricted(one, model.params, blocks.params)) is not None]
        progress(f"{blocks.of.copies} blocks repeat: {KEPT} of them are searched")
    decide = prove if state is None else state.prove
    samples = [sample(looked, s, rng, budget) for s in widths]
    found = search(looked, samples, decide, declared=known, progress=progress, seed=seed, budget=budget)
    small = [*known, *(s for s, _ in found.proved)]
    widths = [w for w in widths if w in found.sizes]
    flips = discrete(looked, widths[0], small, decide, progress, budget)
    named = [s.bind(looked.params) for s in small if s.group.continuous]
    few = None if state is not None else _thin(looked, small, widths[:1] if sizes else with_one_small(looked))
    if few is not None:
        hidden = _hidden(looked, small, few, decide, progress, budget)
        found.proved += hidden.proved
        found.unproved += hidden.unproved
        named += [s.bind(looked.params) for s, _ in hidden.proved]
    surplus = budget.allows(ansatz_fields(ansatz)) and _surplus(looked, named, widths[0], ansatz, progress, budget)
    if state is not None:
        found, flips = state.everywhere(found), state.everywhere(flips)
    families = [s for s, _ in found.proved]
    actions = [s.bind(model.params) for s in (*declared, *families) if s.group.continuous]

    more = functools.partial(_more, model, actions, ansatz, prove_field, progress)
    narrow = widths[0] if sizes else with_few_outputs(model, widths[0])
    left = (
        more(narrow if all(_acts(a.symmetry, narrow) for a in actions) else widths[0], budget)
        if surplus
        else Leftover()
    )
    return SymmetryGroup(
        model,
        tuple(found.proved),
        tuple(flips.proved),
        left.proved,
        (*found.unproved, *flips.unproved, *((f, f.certificate) for f in left.unproved)),
        tuple(declared),
        tuple(widths),
        ansatz,
        functools.partial(_later, more, budget.seconds),
        tuple(budget.undone),
    )


def _hidden(
    model: Model,
    known: Sequence[Symmetry],
    sizes: Mapping[str, int],
    prove: Callable[[Symmetry], Certificate],
    progress: Callable[[str], None],
    budget: Budget,
) -> FoundFamilies:
    """Shifts into kernels, where there are flat directions at sizes at which there are kernels."""
    named = [s.bind(model.params) for s in known if s.group.continuous and _acts(s, sizes)]
    rest = remainder(model, named, sizes, budget)
    if rest is not None and not rest.count():
        return FoundFamilies()
    return search_kernels(model, sizes, [action.symmetry for action in named], prove, progress, budget)


def _thin(model: Model, known: Sequence[Symmetry], widths: Iterable[Sizes]) -> Sizes | None:
    """The first of these sizes at which an array has a kernel that something may be written into, if it is accepted."""
    for sizes in widths:
        if parameters(model, sizes) <= KERNELS and kernels(model.params, sizes, known):
            try:
                model.trace(sizes)
            except ArchitectureError:
                continue
            return sizes
    return None


def _acts(symmetry: Symmetry, sizes: Mapping[str, int]) -> bool:
    axis = symmetry.group.axis
    return axis is None or sizes[axis] % symmetry.group.divisor == 0


def _more(
    model: Model,
    actions: Sequence[Action],
    ansatz: Ansatz,
    prove_field: ProveField,
    progress: Callable[[str], None],
    at: Mapping[str, int],
    budget: Budget,
) -> Leftover:
    return leftover(model, actions, at, ansatz, prove_field, progress, budget)


def _later(more: Callable[[Mapping[str, int], Budget], Leftover], seconds: float, at: Mapping[str, int]) -> Leftover:
    """In seconds of its own."""
    return more(at, Budget(seconds))


def load(
    data: Any, model: Model, recall: Recall, prove_field: ProveField, progress: Callable[[str], None], where: str
) -> SymmetryGroup:
    """The group that `to_dict` wrote, as if it had been derived here; its certificates are to be checked again."""

    def more(group: SymmetryGroup) -> Callable[[Mapping[str, int]], Leftover]:
        own: Any = group.ansatz
        return functools.partial(
            _later, functools.partial(_more, model, group.actions, own, prove_field, progress), _SECONDS
        )

    return from_data(data, model, recall, more, where)


_SECONDS = 60.0
"""For fields that are asked for at other sizes, of a group that was read from a file."""


def _surplus(
    model: Model,
    actions: Sequence[Action],
    sizes: Mapping[str, int],
    ansatz: Ansatz,
    progress: Callable[[str], None],
    budget: Budget,
) -> bool:
    """Whether something is flat beside the orbits at this size, or may be: every field of an ansatz would be."""
    total = parameters(model, sizes)
    if total > LOOKED_AT:
        budget.refuse(ansatz_fields(ansatz), f"{total} parameters at {sizes_text(sizes)}, and {LOOKED_AT:,} at most")
        return False
    progress(f"auditing {total} parameters")
    rest = remainder(model, actions, sizes, budget)
    if rest is None:
        budget.undone.append(ansatz_fields(ansatz))
    return rest is not None and rest.count() > 0

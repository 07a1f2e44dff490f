"""`derive`: sample, search, look at what is left, and hand over what was proved."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from quotax.artifacts import Certificate, Model, sizes_text
from quotax.derive.candidates.continuous import Drawn, FoundFamilies, sample, search
from quotax.derive.candidates.kernel_shifts import kernels, search_kernels
from quotax.derive.candidates.met_constants import search_constants
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
from quotax.presenting import Json
from quotax.presenting.telling import Budget
from quotax.programs.threads import one_thread
from quotax.symmetry import Action, Symmetry
from quotax.symmetry.new_entries.general_entries import Map

KERNELS = 150
"""With more parameters than this, shifts into kernels are looked for at the sizes that are sampled anyway."""

ROWS = 160
"""So many equations are written where kernels are looked for at other sizes."""


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
    for drawn, maps in _thin(looked, small, samples, [] if sizes else with_one_small(looked), rng, budget):
        known = [s for s in (*small, *(s for s, _ in found.proved)) if s.group.continuous and _acts(s, drawn.sizes)]
        hidden = search_kernels(looked, drawn, maps, list(dict.fromkeys(known)), decide, progress, budget)
        found.proved += hidden.proved
        found.unproved += hidden.unproved
        named += [s.bind(looked.params) for s, _ in hidden.proved]
    surplus = budget.allows(ansatz_fields(ansatz)) and _surplus(looked, named, widths[0], ansatz, progress, budget)
    read = FoundFamilies()
    if surplus:
        whole = [*declared, *(s for s, _ in (found if state is None else state.everywhere(found)).proved)]
        read = search_constants(model, widths, whole, prove, progress, budget)
    if state is not None:
        found, flips = state.everywhere(found), state.everywhere(flips)
    found.proved += read.proved
    found.unproved += read.unproved
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


def _thin(
    model: Model,
    known: Sequence[Symmetry],
    samples: Sequence[Drawn],
    others: Iterable[Sizes],
    rng: np.random.Generator,
    budget: Budget,
) -> Iterator[tuple[Drawn, list[Map]]]:
    """Samples in which arrays have kernels that something may be written into: those arrays that had none before.

    Of a model with few parameters more are drawn, at sizes at which other arrays have kernels and something is flat.
    """
    seen: set[Map] = set()
    new = lambda at: [m for m in kernels(model, at, known) if m not in seen]
    for drawn in samples:
        if maps := new(drawn.sizes):
            seen.update(maps)
            yield drawn, maps
    for sizes in others:
        if (maps := new(sizes)) and parameters(model, sizes) <= KERNELS:
            try:
                model.trace(sizes)
            except ArchitectureError:
                continue
            seen.update(maps)
            named = [s.bind(model.params) for s in known if s.group.continuous and _acts(s, sizes)]
            rest = remainder(model, named, sizes, budget)
            if rest is None or rest.count():
                yield sample(model, sizes, rng, budget, ROWS), maps


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
    data: Json, model: Model, recall: Recall, prove_field: ProveField, progress: Callable[[str], None], where: str
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

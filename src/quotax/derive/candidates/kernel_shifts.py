r"""Shifts with values in the kernel of a map: $T \mapsto T + P(V)\,X$ with $P(V) = 1 - V^+ V$.

What is added to all that a maximum chooses from passes through it, and a map $V$ behind it does not see what lies in
its kernel. As for other templates there is one unknown number for every place where $X$ may be added; the equations are
those of shifts, seen through the projector of each sample. There is something to see only at sizes at which $V$ has a
kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from quotax.artifacts import ArraySpec, Certificate, Model, sizes_text
from quotax.derive.candidates.continuous import Drawn, FoundFamilies, Span
from quotax.derive.candidates.templates import Shift, Solution, placings
from quotax.derive.candidates.wording import distinct, kernel_shift
from quotax.derive.points.vector_fields import RESIDUES
from quotax.derive.sampling import modular
from quotax.derive.sampling.moments import Moments
from quotax.interpret.jets.residues import PRIME, product
from quotax.presenting.telling import Budget
from quotax.symmetry import Symmetry
from quotax.symmetry.new_entries.general_entries import Map


def search_kernels(
    model: Model,
    drawn: Drawn,
    maps: Sequence[Map],
    known: Sequence[Symmetry],
    prove: Callable[[Symmetry], Certificate],
    progress: Callable[[str], None],
    budget: Budget,
) -> FoundFamilies:
    """Shifts into the kernels that these maps have at the sizes that were drawn, beside what is `known`."""
    specs, sizes, found = model.params, drawn.sizes, FoundFamilies()
    if not maps or not budget.allows("shifts into kernels"):
        return found
    progress(f"solving for shifts into kernels at {sizes_text(sizes)}")
    names = [symmetry.name for symmetry in known]
    span: Span | None = None
    for own in maps:
        for solution in _solutions(own, drawn, specs):
            if span is None:
                span = Span.of_known(specs, sizes, known, seed=11, points=1)
            symmetry = distinct(kernel_shift(solution, own, specs), names)
            if not span.adds(symmetry) or not budget.allows(f"a proof of {symmetry}"):
                continue
            progress(f"proving {symmetry}")
            if found.take(symmetry, prove(symmetry)):
                names.append(symmetry.name)
                span.include(symmetry)
    return found


def kernels(model: Model, sizes: Mapping[str, int], known: Sequence[Symmetry] = ()) -> list[Map]:
    """The maps that have a kernel at these sizes which something may be written into.

    Where all invertible matrices act on the axis of a map already, its kernel is left to them. Of what reads the inputs
    alone the kernel is that of narrow inputs, which says nothing of the model.
    """
    specs = model.params
    own = {s.name: s.factors for s in specs}
    read = {axis for spec in model.inputs for axis in spec.axis_names}
    outside = {axis for axis in read if sum(axis in spec.axis_names for spec in specs) < 2}
    moved = [(s.group.axis, s.bind(tuple(specs)).moved) for s in known if s.group.general]
    taken = lambda m: any(own[m.parameter][m.axis] == axis and m.parameter in names for axis, names in moved)
    narrow = lambda m: any(f in outside for k, f in enumerate(own[m.parameter]) if k not in (m.axis, *m.copies))
    return [m for m in _maps(specs) if _thin(m, specs, sizes) and not taken(m) and not narrow(m)]


def _maps(specs: Sequence[ArraySpec]) -> Iterator[Map]:
    """Every parameter along every axis that it has once, whole or with a copy for each index of one other axis."""
    for spec in specs:
        once = [k for k, f in enumerate(spec.factors) if isinstance(f, str) and spec.factors.count(f) == 1]
        for axis in once:
            others = [k for k in once if k != axis]
            copies = [(k,) for k in others] if len(spec.factors) > 2 else []
            if others:
                yield from (Map(spec.name, axis, at) for at in ((), *copies))


def _thin(own: Map, specs: Sequence[ArraySpec], sizes: Mapping[str, int]) -> bool:
    """Whether it has a kernel at these sizes, and there is another parameter that it may be written into."""
    spec = next(s for s in specs if s.name == own.parameter)
    shape = spec.split_shape(sizes)
    rows = int(np.prod([n for k, n in enumerate(shape) if k != own.axis and k not in own.copies]))
    wanted = [spec.factors[k] for k in (*own.copies, own.axis)]
    return rows < shape[own.axis] and any(
        other.name != spec.name and all(other.factors.count(f) == 1 for f in wanted) for other in specs
    )


def _solutions(own: Map, drawn: Drawn, specs: Sequence[ArraySpec]) -> Iterator[Solution]:
    """The ways in which an array over the axis, those of the copies and up to two more may be added in the kernel."""
    spec = next(s for s in specs if s.name == own.parameter)
    axis, copies = str(spec.factors[own.axis]), tuple(str(spec.factors[k]) for k in own.copies)
    targets = [s for s in specs if s.name != spec.name and all(s.factors.count(f) == 1 for f in (*copies, axis))]
    beside = dict.fromkeys(f for s in targets for f in s.factors if isinstance(f, str) and f not in (*copies, axis))
    seen: dict[Moments, np.ndarray] = {}
    for count in (2, 1, 0):
        for more in itertools.combinations(beside, count):
            axes = (*copies, *more, axis)
            terms = [Shift(s.name, at) for s in targets for at in placings(s.factors, axes)]
            if not terms:
                continue
            chosen = lambda places, terms=terms: [terms[k] for k in places]
            blocks = [lambda places, m=m, c=chosen: _equations(m, c(places), own, seen) for m in drawn.moments]
            for row in modular.common_nullspace(len(terms), blocks):
                numbers = modular.rationals(row)
                if numbers is not None:
                    added = tuple((t, Fraction(a)) for t, a in zip(terms, numbers, strict=True) if a)
                    yield Solution(axes[-1], " ".join(axes[:-1]) or None, None, added)


def _equations(moments: Moments, terms: Sequence[Shift], own: Map, seen: dict[Moments, np.ndarray]) -> np.ndarray:
    """A column for each term: how the outputs move along `P X`, for every entry of X."""
    if moments not in seen:
        value = moments.value[own.parameter]
        places = [k + 1 for k in own.copies]
        rest = [k for k in range(1, value.ndim) if k != own.axis + 1 and k not in places]
        stack = value.transpose([0, *places, *rest, own.axis + 1])
        stack = stack.reshape(*stack.shape[: 1 + len(places)], -1, stack.shape[-1])
        seen[moments] = RESIDUES.projector([stack])
    onto = seen[moments]
    copies, n = onto.shape[1:-2], onto.shape[-1]
    columns = []
    for term in terms:
        rows = moments.shift(term.param, term.places)
        rows = rows.reshape(-1, len(onto), *copies, rows.shape[-1] // (n * int(np.prod(copies))), n)
        columns.append(product(rows, onto[None]).reshape(-1))
    return np.stack(columns, axis=-1) % PRIME

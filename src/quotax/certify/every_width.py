"""Proofs for every width: several traces read together in the laws domain, the output compared before and after."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from quotax.artifacts import Model, Trace
from quotax.certify.statement import array, element_of, moved, ranges
from quotax.certify.towers import prove_equal
from quotax.errors import ArchitectureError, QuotaxError
from quotax.interpret.laws.algebra import Algebra, TooLarge
from quotax.interpret.laws.lemmas import Lemmas
from quotax.interpret.laws.lockstep import LawMissing, StructureDiffers, read_together
from quotax.interpret.laws.reading import Laws
from quotax.interpret.laws.showing import law_text, poly_text
from quotax.interpret.laws.tensors import Constant, NoLaw, Tensor, expanded, find_law
from quotax.symmetry import Action, Group

_LEMMAS = Lemmas(lambda left, right: bool(prove_equal(left, right, 5.0)))
"""Lemmas about scalar functions do not depend on the model: found once in a process."""


@dataclass(frozen=True)
class Outcome:
    """What the laws said: a proof, or what stopped it.

    Attributes:
        proved: whether the output is invariant for all sizes of the axes in `varied`.
        steps: one line a step, each with its lemma.
        assumptions: what the proof takes for granted.
        residual: why there is no proof.
        broken: the first tensor whose law breaks, with its place in the user's code.
        varied, held: the axes whose sizes differed between the traces, and those that had to be the same.
    """

    proved: bool
    steps: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    residual: str | None = None
    broken: str | None = None
    varied: tuple[str, ...] = ()
    held: Mapping[str, int] = field(default_factory=dict)
    traces: tuple[Trace, ...] = ()


def prove_for_every_width(model: Model, action: Action, progress: Callable[[str], None] = lambda line: None) -> Outcome:
    """Try to prove invariance for all sizes of all axes; then, where the structure forbids it, with some axes held.

    An axis over which the model loops in Python changes the list of operations with its size. Such axes are found one
    by one and held at one size, and the proof then covers every size of the others only.
    """
    first: Outcome | None = None
    for held in _held(model):
        traces = _traces(model, action.group, held)
        if traces is None:
            first = first or Outcome(False, residual="the model cannot be traced at three assignments of unequal sizes")
            continue
        progress(f"laws at sizes {' / '.join(str(dict(t.sizes)) for t in traces)}")
        outcome, structural = _attempt(model, action, traces, held)
        if outcome.proved or not structural:
            if first is not None and outcome.proved:
                note = f"the operations depend on the size of {', '.join(held)}: {first.residual}"
                return Outcome(
                    True, outcome.steps, (*outcome.assumptions, note), None, None, outcome.varied, outcome.held, traces
                )
            return outcome
        first = first or outcome
    assert first is not None
    return first


def _held(model: Model) -> Iterator[dict[str, int]]:
    yield {}
    axes = model.axis_names
    for count in (1, 2):
        for chosen in itertools.islice(itertools.combinations(axes, count), 12):
            if len(chosen) < len(axes):
                yield {axis: 2 + k for k, axis in enumerate(chosen)}


# --- the sizes of the traces

_SMALL = tuple(range(2, 40))
_PRIMES = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103)


def traces_for(model: Model) -> tuple[Trace, ...] | None:
    """Traces of the model at three assignments of unequal sizes, if it has them."""
    return _traces(model, None, {})


def _traces(model: Model, group: Group | None, held: Mapping[str, int]) -> tuple[Trace, ...] | None:
    """Three traces at unequal sizes: a small one, and two of large primes; axes that must be multiples are made so.

    The sizes grow in the order of the axes in all three, because `einsum` chooses its order of contraction by size.
    """
    axes = [a for a in model.axis_names if a not in held]

    def sizes(turn: int, multiples: Mapping[str, int]) -> dict[str, int]:
        out = dict(held)
        for k, axis in enumerate(axes):
            m = multiples.get(axis, 1)
            pool = _SMALL if turn == 0 else _PRIMES
            base = pool[(k + (0, 0, 5)[turn]) % len(pool)] + (100 * ((k + 5) // len(pool)) if turn else 0)
            out[axis] = base * m if turn else max(2, base) * (m if base % m else 1)
        return out

    needed: dict[str, int] = {}
    if group is not None and group.axis in axes and group.divisor > 1:
        needed[str(group.axis)] = group.divisor
    options: list[dict[str, int]] = [needed]
    options += [{**needed, axis: 2} for axis in axes if axis not in needed]
    options += [dict.fromkeys(axes, m) for m in (2, 4, 12)]
    for multiples in options:
        try:
            made = tuple(model.trace(sizes(turn, multiples)) for turn in (0, 1, 2))
        except (ArchitectureError, QuotaxError, ZeroDivisionError):
            continue
        return made
    return None


def read_plain(model: Model) -> tuple[bool, tuple[str, ...], tuple[str, ...], str]:
    """Whether every output is zero for every width: (zero, steps, assumptions, why not)."""
    traces = traces_for(model)
    if traces is None:
        return False, (), (), "the model cannot be traced at three assignments of unequal sizes"
    sizes = ranges(traces, model.axis_names)
    algebra = Algebra(sizes)
    laws = Laws(algebra, _LEMMAS, len(traces))
    arguments = [array(algebra, spec, sizes, len(traces), True) for spec in model.params]
    arguments += [array(algebra, spec, sizes, len(traces), False) for spec in model.inputs]
    try:
        outputs = read_together([t.jaxpr for t in traces], laws, arguments)
        for number, value in enumerate(outputs):
            if isinstance(value, Constant):
                zero = all(not a.any() for a in value.arrays)
            else:
                zero = not value.plain or not expanded(algebra, value.plain)
            if not zero:
                return False, (), (), f"output {number} is not zero as a polynomial in the model's tensors"
    except (StructureDiffers, LawMissing, NoLaw, TooLarge) as error:
        return False, (), (), str(error) or "the polynomials grew too large"
    shown = "; ".join(", ".join(f"{a}={s}" for a, s in t.sizes.items()) for t in traces)
    steps = (*(f"by {lemma}" for lemma in algebra.lemmas), "every output is the zero polynomial  [normal form]")
    note = f"at every size the model is the list of operations that it is at the sizes traced ({shown})"
    return True, steps, (note, *algebra.notes), ""


# --- one attempt


def _attempt(model: Model, action: Action, traces: tuple[Trace, ...], held: Mapping[str, int]) -> tuple[Outcome, bool]:
    """The proof at these traces, and whether what stopped it is their structure."""
    sizes = ranges(traces, model.axis_names)
    algebra = Algebra(sizes)
    element = element_of(action.group, sizes)
    element.install(algebra)
    laws = Laws(algebra, _LEMMAS, len(traces))
    count = len(traces)
    names = {extent: axis for axis, extent in sizes.items()}
    specs = {spec.name: spec for spec in model.params}
    try:
        params = {spec.name: array(algebra, spec, sizes, count, True) for spec in model.params}
        fixed = dict(params)
        for entry in action.entries:
            value = fixed[entry.name]
            image = moved(algebra, element, entry, fixed, specs, sizes, count)
            params[entry.name] = Tensor(value.dims, value.plain, image)
            ((term, _),) = value.plain.items()
            algebra.remember(value.plain, image)
            laws.record(
                f"{entry.name}[{_labels(term[0][1], names)}] becomes {poly_text(algebra, image, names)}  [the action]"
            )
        for name, value in fixed.items():
            if params[name] is value:
                algebra.remember(value.plain, value.plain)
        inputs = [array(algebra, spec, sizes, count, False) for spec in model.inputs]
        arguments = [*(params[spec.name] for spec in model.params), *inputs]
        outputs = read_together([t.jaxpr for t in traces], laws, arguments)
        return _compared(laws, outputs, traces, held, names), False
    except StructureDiffers as error:
        return Outcome(False, residual=str(error)), True
    except (LawMissing, NoLaw) as error:
        return Outcome(False, tuple(laws.steps), residual=f"no law for {error}", broken=_broken(laws)), False
    except TooLarge:
        return Outcome(False, tuple(laws.steps), residual="the polynomials grew too large", broken=_broken(laws)), False


def _labels(at: tuple, names: dict[tuple[int, ...], str]) -> str:
    return ",".join(names.get(i[2], "i") for i in at)


def _broken(laws: Laws) -> str | None:
    first = next(iter([*laws.breaks, *laws.open]), None)
    return f"{first.what}, at {first.where}" if first else None


def _compared(
    laws: Laws, outputs: list, traces: tuple[Trace, ...], held: Mapping[str, int], names: dict[tuple[int, ...], str]
) -> Outcome:
    algebra = laws.algebra
    for number, value in enumerate(outputs):
        if isinstance(value, Constant) or value.invariant:
            continue
        plain, after = value.plain, value.moved
        try:
            difference = algebra.add(after, plain, -1)
            if not expanded(algebra, difference):
                continue
        except TooLarge:
            difference = algebra.add(after, plain, -1)
        law = law_text(algebra, find_law(algebra, plain, after))
        residual = f"output {number} becomes {law}; the difference is {poly_text(algebra, difference, names)}"
        return Outcome(False, tuple(laws.steps), residual=residual, broken=_broken(laws), traces=traces)
    steps = (
        *laws.steps,
        *(f"by {lemma}" for lemma in algebra.lemmas),
        "every output is the same polynomial in the same tensors before and after  [normal form]",
    )
    varied = tuple(axis for axis, extent in names_of(traces).items() if len(set(extent)) > 1)
    shown = "; ".join(", ".join(f"{a}={s}" for a, s in t.sizes.items()) for t in traces)
    assumptions = [
        f"at every size the model is the list of operations that it is at the sizes traced ({shown})",
        "denominators are not zero, and what stands under a root or a logarithm is in its domain",
        *algebra.notes,
    ]
    for axis, extent in names_of(traces).items():
        common = next((m for m in (12, 4, 2) if all(s % m == 0 for s in extent)), 1)
        if common > 1 and len(set(extent)) > 1:
            assumptions.append(f"{axis} is a multiple of {common}, as at the sizes traced")
    return Outcome(True, steps, tuple(assumptions), varied=varied, held=dict(held), traces=traces)


def names_of(traces: tuple[Trace, ...]) -> dict[str, tuple[int, ...]]:
    """The sizes of every axis in each trace."""
    return {axis: tuple(t.sizes[axis] for t in traces) for axis in traces[0].sizes}

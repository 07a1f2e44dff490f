"""Proofs for every width: one trace whose sizes stay symbols, written out, moved, and checked by the kernel."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quotax.artifacts import CoveredSizes, Model, Trace, covered_text, settled, sizes_text
from quotax.certify.every_width.finding import FoundSteps, find, find_law
from quotax.certify.every_width.likeness import carried
from quotax.certify.every_width.opening import Opening, opened, trace_written_out, written_out
from quotax.certify.every_width.opening_sizes import begins, openings, singles
from quotax.certify.every_width.scalar_identities import LEMMAS, prove
from quotax.certify.every_width.scope import assumptions_of, covered_by, exceptions
from quotax.certify.every_width.statement import claimed, element_of
from quotax.certify.every_width.words import index_text, law_text, poly_text
from quotax.interpret.laws.tensors import NoLaw
from quotax.kernel.atoms import Poly
from quotax.kernel.data import encode, replay
from quotax.kernel.elements import Element
from quotax.kernel.images import Refused
from quotax.kernel.polynomials import Algebra, TooLarge, slot
from quotax.kernel.proof import Proof
from quotax.kernel.sizes import Size
from quotax.presenting import Json
from quotax.symmetry import Action
from quotax.symmetry.new_entries.general_entries import maps_of

_EXCEPTIONS = 12
"""Sizes that a proof leaves out are looked at one by one, up to this many."""


@dataclass(frozen=True)
class Outcome:
    """What the laws said: a proof, or what stopped it.

    Attributes:
        proved: whether the kernel accepted the steps.
        covers: what the proof covers.
        steps: one line a step, each with its lemma.
        assumptions: what the proof takes for granted.
        residual: why there is no proof.
        broken: the first tensor whose law breaks, with its place in the user's code.
        opening: the sizes at which the model was traced: symbols, multiples of symbols, or integers.
        derivation: the proof as data, a part for each trace: the sizes, and the steps.
    """

    proved: bool
    covers: tuple[CoveredSizes, ...] = ()
    steps: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    residual: str | None = None
    broken: str | None = None
    opening: Mapping[str, int | str] = field(default_factory=dict)
    derivation: Sequence[Json] = ()

    @property
    def scope(self) -> str:
        """What the proof covers, in words."""
        return covered_text(self.covers)


def prove_for_every_width(
    model: Model,
    action: Action,
    progress: Callable[[str], None] = lambda line: None,
    traced: Mapping[str, int] | None = None,
) -> Outcome:
    """Try to prove invariance for all sizes of all axes; where the trace does not allow that, with some of them fixed.

    First every size is a symbol, then a multiple of one or of another size, for models of even widths or of heads. An
    axis over which the model loops in Python has no trace with a symbol for its size: such axes are held, and the proof
    then covers every size of the others only. Last, all sizes are integers. `traced` are sizes
    at which the model does trace.
    """
    first: str | None = None
    failed: Outcome | None = None
    for axes in openings(model, action.group, traced):
        progress(f"laws at sizes {sizes_text(axes)}")
        opening = opened(model, axes)
        if isinstance(opening, str):
            first = first or opening
            continue
        outcome = attempt(opening, model, action)
        if outcome.proved:
            outcome = _completed(outcome, opening, model, action)
            fixed = opening.held
            return _noted(outcome, _elsewhere(fixed, first)) if fixed and first else outcome
        if failed is None:
            failed = outcome
        if not opening.held:
            break  # it does trace for every width: smaller scopes would only hide why there is no proof
    return failed or Outcome(False, residual=first or "the model cannot be traced")


def _completed(outcome: Outcome, opening: Opening, model: Model, action: Action) -> Outcome:
    """The proof with the few sizes that its conditions leave out, each proved by a trace of its own."""
    left = [e for c in opening.conditions for e in exceptions(c) if opening.axes.get(e[0]) == e[0]]
    alone = singles(model, opening.axes, action.group)
    # two axes may be 1 together, and a size may be a multiple of another: neither is a case of one axis alone
    if len({axis for axis, _ in alone}) == 1 and all(
        re.fullmatch(r"(\d+\*)?\w+", str(size)) for size in opening.axes.values()
    ):
        left += alone
    seen: list[tuple[str, int]] = []
    parts = list(outcome.derivation)
    for axis, size in dict.fromkeys(left):
        if len(seen) >= _EXCEPTIONS:
            continue
        other = opened(model, settled({**opening.axes, axis: size}, model.fixed))
        if isinstance(other, str) or other.conditions:
            continue
        apart = attempt(other, model, action)
        if apart.proved:
            seen.append((axis, size))
            parts += apart.derivation
    notes = tuple(f"{axis} = {size} has a proof of its own" for axis, size in seen)
    covers = (covered_by(opening, alone, seen),)
    return dataclasses.replace(outcome, covers=covers, steps=(*outcome.steps, *notes), derivation=tuple(parts))


def _elsewhere(fixed: Iterable[str], why: str) -> str:
    return f"at other sizes of {', '.join(fixed)} the list of operations may differ: {why}"


def _noted(outcome: Outcome, note: str) -> Outcome:
    return dataclasses.replace(outcome, assumptions=(*outcome.assumptions, note))


# --- one attempt


def attempt(opening: Opening, model: Model, action: Action) -> Outcome:
    """The proof from this trace: found, then replayed by the kernel."""
    sizes = {a: Size.of(n) for a, n in opening.trace.sizes.items()}
    element = element_of(action, opening.sheet, model, sizes)
    names = {size: axis for axis, size in reversed(sizes.items())}
    try:
        claim = lambda algebra: claimed(opening.sheet, algebra, action, element, model, sizes)
        found, said = find(opening.sheet, element, claim, LEMMAS, prove)
        settled = found.proof.settled()
    except (NoLaw, Refused) as error:
        return Outcome(False, residual=str(error), opening=opening.axes)
    except TooLarge:
        return Outcome(False, residual="the polynomials grew too large", opening=opening.axes)
    lines = (*_claim_lines(opening, found.proof.algebra, said, names), *found.lines)
    broken = found.breaks[0] if found.breaks else None
    if not settled:
        return Outcome(False, (), lines, (), _residual(found, names), broken, opening.axes)
    try:
        data = encode(found.proof, found.steps)
        accepted = replay(opening.sheet, element, claim, data, prove)
    except (Refused, TooLarge) as error:
        return Outcome(False, (), lines, (), f"the kernel refused a step: {error}", broken, opening.axes)
    if not accepted:
        return Outcome(False, (), lines, (), "the kernel did not accept the steps", broken, opening.axes)
    steps = (
        *lines,
        *(f"by {lemma}" for lemma in found.proof.algebra.lemmas),
        "every output is the same polynomial in the same tensors before and after  [normal form]",
        f"the kernel replayed {len(found.steps)} steps",
    )
    part = {"sizes": dict(opening.axes), "steps": data}
    covers = (covered_by(opening, singles(model, opening.axes, action.group)),)
    taken = (*assumptions_of(opening), *_ranks(action))
    return Outcome(True, covers, steps, taken, opening=opening.axes, derivation=(part,))


def _ranks(action: Action) -> list[str]:
    """What a proof with projectors does not take for granted, and what whoever moves along them has to."""
    names = dict.fromkeys(one.parameter for name in action.projectors for one in maps_of(name))
    which = " and ".join(names)
    return [f"of any rank of {which}: the action is smooth where that is constant"] if names else []


def accepts(
    model: Model,
    action: Action,
    derivation: Sequence[Json],
    write: Callable[[Model, Mapping[str, int | str]], Opening | str] = written_out,
) -> tuple[CoveredSizes, ...] | None:
    """What a derivation covers when the kernel accepts it against the model, traced and written out again.

    The first part begins at sizes at which a proof may begin, the others hold one axis more.
    """
    parts: list[Opening] = []
    for part in derivation:
        axes = dict(part["sizes"])
        if parts and len(parts[0].held) < len(parts[0].axes):
            changed = [axis for axis, size in axes.items() if parts[0].axes.get(axis) != size]
            if set(axes) != set(parts[0].axes) or len(changed) != 1 or not isinstance(axes[changed[0]], int):
                return None
        elif not begins(model, action.group, axes):
            return None
        opening = write(model, part["sizes"])
        if isinstance(opening, str):
            return None
        sizes = {a: Size.of(n) for a, n in opening.trace.sizes.items()}
        element = element_of(action, opening.sheet, model, sizes)
        claim = lambda algebra, o=opening, e=element, s=sizes: claimed(o.sheet, algebra, action, e, model, s)
        try:
            if not replay(opening.sheet, element, claim, part["steps"], prove):
                return None
        except (Refused, TooLarge, NoLaw):
            return None
        parts.append(opening)
    if all(len(o.held) == len(o.axes) for o in parts):
        return tuple(covered_by(o, ()) for o in parts)
    alone = singles(model, parts[0].axes, action.group)
    return (covered_by(parts[0], alone, [item for o in parts[1:] for item in o.held.items()]),)


def prove_alike(
    model: Model, action: Action, names: Mapping[str, str], proof: Sequence[str], derivation: Sequence[Json]
) -> Outcome | None:
    """The proof of a claim whose parameters are renamed these, as a proof of this one; None where it is none."""
    parts = []
    for part in derivation:
        opening = opened(model, part["sizes"])
        steps = None if isinstance(opening, str) else carried(opening.sheet, names, part["steps"])
        if steps is None:
            return None
        parts.append({"sizes": dict(part["sizes"]), "steps": steps})
    covers, first = accepts(model, action, parts, opened), opened(model, derivation[0]["sizes"])
    if covers is None or isinstance(first, str):
        return None
    sizes = {a: Size.of(n) for a, n in first.trace.sizes.items()}
    element = element_of(action, first.sheet, model, sizes)
    algebra = Proof(first.sheet, element, prove).algebra
    said = claimed(first.sheet, algebra, action, element, model, sizes)
    lines = _claim_lines(first, algebra, said, {size: axis for axis, size in reversed(sizes.items())})
    lines += proof[len(lines) :]
    taken = (*assumptions_of(first), *_ranks(action))
    return Outcome(True, covers, tuple(lines), taken, opening=first.axes, derivation=tuple(parts))


def _claim_lines(opening: Opening, algebra: Algebra, claim: Mapping[str, Poly], names: Mapping[Size, str]) -> list[str]:
    atoms = opening.sheet.atoms
    lines = []
    for name, image in claim.items():
        atom = atoms[opening.sheet.parameters[name]]
        at = ",".join(index_text(slot(k, s), names) for k, s in enumerate(atom.slots))
        shown = poly_text(algebra, image, names)
        lines.append(f"{atom.name}[{at}] becomes {shown}  [the action]")
    return lines


def _residual(found: FoundSteps, names: Mapping[Size, str]) -> str:
    proof = found.proof
    for guard in proof.sheet.guards:
        if guard.predicate is None or proof.moved(dict(guard.predicate)) != proof.plain(dict(guard.predicate)):
            return f"the model has a value where this does not hold, so it cannot be assumed: {guard.condition}"
    for number, output in enumerate(proof.sheet.outputs):
        plain, moved = proof.plain(output), proof.moved(output)
        if not proof.same(plain, moved):
            law = law_text(proof.algebra, find_law(proof.algebra, plain, moved))
            difference = proof.algebra.add(moved, plain, -1)
            return f"output {number} becomes {law}; the difference is {poly_text(proof.algebra, difference, names)}"
    return "a loop was left open"


# --- zero


def read_plain(model: Model) -> tuple[bool, tuple[str, ...], tuple[str, ...], str]:
    """Whether every output is zero for every width: (zero, steps, assumptions, why not)."""
    opening = opened(model, settled({a: a for a in model.axis_names}, model.fixed))
    return (False, (), (), opening) if isinstance(opening, str) else _zero(opening)


def zero_as_written(trace: Trace) -> tuple[bool, tuple[str, ...], tuple[str, ...], str]:
    """As `read_plain`, at the sizes of a trace."""
    opening = trace_written_out(trace, trace.sizes)
    return (False, (), (), opening) if isinstance(opening, str) else _zero(opening)


def _zero(opening: Opening) -> tuple[bool, tuple[str, ...], tuple[str, ...], str]:
    if opening.sheet.guards or opening.conditions:
        return False, (), (), "the model chooses by a value, or by a size"
    proof = Proof(opening.sheet, Element("positive", (), None), prove)
    for number, output in enumerate(opening.sheet.outputs):
        try:
            if proof.written_out(output):
                return False, (), (), f"output {number} is not zero as a polynomial in the model's tensors"
        except TooLarge:
            return False, (), (), "the polynomials grew too large"
    steps = (*(f"by {lemma}" for lemma in proof.algebra.lemmas), "every output is the zero polynomial  [normal form]")
    return True, steps, assumptions_of(opening), ""

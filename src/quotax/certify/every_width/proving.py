"""Proofs for every width: one trace whose sizes stay symbols, written out, moved, and checked by the kernel."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from quotax.artifacts import Model, OpenTrace, Trace
from quotax.certify.every_width.finding import FoundSteps, find, find_law
from quotax.certify.every_width.lemmas import Lemmas
from quotax.certify.every_width.statement import claimed, element_of
from quotax.certify.every_width.words import index_text, law_text, poly_text
from quotax.certify.identities.equality import prove_equal
from quotax.certify.identities.piecewise import equal_piecewise
from quotax.certify.trial_sizes import sizes_text
from quotax.errors import ArchitectureError, QuotaxError
from quotax.interpret.laws import RULES, NoLaw, write_sheet
from quotax.interpret.laws.sources import GUARD
from quotax.interpret.tracing.symbolic_sizes import SizesMatter, bodies
from quotax.kernel.data import encode, replay
from quotax.kernel.elements import Element
from quotax.kernel.polynomials import TooLarge, slot
from quotax.kernel.proof import Proof, Refused
from quotax.kernel.sheet import Sheet
from quotax.kernel.sizes import Size
from quotax.symmetry import Action, Group

EVERY_WIDTH = "every width"
"""The scope of a proof that covers all sizes of all axes."""
_PYTHON = "Python code sees sizes by arithmetic and comparison alone, not by their types or by what JAX refuses"
_EXCEPTIONS = 12
"""Sizes that a proof leaves out are looked at one by one, up to this many."""
_SECONDS = 5.0
"""What the prover of a lemma about scalar functions may take."""


@functools.lru_cache(maxsize=4096)
def _equal(left: tuple[sp.Expr, ...], right: tuple[sp.Expr, ...]) -> bool:
    if all(equal_piecewise(a, b) for a, b in zip(left, right, strict=True)):
        return True
    told = [[e.replace(sp.atan2, _angle) for e in side] for side in (left, right)]
    try:
        return bool(prove_equal(told[0], told[1], _SECONDS))
    except Exception:  # a prover that gives up has proved nothing
        return False


def _angle(y: Any, x: Any) -> sp.Expr:
    """`atan2(a y, a x) = atan2(y, x)` for a > 0."""
    shared = sp.gcd(y, x)
    factor = sp.Mul(*(f for f in sp.Mul.make_args(shared) if f.is_positive))
    return sp.atan2(sp.cancel(y / factor), sp.cancel(x / factor))


def prove(left: Sequence[sp.Expr], right: Sequence[sp.Expr]) -> bool:
    """Whether expressions in real symbols are equal: what the kernel asks about scalar functions."""
    return _equal(tuple(left), tuple(right))


_LEMMAS = Lemmas(prove)
"""Lemmas about scalar functions do not depend on the model: found once in a process."""


@dataclass(frozen=True)
class Outcome:
    """What the laws said: a proof, or what stopped it.

    Attributes:
        proved: whether the kernel accepted the steps.
        scope: what the proof covers.
        steps: one line a step, each with its lemma.
        assumptions: what the proof takes for granted.
        residual: why there is no proof.
        broken: the first tensor whose law breaks, with its place in the user's code.
        opening: the sizes at which the model was traced: symbols, multiples of symbols, or integers.
        derivation: the proof as data, a part for each trace: the sizes, and the steps.
    """

    proved: bool
    scope: str = EVERY_WIDTH
    steps: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    residual: str | None = None
    broken: str | None = None
    opening: Mapping[str, int | str] = field(default_factory=dict)
    derivation: Sequence[Any] = ()


@dataclass(frozen=True)
class Opening:
    """A trace written out: it does not depend on a claim, and is made once for each model."""

    axes: Mapping[str, int | str]
    trace: OpenTrace | Trace
    sheet: Sheet
    casts: int


_KEPT: dict[int, tuple[Model, dict[Any, Opening | str]]] = {}
"""The last models that were written out, by identity: several claims are made about one model."""


def opened(model: Model, axes: Mapping[str, int | str]) -> Opening | str:
    """The model written out at these sizes, or why that cannot be done."""
    if id(model) not in _KEPT or _KEPT[id(model)][0] is not model:
        while len(_KEPT) >= 8:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[id(model)] = (model, {})
    made = _KEPT[id(model)][1]
    key = tuple(axes.items())
    if key not in made:
        made[key] = _open(model, axes)
    return made[key]


def _open(model: Model, axes: Mapping[str, int | str]) -> Opening | str:
    try:
        if all(isinstance(size, int) for size in axes.values()) and axes:
            trace: OpenTrace | Trace = model.trace({a: int(n) for a, n in axes.items()})
        else:
            trace = model.open(axes)
    except SizesMatter as error:
        return f"the model cannot be traced with sizes that stay symbols ({error})"
    except (ArchitectureError, ZeroDivisionError) as error:
        return str(error)
    try:
        sheet, writer = write_sheet(trace, RULES)
    except (NoLaw, QuotaxError, TooLarge) as error:
        return f"no law for {str(error) or 'polynomials that are too large'}"
    return Opening(axes, trace, sheet, writer.casts)


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
        progress(f"laws at sizes {_axes_text(axes)}")
        opening = opened(model, axes)
        if isinstance(opening, str):
            first = first or opening
            continue
        outcome = attempt(opening, model, action)
        if outcome.proved:
            outcome = _completed(outcome, opening, model, action)
            held = _held(opening)
            return _noted(outcome, _elsewhere(held, first)) if held and first else outcome
        if failed is None:
            failed = outcome
        if not _held(opening):
            break  # it does trace for every width: smaller scopes would only hide why there is no proof
    return failed or Outcome(False, residual=first or "the model cannot be traced")


def _completed(outcome: Outcome, opening: Opening, model: Model, action: Action) -> Outcome:
    """The proof with the few sizes that its conditions leave out, each proved by a trace of its own."""
    left = list(dict.fromkeys(e for c in conditions_of(opening) for e in exceptions(c)))
    seen: list[tuple[str, int]] = []
    parts = list(outcome.derivation)
    for axis, size in left:
        if opening.axes.get(axis) != axis or len(seen) >= _EXCEPTIONS:
            continue
        other = opened(model, {**opening.axes, axis: size})
        if isinstance(other, str) or conditions_of(other):
            continue
        apart = attempt(other, model, action)
        if apart.proved:
            seen.append((axis, size))
            parts += apart.derivation
    notes = tuple(f"{axis} = {size} has a proof of its own" for axis, size in seen)
    scope = scope_of(opening, seen)
    return dataclasses.replace(outcome, scope=scope, steps=(*outcome.steps, *notes), derivation=tuple(parts))


def _elsewhere(held: Iterable[str], why: str) -> str:
    return f"at other sizes of {', '.join(held)} the list of operations may differ: {why}"


def _noted(outcome: Outcome, note: str) -> Outcome:
    return dataclasses.replace(outcome, assumptions=(*outcome.assumptions, note))


def openings(
    model: Model, group: Group | None, traced: Mapping[str, int] | None = None
) -> Iterator[dict[str, int | str]]:
    """Sizes to trace at: symbols, multiples of symbols, as many symbols as there can be beside integers, integers."""
    axes = model.axis_names
    plain: dict[str, int | str] = {a: a for a in axes}
    pairs: tuple[str, ...] = ()
    if group is not None and group.axis in axes and group.divisor > 1:
        pairs = (str(group.divisor),)
        plain |= {group.axis: _multiple(group.axis, pairs, axes)}
    yield dict(plain)
    if not axes:
        return
    products = _products(model)
    related = plain | {
        a: _multiple(a, (*pairs, *of) if group is not None and a == group.axis else of, axes)
        for a, of in products.items()
    }
    if products:
        yield dict(related)
    for multiple in (2, 4):
        for axis in axes:
            if plain[axis] == axis and axis not in products and _needed(model, {axis: multiple}, products):
                multiples = {axis: _multiple(axis, (str(multiple),), axes)}
                multiples |= {a: _multiple(a, (multiples[axis],), axes) for a, of in products.items() if axis in of}
                yield related | multiples
    for multiple in (2, 4, 12):
        if _needed(model, dict.fromkeys(axes, multiple), {}):
            yield {a: _multiple(a, (str(multiple),), axes) for a in axes}
    sizes = _distinct(axes, group) if traced is None else traced
    held: dict[str, int | str] = dict(sizes)
    for axis in sorted(axes, key=lambda a: group is None or a != group.axis):
        freed = held | {axis: plain[axis]}
        if len(axes) > 1 and isinstance(opened(model, freed), Opening):
            held = freed
    if held != sizes:
        yield held
    yield dict(sizes)


def _multiple(axis: str, factors: Sequence[str], axes: Sequence[str]) -> str:
    """The size of an axis as a multiple of these factors: `2*h_over_2`. What is multiplied has a name of its own."""
    product = "*".join(factors)
    name = "_".join((axis, "over", *re.findall(r"\w+", product)))
    while name in axes:
        name += "_"
    return f"{product}*{name}"


def _sizes(model: Model, products: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Multiples of 12, no two alike, of which one divides a product of others only where that is asked for."""
    sizes = {a: 12 * int(sp.prime(3 + k)) for k, a in enumerate(model.axis_names)}
    return {a: n * math.prod(sizes[b] for b in products.get(a, ())) for a, n in sizes.items()}


def _traces(model: Model, sizes: Mapping[str, int]) -> bool:
    try:
        model.trace(sizes)
    except (ArchitectureError, ZeroDivisionError):
        return False
    return True


def _products(model: Model) -> dict[str, tuple[str, ...]]:
    """Axes whose sizes have to be multiples of another axis' size: the width of all heads, of that of one."""
    if _traces(model, _sizes(model, {})):
        return {}
    for axis, other in itertools.permutations(model.axis_names, 2):
        sizes = _sizes(model, {axis: (other,)})
        if _traces(model, sizes) and not any(
            _traces(model, sizes | {axis: n}) for n in (12, sizes[other] + 12, 3 * sizes[other] - 12, sizes[axis] + 1)
        ):
            return {axis: (other,)}
    return {}


def _needed(model: Model, multiples: Mapping[str, int], products: Mapping[str, Sequence[str]]) -> bool:
    """Whether the model exists at multiples of these numbers alone: it is refused where any of the axes is none.

    Without that, a branch on a size could be decided by asking for multiples, and the other sizes would be forgotten.
    """
    sizes = _sizes(model, products)
    if not _traces(model, sizes):
        return False
    for axis, multiple in multiples.items():
        for other in (1, multiple + 1, 6 * multiple - 1, 24 * multiple + 1):
            changed = sizes | {axis: other}
            changed |= {a: changed[a] // sizes[axis] * other for a, of in products.items() if axis in of}
            if _traces(model, changed):
                return False
    return True


def _distinct(axes: Sequence[str], group: Group | None) -> dict[str, int]:
    """Small sizes, no two alike."""
    out: dict[str, int] = {}
    for axis in axes:
        step = group.divisor if group is not None and group.axis == axis else 1
        size = 2 * step if step > 1 else 2
        while size in out.values():
            size += step
        out[axis] = size
    return out


def _axes_text(axes: Mapping[str, int | str]) -> str:
    return ", ".join(f"{a}={n}" for a, n in axes.items()) or "fixed sizes"


# --- one attempt


def attempt(opening: Opening, model: Model, action: Action) -> Outcome:
    """The proof from this trace: found, then replayed by the kernel."""
    sizes = {a: Size.of(n) for a, n in opening.trace.sizes.items()}
    element = element_of(action.group, sizes)
    names = {size: axis for axis, size in reversed(sizes.items())}
    try:
        claim = lambda algebra: claimed(opening.sheet, algebra, action, element, model, sizes)
        found, said = find(opening.sheet, element, claim, _LEMMAS, prove)
        settled = found.proof.settled()
    except (NoLaw, Refused) as error:
        return Outcome(False, residual=str(error), opening=opening.axes)
    except TooLarge:
        return Outcome(False, residual="the polynomials grew too large", opening=opening.axes)
    lines = (*_claim_lines(opening, found, said, names), *found.lines)
    broken = found.breaks[0] if found.breaks else None
    if not settled:
        return Outcome(False, EVERY_WIDTH, lines, (), _residual(found, names), broken, opening.axes)
    try:
        data = encode(found.proof, found.steps)
        accepted = replay(opening.sheet, element, claim, data, prove)
    except (Refused, TooLarge) as error:
        return Outcome(False, EVERY_WIDTH, lines, (), f"the kernel refused a step: {error}", broken, opening.axes)
    if not accepted:
        return Outcome(False, EVERY_WIDTH, lines, (), "the kernel did not accept the steps", broken, opening.axes)
    steps = (
        *lines,
        *(f"by {lemma}" for lemma in found.proof.algebra.lemmas),
        "every output is the same polynomial in the same tensors before and after  [normal form]",
        f"the kernel replayed {len(found.steps)} steps",
    )
    part = {"sizes": dict(opening.axes), "steps": data}
    scope = scope_of(opening)
    return Outcome(True, scope, steps, assumptions_of(opening), opening=opening.axes, derivation=(part,))


def accepts(model: Model, action: Action, derivation: Sequence[Any]) -> str | None:
    """The scope of a derivation when the kernel accepts it against the model, traced and written out again."""
    parts: list[Opening] = []
    for part in derivation:
        opening = _open(model, part["sizes"])
        if isinstance(opening, str):
            return None
        sizes = {a: Size.of(n) for a, n in opening.trace.sizes.items()}
        element = element_of(action.group, sizes)
        claim = lambda algebra, o=opening, e=element, s=sizes: claimed(o.sheet, algebra, action, e, model, s)
        try:
            if not replay(opening.sheet, element, claim, part["steps"], prove):
                return None
        except (Refused, TooLarge, NoLaw):
            return None
        parts.append(opening)
    if all(len(_held(o)) == len(o.axes) for o in parts):
        return "widths " + " and ".join(f"({sizes_text(_held(o))})" for o in parts)
    return scope_of(parts[0], [item for o in parts[1:] for item in _held(o).items()])


def scope_of(opening: Opening, seen: Sequence[tuple[str, int]] = ()) -> str:
    """What a proof from this trace covers, when these sizes of axes have proofs of their own."""
    held = _held(opening)
    varied = [a for a in opening.axes if a not in held]
    if held and not varied:
        return f"widths ({sizes_text(held)})"
    left = [c for c in conditions_of(opening) if any(e not in seen for e in exceptions(c) or [None])]
    left = [*(f"{a} a multiple of {n}" for a, n in _multiples(opening) if n in opening.axes), *left]
    shown = f" with {', '.join(left)}" if left else ""
    if not held:
        return EVERY_WIDTH + shown
    at = ", ".join(f"{axis}={size}" for axis, size in held.items())
    return f"every width of {', '.join(varied)} at {at}{shown}"


def _multiples(opening: Opening) -> list[tuple[str, str]]:
    """The axes that were traced at multiples alone, with the number or the axis that they are multiples of."""
    out = []
    for axis, size in opening.axes.items():
        if isinstance(size, str) and size != axis:
            multiple = size.rpartition("*")[0]
            out.append((axis, next((a for a, n in opening.axes.items() if n == multiple), multiple)))
    return out


def _held(opening: Opening) -> dict[str, int]:
    return {a: n for a, n in opening.axes.items() if isinstance(n, int)}


def conditions_of(opening: Opening) -> tuple[str, ...]:
    """What sizes have to be for the trace to be the model: what Python asked, and entries that have to exist."""
    return (*getattr(opening.trace, "conditions", ()), *opening.sheet.conditions)


def exceptions(condition: str) -> list[tuple[str, int]]:
    """The few sizes of one axis that a condition leaves out: of `h ≥ 3` one and two, of `h ≠ 64` that one."""
    least = re.fullmatch(r"(\w+) ≥ (\d+)", condition)
    if least is not None:
        return [(least[1], n) for n in range(1, int(least[2]))]
    unequal = re.fullmatch(r"(\w+) ≠ (\d+)", condition)
    return [] if unequal is None else [(unequal[1], int(unequal[2]))]


def assumptions_of(opening: Opening) -> tuple[str, ...]:
    """What every proof from this trace takes for granted."""
    casts = f": {opening.casts} casts between floating-point types are read away" if opening.casts else ""
    out = [f"numbers are exact reals{casts}", *opening.sheet.assumptions]
    if isinstance(opening.trace, OpenTrace):
        out.append(_PYTHON)
        out += [f"{line}, and computes one number of it by one formula" for line in opening.trace.asked]
    for axis, multiple in _multiples(opening):
        if multiple not in opening.axes:
            out.append(f"every even {axis}" if multiple == "2" else f"every {axis} that is a multiple of {multiple}")
    return tuple(out)


def _claim_lines(opening: Opening, found: FoundSteps, claim: Mapping[str, Any], names: Any) -> list[str]:
    atoms = opening.sheet.atoms
    lines = []
    for name, image in claim.items():
        at = ",".join(index_text(slot(k, s), names) for k, s in enumerate(atoms[opening.sheet.parameters[name]].slots))
        shown = poly_text(found.proof.algebra, image, names)
        lines.append(f"{name}[{at}] becomes {shown}  [the action]")
    return lines


def _residual(found: FoundSteps, names: Any) -> str:
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


def guarded(model: Model, sizes: Mapping[str, int]) -> tuple[str | None, tuple[str, ...]]:
    """Why an identity of formulas is no proof at these sizes, or nothing; and the domains that the formulas assume.

    `isnan` and its like are constants to a formula, and of a choice it says nothing where the case that is not taken
    has no value. Where the model cannot be written out, any of them will do.
    """
    opening = opened(model, dict(sizes))
    if isinstance(opening, Opening):
        sheet = opening.sheet
        found = [g.condition for g in sheet.guards]
        if any(a.kind == "function" and a.name == GUARD for a in sheet.atoms.made):
            found.append("a value is a number")
        why = f"the model has a value where this does not hold: {found[0]}" if found else None
        return why, sheet.assumptions
    looks = _looks(model.trace(sizes).jaxpr.jaxpr)
    return ("the model looks whether values are finite" if looks else None), ()


def _looks(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        same = equation.primitive.name in ("eq", "ne") and equation.invars[0] is equation.invars[1]
        if same or equation.primitive.name == "is_finite":
            return True
        if any(_looks(b) for v in equation.params.values() for b in bodies(v)):
            return True
    return False


# --- zero


def read_plain(model: Model) -> tuple[bool, tuple[str, ...], tuple[str, ...], str]:
    """Whether every output is zero for every width: (zero, steps, assumptions, why not)."""
    opening = opened(model, {a: a for a in model.axis_names})
    if isinstance(opening, str):
        return False, (), (), opening
    if opening.sheet.guards or conditions_of(opening):
        return False, (), (), "the model chooses by a value, or by a size"
    proof = Proof(opening.sheet, Element("positive", None, None), prove)
    for number, output in enumerate(opening.sheet.outputs):
        try:
            if proof.written_out(output):
                return False, (), (), f"output {number} is not zero as a polynomial in the model's tensors"
        except TooLarge:
            return False, (), (), "the polynomials grew too large"
    steps = (*(f"by {lemma}" for lemma in proof.algebra.lemmas), "every output is the zero polynomial  [normal form]")
    return True, steps, assumptions_of(opening), ""

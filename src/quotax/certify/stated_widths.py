"""Proofs at stated widths: by laws there, or of outputs that are equal as functions of all symbols."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from quotax.artifacts import ArraySpec, Certificate, CoveredSizes, Model, Trace, covered_text, sizes_text
from quotax.certify.counterexample import find_witness, precision_notes
from quotax.certify.every_width.opening import guarded, opened
from quotax.certify.every_width.proving import Outcome, attempt
from quotax.certify.identities.equality import Equality, prove_equal
from quotax.certify.trial_sizes import at_sizes, for_exact_proofs, traceable
from quotax.errors import UnsupportedPrimitiveError
from quotax.interpret import SYMBOLIC, evaluate, symbols_for
from quotax.presenting import Json
from quotax.presenting.telling import OutOfTime, until
from quotax.symmetry import OBJECTS, Action, transformed

_CASES = 256
"""At most this many token and mask inputs are tried one by one; beyond it the proof is not attempted."""


def certify_at_widths(
    model: Model,
    action: Action,
    *,
    sizes: Sequence[Mapping[str, int]] | None = None,
    draws: int = 24,
    budget_seconds: float = 20.0,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
    searched: Sequence[Trace] = (),
) -> Certificate:
    """Prove or refute that `f(g . theta, x) = f(theta, x)` at small widths.

    A counterexample is looked for first. If none turns up, the identity is proved for all parameters, inputs and
    group elements of each width: by the laws of the tensors at these sizes, or in exact arithmetic. The budget is for
    one exact proof; a width that it does not suffice for is not in the scope, and the certificate is undecided when
    none is. `searched` are traces at which a counterexample has been looked for already.
    """
    if sizes:
        traces = at_sizes(model, [dict(s) for s in sizes])
    else:
        tried = searched or traceable(model, action.group, f"verify({model.name}, ...)")
        traces = for_exact_proofs(model, action.group, tried)
    claim = claim_of(model, action)
    rng = np.random.default_rng(seed)
    for trace in traces:
        action.group.check_sizes(trace.sizes)
        progress(f"looking for a counterexample at {sizes_text(trace.sizes)}")
        witness = None if searched else find_witness(trace, action, rng, draws)
        if witness is not None:
            differ = f"at {sizes_text(trace.sizes)} the two outputs differ by {witness.difference:.6g}"
            steps = (differ, *precision_notes(trace))
            return Certificate(claim, "refuted", f"a point at {sizes_text(trace.sizes)}", steps, witness=witness)
    proved, steps, lemmas, assumptions, failure = [], [], {}, {}, None
    derivation: list[Json] = []
    for trace in traces:
        progress(f"proving at {sizes_text(trace.sizes)}")
        outcome = _by_laws(model, action, trace)
        if outcome is not None:
            proved.append(trace)
            steps += [f"at {sizes_text(trace.sizes)}:", *outcome.steps]
            assumptions |= dict.fromkeys(outcome.assumptions)
            derivation += outcome.derivation
            continue
        if action.projectors:
            failure = (
                f"at {sizes_text(trace.sizes)}: a projector is no formula of entries; laws alone prove such a claim"
            )
            continue
        guard, domains = guarded(model, trace.sizes)
        if guard is not None:
            failure = f"at {sizes_text(trace.sizes)}: {guard}"
            continue
        try:
            with until(time.monotonic() + budget_seconds):
                verdict, cases = _prove(trace, action, time.monotonic() + budget_seconds)
        except UnsupportedPrimitiveError as error:
            verdict, cases = Equality(False, residual=str(error)), ""
        except OutOfTime:
            spent = f"the budget of {budget_seconds:g} s ran out while the outputs were written out"
            verdict, cases = Equality(False, residual=spent), ""
        if not verdict:
            failure = f"at {sizes_text(trace.sizes)}: {verdict.residual}"
            continue
        proved.append(trace)
        steps.append(f"{sizes_text(trace.sizes)}: f(g . theta, x) - f(theta, x) = 0 identically ({cases})")
        lemmas |= dict.fromkeys(verdict.lemmas)
        assumptions |= dict.fromkeys((*domains, *verdict.assumptions))
    if not proved:
        return Certificate(claim, "undecided", "no width", tuple(steps), residual=failure)
    covers = tuple(CoveredSizes(tuple(trace.sizes.items())) for trace in proved)
    notes = [*assumptions, *([f"not established {failure}"] if failure else [])]
    lines = (*steps, *(f"by {lemma}" for lemma in lemmas))
    replayable = tuple(derivation) if len(derivation) == len(proved) else ()
    return Certificate(claim, "proved", covered_text(covers), lines, tuple(notes), derivation=replayable, covers=covers)


def _by_laws(model: Model, action: Action, trace: Trace) -> Outcome | None:
    """The proof that laws give at the sizes of this trace, if they do."""
    opening = opened(model, trace.sizes)
    outcome = None if isinstance(opening, str) else attempt(opening, model, action)
    return outcome if outcome is not None and outcome.proved else None


def claim_of(model: Model, action: Action) -> str:
    """The claim in one sentence."""
    moves = ", ".join(f"{key} -> {text}" for key, text in action.symmetry.action.items())
    return f"{model.name} is invariant under {action.name}: {action.group}, {moves}"


def _prove(trace: Trace, action: Action, deadline: float) -> tuple[Equality, str]:
    """The identity at one width, for every kind of group element and every token and mask input."""
    params = {spec.name: symbols_for(spec, trace.sizes) for spec in trace.params}
    lemmas: dict[str, None] = {}
    assumptions: dict[str, None] = {}
    elements = 0
    count = math.prod(_values(spec, trace) ** _entries(spec, trace) for spec in trace.inputs if spec.discrete)
    if count > _CASES:
        said = f"{count}" if count < 10**9 else f"about 10^{len(str(count)) - 1}"
        return Equality(False, residual=f"{said} token and mask inputs are too many to try one by one"), ""
    cases = list(_input_cases(trace))
    before = [_outputs(trace, params, inputs) for inputs in cases]
    for g, inverse in action.group.symbolic(trace.sizes):
        elements += 1
        moved = params | transformed(action, trace.params, trace.sizes, params, g, OBJECTS, inverse)
        for inputs, left in zip(cases, before, strict=True):
            verdict = prove_equal(left, _outputs(trace, moved, inputs), max(deadline - time.monotonic(), 0.0))
            if not verdict:
                return verdict, ""
            lemmas |= dict.fromkeys(verdict.lemmas)
            assumptions |= dict.fromkeys(verdict.assumptions)
    general = "all group elements" if action.group.continuous else f"each of the {elements} group elements"
    every_input = "all inputs" if len(cases) == 1 else f"each of the {len(cases)} token and mask inputs"
    return Equality(
        True, lemmas=tuple(lemmas), assumptions=tuple(assumptions)
    ), f"all parameters, {every_input}, {general}"


def _outputs(trace: Trace, params: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]) -> list:
    arguments = [params[spec.name] for spec in trace.params] + [inputs[spec.name] for spec in trace.inputs]
    return [
        entry for output in evaluate(trace, SYMBOLIC, arguments) for entry in np.asarray(output, dtype=object).ravel()
    ]


def _entries(spec: ArraySpec, trace: Trace) -> int:
    return math.prod(spec.shape(trace.sizes))


def _values(spec: ArraySpec, trace: Trace) -> int:
    """How many values an entry of tokens or of a mask may have."""
    return spec.bound(trace.sizes) if spec.kind == "tokens" else 2


def _input_cases(trace: Trace) -> Iterator[dict[str, np.ndarray]]:
    """Real inputs as symbols; tokens and masks take every value that they may."""
    discrete = [spec for spec in trace.inputs if spec.discrete]
    real = {spec.name: symbols_for(spec, trace.sizes) for spec in trace.inputs if not spec.discrete}
    choices = [itertools.product(range(_values(spec, trace)), repeat=_entries(spec, trace)) for spec in discrete]
    for values in itertools.product(*choices):
        arrays = {
            spec.name: np.array(value, dtype=np.int32 if spec.kind == "tokens" else np.float64).reshape(
                spec.shape(trace.sizes)
            )
            for spec, value in zip(discrete, values, strict=True)
        }
        yield real | arrays

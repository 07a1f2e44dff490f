"""The ladder of a claim: a counterexample, a proof for every width, exact identities at small widths, in this order."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quotax.artifacts import Certificate, Model, Trace, Witness, covered_text, sizes_text
from quotax.certify.counterexample import (
    EXACT,
    check_numerically,
    differ_together,
    find_float_witness,
    find_witness,
    precision_notes,
)
from quotax.certify.every_width.law_graph import law_graph
from quotax.certify.every_width.proving import Outcome, accepts, prove_alike, prove_for_every_width
from quotax.certify.stated_widths import certify_at_widths, claim_of
from quotax.certify.trial_sizes import at_sizes, traceable
from quotax.errors import ArchitectureError, QuotaxError
from quotax.interpret.closed_over import handed_over
from quotax.symmetry import Action


def certify(
    model: Model,
    action: Action,
    *,
    sizes: Sequence[Mapping[str, int]] | None = None,
    draws: int = 24,
    budget_seconds: float = 20.0,
    seed: int = 0,
    reasons: bool = True,
    progress: Callable[[str], None] = lambda line: None,
) -> Certificate:
    """Prove or refute that `f(g . theta, x) = f(theta, x)`, for every width if that can be done.

    A counterexample is looked for first, at a few points. If none turns up, the laws of the tensors are followed
    through the model, and what they prove is compared with numbers at larger widths; where a law is missing, a
    counterexample is looked for at many points, among small rationals at small widths and among floats at larger
    ones. If there is none, the identity is proved in exact arithmetic at small widths; where that fails too, the
    claim is undecided, and the largest difference found numerically is reported. `sizes` asks for proofs at these
    widths instead. Without `reasons`, a refutation has its witness alone, not the law that breaks and the subgroup
    that survives.
    """
    settings: dict[str, Any] = {"draws": draws, "budget_seconds": budget_seconds, "seed": seed}
    if action.constants:
        return _with_constants(model, action, sizes, settings, progress)
    if sizes is not None:
        made = certify_at_widths(model, action, sizes=sizes, progress=progress, **settings)
    else:
        made = _ladder(model, action, reasons=reasons, progress=progress, **settings)
    asked = None if sizes is None else [dict(each) for each in sizes]
    return recalled(model, action, dataclasses.replace(made, settings={"sizes": asked, **settings}))


def _with_constants(
    model: Model,
    action: Action,
    sizes: Sequence[Mapping[str, int]] | None,
    settings: Mapping[str, Any],
    progress: Callable[[str], None],
) -> Certificate:
    """A claim that reads numbers which the model closes over: proved for all numbers in their place, refuted for these.

    What is not proved for all of them is looked at with their own, which may be special.
    """
    handed, call = handed_over(model, action.constants), f"verify({model.name}, ...)"
    asked = None if sizes is None else [dict(each) for each in sizes]
    again: dict[str, Any] = {**settings, "sizes": asked}
    if sizes is not None:
        made = certify_at_widths(handed, action, sizes=sizes, progress=progress, **settings)
    else:
        made = _ladder(handed, action, reasons=False, progress=progress, **settings)
    if made:
        said = ", ".join(map(repr, action.constants))
        steps = (f"for all numbers in the place of those that the model closes over: {said}", *made.steps)
        return recalled(model, action, dataclasses.replace(made, steps=steps, settings=again))
    settled = handed_over(model, action.constants, True)
    traces = at_sizes(settled, sizes) if sizes else traceable(settled, action.group, call)
    rng, claim = np.random.default_rng(settings["seed"]), claim_of(model, action)
    for trace in traces:
        witness = find_witness(trace, action, rng, settings["draws"])
        if witness is not None:
            steps = (f"at {sizes_text(trace.sizes)} the two outputs differ by {witness.difference:.6g}",)
            scope = f"a point at {sizes_text(trace.sizes)}"
            made = Certificate(claim, "refuted", scope, steps, witness=witness, settings=again)
            return recalled(model, action, made)
    why = f"not proved for all numbers in the place of {', '.join(one.name for one in action.constants)}: "
    residual = why + (made.residual or "with others the outputs differ")
    scope = "numerical checks at " + " and ".join(f"({sizes_text(t.sizes)})" for t in traces)
    return recalled(model, action, Certificate(claim, "undecided", scope, residual=residual, settings=again))


def recalled(model: Model, action: Action, certificate: Certificate) -> Certificate:
    """A certificate that can be checked again against a model: the kernel replays its steps, if it has any."""
    model = handed_over(model, action.constants) if action.constants and certificate.derivation else model
    outline = None
    if certificate.derivation:
        recipe = functools.partial(_replayed, model, action, certificate)
        first = next(iter(certificate.derivation))
        if isinstance(first, Mapping) and first.get("steps"):  # those of a file may be anything
            outline = functools.partial(law_graph, model, action, first)
    else:
        recipe = functools.partial(certify, model, action, **certificate.settings)
    return dataclasses.replace(certificate, recipe=recipe, outline=outline)


def certify_alike(
    model: Model,
    proved: Certificate,
    claims: Sequence[tuple[Action, Mapping[str, str]]],
    *,
    seed: int = 0,
) -> list[Certificate | None]:
    """Certificates of claims that say of other parameters what a proved one says of its own; None for undecided ones.

    Each comes with the names that its parameters have in place of those. Its proof is that of the first, replayed about
    its own parameters; the numbers are looked at for all of them together, moved one after the other from one point.
    Where they differ, nothing is decided.
    """
    found: dict[int, Certificate] = {}
    for number, (action, names) in enumerate(claims):
        outcome = prove_alike(model, action, names, proved.steps, proved.derivation) if proved.derivation else None
        if outcome is not None:
            made = Certificate(
                claim_of(model, action), "proved", outcome.scope, outcome.steps, outcome.assumptions,
                derivation=outcome.derivation, covers=outcome.covers,
            )  # fmt: skip
            found[number] = recalled(model, action, made)
    together = [claims[number][0] for number in found]
    if together:
        rng = np.random.default_rng(seed)
        try:
            traces = traceable(model, together[0].group, f"verify({model.name}, ...)")
        except ArchitectureError:  # a model of its own sizes alone
            return [None for _ in claims]
        if any(differ_together(trace, together, rng) for trace in (traces[0], *traces[2:])):
            found = {}
    return [found.get(number) for number in range(len(claims))]


def _replayed(model: Model, action: Action, made: Certificate) -> Certificate:
    """The certificate as far as the kernel accepts its steps again; those of a file may be anything."""
    try:
        covers = accepts(model, action, made.derivation)
    except (QuotaxError, AttributeError, LookupError, TypeError, ValueError):
        covers = None
    if covers is None:
        return dataclasses.replace(made, status="undecided", scope="no width", residual="the kernel refuses the steps")
    return dataclasses.replace(made, scope=covered_text(covers), covers=covers)


def _ladder(
    model: Model,
    action: Action,
    *,
    draws: int,
    budget_seconds: float,
    seed: int,
    reasons: bool,
    progress: Callable[[str], None],
) -> Certificate:
    claim = claim_of(model, action)
    rng = np.random.default_rng(seed)

    def refuted(witness: Witness, trace: Trace) -> Certificate:
        steps = [f"at {sizes_text(trace.sizes)} the two outputs differ by {witness.difference:.6g}"]
        steps += precision_notes(trace)
        if reasons:
            steps += _first_break(prove_for_every_width(model, action))
            steps += surviving(model, action)
        return Certificate(claim, "refuted", f"a point at {sizes_text(trace.sizes)}", tuple(steps), witness=witness)

    traces = traceable(model, action.group, f"verify({model.name}, ...)")

    def looked(trace: Trace, count: int) -> Witness | None:
        action.group.check_sizes(trace.sizes)
        progress(f"looking for a counterexample at {sizes_text(trace.sizes)}")
        return find_witness(trace, action, rng, count)

    few = min(draws, EXACT)
    witness = looked(traces[0], few)
    if witness is not None:
        return refuted(witness, traces[0])
    outcome = prove_for_every_width(model, action, progress, traces[0].sizes)
    for trace in () if outcome.proved else traces[:2]:
        witness = looked(trace, draws)
        if witness is not None:
            return refuted(witness, trace)
    for trace in traces[2:]:
        witness = find_float_witness(trace, action, rng, draws=1)
        if witness is not None:
            return refuted(witness, trace)
    if outcome.proved:
        return Certificate(
            claim, "proved", outcome.scope, outcome.steps, outcome.assumptions,
            derivation=outcome.derivation, covers=outcome.covers,
        )  # fmt: skip
    progress(f"no proof for every width: {outcome.residual}")
    fallback = certify_at_widths(
        model, action, draws=draws, budget_seconds=budget_seconds, seed=seed, progress=progress, searched=traces
    )
    note = f"not established for every width: {outcome.residual}"
    if fallback.status == "proved":
        return dataclasses.replace(fallback, assumptions=(*fallback.assumptions, note))
    if fallback.status == "refuted":
        return fallback
    worst = max((check_numerically(trace, action, rng) for trace in traces[:2]), default=float("nan"))
    scope = "numerical checks at " + " and ".join(f"({sizes_text(t.sizes)})" for t in traces[:2])
    residual = f"{note}; {fallback.residual}; the largest relative difference found is {worst:.2g}"
    steps = (*fallback.steps, *_first_break(outcome))
    return Certificate(claim, "undecided", scope, steps, fallback.assumptions, residual=residual)


def surviving(model: Model, action: Action) -> list[str]:
    """Which subgroup of a refuted group does leave the function unchanged: weight decay breaks GL(h) to O(h)."""
    for smaller in action.group.subgroups:
        try:
            outcome = prove_for_every_width(model, action.of_subgroup(smaller))
        except QuotaxError:
            continue
        if outcome.proved:
            return [f"what survives: the same action of {smaller} leaves it unchanged, for {outcome.scope}"]
    return []


def _first_break(outcome: Outcome) -> list[str]:
    if outcome.broken is not None:
        return [f"the first law to break: {outcome.broken}"]
    if outcome.residual is not None:
        return [f"the laws hold up to the output: {outcome.residual}"]
    return []

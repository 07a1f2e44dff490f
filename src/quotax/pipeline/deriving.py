"""Symmetries that nobody wrote down: `derive`, which is handed the prover as a function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from quotax.artifacts import Certificate, Trace
from quotax.certify import certify, certify_alike
from quotax.certify.claims.vector_field import prove_flat
from quotax.declare import Architecture, Network
from quotax.derive import SymmetryGroup, completed
from quotax.derive import derive as derive_symmetries
from quotax.derive.candidates.polynomial_fields import Ansatz
from quotax.errors import ArchitectureError, SymmetryError
from quotax.pipeline.models import check_architecture
from quotax.pipeline.own_sizes import at_home
from quotax.pipeline.verifying import verify
from quotax.presenting.telling import Budget, OutOfTime, Teller, until
from quotax.programs.threads import one_thread
from quotax.symmetry import Symmetry
from quotax.trees import Tree

_PROOF = 20.0
"""Seconds that one exact proof may take, of those that `derive` has."""


@one_thread
def derive(
    architecture: Architecture | Network,
    ansatz: Ansatz = "affine",
    *,
    declared: Sequence[Symmetry] = (),
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    budget_seconds: float = 60.0,
    progress: Callable[[str], None] | None = None,
    seed: int = 0,
) -> SymmetryGroup:
    """The symmetries of a model that nobody wrote down: found in exact arithmetic, each proved by `verify`.

    The determining equations are sampled at small widths (`sizes` replaces them) and solved for groups on every axis;
    what those leave unexplained is looked for among all fields of the ansatz. `declared` symmetries are verified and
    not found again. A sized network is sampled at small widths too, and at its own where it accepts no others.
    `budget_seconds` is for the whole call: what was not looked at when it ends is in `found.unsearched`. Progress is
    handed to `progress`, or printed to standard error every two seconds.

    >>> import jax, quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> qx.derive(net).families
    (Symmetry linear h: GL(h), W1 -> g @ W1, W2 -> W2 @ inv(g),)
    """
    own = architecture.sizes if isinstance(architecture, Network) else architecture.own or None
    architecture = architecture.architecture if isinstance(architecture, Network) else architecture
    check_architecture(architecture, "derive")
    if not budget_seconds > 0:
        raise SymmetryError(f"`derive`: budget_seconds must be a positive number of seconds, got {budget_seconds!r}.")
    if ansatz not in ("linear", "affine", "quadratic", "full"):
        raise SymmetryError(f"`derive`: ansatz must be 'linear', 'affine', 'quadratic' or 'full', got {ansatz!r}.")
    tell, budget = Teller(progress), Budget(budget_seconds)
    for symmetry in declared:
        certificate = verify(architecture, symmetry, budget_seconds=min(_PROOF, budget.left), seed=seed)
        if not certificate:
            raise SymmetryError(
                f"`derive(..., declared=[...])`: {symmetry.name!r} is {certificate.status}, so it explains nothing."
            )
    widths = None
    if sizes is not None:
        listed = [sizes] if isinstance(sizes, Mapping) else list(sizes)
        call = f"derive({architecture.name}, sizes=...)"
        widths = [architecture.check_sizes(s, required=architecture.axis_names, call=call) for s in listed]
    seconds = lambda: min(_PROOF, budget.left)

    def prove(symmetry: Symmetry) -> Certificate:
        action = symmetry.bind(architecture.params)
        decide = functools.partial(certify, architecture, action, seed=seed, reasons=False)
        try:
            with until(budget.end):
                made = decide(budget_seconds=seconds())
                return at_home(architecture, action, made, seed=seed, reasons=False, budget_seconds=seconds())
        except OutOfTime:
            return _out_of_time(symmetry, budget)
        except ArchitectureError:
            if own is None:
                raise
            # the model accepts no small sizes
            return decide(sizes=[completed(architecture, own)], budget_seconds=seconds())

    def alike(proved: Certificate, claims: Sequence[tuple[Symmetry, Mapping[str, str]]]) -> list[Certificate | None]:
        bound = [(symmetry.bind(architecture.params), names) for symmetry, names in claims]
        home = lambda action, one: at_home(architecture, action, one, seed=seed, reasons=False)
        try:
            with until(budget.end):
                made = certify_alike(architecture, proved, bound, seed=seed)
                return [one and home(action, one) for (action, _), one in zip(bound, made, strict=True)]
        except OutOfTime:
            return [_out_of_time(symmetry, budget) for symmetry, _ in claims]

    return derive_symmetries(
        architecture,
        prove,
        prove_field,
        prove_alike=alike,
        ansatz=ansatz,
        declared=tuple(declared),
        sizes=widths,
        own=own,
        progress=functools.partial(told, tell),
        seed=seed,
        budget=budget,
    )


def _out_of_time(symmetry: Symmetry, budget: Budget) -> Certificate:
    spent = f"the budget of {budget.seconds:g} s was spent"
    return Certificate(f"invariance under {symmetry.name}: {symmetry.group}", "undecided", "no width", residual=spent)


def told(tell: Teller, line: str) -> None:
    """A line of progress, said by whom where it goes to standard error."""
    tell(lambda seconds: line if tell.progress else f"derive: {line}")


def prove_field(
    trace: Trace, field: Callable[[Tree], Tree], left: float
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Prove that a field is flat, in the seconds that are left."""
    return prove_flat(trace, field, min(_PROOF, left))

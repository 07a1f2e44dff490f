"""The quotient of a network's parameter space by symmetries, each of them verified first."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence

import jax

from quotax.artifacts import Certificate
from quotax.declare import Architecture, Network
from quotax.derive import SymmetryGroup
from quotax.errors import GeometryError, MetricWarning, SymmetryError
from quotax.geometry import QuotientSpace, choose, suspects, unusable, without_frame
from quotax.isometry import certify_isometry
from quotax.pipeline.models import lowered, of_trees
from quotax.pipeline.verifying import verify
from quotax.symmetry import Symmetry
from quotax.trees import Tree

_PROVED_AT_ONCE = 100_000
"""Networks with more parameters have the certificate of their metric made when it is first asked for."""


def quotient(
    network: Network | Architecture,
    symmetries: Symmetry | Iterable[Symmetry],
    metric: str | Callable[[Tree, Tree, Tree], jax.Array] = "euclidean",
    *,
    verified: Iterable[Certificate] | None = None,
) -> QuotientSpace:
    """The quotient of a network's parameter space by symmetries, each of them verified first.

    A symmetry that is refuted, or that cannot be decided, is refused: the quotient by something that changes the
    function means nothing. `verified` passes certificates that you already have, one for each symmetry.

    A derived group is used whole: what was declared to `derive`, its continuous families, permutations and flips. What
    the metric has no use for is in `space.left_out`, with the reason. To divide by a part, pass that part:
    `found.families`.

    `metric="invariant"` makes every family act by isometries, so that lengths belong to the quotient; `"euclidean"`
    does so for orthogonal actions and shifts only, and warns otherwise. `"pullback"` is the metric of the balanced
    representatives; `"inv"` and `"mix"` are those of two-factor blocks; a function `metric(params, a, b)` is your own.
    `space.metric_certificate` says whether the metric is invariant, and why.

    >>> import quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> linear = qx.Symmetry("linear", qx.GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    >>> space = qx.quotient(net.at(x=3, h=2, y=1), linear, metric="invariant")
    >>> space.dim, space.fiber_dim, space.metric_certificate.status
    (4, 4, 'proved')
    """
    if isinstance(network, Architecture) and network.own:
        network = network.at()
    if not isinstance(network, Network):
        hint = f"; give it sizes first, as in {network.name}.at(...)" if isinstance(network, Architecture) else ""
        raise GeometryError(f"`quotient(network, symmetries)`: network must be a sized network, got {network!r}{hint}.")
    model = network.architecture
    metric = of_trees(model, metric) if callable(metric) else metric
    given = [symmetries] if isinstance(symmetries, (Symmetry, str)) else list(symmetries)
    whole = symmetries if isinstance(symmetries, SymmetryGroup) and verified is None else None
    if whole is not None and whole.read_from and whole.model is model:
        whole = whole.recheck()
    known, left_out = {}, {}
    if whole is not None:
        given = [*whole.declared, *given, *whole.discrete]  # what was declared to it first
        known = dict((*whole.proved, *whole.discrete_proved)) if whole.model is model else {}
        left_out = {family.name: "fields without a finite action" for family in whole.unnamed}
    for symmetry in given:
        if not isinstance(symmetry, Symmetry):
            raise GeometryError(
                f"`quotient(network, symmetries)`: symmetries must be `qx.Symmetry` objects, got {symmetry!r}."
            )
    families = lowered(given, network)
    if whole is not None and not callable(metric):
        left_out |= unusable(families[len(given) - len(whole.discrete) :])
        left_out |= {} if metric == "euclidean" else without_frame(families[: len(given) - len(whole.discrete)])
        families = [family for family in families if family.name not in left_out]
    used = [family.action.symmetry for family in families]
    certificates = list(verified) if verified is not None else [known.get(s) or verify(model, s) for s in used]
    if len(certificates) != len(families):
        raise GeometryError(
            f"`quotient`: {len(families)} symmetries need as many certificates, got {len(certificates)}."
        )
    for family, certificate in zip(families, certificates, strict=True):
        if not certificate:
            raise SymmetryError(
                f"`quotient`: {family.name!r} is {certificate.status}, so dividing by it would change the function. "
                f"`qx.verify({model.name}, ...)` says why: {'; '.join(certificate.steps) or certificate.residual}."
            )
    chosen = choose(metric, families, network.num_parameters)
    space = QuotientSpace(
        network,
        model.params,
        families,
        certificates,
        chosen,
        functools.partial(certify_isometry, network, families, metric, chosen),
        left_out=left_out,
    )
    _warn_of(space, suspects(chosen, families))
    return space


def _warn_of(space: QuotientSpace, names: Sequence[str]) -> None:
    """Say that the metric is not invariant; a large network's certificate is made when it is asked for."""
    if not names or (space.network.num_parameters <= _PROVED_AT_ONCE and space.metric_certificate):
        return
    if space.network.num_parameters <= _PROVED_AT_ONCE:
        reason = f"{space.metric_certificate.status}: {'; '.join(space.metric_certificate.steps)}"
    else:
        reason = f"{', '.join(names)} do not act by isometries; `space.metric_certificate` has the proof"
    warnings.warn(
        f"`quotient`: the {space.metric_name} metric is not invariant ({reason}). "
        "Lengths at one representative are not lengths on the quotient.",
        MetricWarning,
        stacklevel=3,
    )

"""The certificate of a metric: whether every family acts by isometries, from lemmas that are proved and numbers.

A metric given by a formula in JAX is proved or refuted by `certify`. The metrics that `geometry` builds contain
eigenvectors and Newton's method, which no formula follows; for them a lemma says when they are invariant, and `certify`
proves its hypotheses. Where it proves them not, inner products at random points and their images are compared, which
can refute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import numpy as np

from quotax.artifacts import Certificate, Model, Witness
from quotax.certify import FunctionModel, certify_metric
from quotax.declare import Network
from quotax.geometry import choose
from quotax.geometry.canonical.gauge import gauge
from quotax.geometry.families.roles import is_shift
from quotax.geometry.metrics.measured import Defect, defects
from quotax.geometry.metrics.metric import Metric
from quotax.lower import lower_action
from quotax.symmetry import Action, Family
from quotax.trees import Keyword, Tree

_LARGEST = 4000
"""Networks with more parameters are compared at smaller sizes."""

_TOLERANCE = 1e-7

_LOOKS = 2
"""So many points are tried for a counterexample before the laws prove that a sum of squares is unchanged."""


def certify_isometry(
    network: Network, families: Sequence[Family], metric: str | Callable[..., Tree], chosen: Metric
) -> Certificate:
    """The certificate that all the families are isometries of `metric`, which is `chosen` for them on this network."""
    architecture = network.architecture
    if callable(metric):
        return _all(metric, [(family, certify_metric(architecture, family.action, metric)) for family in families])
    if metric == "euclidean" and any(family.action.projectors for family in families):
        claim = f"the metric 'euclidean' is invariant under {', '.join(family.name for family in families)}"
        return _measured(claim, network, families, metric, chosen, ())
    if metric == "euclidean":
        return _all(metric, [(family, _euclidean(architecture, family.action)) for family in families])
    claim = f"the metric {metric!r} is invariant under {', '.join(family.name for family in families) or 'nothing'}"
    core, model, steps = chosen.core, architecture, [*chosen.absorbing]
    if chosen.absorbed is not None:
        own = (spec for spec in architecture.params if spec.name not in chosen.absorbed.gains)
        kept = tuple(replace(spec, cuts=()) for spec in own)
        model = FunctionModel(architecture.name, lambda p: p, kept)
    if core.unsettled:
        steps += [f"{name}: no canonical representative, {why}" for name, why in core.unsettled.items()]
        return _measured(claim, network, families, metric, chosen, tuple(steps))
    steps.append(core.lemma)
    for family in core.families:
        group = core.asked(family)
        if group is None:
            steps.append(f"{family.name}: {_why(family)}")
            continue
        proof = _euclidean(model, family.action.of_subgroup(group), draws=_LOOKS)
        subject = f"{group} in {family.group}" if group != family.group else str(family.group)
        if not proof:
            steps.append(f"{family.name}: {subject} is not a Euclidean isometry ({proof.status})")
            return _measured(claim, network, families, metric, chosen, tuple(steps))
        steps.append(f"{family.name}: {subject} acts by Euclidean isometries, proved for {proof.scope}")
    return Certificate(claim, "proved", "every width", tuple(steps), _assumptions(families))


def _euclidean(model: Model, action: Action, **settings: Keyword) -> Certificate:
    """The claim of a sum of squares, on the arrays that the action names: the others add the same on both sides."""
    kept = tuple(replace(spec, cuts=()) for spec in model.params if spec.name in action.named)
    return certify_metric(FunctionModel(model.name, lambda p: p, kept), action, "euclidean", **settings)


def _all(metric: object, proofs: Sequence[tuple[Family, Certificate]]) -> Certificate:
    """One certificate of several claims: refuted by the first that is, proved when all are."""
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
    claim = f"the metric {name!r} is invariant under {', '.join(s.name for s, _ in proofs) or 'nothing'}"
    bad = [(s, c) for s, c in proofs if c.status == "refuted"] or [(s, c) for s, c in proofs if not c]
    if not bad:
        scopes = {c.scope for _, c in proofs}
        scope = "every width" if scopes <= {"every width"} else "; ".join(sorted(scopes))
        steps = tuple(f"{s.name}: {s.group} acts by isometries, proved for {c.scope}" for s, c in proofs)
        return Certificate(claim, "proved", scope, steps or ("nothing moves the parameters",))
    steps = tuple(f"{s.name}: {s.group} does not act by isometries" for s, _ in bad)
    first = bad[0][1]
    return Certificate(claim, first.status, first.scope, steps, witness=first.witness, residual=first.residual)


def _why(family: Family) -> str:
    if is_shift(family):
        return "a shift has no orthogonal element but zero; the canonical representative has none of it left"
    return f"{family.group} has no orthogonal element but one"


def _measured(
    claim: str, network: Network, families: Sequence[Family], metric: str, chosen: Metric, steps: tuple[str, ...]
) -> Certificate:
    """The certificate where no lemma decides: of a comparison at random points, which can only refute."""
    small = _small(network, families)
    where = ", ".join(f"{axis}={n}" for axis, n in small.sizes.items())
    if small is not network:
        families = _at(small, families)
        chosen = choose(metric, families, small.num_parameters)
    seen = defects(chosen, families, small.shapes)
    broken = [defect for defect in seen if not defect.size <= _TOLERANCE]
    if broken:
        steps += tuple(f"{d.family.name}: an inner product changes by {d.size:.1e} of |u| |v|" for d in broken)
        return Certificate(claim, "refuted", f"a point at {where}", steps, witness=_witness(broken[0], small))
    most = max((defect.size for defect in seen), default=0.0)
    steps += (f"inner products at two random points and their images agree to {most:.0e} at {where} (float64)",)
    return Certificate(claim, "undecided", f"checked at {where}", steps, residual="no lemma covers every family")


def _assumptions(families: Sequence[Family]) -> tuple[str, ...]:
    """Where canonical representatives and covariances determine the group element: the lemmas need no more."""
    found = ["the parameters have full rank along every axis that a family acts on, as almost all parameters have"]
    for family in families:
        if family.group.general:
            axis = family.group.axis
            found.append(
                f"{axis} is no longer than what reads it, or what writes it, has numbers for each of its indices"
            )
    return tuple(dict.fromkeys(found))


def _witness(defect: Defect, network: Network) -> Witness:
    plain = {name: np.asarray(array) for name, array in defect.params.items()}
    with jax.enable_x64(True):
        there = defect.family.act(defect.params, defect.element)
    moved = {name: np.asarray(array) for name, array in there.items()}
    return Witness(
        network.sizes,
        network.tree(plain),
        np.asarray(defect.element),
        {},
        np.asarray(defect.before),
        np.asarray(defect.after),
        network.tree(moved),
    )


def _at(network: Network, families: Sequence[Family]) -> list[Family]:
    return [lower_action(family.action, family.specs, network.sizes) for family in families]


def _small(network: Network, families: Sequence[Family]) -> Network:
    """The network itself, or a smaller one whose families are settled in the same way."""
    if network.num_parameters <= _LARGEST:
        return network
    kind = lambda own: (lambda g: (g.characters, g.excluded, set(g.unsettled)))(gauge(own, unique=True))
    for root in (0.25, 0.35, 0.5):
        free = {axis: n for axis, n in network.sizes.items() if axis not in network.architecture.fixed}
        sizes = {axis: n if n <= 2 else 2 * max(1, math.ceil(n**root / 2)) for axis, n in free.items()}
        small = network.architecture.at(**sizes)
        if small.num_parameters <= 4 * _LARGEST and kind(_at(small, families)) == kind(families):
            return small
    return network

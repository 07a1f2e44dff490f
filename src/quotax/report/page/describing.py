"""What is known of a model without its parameters: families with their proofs, audits, the quotient, its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy as sp

import quotax as qx
from quotax.presenting import Json
from quotax.presenting.proof_picture import shown
from quotax.report.page.flow import flow


def described(found: qx.SymmetryGroup, space: qx.QuotientSpace | None) -> dict[str, Json]:
    """Everything of a derived group, and of the quotient by it, as JSON values."""
    model = found.model
    network: Any = None if space is None else space.network
    here = {} if network is None else dict(network.sizes)
    counts = _dimensions(found, here)
    pairs = [("continuous", *pair) for pair in found.proved]
    pairs += [("discrete", *pair) for pair in found.discrete_proved]
    families = [family(model, kind, s, c) | {"here": counts.get(s.name)} for kind, s, c in pairs]
    return {
        "name": model.name,
        "arrays": {spec.name: spec.axes_text for spec in model.params},
        "inputs": {spec.name: spec.axes_text for spec in model.inputs},
        "sizes": here,
        "parameters": None if network is None else network.num_parameters,
        "algebra": str(found.algebra_dim),
        "orbit": str(found.orbit_dim),
        "families": families,
        "fields": [f"{f.name}, {len(f.fields)} at {_sizes(f.sizes)}" for f in found.unnamed],
        "unproved": [str(each.name) for each, _ in found.unproved],
        "unsearched": list(found.unsearched),
        "audits": audits(found, here),
        "tensors": tensors(found),
        "quotient": None if space is None else quotient(space),
    }


def family(model: Any, kind: str, symmetry: qx.Symmetry, certificate: qx.Certificate) -> dict[str, Json]:
    """A symmetry, what it moves, and its proof."""
    group = symmetry.group
    return {
        "name": symmetry.name,
        "kind": kind,
        "group": str(group),
        "dimension": _formula(group) if group.continuous else "discrete",
        "axes": [axis for axis in (getattr(group, "axis", None), getattr(group, "each", None)) if axis],
        "action": dict(symmetry.action),
        "moved": list(symmetry.bind(model.params).moved),
        "certificate": proof(certificate),
        "tensors": shown(certificate.tensors()),
    }


def proof(certificate: qx.Certificate) -> dict[str, Json]:
    """A certificate as people read it; its data is in `found.save`."""
    data = certificate.to_dict()
    return {name: data[name] for name in ("claim", "status", "scope", "steps", "assumptions", "residual")}


def quotient(space: qx.QuotientSpace) -> dict[str, Json]:
    """Dimensions and metric, and whether the metric belongs to the quotient."""
    return {
        "metric": space.metric_name,
        "dimension": space.dim,
        "orbit": space.fiber_dim,
        "left out": dict(space.left_out),
        "certificate": proof(space.metric_certificate),
    }


def audits(found: qx.SymmetryGroup, here: Mapping[str, int]) -> list[dict[str, Json]]:
    """At the first sizes that were sampled, where a rank is cheap and exact, and at the network's own."""
    sizes = [dict(found.sizes[0])] if found.sizes else []
    sizes += [dict(here)] if here and dict(here) not in sizes else []
    return [found.audit(**each).to_dict() for each in sizes]


def tensors(found: qx.SymmetryGroup) -> dict[str, Json]:
    """The arrays in the order in which data meet them, as nodes and edges; without edges where no size is known."""
    model = found.model
    axes = {spec.name: list(map(str, spec.factors)) for spec in (*model.params, *model.inputs)}
    if found.sizes:
        drawn = flow(model.trace(dict(found.sizes[0])))
        nodes, edges = drawn.nodes, drawn.edges
    else:
        nodes, edges = [("parameter", spec.name) for spec in model.params], []
    return {
        "nodes": [{"kind": kind, "name": name, "axes": axes.get(name, [])} for kind, name in nodes],
        "edges": [list(edge) for edge in edges],
    }


def _formula(group: Any) -> str:
    """The dimension of a group, in the names of axes."""
    length = sp.Symbol(group.axis) if group.axis else sp.S.One
    return str((sp.Symbol(group.each) if group.each else sp.S.One) * group.formula(length))


def _dimensions(found: qx.SymmetryGroup, here: Mapping[str, int]) -> dict[str, int]:
    return found.dimension(**here) if here else {}


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{axis}={size}" for axis, size in sizes.items())

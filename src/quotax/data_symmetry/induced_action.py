"""What a group of data does to the first weights of a network: proofs that it is an action that changes nothing."""

from __future__ import annotations

import functools
from typing import Any

import jax

from quotax.artifacts import ArraySpec, Certificate
from quotax.data_symmetry.representation import Declared, Representation
from quotax.declare import Architecture, Network, architecture
from quotax.errors import SymmetryError
from quotax.symmetry import GL, O, Permutation, Symmetry
from quotax.trees import Tree, named, nest

CALL = "quotax.augmented(...).proofs"
AT, ALONG, DATA = "at", "along", "data"
"""The parameters, a velocity of theirs, and the inputs, as parameters of the model that is proved invariant."""


def proofs_of(net: Any, rep: Representation, reads: tuple[str, ...] | None) -> dict[str, Certificate]:
    """That a network, and its derivative along a velocity, take back what a group does to the first input."""
    from quotax.pipeline import verify

    model = net.architecture if isinstance(net, Network) else net
    if not isinstance(model, Architecture):
        raise SymmetryError(f"`{CALL}` needs a declared or brought architecture, got {net!r}.")
    if not model.inputs or model.inputs[0].kind != "real" or not model.inputs[0].axes:
        raise SymmetryError(f"`{CALL}`: the first input of {model.name} is not an array of real numbers: {model!r}.")
    data = model.inputs[0]
    axis = data.factors[-1]
    if len(data.axes[-1]) > 1 or not isinstance(axis, str):
        raise SymmetryError(
            f"`{CALL}`: the last axis of {data.name!r} has no name of its own ({data.axes_text}), and no group acts "
            f"on it."
        )
    moved = first_weights(model, axis, reads)
    found: dict[str, Certificate] = {}
    for group in _groups(rep, axis):
        for claim, derived in (("network", False), ("gradient", True)):
            if found.get(claim):
                continue
            action = _action(moved, axis, data, derived)
            found[claim] = verify(_with_inputs(model, derived), Symmetry(f"induced {claim}", group, action))
        if all(found.values()):
            break
    return found


def first_weights(model: Architecture, axis: str, reads: tuple[str, ...] | None) -> tuple[ArraySpec, ...]:
    """The parameters that are moved along an axis of the data."""
    have = tuple(spec for spec in model.params if axis in spec.factors)
    unknown = [name for name in reads or () if name not in {spec.name for spec in have}]
    if unknown or not have:
        raise SymmetryError(
            f"`{CALL}`: reads= names parameters with the axis {axis!r}; of {model.name} these are "
            f"{', '.join(spec.name for spec in have) or 'none'}"
            + (f", and {unknown[0]!r} is not one of them." if unknown else ".")
        )
    return have if reads is None else tuple(spec for spec in have if spec.name in reads)


def _groups(rep: Representation, axis: str) -> list[Tree]:
    """Groups of matrices that hold the declared one, the largest first."""
    found: list[Tree] = [GL(axis)]
    atoms = [atom for word in rep.summands for atom in word]
    # A dual is the inverse transpose, and the same matrices where these are orthogonal.
    if all(atom.dual == atom for atom in atoms):
        found.append(O(axis))
    if rep.finite and len(rep.summands) == 1 and all(_orders(atom) for atom in atoms):
        found.append(Permutation(axis))
    return found


def _orders(atom: Declared) -> bool:
    known = [matrix.monomial for _, matrix in atom.finite]
    return all(order is not None and (order[1] > 0).all() for order in known)


def _action(moved: tuple[ArraySpec, ...], axis: str, data: ArraySpec, derived: bool) -> dict[str, str]:
    """Weights by the inverse along the axis, and data by the element along their last."""
    action = {}
    for spec in moved:
        letters = [f"i{place}" for place in range(len(spec.factors))]
        place = max(k for k, factor in enumerate(spec.factors) if factor == axis)
        read = [*letters[:place], "l", *letters[place + 1 :]]
        for room in (AT, ALONG) if derived else (AT,):
            name = f"{room}/{spec.name}"
            action[f"{name}[{','.join(letters)}]"] = f"{name}[{','.join(read)}] inv(g)[l,i{place}]"
    letters = [f"i{place}" for place in range(len(data.factors))]
    name, read = f"{DATA}/{data.name}", [*letters[:-1], "l"]
    action[f"{name}[{','.join(letters)}]"] = f"g[{letters[-1]},l] {name}[{','.join(read)}]"
    return action


def _with_inputs(model: Architecture, derived: bool) -> Architecture:
    """The model, or its derivative along a velocity, with real inputs for parameters."""
    own = nest({array.name: array.axes_text for array in model.arrays})
    real = {spec.name: spec.axes_text for spec in model.inputs if spec.kind == "real"}
    params = {AT: own, DATA: nest(real)} | ({ALONG: own} if derived else {})
    others = tuple(spec for spec in model.inputs if spec.kind != "real")
    made = architecture(params, {})(lambda p: p)
    forward = functools.partial(_forward, model, derived)
    whole = Architecture(forward, made.arrays, others, {}, model.relations)
    whole.name = f"{model.name} along a velocity" if derived else model.name
    whole.fixed = model.fixed
    return whole


def _forward(model: Architecture, derived: bool, p: Tree, *others: Tree, sizes: Any) -> Tree:
    rest, real = iter(others), named(p[DATA])
    inputs = [real[spec.name] if spec.kind == "real" else next(rest) for spec in model.inputs]
    run = lambda q: model.call(q, *inputs, sizes=sizes)
    return jax.jvp(run, (p[AT],), (p[ALONG],))[1] if derived else run(p[AT])

"""Equivariance: a group that acts on inputs and outputs as well, `f(g . theta, g . x) = g . f(theta, x)`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

import jax
import jax.numpy as jnp

from quotax.artifacts import ArraySpec, Certificate, Model, sizes_text
from quotax.certify.claims.function_model import FunctionModel
from quotax.certify.ladder import certify
from quotax.errors import ArchitectureError
from quotax.parts import whole_name
from quotax.symmetry import Action
from quotax.trees import Dim, Keyword, Tree

PROBE = "probe"
"""The name of the dual vector that reads the output."""

_UNEQUAL = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31)


def certify_equivariance(
    model: Model, forward: Callable[..., Tree], output: ArraySpec, action: Action, **settings: Keyword
) -> Certificate:
    """Prove or refute equivariance, where `action` moves parameters, inputs, and a probe `c` dual to the output.

    `f(g . theta, g . x) = g . f(theta, x)` for all theta and x exactly when the number `sum(c * f(theta, x))` is
    invariant, `c` moving by the inverse transpose of what moves the output.
    """
    probed = probed_model(model, forward, output)
    made = certify(probed, action, **settings)
    return dataclasses.replace(made, claim=f"{model.name} is equivariant under {action.name}: {action.group}")


def probed_model(model: Model, forward: Callable[..., Tree], output: ArraySpec) -> FunctionModel:
    """The number that a probe reads, as a function of parameters, real inputs and the probe.

    Refused when the output is not one array with exactly these axes: `sum(c * f)` is a number then too, because shapes
    broadcast, and its invariance says something else.
    """
    check_output(model, forward, output)
    real = tuple(spec for spec in model.inputs if spec.kind == "real")
    others = tuple(spec for spec in model.inputs if spec.kind != "real")
    paired = functools.partial(_paired, model, forward, output)
    params = (*model.params, *real, dataclasses.replace(output, name=PROBE))
    return FunctionModel(model.name, paired, params, others, model.fixed)


def _paired(model: Model, forward: Callable[..., Tree], output: ArraySpec, p: Tree, *others: Tree) -> Tree:
    rest = iter(others)
    inputs = [p[spec.name] if spec.kind == "real" else next(rest) for spec in model.inputs]
    own = {whole_name(spec).split("/")[0] for spec in model.params}
    found = forward({key: value for key, value in p.items() if key in own}, *inputs)
    _check_shape(model, output, jnp.shape(found), jnp.shape(p[PROBE]), None)
    return jnp.sum(p[PROBE] * found)


def check_output(model: Model, forward: Callable[..., Tree], output: ArraySpec) -> None:
    """Refuse axes that are not those of the output, at sizes that are unequal if the model has such."""
    unknown = [axis for axis in output.axis_names if axis not in model.axis_names]
    if unknown:
        raise ArchitectureError(
            f"`verify_equivariance(..., output={output.axes_text!r})`: unknown axis {unknown[0]!r}; "
            f"the axes of {model.name} are {', '.join(model.axis_names) or 'none'}."
        )
    plain = FunctionModel(model.name, forward, model.params, model.inputs)
    refusal: ArchitectureError | None = None
    for sizes in _sizes(model.axis_names):
        try:
            trace = plain.trace(sizes)
        except ArchitectureError as error:
            refusal = refusal or error
            continue
        if not jax.tree_util.treedef_is_leaf(trace.out_tree):
            raise ArchitectureError(
                f"`verify_equivariance(..., output={output.axes_text!r})`: {model.name} returns "
                f"{trace.out_tree.num_leaves} arrays in a {_kind(trace.out_tree)}, and one array is needed. "
                "Verify an architecture for each, which returns that array alone."
            )
        _check_shape(model, output, trace.jaxpr.out_avals[0].shape, output.shape(sizes), sizes)
        return
    if refusal is not None:
        raise refusal


def _sizes(axes: tuple[str, ...]) -> Iterator[dict[str, int]]:
    """Unequal sizes: odd ones, even ones, multiples of twelve; then equal ones, for models that have no others."""
    primes = [_UNEQUAL[k % len(_UNEQUAL)] + 30 * (k // len(_UNEQUAL)) for k in range(len(axes))]
    for factor in (1, 2, 4, 12):
        yield {axis: factor * size for axis, size in zip(axes, primes, strict=True)}
    for size in (2, 3, 4, 6, 12):
        yield dict.fromkeys(axes, size)


def _check_shape(
    model: Model, output: ArraySpec, found: tuple[Dim, ...], declared: tuple[Dim, ...], sizes: Mapping[str, int] | None
) -> None:
    if found == declared:
        return
    where = f" at {sizes_text(sizes)}" if sizes else ""
    raise ArchitectureError(
        f"`verify_equivariance(..., output={output.axes_text!r})`: the output of {model.name} has shape "
        f"{_shape_text(found)}{where}, and these axes are {_shape_text(declared)}. Name one axis for each dimension of "
        "the output, in its order; '' is a single number."
    )


def _shape_text(shape: tuple[Dim, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _kind(tree: Tree) -> str:
    data = tree.node_data()
    return data[0].__name__ if data else "None"

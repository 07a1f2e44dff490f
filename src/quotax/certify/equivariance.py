"""Equivariance: a group that acts on inputs and outputs as well, `f(g . theta, g . x) = g . f(theta, x)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from quotax.artifacts import ArraySpec, Certificate, Model
from quotax.certify.derived import FunctionModel
from quotax.certify.verification import certify
from quotax.symmetry import Action

PROBE = "probe"
"""The name of the dual vector that reads the output."""


def certify_equivariance(
    model: Model, forward: Callable[..., Any], output: ArraySpec, action: Action, **settings: Any
) -> Certificate:
    """Prove or refute equivariance, where `action` moves parameters, inputs, and a probe `c` dual to the output.

    `f(g . theta, g . x) = g . f(theta, x)` for all theta and x exactly when the number `sum(c * f(theta, x))` is
    invariant, `c` moving by the inverse transpose of what moves the output.
    """
    probed = probed_model(model, forward, output)
    made = certify(probed, action, **settings)
    return dataclasses.replace(made, claim=f"{model.name} is equivariant under {action.name}: {action.group}")


def probed_model(model: Model, forward: Callable[..., Any], output: ArraySpec) -> FunctionModel:
    """The number that a probe reads, as a function of parameters, real inputs and the probe."""
    real = tuple(spec for spec in model.inputs if spec.kind == "real")
    names = [spec.name for spec in model.params]

    def paired(p: Any, *others: Any) -> Any:
        rest = iter(others)
        inputs = [p[spec.name] if spec.kind == "real" else next(rest) for spec in model.inputs]
        params = {key: value for key, value in p.items() if any(n.split("/")[0] == key for n in names)}
        return jnp.sum(p[PROBE] * forward(params, *inputs))

    others = tuple(spec for spec in model.inputs if spec.kind != "real")
    return FunctionModel(model.name, paired, (*model.params, *real, dataclasses.replace(output, name=PROBE)), others)

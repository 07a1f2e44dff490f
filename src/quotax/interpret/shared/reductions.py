"""Reductions, running reductions and windows, for every domain whose values are arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from quotax.interpret.domain import AnyValue, ArrayDomain, Eqn, Rule
from quotax.interpret.shared.matrix_products import positions, windows
from quotax.programs.jaxprs import Settings

_UNIT = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}


def reduction(operation: str) -> Rule[ArrayDomain]:
    """Reduce the equation's `axes`: move them last, merge them, fold."""

    def rule(eqn: Eqn[ArrayDomain], args: list[AnyValue]) -> list[AnyValue]:
        axes = [int(axis) for axis in eqn.params["axes"]]
        kept = [axis for axis in range(len(eqn.inputs[0].shape)) if axis not in axes]
        count = int(np.prod([eqn.inputs[0].shape[axis] for axis in axes], dtype=np.int64))
        index = positions(eqn.inputs[0].shape).transpose(kept + axes).reshape(*eqn.shape, count)
        return [eqn.domain.fold(operation, eqn.domain.take(args, index))]

    return rule


def running(operation: str) -> Rule[ArrayDomain]:
    """Running reduction along `axis`: each entry is combined with what came before it."""

    def rule(eqn: Eqn[ArrayDomain], args: list[AnyValue]) -> list[AnyValue]:
        axis, domain = eqn.params["axis"], eqn.domain
        index = np.moveaxis(positions(eqn.shape), axis, 0)
        order = index[::-1] if eqn.params["reverse"] else index
        if not len(order):
            return [args[0]]
        totals = [domain.take(args, order[0])]
        for row in order[1:]:
            totals.append(domain.combine(operation, totals[-1], domain.take(args, row)))
        stacked = np.empty_like(index)  # where in the list of totals each output entry lies
        stacked[:: -1 if eqn.params["reverse"] else 1] = positions(index.shape)
        return [domain.take(totals, np.moveaxis(stacked, 0, axis))]

    return rule


def cumlogsumexp(params: Settings, x: AnyValue) -> AnyValue:
    """Running log-sum-exp, written out; the shift by a maximum that guards against overflow is not needed here."""
    return jnp.log(jax.lax.cumsum(jnp.exp(x), params["axis"], params["reverse"]))


def pooling(operation: str) -> Rule[ArrayDomain]:
    """Reduce each position of a sliding window; what lies outside is the operation's unit."""

    def rule(eqn: Eqn[ArrayDomain], args: list[AnyValue]) -> list[AnyValue]:
        p = eqn.params
        index = positions(eqn.inputs[0].shape)
        names = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
        places = windows(index, *(p[name] for name in names), fill=index.size)
        flat = places.reshape(*places.shape[: index.ndim], -1)
        return [eqn.domain.fold(operation, eqn.domain.take([args[0], np.asarray(_UNIT[operation])], flat))]

    return rule

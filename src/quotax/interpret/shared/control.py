"""Calls, loops and branches: rules that evaluate a nested jaxpr."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import jaxpr_as_fun

from quotax.interpret.domain import AnyValue, ArrayDomain, Domain, Eqn, Rule, Unreadable, concrete, is_known
from quotax.programs.jaxprs import as_closed


def call(parameter: str) -> Rule[Domain]:
    """Evaluate the jaxpr under this parameter: a call computes its body, whatever its derivative is declared to be."""

    def rule(eqn: Eqn[Domain], args: list[AnyValue]) -> list[AnyValue]:
        return eqn.run(as_closed(eqn.params[parameter]), args)

    return rule


def scan(eqn: Eqn[ArrayDomain], args: list[AnyValue]) -> list[AnyValue]:
    """Unroll at the traced length."""
    p, domain = eqn.params, eqn.domain
    consts, carry = args[: p["num_consts"]], args[p["num_consts"] : p["num_consts"] + p["num_carry"]]
    sequences = args[p["num_consts"] + p["num_carry"] :]
    shapes = [aval.shape for aval in eqn.inputs[p["num_consts"] + p["num_carry"] :]]
    collected: list[list[AnyValue]] = [[] for _ in eqn.outputs[p["num_carry"] :]]
    times = range(p["length"])
    for time in reversed(times) if p["reverse"] else times:
        now = [_row(domain, xs, shape, time) for xs, shape in zip(sequences, shapes, strict=True)]
        out = eqn.run(p["jaxpr"], [*consts, *carry, *now])
        carry = out[: p["num_carry"]]
        for rows, value in zip(collected, out[p["num_carry"] :], strict=True):
            rows.append(value)
    avals = eqn.outputs[p["num_carry"] :]
    return [*carry, *(_stack(domain, rows, aval, p["reverse"]) for rows, aval in zip(collected, avals, strict=True))]


def _row(domain: ArrayDomain, xs: AnyValue, shape: tuple[int, ...], time: int) -> AnyValue:
    if is_known(xs):
        return np.asarray(xs[time])
    size = int(np.prod(shape[1:], dtype=np.int64))
    return domain.take([xs], np.arange(time * size, (time + 1) * size).reshape(shape[1:]))


def _stack(domain: ArrayDomain, rows: list[AnyValue], aval: ShapedArray, reverse: bool) -> AnyValue:
    rows = rows[::-1] if reverse else rows
    if all(is_known(row) for row in rows):
        return np.stack(rows).reshape(aval.shape) if rows else np.zeros(aval.shape, aval.dtype)
    return domain.take(rows, np.arange(int(np.prod(aval.shape, dtype=np.int64))).reshape(aval.shape))


def while_loop(eqn: Eqn[Domain], args: list[AnyValue]) -> list[AnyValue]:
    """Unroll a loop whose condition is constant at every turn, such as a counter."""
    p = eqn.params
    test, body = args[: p["cond_nconsts"]], args[p["cond_nconsts"] : p["cond_nconsts"] + p["body_nconsts"]]
    carry = args[p["cond_nconsts"] + p["body_nconsts"] :]
    while True:
        (value,) = eqn.run(p["cond_jaxpr"], [*test, *carry])
        goes_on = concrete(eqn.domain, value)
        if goes_on is None:
            raise Unreadable(
                "its condition depends on the parameters or inputs, so its length is not fixed",
                "loop a constant number of times (`jax.lax.scan`, `jax.lax.fori_loop`)",
            )
        if not goes_on:
            return list(carry)
        carry = eqn.run(p["body_jaxpr"], [*body, *carry])


def branch(eqn: Eqn, args: list[AnyValue]) -> list[AnyValue]:
    """Evaluate the branch that a constant index names; where the index is a value, all of them, and choose."""
    branches = eqn.params["branches"]
    index = concrete(eqn.domain, args[0])
    if index is None:
        return eqn.run(_all_branches(eqn), args)
    return eqn.run(branches[int(np.clip(index, 0, len(branches) - 1))], args[1:])


def _all_branches(eqn: Eqn) -> Any:
    """A choice among the outputs of all branches: a real function has no effect where it is not taken."""
    bodies = [jaxpr_as_fun(as_closed(body)) for body in eqn.params["branches"]]

    def chosen(index: Any, *operands: AnyValue) -> list[AnyValue]:
        outputs = [body(*operands) for body in bodies]
        last = outputs[-1]
        for k in reversed(range(len(bodies) - 1)):
            last = [jax.lax.select(index > k, later, here) for later, here in zip(last, outputs[k], strict=True)]
        return last

    avals = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in eqn.inputs]
    return jax.make_jaxpr(chosen)(*avals)


def rewritten(function: Callable[..., Any]) -> Rule:
    """Read a primitive as the jaxpr of `function(params, *operands)`, in primitives that have rows of their own."""

    def rule(eqn: Eqn[Domain], args: list[AnyValue]) -> list[AnyValue]:
        operands = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in eqn.inputs]
        return eqn.run(jax.make_jaxpr(lambda *xs: function(eqn.params, *xs))(*operands), args)

    return rule

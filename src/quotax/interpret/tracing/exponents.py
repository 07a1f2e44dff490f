"""`exp(z - log s)` is `exp(z) / s` where `s` is a sum of exponentials: a softmax by its logarithms is a softmax.

So it is for `logsumexp`, which adds to the logarithm a maximum that it took away before, and where a call of its own
makes the difference, as `log_softmax` is one. Of an `s` that is not seen to be positive nothing is said: where it is
negative the logarithm has no value, and the quotient has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from quotax.interpret.domain import AnyValue
from quotax.interpret.tracing.provenance import written_at
from quotax.programs.jaxprs import CALLS, as_closed, needed, rewritten

_MOVES = ("broadcast_in_dim", "reshape", "squeeze", "stop_gradient", "copy")
"""Primitives that keep entries as they are; their operand is the first."""

Made = Mapping[Any, Any]


def as_quotients(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with quotients in the place of such exponentials, in nested ones too; itself where there are none."""
    read = rewritten(closed, _quotient)
    return closed if read is closed else needed(read)


def _quotient(equation: Any, made: Made) -> Any:
    """The equation as a quotient; None for any other."""
    if equation.primitive.name != "exp":
        return None
    inner = _maker(equation.invars[0], made)
    if inner is None:
        return None
    if inner.primitive.name in CALLS:
        return _behind_a_call(equation, inner)
    if inner.primitive.name != "sub":
        return None
    numerator, below = inner.invars
    outer, atom = _moved(below, made)
    added, last = None, _maker(atom, made)
    if last is not None and last.primitive.name == "add":
        for one, other in (last.invars, last.invars[::-1]):
            if (here := _logarithm(one, made)) is not None and _shape(one) == _shape(other) == _shape(atom):
                found, added = here, other
                break
        else:
            return None
    elif (found := _logarithm(atom, made)) is None:
        return None
    moves, sum_of = found
    if not _positive(sum_of, made) or _shape(numerator) != _shape(inner.outvars[0]):
        return None
    if added is not None and isinstance(added, Literal):
        return None
    while (maker := _maker(sum_of, made)).primitive.name == "abs":
        sum_of = maker.invars[0]

    def quotient(z: Any, s: Any, *more: Any) -> Any:
        z = z - outer(more[0]) if more else z
        return jnp.exp(z) / outer(moves(s))

    return _called(equation, quotient, [numerator, sum_of, *([] if added is None else [added])])


def _behind_a_call(equation: Any, call: Any) -> Any:
    """The exponential of what a call makes, where it is such a quotient inside of the call."""
    body = as_closed(call.params[CALLS[call.primitive.name]])
    place = call.outvars.index(equation.invars[0])
    if len(body.jaxpr.invars) != len(call.invars) or any(isinstance(a, Literal) for a in call.invars):
        return None
    whole = _called(equation, lambda *xs: jnp.exp(jaxpr_as_fun(body)(*xs)[place]), call.invars)
    inside = whole.params["jaxpr"]
    read = as_quotients(inside)
    return None if read is inside else whole.replace(params={**whole.params, "jaxpr": read})


def _called(equation: Any, function: Callable[..., Any], atoms: Sequence[Any]) -> Any:
    """A call of a function in the place of an equation."""
    like = [jax.ShapeDtypeStruct(a.aval.shape, a.aval.dtype, weak_type=a.aval.weak_type) for a in atoms]
    with written_at(equation):
        call = jax.make_jaxpr(jax.jit(function))(*like).jaxpr.eqns[0]
    return call.replace(invars=list(atoms), outvars=equation.outvars)


def _maker(atom: Any, made: Made) -> Any:
    return None if isinstance(atom, Literal) else made.get(atom)


def _shape(atom: Any) -> Any:
    return atom.aval.shape


def _moved(atom: Any, made: Made) -> tuple[Callable[[Any], Any], Any]:
    """What an atom is the same entries of, and how it is made of that."""
    steps: list[Any] = []
    while (maker := _maker(atom, made)) is not None and maker.primitive.name in _MOVES and len(maker.invars) == 1:
        steps.append(maker)
        atom = maker.invars[0]

    def again(value: AnyValue) -> Any:
        for step in reversed(steps):
            value = step.primitive.bind(value, **step.params)
        return value

    return again, atom


def _logarithm(atom: Any, made: Made) -> tuple[Callable[[Any], Any], Any] | None:
    """What an atom is the logarithm of, and how that is moved into its shape."""
    moves, inner = _moved(atom, made)
    maker = _maker(inner, made)
    if maker is None or maker.primitive.name != "log":
        return None
    return moves, maker.invars[0]


def _positive(atom: Any, made: Made) -> bool:
    """Whether a value is seen to be positive: made of exponentials by sums, products, quotients and moves."""
    maker = _maker(atom, made)
    if maker is None:
        return False
    name = maker.primitive.name
    if name == "exp":
        return True
    if name in (*_MOVES, "reduce_sum", "abs", "convert_element_type", "transpose", "sqrt"):
        return _positive(maker.invars[0], made)
    return name in ("add", "mul", "div") and all(_positive(a, made) for a in maker.invars)

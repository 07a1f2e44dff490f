"""The sign bit of a float, `signbit(x)`, is a comparison: a real number has it where it is below zero.

JAX reads it off the bits of the number, which are no function of a real one, as `convert(bitcast(x) >> 63, bool)`. Zero
has two signs in floats and none among the reals, as every certificate assumes.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal

from quotax.programs.jaxprs import as_closed, bodies, needed


def comparing(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with comparisons in the place of sign bits, in nested ones too; itself where there are none."""
    read = _rewritten(closed)
    return closed if read is closed else needed(read)


def _rewritten(closed: Any) -> Any:
    jaxpr = as_closed(closed).jaxpr
    made = {v: e for e in jaxpr.eqns for v in e.outvars}
    equations = []
    for equation in jaxpr.eqns:
        number = _sign_of(equation, made)
        if number is not None:
            origin = np.zeros((), number.aval.dtype)
            zero = Literal(origin[()], jax.typeof(origin))
            equations.append(equation.replace(primitive=lax.lt_p, invars=[number, zero], params={}))
            continue
        params = {name: _inside(value) for name, value in equation.params.items()}
        same = all(params[name] is value for name, value in equation.params.items())
        equations.append(equation if same else equation.replace(params=params))
    if all(a is b for a, b in zip(equations, jaxpr.eqns, strict=True)):
        return closed
    rewritten = jaxpr.replace(eqns=equations)
    return ClosedJaxpr(rewritten, closed.consts) if isinstance(closed, ClosedJaxpr) else rewritten


def _sign_of(equation: Any, made: dict[Any, Any]) -> Any:
    """The number whose sign bit an equation gives as a truth value; None for any other equation."""
    if equation.primitive.name != "convert_element_type" or equation.outvars[0].aval.dtype != np.bool_:
        return None
    shift = None if isinstance(equation.invars[0], Literal) else made.get(equation.invars[0])
    if shift is None or shift.primitive.name not in ("shift_right_arithmetic", "shift_right_logical"):
        return None
    bits, by = shift.invars
    cast = None if isinstance(bits, Literal) else made.get(bits)
    if cast is None or cast.primitive.name != "bitcast_convert_type" or not isinstance(by, Literal):
        return None
    (number,) = cast.invars
    before, after = number.aval, cast.outvars[0].aval
    floats = jax.numpy.issubdtype(before.dtype, np.floating) and before.shape == after.shape
    last = not np.ndim(by.val) and int(by.val) == 8 * before.dtype.itemsize - 1
    return number if floats and last else None


def _inside(value: Any) -> Any:
    if not bodies(value):
        return value
    if isinstance(value, (list, tuple)):
        parts = [_inside(part) for part in value]
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else type(value)(parts)
    return _rewritten(value)

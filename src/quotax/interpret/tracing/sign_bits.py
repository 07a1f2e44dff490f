"""The sign bit of a float, `signbit(x)`, is a comparison: a real number has it where it is below zero.

JAX reads it off the bits of the number, which are no function of a real one, as `convert(bitcast(x) >> 63, bool)`. Zero
has two signs in floats and none among the reals, as every certificate assumes.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var

from quotax.programs.jaxprs import Atom, needed, rewritten, shaped


def comparing(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with comparisons in the place of sign bits, in nested ones too; itself where there are none."""
    read = rewritten(closed, _comparison)
    return closed if read is closed else needed(read)


def _comparison(equation: JaxprEqn, made: Mapping[Var, JaxprEqn]) -> JaxprEqn | None:
    number = _sign_of(equation, made)
    if number is None:
        return None
    origin = np.zeros((), shaped(number).dtype)
    zero = Literal(origin[()], jax.typeof(origin))
    return equation.replace(primitive=lax.lt_p, invars=[number, zero], params={})


def _sign_of(equation: JaxprEqn, made: Mapping[Var, JaxprEqn]) -> Atom | None:
    """The number whose sign bit an equation gives as a truth value; None for any other equation."""
    if equation.primitive.name != "convert_element_type" or shaped(equation.outvars[0]).dtype != np.bool_:
        return None
    shift = None if isinstance(equation.invars[0], Literal) else made.get(equation.invars[0])
    if shift is None or shift.primitive.name not in ("shift_right_arithmetic", "shift_right_logical"):
        return None
    bits, by = shift.invars
    cast = None if isinstance(bits, Literal) else made.get(bits)
    if cast is None or cast.primitive.name != "bitcast_convert_type" or not isinstance(by, Literal):
        return None
    (number,) = cast.invars
    before, after = shaped(number), shaped(cast.outvars[0])
    floats = jax.numpy.issubdtype(before.dtype, np.floating) and before.shape == after.shape
    last = not np.ndim(by.val) and int(by.val) == 8 * before.dtype.itemsize - 1
    return number if floats and last else None

"""`jnp.hypot(a, b)` is the root of `a^2 + b^2`; of a hypotenuse and `c`, that of `a^2 + b^2 + c^2`.

JAX divides by the larger of the two so that no square overflows, and asks first whether that is zero: a program of
maxima and choices in which the sum of two squares is not to be seen. It is known by its body, which is the one that
JAX makes of two arrays like these, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var

from quotax.interpret.tracing.provenance import written_at
from quotax.programs.jaxprs import CALLS, Atom, as_closed, needed, rewritten, shaped


def as_roots(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with roots in the place of hypotenuses, in nested ones too; itself where there are none."""
    read = rewritten(closed, _root)
    return closed if read is closed else needed(read)


def _root(equation: JaxprEqn, made: Mapping[Var, JaxprEqn]) -> JaxprEqn | None:
    """The equation as a root of squares; None for any other equation."""
    if not _is_hypotenuse(equation):
        return None
    sides = _sides(equation, made)

    def length(*values: jax.Array) -> jax.Array:
        squares = [jnp.square(v.astype(shaped(equation.outvars[0]).dtype)) for v in values]
        total = squares[0]
        for square in squares[1:]:
            total = total + square
        return jnp.sqrt(total)

    with written_at(equation):
        call = jax.make_jaxpr(jax.jit(length))(*(_like(side) for side in sides)).jaxpr.eqns[0]
    return call.replace(invars=sides, outvars=equation.outvars)


def _sides(equation: JaxprEqn, made: Mapping[Var, JaxprEqn]) -> list[Atom]:
    """What is squared: of a hypotenuse of hypotenuses, all that they are made of."""
    out = []
    for side in equation.invars:
        inner = None if isinstance(side, Literal) else made.get(side)
        out += _sides(inner, made) if inner is not None and _is_hypotenuse(inner) else [side]
    return out


def _is_hypotenuse(equation: JaxprEqn) -> bool:
    if equation.primitive.name not in CALLS or len(equation.invars) != 2 or len(equation.outvars) != 1:
        return False
    body = as_closed(equation.params[CALLS[equation.primitive.name]])
    if body.consts or [e.primitive.name for e in body.jaxpr.eqns].count("sqrt") != 1:
        return False
    try:
        theirs = jax.make_jaxpr(jnp.hypot)(*map(_like, equation.invars)).jaxpr.eqns
    except Exception:  # of integers, complex numbers or keys: no two reals
        return False
    return len(theirs) == 1 and str(as_closed(theirs[0].params["jaxpr"]).jaxpr) == str(body.jaxpr)


def _like(atom: Atom) -> jax.ShapeDtypeStruct:
    kind = shaped(atom)
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=kind.weak_type)

"""A function that runs in single precision alone, as the same steps in double precision, in which models are read.

Cells that begin with zeros of a type of their own refuse to go on in another: a scan carries one type. Such a function
is traced as its user runs it, and every step of that trace is taken again with float64 in the place of float32. The
steps are the user's; only what a type rounds is different. A constant is the shortest decimal number that is the same
in single precision: what was written as 1e-5 is 1e-5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from quotax.programs.jaxprs import CALLS, Program, Setting, as_closed, bodies, inside, is_key, shaped
from quotax.trees import AnyArray, Tree

_BITS = "bitcast_convert_type"
"""What reads bits reads those of the type that it was written for."""


def widened(function: Callable[..., Tree]) -> Callable[..., Tree]:
    """The function on float64 arrays, by the steps that it takes on float32 ones."""

    def run(*arguments: Tree) -> Tree:
        leaves, structure = jax.tree.flatten(arguments)
        flat = lambda *arrays: function(*jax.tree.unflatten(structure, arrays))
        with jax.enable_x64(False):
            closed, outputs = jax.make_jaxpr(flat, return_shape=True)(*map(_narrow, leaves))
        return jax.tree.unflatten(jax.tree.structure(outputs), _again(closed, leaves))

    return run


def _narrow(array: AnyArray) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(jnp.shape(array), np.float32 if array.dtype == np.float64 else array.dtype)


def _again(program: Jaxpr | ClosedJaxpr, arguments: Sequence[AnyArray]) -> list[AnyArray]:
    """The steps of a program, in double precision."""
    closed = as_closed(program)
    known = dict(zip(closed.jaxpr.invars, arguments, strict=True))
    known |= {v: _wide(c) for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True)}
    read = lambda atom: _written(atom.val) if isinstance(atom, Literal) else known[atom]
    for equation in closed.jaxpr.eqns:
        name, settings = equation.primitive.name, equation.params
        values = [read(atom) for atom in equation.invars]
        if name in CALLS:
            inner = as_closed(settings[CALLS[name]])
            outputs = _again(inner, values[len(values) - len(inner.jaxpr.invars) :])
        elif name == _BITS:
            given = [
                jax.lax.convert_element_type(v, shaped(a).dtype) for v, a in zip(values, equation.invars, strict=True)
            ]
            outputs = [_wide(equation.primitive.bind(*given, **settings))]
        else:
            made = equation.primitive.bind(*values, **{key: _setting(value) for key, value in settings.items()})
            outputs = made if equation.primitive.multiple_results else [made]
        known.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in closed.jaxpr.outvars]


def _setting(value: Setting) -> Setting:
    """A setting of a step: types are wider, and bodies take their steps in double precision too."""
    if bodies(value):
        return inside(value, _widened)
    return np.dtype(np.float64) if isinstance(value, (np.dtype, type)) and value == np.float32 else value


def _widened(body: Program) -> Program:
    closed = as_closed(body)
    wider = [_wider(shaped(variable)) for variable in closed.jaxpr.invars]
    again = jax.make_jaxpr(lambda *arrays: _again(closed, arrays))(*wider)
    return cast(Program, again if isinstance(body, ClosedJaxpr) else again.jaxpr)


def _wider(aval: ShapedArray) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, np.float64 if aval.dtype == np.float32 else aval.dtype)


def _wide(array: AnyArray) -> AnyArray:
    """An array in double precision, if it is in single precision."""
    if is_key(array) or array.dtype != np.float32:
        return array
    return array.astype(np.float64)


def _written(number: AnyArray) -> AnyArray:
    """A constant as it was written: the shortest decimal number that float32 takes for it."""
    if getattr(number, "dtype", None) != np.float32:
        return number
    return _wide(np.asarray(number)) if np.shape(number) else np.float64(str(np.float32(number)))

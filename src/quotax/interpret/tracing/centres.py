r"""About which number a parameter is used: `w` in `x (1 + w)` about -1, in `x (w / 3 - 1/2)` about 3/2.

If a program reads a parameter through `a w + c` alone, with numbers `a` and `c`, it is a function of $s = w + c/a$, and
what can be found and proved of a parameter that is used as it is can be found and proved of `s`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from quotax.artifacts import OpenTrace, Trace
from quotax.interpret.constants import simplest_rational
from quotax.programs.jaxprs import CALLS, IDENTITIES, bare, is_key, live, shaped

_MOVES = frozenset((
    *IDENTITIES, "broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "slice", "rev", "gather",
    "dynamic_slice", "reduce_precision",
))  # fmt: skip
"""Primitives whose entries are entries of their first operand."""


class _Affine(NamedTuple):
    """`a w + c`."""

    parameter: str
    a: Fraction
    c: Fraction


_Value = _Affine | Fraction | None
"""What is known of an array: a parameter through numbers, one number everywhere, or nothing."""


def centres(trace: Trace | OpenTrace) -> dict[str, Fraction]:
    """The number `r` of each parameter that is read as a multiple of `w + r` alone, unless it is zero.

    >>> import quotax as qx
    >>> scaled = lambda p, x: (2 * p["w"] + 1) * x * p["v"]
    >>> model = qx.architecture(params={"w": "h", "v": "h"}, inputs={"x": "h"})(scaled)
    >>> centres(model.trace({"h": 3}))
    {'w': Fraction(1, 2)}
    """
    found: dict[str, set[Fraction]] = {}
    names: list[_Value] = [_Affine(spec.name, Fraction(1), Fraction(0)) for spec in trace.params]
    others: list[_Value] = [None] * len(trace.inputs)
    constants = [_number(value) for value in trace.jaxpr.consts]
    for value in _followed(trace.jaxpr.jaxpr, constants, [*names, *others], found):
        _used(value, found)
    real = [spec.name for spec in trace.params if spec.kind == "real"]
    return {name: r for name in real if len(of := found.get(name, ())) == 1 for r in of if r}


def _followed(
    jaxpr: Jaxpr, constants: Sequence[_Value], arguments: Sequence[_Value], found: dict[str, set[Fraction]]
) -> list[_Value]:
    """What is known of a program's outputs; where it reads a parameter otherwise than through numbers is noted."""
    known: dict[Var, _Value] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))
    read = lambda atom: _number(atom.val) if isinstance(atom, Literal) else known.get(atom)
    for equation in live(jaxpr):
        values = [read(atom) for atom in equation.invars]
        if any(value is not None for value in values):
            known.update(zip(equation.outvars, _results(equation, values, found), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _results(equation: JaxprEqn, values: list[_Value], found: dict[str, set[Fraction]]) -> list[_Value]:
    """What is known of the results of one equation."""
    name, settings, outputs = equation.primitive.name, equation.params, len(equation.outvars)
    if name in CALLS and len(values) == len(bare(settings[CALLS[name]]).invars):
        body = settings[CALLS[name]]
        return _followed(bare(body), [_number(c) for c in getattr(body, "consts", ())], values, found)
    if name == "scan":
        body, consts, carried = settings["jaxpr"], settings["num_consts"], settings["num_carry"]
        for value in values[consts : consts + carried]:
            _used(value, found)
        inner = [v if not consts <= k < consts + carried else None for k, v in enumerate(values)]
        for value in _followed(bare(body), [_number(c) for c in body.consts], inner, found):
            _used(value, found)
        return [None] * outputs
    result = _computed(name, equation, values)
    if result is None:
        for value in values:
            _used(value, found)
    return [result] * outputs


def _computed(name: str, equation: JaxprEqn, values: list[_Value]) -> _Value:
    """An affine function of one parameter, or a number, where that is what a primitive makes of such."""
    first, *rest = values
    if name == "convert_element_type":
        kinds = {np.dtype(shaped(atom).dtype).kind for atom in (equation.invars[0], *equation.outvars)}
        return first if isinstance(first, Fraction) or kinds <= {"f", "V"} else None
    if name in _MOVES:
        return first
    if name == "neg":
        return _scaled(first, Fraction(-1))
    if name not in ("add", "add_any", "sub", "mul", "div") or len(rest) != 1:
        return None
    (second,) = rest
    if isinstance(first, _Affine) and isinstance(second, _Affine):
        return None
    if name == "sub":
        name, second = "add", _scaled(second, Fraction(-1))
    if name == "div":
        if not isinstance(second, Fraction) or not second:
            return None
        name, second = "mul", 1 / second
    if isinstance(first, Fraction):
        first, second = second, first
    if first is None or not isinstance(second, Fraction):
        return None
    if name == "mul":
        return _scaled(first, second)
    return first._replace(c=first.c + second) if isinstance(first, _Affine) else first + second


def _scaled(value: _Value, a: Fraction) -> _Value:
    if isinstance(value, _Affine):
        return value._replace(a=a * value.a, c=a * value.c) if a else None
    return None if value is None else a * value


def _used(value: _Value, found: dict[str, set[Fraction]]) -> None:
    if isinstance(value, _Affine):
        found.setdefault(value.parameter, set()).add(value.c / value.a)


def _number(value: object) -> Fraction | None:
    """The number that an array is everywhere."""
    if is_key(value) or (not hasattr(value, "dtype") and not isinstance(value, int | float)):
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "fi" or not array.size or not np.all(array == array.flat[0]):
        return None
    one = array.flat[0]
    if array.dtype.kind == "i":
        return Fraction(int(one))
    return simplest_rational(one if array.dtype != np.float64 else float(one)) if np.isfinite(one) else None

"""What a value that has conditions is all the same: one function, entry by entry, of values that have none.

`isnan(log(b))` is a truth value for every b. Of `log(b)` a formula speaks only where b > 0; of the whole nothing has to
be known but that it is computed from one entry of b: it moves as that entry does. Such a function has no law.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import sympy as sp

from quotax.interpret.laws.tensors import Known, Source, Tensor, Value
from quotax.kernel.polynomials import Algebra, Key, Poly, key_of
from quotax.kernel.sheet import Function, node

_NAMES = """
    add add_any sub mul neg div max min clamp square sqrt rsqrt integer_pow pow rem abs sign floor ceil round exp exp2
    log log1p expm1 logistic sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc erf_inv cbrt
    convert_element_type eq ne lt le gt ge is_finite and or xor not select_n
"""
POINTWISE = frozenset(_NAMES.split())
"""Primitives whose entries are functions of the entries at the same place."""
SAME = frozenset(("copy", "stop_gradient", "optimization_barrier", "name", "reduce_precision"))
"""Primitives that keep a value."""
GUARD = "guard"
"""The name of such functions."""
_UNSAID = ("sharding", "weak_type", "accuracy")


Equation: TypeAlias = Any
"""`writing.Eqn`, which stands above this file."""

Leaves: TypeAlias = dict[Key, tuple[sp.Symbol, Poly]]
"""Symbols for polynomials, by what these are."""


def source(eqn: Equation, args: Sequence[Value], value: Tensor) -> Source | None:
    """The function that a result is of values without conditions; None where it is not followed, or has none itself."""
    name = eqn.primitive.name
    if name in SAME:
        return args[0].source if isinstance(args[0], Tensor) else None
    if name not in POINTWISE or not (value.assumed or any(isinstance(a, Tensor) and a.assumed for a in args)):
        return None
    leaves: Leaves = {}
    inner: list[sp.Expr] = []
    for arg in args:
        expression = _constant(arg) if isinstance(arg, Known) else _followed(eqn.algebra, leaves, arg, value)
        if expression is None:
            return None
        inner.append(expression)
    if name == "convert_element_type" and eqn.kinds == ("f",) and eqn.out_kind == "f":
        whole = inner[0]
    else:
        whole = sp.Function(_name(eqn))(*inner)
    symbols, polys = tuple(z for z, _ in leaves.values()), tuple(p for _, p in leaves.values())
    return Source(whole, symbols, polys, (key_of(value.poly), value.dims))


def known(value: Tensor) -> Source | None:
    """The source of a value, unless it is that of another value that this one was made of."""
    made = value.source
    return made if made is not None and made.of == (key_of(value.poly), value.dims) else None


def together(algebra: Algebra, predicate: Poly, cases: Sequence[Tensor]) -> Poly | None:
    """An entry that is a function of a predicate and of all that the cases with conditions are functions of."""
    leaves: Leaves = {}
    _leaf(leaves, predicate)
    for case in cases:
        made = known(case)
        if case.assumed and made is None:
            return None
        for poly in made.leaves if made is not None else ():
            _leaf(leaves, poly)
    symbols = tuple(z for z, _ in leaves.values())
    entry = node(algebra, Function(sp.Function("choice")(*symbols), symbols, "choice"), [p for _, p in leaves.values()])
    return entry if entry and next(iter(entry)) else None


def opaque(algebra: Algebra, made: Source) -> Poly:
    """The function as one atom, of truth values."""
    return node(algebra, Function(made.expression, made.symbols, GUARD), made.leaves, True)


def _followed(algebra: Algebra, leaves: Leaves, arg: Tensor, value: Tensor) -> sp.Expr | None:
    """What an operand is of the leaves: one of them itself, or its own function of some."""
    if arg.dims != value.dims and algebra.free_in(arg.poly):
        return None
    if not arg.assumed:
        return None if arg.guards else _leaf(leaves, arg.poly)
    made = known(arg)
    if made is None:
        return None
    return made.expression.xreplace({z: _leaf(leaves, p) for z, p in zip(made.symbols, made.leaves, strict=True)})


def _leaf(leaves: Leaves, poly: Poly) -> sp.Symbol:
    return leaves.setdefault(key_of(poly), (sp.Symbol(f"z{len(leaves)}", real=True), poly))[0]


def _constant(arg: Known) -> sp.Expr | None:
    array = np.asarray(arg.array)
    if array.size == 0 or not (array == array.flat[0]).all():
        return None
    value = array.flat[0]
    if np.isfinite(value):
        exact = Fraction(float(value))
        return sp.Rational(exact.numerator, exact.denominator)
    return sp.Function("constant_" + re.sub(r"\W", "m", str(float(value))))()


def _name(eqn: Equation) -> str:
    dtypes = [str(aval.dtype) for aval in (*eqn.inputs, *eqn.outputs)]
    settings = [f"{k}_{v}" for k, v in sorted(eqn.params.items()) if k not in _UNSAID]
    # every sign is spelled, so that other settings are another function
    return re.sub(r"\W", lambda sign: f"_{ord(sign[0]):x}", "_".join((eqn.primitive.name, *dtypes, *settings)))

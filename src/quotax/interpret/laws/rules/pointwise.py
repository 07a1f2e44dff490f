"""Elementwise functions: their operands at one shape, and the value as one atom."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

import jax
import numpy as np
import sympy as sp

from quotax.elementwise import FUNCTIONS, Elementwise
from quotax.interpret.laws import tensors
from quotax.interpret.laws.tensors import Known, NoLaw, Tensor, Value
from quotax.interpret.laws.writing import Eqn, uniform
from quotax.kernel.atoms import Infinite, Real
from quotax.kernel.polynomials import UNIT, Poly, rational, sign_of
from quotax.kernel.sheet import Function, node
from quotax.kernel.sizes import ONE, Size


def variables(count: int) -> tuple[sp.Symbol, ...]:
    """The symbols of a function's arguments."""
    return tuple(sp.Symbol(f"z{k}", real=True) for k in range(count))


def operands(eqn: Eqn, args: Sequence[Value]) -> list[Tensor]:
    """The operands at the output's shape: a scalar, or a dimension of size one, is an index that does not occur."""
    shape = eqn.out_shape
    rank = len(shape)
    dims: list[tuple[Size, ...]] = [() if s == ONE else (s,) for s in shape]
    for k, arg in enumerate(args):
        if isinstance(arg, Tensor) and len(arg.dims) == rank:
            for d, size in enumerate(shape):
                if arg.dims[d] and eqn.shape(k)[d] == size:
                    dims[d] = tuple(tensors.common_factors(dims[d], arg.dims[d])[1])
    out: list[Tensor] = []
    for k, arg in enumerate(args):
        own = eqn.shape(k)
        if len(own) not in (0, rank):
            raise NoLaw("its operands have different ranks")
        spread = len(own) == rank and rank > 0
        full = [spread and own[d] == size for d, size in enumerate(shape)]
        wanted = tuple(f if kept else () for f, kept in zip(dims, full, strict=True))
        if isinstance(arg, Known):
            arg = eqn.writer.tensor(arg, wanted if spread else None)
        value = arg if spread else Tensor(((),) * rank, arg.poly, arg.assumed, arg.guards, arg.compared)
        fine = tensors.refined(eqn.algebra, value, wanted)
        source = arg.source if arg.dims == tuple(dims) else None
        out.append(Tensor(tuple(dims), fine.poly, arg.assumed, arg.guards, fine.compared, source=source))
    return out


def one_number(eqn: Eqn, arg: Value) -> float | np.generic | None:
    """The number that all entries of an operand are, as NumPy has it; None when there is none."""
    if isinstance(arg, Known):
        array = np.asarray(arg.array)
        return array.flat[0] if uniform(array) else None
    found = rational(arg.poly)
    if found is not None:
        return float(found) if found.denominator > 1 else int(found)
    return infinity(eqn, arg.poly)


def infinity(eqn: Eqn, poly: Poly) -> float | None:
    """The infinity that a polynomial is, if it is one."""
    if len(poly) != 1:
        return None
    ((term, coefficient),) = poly.items()
    if len(term) != 1 or term[0].power != 1:
        return None
    what = eqn.algebra.atoms[term[0].atom].what
    return float(coefficient) * what.value if isinstance(what, Infinite) and isinstance(what.value, float) else None


def scalar_function(eqn: Eqn, args: Sequence[Value]) -> tuple[Function, list[int]]:
    """The primitive as a SymPy function of those arguments that are not plain numbers; and which ones those are."""
    inline = {k: v for k, arg in enumerate(args) if (v := one_number(eqn, arg)) is not None}
    kept = [k for k in range(len(args)) if k not in inline]
    symbols = variables(len(kept))
    shaped = [jax.ShapeDtypeStruct((), _wide(aval.dtype)) for aval in eqn.inputs]
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(lambda *xs: eqn.primitive.bind(*xs, **eqn.params))(*shaped)
    values = []
    for k in range(len(args)):
        if k in inline:
            values.append(np.asarray(inline[k], _wide(eqn.inputs[k].dtype)))
        elif eqn.kind(k) == "b":
            values.append(np.array(sp.Ne(symbols[kept.index(k)], 0), dtype=object))
        else:
            values.append(np.array(symbols[kept.index(k)], dtype=object))
    (out,) = eqn.writer.expressions(closed, values)
    value = out[()] if isinstance(out, np.ndarray) else out
    if isinstance(value, (bool, np.bool_)):
        value = sp.true if value else sp.false
    if value in (sp.true, sp.false):
        value = sp.Integer(1 if value == sp.true else 0)
    value = sp.sympify(value)
    if not isinstance(value, sp.Expr):
        value = sp.Piecewise((1, value), (0, True))
    return Function(value, symbols, eqn.primitive.name), kept


def _wide(dtype: np.dtype) -> np.dtype:
    """Reals are read without their precision."""
    return np.dtype(np.float64) if jax.numpy.issubdtype(dtype, np.floating) else dtype


def generic(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Any elementwise primitive with a symbolic meaning."""
    if "i" in eqn.kinds and eqn.primitive.name not in ("eq", "ne", "lt", "le", "gt", "ge", "select_n"):
        return opaque(eqn, args)
    expression, kept = scalar_function(eqn, args)
    values = operands(eqn, args)
    out = applied(eqn, expression, [values[k] for k in kept], values[0].dims)
    function = FUNCTIONS.get(eqn.primitive.name)
    if function is None or not function.where or (values and _defined(eqn, function, values[0])):
        return [out]
    return [out.assuming(f"{function.where}, at {eqn.place}")]


def _defined(eqn: Eqn, function: Elementwise, value: Tensor) -> bool:
    """Whether what a function reads is known to be in its domain, as `log1p(exp(-|x|))` reads what is positive."""
    if function.above is None or value.assumed or value.guards:
        return False
    return sign_of(eqn.algebra, eqn.algebra.add(value.poly, UNIT, -function.above)) == "positive"


def opaque(eqn: Eqn, args: list[Value]) -> list[Value]:
    """A function of which nothing is known but that it acts entry by entry: integers may overflow, bits have no law."""
    values = operands(eqn, args)
    symbols = variables(len(values))
    dtypes = "_".join(str(aval.dtype) for aval in (*eqn.inputs, *eqn.outputs))
    settings = sorted((k, str(v)) for k, v in eqn.params.items() if k not in ("sharding", "new_dtype", "weak_type"))
    name = f"{eqn.primitive.name}_{dtypes}" + "".join(f"_{k}_{re.sub(r'[^0-9a-zA-Z]', '_', v)}" for k, v in settings)
    expression = sp.Function(name)(*symbols)
    return [applied(eqn, Function(expression, symbols, name), values, values[0].dims)]


def applied(eqn: Eqn, function: Function, args: Sequence[Tensor], dims: tensors.Dims) -> Tensor:
    """The function of tensors of one shape."""
    if not args or function.expression.is_number:
        expression = function.expression
        if expression.is_Rational:
            return Tensor(dims, eqn.writer.number(float(expression)) if expression.q != 1 else _whole(expression))
        if not expression.is_finite or expression.free_symbols:
            return Tensor(dims, eqn.writer.number(float(expression)))
        made = eqn.algebra.atoms.make(
            ("real", expression),
            Real(expression),
            str(expression),
            (),
            sign="positive" if expression.is_positive else "real",
        )
        return Tensor(dims, eqn.algebra.entry(made, ()))
    return Tensor(dims, node(eqn.algebra, function, [a.poly for a in args], eqn.out_kind == "b"))


def _whole(value: sp.Rational) -> Poly:
    return {(): Fraction(int(value.p))} if value else {}

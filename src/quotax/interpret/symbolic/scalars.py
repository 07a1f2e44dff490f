"""Functions of SymPy numbers as JAX means them: infinities, masks and NaN included.

Invariant: an entry is a finite expression, or exactly one of oo, -oo, nan, or a `Piecewise` with such branches (a
mask that depends on an input). Infinities never hide inside sums or products, so `exp(z - oo)` is 0, not an
unevaluated form. Everything is built without SymPy's slow evaluations: `Max`, `Piecewise` and `Abs` are made as they
stand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import sympy as sp
from sympy.core.numbers import Infinity, NaN, NegativeInfinity
from sympy.functions.elementary.piecewise import Piecewise

from quotax.elementwise import Elementwise, formula
from quotax.interpret.domain import Unreadable
from quotax.interpret.symbolic.bounds import is_nonnegative, is_positive

Scalar = Callable[..., sp.Basic]
INFINITE = (Infinity, NegativeInfinity)
_SPECIAL = (Infinity, NegativeInfinity, NaN, Piecewise)
TRUE, FALSE = sp.true, sp.false


def is_special(e: sp.Basic) -> bool:
    """Whether an entry may be infinite or undefined, so that it needs care."""
    return isinstance(e, _SPECIAL)


def is_improper(e: sp.Basic) -> bool:
    """Whether an entry is infinite or undefined on some branch: a mask that depends on an input."""
    return isinstance(e, Piecewise) and any(isinstance(b, (*INFINITE, NaN)) or is_improper(b) for b, _ in e.args)


def choose(condition: sp.Basic, then: sp.Basic, otherwise: sp.Basic) -> sp.Basic:
    """`then` where the condition holds, `otherwise` elsewhere."""
    if condition is TRUE or then == otherwise:
        return then
    if condition is FALSE:
        return otherwise
    rest = otherwise.args if isinstance(otherwise, Piecewise) else ((otherwise, True),)
    return Piecewise((then, condition), *rest, evaluate=False)


def extended(finite: Scalar, limit: Scalar) -> Scalar:
    """A function on finite expressions, continued by `limit` to infinite ones, branch by branch through masks."""

    def scalar(*args: sp.Basic) -> sp.Basic:
        if not any(isinstance(e, _SPECIAL) for e in args):
            return finite(*args)
        for position, e in enumerate(args):
            if is_improper(e):
                branches = [(scalar(*args[:position], b, *args[position + 1 :]), c) for b, c in e.args]
                if all(b == branches[0][0] for b, _ in branches):
                    return branches[0][0]
                return Piecewise(*branches, evaluate=False)
        if any(isinstance(e, NaN) for e in args):
            return sp.nan
        return limit(*args) if any(isinstance(e, INFINITE) for e in args) else finite(*args)

    return scalar


def _at_infinity(function: Scalar) -> Scalar:
    """The function's limit where it has one, else nan, which is also what JAX gives."""

    def limit(e: sp.Basic) -> sp.Basic:
        value = function(e)
        real = value.is_number and value.is_extended_real and not isinstance(value, sp.AccumBounds)
        return value if real else sp.nan

    return limit


def unary(function: Scalar, finite: Scalar | None = None) -> Scalar:
    """A function of one number; `finite` builds it at a finite expression when SymPy's own evaluation is too slow."""
    build = finite or function

    def checked(e: sp.Basic) -> sp.Basic:
        value: sp.Basic = build(e)
        return sp.nan if e.is_Number and not value.is_extended_real else value  # as JAX: sqrt(-1) is nan

    return extended(checked, _at_infinity(function))


def named(function: Scalar, parity: int) -> Scalar:
    """A function of SymPy's; a leading minus goes outside of an odd one and is dropped by an even one, as SymPy has it.

    SymPy evaluates these by asking whether the argument is zero or imaginary: seconds for sums inside an LSTM.
    """

    def build(e: sp.Basic) -> sp.Basic:
        if e.is_Atom:
            return function(e)
        if parity and e.could_extract_minus_sign():
            return parity * build(-e)
        return function(e, evaluate=False)

    return unary(function, build)


# -- arithmetic -------------------------------------------------------------------------------------------------------


def _sign_of(e: sp.Basic) -> int:
    if isinstance(e, Infinity) or is_positive(e):
        return 1
    if isinstance(e, NegativeInfinity) or is_positive(-e):
        return -1
    if e == 0:
        return 0
    raise Unreadable(
        f"an infinite constant is multiplied by {e}, whose sign is not known",
        "select with `jnp.where` instead of multiplying",
    )


def _mul_limit(a: sp.Basic, b: sp.Basic) -> sp.Basic:
    sign = _sign_of(a) * _sign_of(b)
    return sp.nan if sign == 0 else sign * sp.oo


def _add_limit(a: sp.Basic, b: sp.Basic) -> sp.Basic:
    infinite = {e for e in (a, b) if isinstance(e, INFINITE)}
    return infinite.pop() if len(infinite) == 1 else sp.nan


def _divide(a: sp.Basic, b: sp.Basic) -> sp.Basic:
    if b == 0:
        if a.is_Number:
            return sp.nan if a == 0 else sp.sign(a) * sp.oo
        raise Unreadable(f"{a} is divided by the constant 0", "check the sizes and constants that make this divisor")
    return a / b


def _div_limit(a: sp.Basic, b: sp.Basic) -> sp.Basic:
    if not isinstance(b, INFINITE):
        return _mul_limit(a, b) if b != 0 else a
    return sp.nan if isinstance(a, INFINITE) else sp.S.Zero


add = extended(lambda a, b: a + b, _add_limit)
mul = extended(lambda a, b: a * b, _mul_limit)
neg = extended(lambda a: -a, lambda a: -a)
div = extended(_divide, _div_limit)


def sub(a: sp.Basic, b: sp.Basic) -> sp.Basic:
    """`a - b`."""
    return add(a, neg(b)) if is_special(a) or is_special(b) else a - b


def extremum(kind: type[sp.Max | sp.Min], *terms: sp.Basic) -> sp.Basic:
    """`Max` or `Min` of the terms, nested ones merged, the constants among them reduced to one."""
    top, bottom = (Infinity, NegativeInfinity) if kind is sp.Max else (NegativeInfinity, Infinity)
    flat: dict[sp.Basic, None] = {}
    constant = None
    for term in terms:
        for e in term.args if isinstance(term, kind) else (term,):
            if isinstance(e, (top, NaN)):
                return sp.nan if any(isinstance(t, NaN) for t in terms) else e
            if e.is_Number:
                constant = e if constant is None else kind(constant, e)
            else:
                flat[e] = None
    members = list(flat)
    if constant is not None and not (isinstance(constant, bottom) and flat):
        members.insert(0, constant)
    if len(members) == 1:
        return members[0]
    # SymPy's constructor sorts the terms even when told not to evaluate, and that walks the whole tree of each,
    # shared parts once for every path to them. The order of the terms means nothing.
    built = sp.Expr.__new__(kind, *members)
    built._argset = frozenset(members)
    return built


def maximum(*terms: sp.Basic) -> sp.Basic:
    """The largest term."""
    return extremum(sp.Max, *terms)


def minimum(*terms: sp.Basic) -> sp.Basic:
    """The smallest term."""
    return extremum(sp.Min, *terms)


def _no_limit(name: str, *args: sp.Basic) -> sp.Basic:
    raise Unreadable(f"`{name}` is asked for at {args}", "keep infinite constants out of it with `jnp.where`")


def _power(a: sp.Basic, b: sp.Basic) -> sp.Basic:
    if a is sp.S.Zero and not is_positive(b) and b is not sp.S.Zero:
        raise Unreadable(f"0 is raised to the power {b}", "select with `jnp.where` instead")
    value: sp.Basic = a**b
    return sp.nan if a.is_Number and b.is_Number and not value.is_extended_real else value


def _power_limit(a: sp.Basic, b: sp.Basic) -> sp.Basic:
    if not (a.is_number and b.is_number):
        raise Unreadable(f"{a} is raised to the power {b}", "keep infinite constants out of it with `jnp.where`")
    value: sp.Basic = a**b
    return value if value.is_extended_real else sp.nan


power = extended(_power, _power_limit)
angle = extended(sp.atan2, lambda y, x: _no_limit("atan2", y, x))


# -- functions --------------------------------------------------------------------------------------------------------


def _log(e: sp.Basic) -> sp.Basic:
    if e == 0:
        return -sp.oo
    return sp.log(e) if e.is_Atom or isinstance(e, sp.exp) else sp.log(e, evaluate=False)


def _abs(e: sp.Basic) -> sp.Basic:
    if is_nonnegative(e):
        return e
    return sp.Abs(e) if e.is_Atom else sp.Abs(e, evaluate=False)


def _sign(e: sp.Basic) -> sp.Basic:
    if is_positive(e):
        return sp.S.One
    return sp.sign(e) if e.is_Atom else sp.sign(e, evaluate=False)


def _rsqrt(e: sp.Basic) -> sp.Basic:
    return sp.oo if e == 0 else 1 / sp.sqrt(e)


def _cbrt(e: sp.Basic) -> sp.Basic:
    """The real cube root: sign(x) |x|^(1/3), which SymPy's principal root is not for x < 0."""
    third = sp.Rational(1, 3)
    return e**third if is_nonnegative(e) else sign(e) * absolute(e) ** third


def _floor(e: sp.Basic) -> sp.Basic:
    return e if is_integer(e) else sp.floor(e)


def is_integer(e: sp.Basic) -> bool:
    """Whether an entry takes integer values only, as far as its shape shows."""
    if isinstance(e, (sp.Add, sp.Mul, sp.Max, sp.Min)):
        return all(map(is_integer, e.args))
    if isinstance(e, Piecewise):
        return all(is_integer(b) for b, _ in e.args)
    return bool((e.is_Atom or isinstance(e, (sp.floor, sp.ceiling, sp.sign))) and e.is_integer)


def _exp(e: sp.Basic) -> sp.Basic:
    """SymPy's evaluation only where it has something to do: numbers, and terms that are multiples of logarithms.

    Given a long sum that a logarithm is a term of, SymPy would factor all other terms, for minutes.
    """
    if e.is_Atom:
        return sp.exp(e)
    terms = sp.Add.make_args(e)
    logs = [term for term in terms if any(isinstance(factor, sp.log) for factor in sp.Mul.make_args(term))]
    if not logs:
        return sp.exp(e, evaluate=False)
    rest = sp.Add(*(term for term in terms if term not in logs))
    return sp.Mul(*map(sp.exp, logs), sp.exp(rest) if rest.is_Atom else sp.exp(rest, evaluate=False))


exp = unary(sp.exp, _exp)
log = unary(sp.log, _log)
rsqrt = unary(lambda e: 1 / sp.sqrt(e), _rsqrt)
cbrt = unary(lambda e: e, _cbrt)
absolute = unary(sp.Abs, _abs)
sign = unary(sp.sign, _sign)
floor = unary(lambda e: e, _floor)


def ceiling(e: sp.Basic) -> sp.Basic:
    """The least integer that is not less."""
    return neg(floor(neg(e)))


def truncate(e: sp.Basic) -> sp.Basic:
    """The integer part, towards zero."""
    if not is_special(e) and is_integer(e):
        return e
    return floor(e) if is_nonnegative(e) else mul(sign(e), floor(absolute(e)))


def round_half_away(e: sp.Basic) -> sp.Basic:
    """The nearest integer, halves away from zero."""
    return mul(sign(e), floor(add(absolute(e), sp.Rational(1, 2))))


def round_half_even(e: sp.Basic) -> sp.Basic:
    """The nearest integer, halves to the even one: a tie is where `e + 1/2` is an integer; an odd one steps down."""
    up = add(e, sp.Rational(1, 2))
    whole = floor(up)
    if whole.is_Number:
        return whole - 1 if whole == up and whole % 2 == 1 else whole
    tie = sp.And(sp.Eq(up, whole, evaluate=False), sp.Eq(sp.Mod(whole, 2, evaluate=False), 1, evaluate=False))
    return choose(tie, whole - 1, whole)


def remainder(a: sp.Basic, b: sp.Basic) -> sp.Basic:
    """What is left of `a` after the whole multiples of `b` towards zero: it has the sign of `a`, as in C."""
    if a.is_number and b.is_number:
        return a - b * truncate(a / b)
    if is_nonnegative(a) and is_positive(b) and is_integer(a) and is_integer(b):
        return sp.Mod(a, b, evaluate=False)
    return sub(a, mul(b, truncate(div(a, b))))


# -- records ----------------------------------------------------------------------------------------------------------


def recorded(function: Elementwise) -> Scalar:
    """The function of numbers that a record's formula says."""

    def scalar(e: sp.Basic) -> sp.Basic:
        form = formula(function.form)
        return named(form.func, function.parity)(e) if function.sympy and form.is_Function else _at(form, e)

    return scalar


def _at(form: sp.Expr, e: sp.Basic) -> sp.Basic:
    """A formula in z at an entry, node by node."""
    if form.is_Symbol:
        return e
    if form.is_number:
        return form
    args = [_at(part, e) for part in form.args]
    if form.is_Pow:
        return power(*args)
    if form.is_Add or form.is_Mul:
        return reduce(add if form.is_Add else mul, args)
    return {sp.exp: exp, sp.log: log}.get(form.func, unary(form.func))(*args)

"""Functions of SymPy numbers as JAX means them: infinities, masks and NaN included.

Invariant: an entry is a finite expression, or exactly one of oo, -oo, nan, or a `Piecewise` with such branches (a mask
that depends on an input). Infinities never hide inside sums or products, so `exp(z - oo)` is 0 and not an unevaluated form.
Everything is built without SymPy's slow evaluations (`Max`, `Piecewise`, `Abs` and relations are made as they stand).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy as sp
from sympy.core.numbers import Infinity, NaN, NegativeInfinity
from sympy.functions.elementary.piecewise import Piecewise
from sympy.logic.boolalg import BooleanFalse, BooleanTrue

from quotax.interpret.bounds import interval, is_nonnegative, is_positive
from quotax.interpret.domain import Unreadable

Scalar = Callable[..., Any]
_INFINITE = (Infinity, NegativeInfinity)
_SPECIAL = (Infinity, NegativeInfinity, NaN, Piecewise)
TRUE, FALSE = sp.true, sp.false


def is_special(e: Any) -> bool:
    """Whether an entry may be infinite or undefined, so that it needs care."""
    return isinstance(e, _SPECIAL)


def _is_improper(e: Any) -> bool:
    return isinstance(e, Piecewise) and any(isinstance(b, (*_INFINITE, NaN)) or _is_improper(b) for b, _ in e.args)


def choose(condition: Any, then: Any, otherwise: Any) -> Any:
    """`then` where the condition holds, `otherwise` elsewhere."""
    if condition is TRUE or then == otherwise:
        return then
    if condition is FALSE:
        return otherwise
    rest = otherwise.args if isinstance(otherwise, Piecewise) else ((otherwise, True),)
    return Piecewise((then, condition), *rest, evaluate=False)


def extended(finite: Scalar, limit: Scalar) -> Scalar:
    """A function on finite expressions, continued by `limit` to infinite ones, branch by branch through masks."""

    def scalar(*args: Any) -> Any:
        if not any(isinstance(e, _SPECIAL) for e in args):
            return finite(*args)
        for position, e in enumerate(args):
            if _is_improper(e):
                branches = [(scalar(*args[:position], b, *args[position + 1 :]), c) for b, c in e.args]
                if all(b == branches[0][0] for b, _ in branches):
                    return branches[0][0]
                return Piecewise(*branches, evaluate=False)
        if any(isinstance(e, NaN) for e in args):
            return sp.nan
        return limit(*args) if any(isinstance(e, _INFINITE) for e in args) else finite(*args)

    return scalar


def _at_infinity(function: Scalar) -> Scalar:
    """The function's limit where it has one, else nan, which is also what JAX gives."""

    def limit(e: Any) -> Any:
        value = function(e)
        real = value.is_number and value.is_extended_real and not isinstance(value, sp.AccumBounds)
        return value if real else sp.nan

    return limit


def unary(function: Scalar, finite: Scalar | None = None) -> Scalar:
    """A function of one number; `finite` builds it at a finite expression when SymPy's own evaluation is too slow."""
    return extended(finite or function, _at_infinity(function))


# -- arithmetic -------------------------------------------------------------------------------------------------------


def _sign_of(e: Any) -> int:
    if isinstance(e, Infinity) or is_positive(e):
        return 1
    if isinstance(e, NegativeInfinity) or is_positive(-e):
        return -1
    if e.is_zero:
        return 0
    raise Unreadable(f"an infinite constant is multiplied by {e}, whose sign is not known")


def _mul_limit(a: Any, b: Any) -> Any:
    sign = _sign_of(a) * _sign_of(b)
    return sp.nan if sign == 0 else sign * sp.oo


def _add_limit(a: Any, b: Any) -> Any:
    infinite = {e for e in (a, b) if isinstance(e, _INFINITE)}
    return infinite.pop() if len(infinite) == 1 else sp.nan


def _divide(a: Any, b: Any) -> Any:
    if b.is_zero:
        if a.is_Number:
            return sp.nan if a.is_zero else sp.sign(a) * sp.oo
        raise Unreadable(f"{a} is divided by the constant 0")
    return a / b


def _div_limit(a: Any, b: Any) -> Any:
    if not isinstance(b, _INFINITE):
        return _mul_limit(a, b) if not b.is_zero else a
    return sp.nan if isinstance(a, _INFINITE) else sp.S.Zero


add = extended(lambda a, b: a + b, _add_limit)
mul = extended(lambda a, b: a * b, _mul_limit)
neg = extended(lambda a: -a, lambda a: -a)
div = extended(_divide, _div_limit)


def sub(a: Any, b: Any) -> Any:
    """`a - b`."""
    return add(a, neg(b)) if is_special(a) or is_special(b) else a - b


def extremum(kind: Any, *terms: Any) -> Any:
    """`Max` or `Min` of the terms, nested ones merged, the constants among them reduced to one."""
    top, bottom = (Infinity, NegativeInfinity) if kind is sp.Max else (NegativeInfinity, Infinity)
    flat: dict[Any, None] = {}
    constant = None
    for term in terms:
        for e in term.args if isinstance(term, kind) else (term,):
            if isinstance(e, (top, NaN)):
                return sp.nan if any(isinstance(t, NaN) for t in terms) else e
            if e.is_Number:
                constant = e if constant is None else kind(constant, e)
            else:
                flat[e] = None
    if constant is not None and not (isinstance(constant, bottom) and flat):
        flat[constant] = None
    return next(iter(flat)) if len(flat) == 1 else kind(*flat, evaluate=False)


def maximum(*terms: Any) -> Any:
    """The largest term."""
    return extremum(sp.Max, *terms)


def minimum(*terms: Any) -> Any:
    """The smallest term."""
    return extremum(sp.Min, *terms)


def _no_limit(name: str, *args: Any) -> Any:
    raise Unreadable(f"`{name}` is asked for at {args}, where it is not defined here")


def _power(a: Any, b: Any) -> Any:
    if a.is_zero and not is_positive(b) and not b.is_zero:
        raise Unreadable(f"0 is raised to the power {b}")
    return a**b


def _power_limit(a: Any, b: Any) -> Any:
    value = a**b if a.is_number and b.is_number else sp.nan
    return value if value.is_number and value.is_extended_real else sp.nan


power = extended(_power, _power_limit)
angle = extended(sp.atan2, lambda y, x: _no_limit("atan2", y, x))


# -- functions --------------------------------------------------------------------------------------------------------


def _log(e: Any) -> Any:
    if e.is_zero:
        return -sp.oo
    return sp.log(e) if e.is_Atom or isinstance(e, sp.exp) else sp.log(e, evaluate=False)


def _abs(e: Any) -> Any:
    if is_nonnegative(e):
        return e
    return sp.Abs(e) if e.is_Atom else sp.Abs(e, evaluate=False)


def _sign(e: Any) -> Any:
    if is_positive(e):
        return sp.S.One
    return sp.sign(e) if e.is_Atom else sp.sign(e, evaluate=False)


def _rsqrt(e: Any) -> Any:
    return sp.oo if e.is_zero else 1 / sp.sqrt(e)


def _cbrt(e: Any) -> Any:
    """The real cube root: sign(x) |x|^(1/3), which SymPy's principal root is not for x < 0."""
    third = sp.Rational(1, 3)
    return e**third if is_nonnegative(e) else sign(e) * absolute(e) ** third


def _floor(e: Any) -> Any:
    return e if is_integer(e) else sp.floor(e)


def is_integer(e: Any) -> bool:
    """Whether an entry takes integer values only, as far as its shape shows."""
    if isinstance(e, (sp.Add, sp.Mul, sp.Max, sp.Min)):
        return all(map(is_integer, e.args))
    if isinstance(e, Piecewise):
        return all(is_integer(b) for b, _ in e.args)
    return bool((e.is_Atom or isinstance(e, (sp.floor, sp.ceiling, sp.sign))) and e.is_integer)


log = unary(sp.log, _log)
sqrt = unary(sp.sqrt)
rsqrt = unary(lambda e: 1 / sp.sqrt(e), _rsqrt)
cbrt = unary(lambda e: e, _cbrt)
absolute = unary(sp.Abs, _abs)
sign = unary(sp.sign, _sign)
floor = unary(lambda e: e, _floor)


def ceiling(e: Any) -> Any:
    """The least integer that is not less."""
    return neg(floor(neg(e)))


def truncate(e: Any) -> Any:
    """The integer part, towards zero."""
    if not is_special(e) and is_integer(e):
        return e
    return floor(e) if is_nonnegative(e) else mul(sign(e), floor(absolute(e)))


def round_half_away(e: Any) -> Any:
    """The nearest integer, halves away from zero."""
    return mul(sign(e), floor(add(absolute(e), sp.Rational(1, 2))))


def round_half_even(e: Any) -> Any:
    """The nearest integer, halves to the even one: a tie is where `e + 1/2` is an integer; an odd one steps down."""
    up = add(e, sp.Rational(1, 2))
    whole = floor(up)
    if whole.is_Number:
        return whole - 1 if whole == up and whole % 2 == 1 else whole
    tie = sp.And(sp.Eq(up, whole, evaluate=False), sp.Eq(sp.Mod(whole, 2, evaluate=False), 1, evaluate=False))
    return choose(tie, whole - 1, whole)


def remainder(a: Any, b: Any) -> Any:
    """What is left of `a` after the whole multiples of `b` towards zero: it has the sign of `a`, as in C."""
    if a.is_number and b.is_number:
        return a - b * truncate(a / b)
    if is_nonnegative(a) and is_positive(b) and is_integer(a) and is_integer(b):
        return sp.Mod(a, b, evaluate=False)
    return sub(a, mul(b, truncate(div(a, b))))


# -- truth ------------------------------------------------------------------------------------------------------------

_RELATION = {"eq": sp.Eq, "ne": sp.Ne, "lt": sp.StrictLessThan, "le": sp.LessThan, "gt": sp.StrictGreaterThan, "ge": sp.GreaterThan}
_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def truth(value: Any) -> Any:
    """A Python truth value as SymPy's."""
    return TRUE if value else FALSE


def conjunction(*terms: Any) -> Any:
    """All of the terms."""
    terms = tuple(dict.fromkeys(t for t in terms if t is not TRUE))
    if FALSE in terms:
        return FALSE
    return TRUE if not terms else terms[0] if len(terms) == 1 else sp.And(*terms, evaluate=False)


def disjunction(*terms: Any) -> Any:
    """Any of the terms."""
    terms = tuple(dict.fromkeys(t for t in terms if t is not FALSE))
    if TRUE in terms:
        return TRUE
    return FALSE if not terms else terms[0] if len(terms) == 1 else sp.Or(*terms, evaluate=False)


def negation(term: Any) -> Any:
    """Not the term."""
    return sp.Not(term)


def exclusive(a: Any, b: Any) -> Any:
    """Exactly one of the two."""
    if isinstance(a, (BooleanTrue, BooleanFalse)):
        return negation(b) if a is TRUE else b
    if isinstance(b, (BooleanTrue, BooleanFalse)):
        return negation(a) if b is TRUE else a
    return FALSE if a == b else sp.Xor(a, b)


def _first_true(branches: list[tuple[Any, Any]]) -> Any:
    """The truth of the first branch whose condition holds."""
    found, before = [], TRUE
    for value, condition in branches:
        found.append(conjunction(before, condition, value))
        before = conjunction(before, negation(condition))
    return disjunction(*found)


def compare(relation: str, a: Any, b: Any, below: Mapping[sp.Symbol, int] | None = None) -> Any:
    """`a relation b` as a SymPy truth value; `below`, for integers, bounds the symbols (see `bounds.interval`)."""
    if isinstance(a, NaN) or isinstance(b, NaN):
        return truth(relation == "ne")
    if isinstance(a, (BooleanTrue, BooleanFalse)) or isinstance(b, (BooleanTrue, BooleanFalse)) or a.is_Boolean or b.is_Boolean:
        return exclusive(a, b) if relation == "ne" else negation(exclusive(a, b))
    if a == b:
        return truth(relation in ("eq", "le", "ge"))
    if a.is_Number and b.is_Number:
        return truth(_NUMBERS[relation](a, b))
    for e, other in ((a, b), (b, a)):
        if _is_improper(e) or (isinstance(e, Piecewise) and other.is_Number and all(x.is_Number for x, _ in e.args)):
            swap = e is b
            pairs = [(compare(relation, other, x, below) if swap else compare(relation, x, other, below), c) for x, c in e.args]
            return _first_true(pairs)
    for e, other, sign in ((a, b, 1), (b, a, -1)):
        if isinstance(e, _INFINITE):
            large = sign if isinstance(e, Infinity) else -sign
            return truth(_NUMBERS[relation](large, 0))
    if below is not None:
        (low, high), (other_low, other_high) = interval(a, below), interval(b, below)
        if high < other_low or low > other_high:
            return truth(_NUMBERS[relation](0, 1 if high < other_low else -1))
        if relation in ("ge", "lt") and low >= other_high:
            return truth(relation == "ge")
        if relation in ("le", "gt") and high <= other_low:
            return truth(relation == "le")
    return _RELATION[relation](a, b, evaluate=False)


def is_finite(e: Any) -> Any:
    """Whether a value is finite: true of every expression in real symbols, except where a mask says otherwise."""
    if isinstance(e, (*_INFINITE, NaN)):
        return FALSE
    if _is_improper(e):
        return _first_true([(is_finite(b), c) for b, c in e.args])
    if isinstance(e, (sp.Max, sp.Min)) and any(map(_is_improper, e.args)):
        return disjunction(*map(is_finite, e.args))
    return TRUE

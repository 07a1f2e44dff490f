r"""Identities of piecewise functions of one real variable, by cutting the line where they change.

Clips, hard sigmoids and roundings are polynomials between breakpoints. On each open piece, and at each breakpoint, an
identity is one of polynomials, which SymPy expands exactly. Floors of $a z + b$ with rational $a$ are cut by writing
$z = Pn + f$ with an integer $n$ and $0 \le f < P$, where $P$ is a common period of everything that is rounded.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from math import lcm

import sympy as sp
from sympy.core.relational import Relational
from sympy.functions.elementary.piecewise import Piecewise

_PIECES = 400
"""More pieces than this are not looked at."""
_SWITCHES = (sp.Max, sp.Min, sp.Abs, sp.sign, Piecewise)
_ROUNDED = (sp.floor, sp.ceiling, sp.Mod)


class _GivenUp(Exception):
    """The function is not piecewise polynomial in one variable, or has too many pieces."""


def equal_piecewise(left: sp.Expr, right: sp.Expr) -> bool:
    """Whether two expressions of one real variable are equal everywhere; false also where this does not apply."""
    difference = sp.sympify(left) - sp.sympify(right)
    symbols = difference.free_symbols
    if len(symbols) != 1 or not difference.has(*_SWITCHES, *_ROUNDED):
        return False
    (z,) = symbols
    sides = [difference]
    if difference.has(*_ROUNDED) and difference.has(*_SWITCHES):
        # the sign of the variable is told first
        p = sp.Symbol("p", positive=True)
        sides = [difference.xreplace({z: value}) for value in (p, -p, sp.Integer(0))]
    try:
        return all(sp.expand(piece) == 0 for side in sides for piece in _pieces(side))
    except (_GivenUp, NotImplementedError, TypeError, ValueError):
        return False


def _pieces(expression: sp.Expr) -> Iterator[sp.Expr]:
    """The expression on each piece of the line, without switches."""
    if not expression.free_symbols:
        yield sp.simplify(expression)
        return
    (z,) = expression.free_symbols
    if expression.has(*_ROUNDED):
        yield from _periodic(expression, z)
    else:
        yield from _cut(expression, z, None, None, [0])


def _cut(
    expression: sp.Expr, z: sp.Symbol, low: sp.Expr | None, high: sp.Expr | None, count: list[int]
) -> Iterator[sp.Expr]:
    """On the open interval (low, high): cut at the roots of the innermost switch, until none is left."""
    count[0] += 1
    if count[0] > _PIECES:
        raise _GivenUp
    switch = next((e for e in sp.postorder_traversal(expression) if isinstance(e, _SWITCHES) and e.has(z)), None)
    if switch is None:
        yield expression
        return
    roots = sorted({r for e in _deciding(switch) for r in _roots(e, z) if _inside(r, low, high)}, key=_number)
    ends = [low, *roots, high]
    for a, b in itertools.pairwise(ends):
        middle = _between(a, b)
        yield from _cut(expression.xreplace({switch: _resolved(switch, z, middle)}), z, a, b, count)
    for root in roots:
        yield sp.nsimplify(expression.xreplace({z: root}))


def _deciding(switch: sp.Expr) -> list[sp.Expr]:
    """Expressions whose signs say what a switch is."""
    if isinstance(switch, (sp.Max, sp.Min)):
        args = list(switch.args)
        return [a - b for k, a in enumerate(args) for b in args[:k]]
    if isinstance(switch, Piecewise):
        relations = [r for _, condition in switch.args for r in sp.sympify(condition).atoms(Relational)]
        return [r.lhs - r.rhs for r in relations]
    return [switch.args[0]]


def _roots(expression: sp.Expr, z: sp.Symbol) -> list[sp.Expr]:
    if not expression.has(z):
        return []
    if not expression.is_polynomial(z):
        raise _GivenUp
    polynomial = sp.Poly(expression, z)
    if polynomial.degree() > 2:
        raise _GivenUp
    return [r for r in sp.roots(polynomial) if r.is_real]


def _resolved(switch: sp.Expr, z: sp.Symbol, at: sp.Expr) -> sp.Expr:
    """The branch of a switch on a piece, told at one point of it."""
    if isinstance(switch, (sp.Max, sp.Min)):
        choose = max if isinstance(switch, sp.Max) else min
        return choose(switch.args, key=lambda e: _number(e.xreplace({z: at})))
    if isinstance(switch, Piecewise):
        for value, condition in switch.args:
            if sp.sympify(condition).xreplace({z: at}) == True:  # noqa: E712  # SymPy's own truth
                return value
        raise _GivenUp
    sign = sp.sign(switch.args[0].xreplace({z: at}))
    return sign if isinstance(switch, sp.sign) else sign * switch.args[0]


def _number(value: sp.Expr) -> float:
    return float(sp.N(value, 30))


def _inside(root: sp.Expr, low: sp.Expr | None, high: sp.Expr | None) -> bool:
    return (low is None or bool(root > low)) and (high is None or bool(root < high))


def _between(low: sp.Expr | None, high: sp.Expr | None) -> sp.Rational:
    if low is None and high is None:
        return sp.Rational(1, 3)
    if low is None:
        return sp.floor(high) - 1
    if high is None:
        return sp.ceiling(low) + 1
    return sp.nsimplify((low + high) / 2)


# --- roundings


def _periodic(expression: sp.Expr, z: sp.Symbol) -> Iterator[sp.Expr]:
    """Every piece of one period, with the number of the period as a symbol."""
    n, f = sp.Symbol("n", integer=True), sp.Symbol("f", real=True)
    slopes = _slopes(expression, z)
    moduli = [int(m.args[1]) for m in expression.atoms(sp.Mod) if m.args[1].is_Integer]
    period = lcm(*(s.denominator for s in slopes)) * 2 * lcm(*moduli, 1)
    written = expression.xreplace({z: period * n + f})
    cuts = {Fraction(0), Fraction(period)}
    for inner in _linear(expression, z):
        a, b = (Fraction(int(c.p), int(c.q)) for c in (inner.coeff(z, 1), inner.coeff(z, 0)))
        if a:
            reach = sorted((b, a * period + b))
            steps = range(int(reach[0] // 1) - 1, int(reach[1] // 1) + 2)
            cuts |= {c for k in steps if 0 <= (c := (k - b) / a) <= period}
    ends = sorted(cuts)
    if len(ends) > _PIECES:
        raise _GivenUp
    exact = [sp.Rational(c.numerator, c.denominator) for c in ends]
    for low, high in itertools.pairwise(exact):
        yield _rounded(written, n, f, low, low).xreplace({f: low})
        # what is left to choose on an open piece is cut at its own breakpoints
        yield from _cut(_rounded(written, n, f, (low + high) / 2, None), f, low, high, [0])


def _linear(expression: sp.Expr, z: sp.Symbol) -> list[sp.Expr]:
    out = []
    for e in expression.atoms(sp.floor, sp.ceiling):
        inner = sp.expand(e.args[0])
        if not inner.is_polynomial(z) or sp.Poly(inner, z).degree() > 1:
            raise _GivenUp
        if not (inner.coeff(z, 1).is_Rational and inner.coeff(z, 0).is_Rational):
            raise _GivenUp
        out.append(inner)
    return out


def _slopes(expression: sp.Expr, z: sp.Symbol) -> list[sp.Rational]:
    return [sp.Rational(inner.coeff(z, 1)) for inner in _linear(expression, z)] or [sp.Rational(1)]


def _rounded(expression: sp.Expr, n: sp.Symbol, f: sp.Symbol, point: sp.Rational, at: sp.Rational | None) -> sp.Expr:
    """The expression with its roundings and their remainders decided on the piece of this point, innermost first.

    At a breakpoint (`at`) choices are decided too; on an open piece they stay, without the number of the period.
    """
    for _ in range(64):
        inner = next((e for e in sp.postorder_traversal(expression) if isinstance(e, _ROUNDED)), None)
        if inner is None:
            break
        expression = expression.xreplace({inner: _decided(inner, n, f, point)})
    else:
        raise _GivenUp
    told = expression.replace(lambda e: isinstance(e, Relational), lambda e: e.func(sp.expand(e.lhs - e.rhs), 0))
    for switch in (e for e in sp.preorder_traversal(told) if isinstance(e, _SWITCHES)):
        if any(sp.expand(e).has(n) for e in _deciding(switch)):
            raise _GivenUp
    if at is None:
        return told
    while told.has(*_SWITCHES):
        inner = next(e for e in sp.postorder_traversal(told) if isinstance(e, _SWITCHES))
        told = told.xreplace({inner: _resolved(inner, f, at)})
    return told


def _decided(inner: sp.Expr, n: sp.Symbol, f: sp.Symbol, point: sp.Rational) -> sp.Expr:
    argument = sp.expand(inner.args[0])
    slope, rest = argument.coeff(n, 1), argument.coeff(n, 0)
    if rest.has(n) or not slope.is_Rational:
        raise _GivenUp
    if isinstance(inner, sp.Mod):
        modulus = inner.args[1]
        if not (slope / modulus).is_Integer or rest.has(f):
            raise _GivenUp
        return rest % modulus
    if not slope.is_Integer:
        raise _GivenUp
    value = rest.xreplace({f: point})
    return slope * n + (sp.floor(value) if isinstance(inner, sp.floor) else sp.ceiling(value))

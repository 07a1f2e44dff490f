"""Rules of the jets column: what nonlinear primitives do to residues and their derivatives.

Every function states its value and its slope; the value is free where nothing is known of it, and the slope follows
from the function's differential relation. `c f` with a constant c obeys the same relation as f when it is linear
(powers, exponentials): such values may be drawn without solving for a root.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quotax.interpret.domain import Eqn, Rule, Unreadable, concrete
from quotax.interpret.jets.domain import Jet, JetDomain
from quotax.interpret.jets.residues import PRIME, inverse
from quotax.interpret.shared.movement import movement

_REALS = "compute with reals, or with constant integers"

_HALF = pow(2, -1, PRIME)

Scalar = Callable[[JetDomain, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Residues of the argument to residues of the value and of the slope."""


def smooth(function: Scalar) -> Rule:
    """Apply a function of one argument, entry by entry."""

    def rule(eqn: Eqn, args: list[Any]) -> list[Any]:
        domain, jet = eqn.domain, eqn.domain.lift(args[0])
        domain.finite(jet)
        value, slope = function(domain, jet.values.astype(np.int64))
        return [domain.entrywise(value % PRIME, (jet, slope % PRIME))]

    return rule


def negate(eqn: Eqn, args: list[Any]) -> list[Any]:
    """The opposite, also of infinite constants."""
    jet = eqn.domain.lift(args[0])
    infinite = None if jet.infinite is None else -jet.infinite
    return [eqn.domain.record(-jet.values % PRIME, [(jet, lambda w: -w % PRIME)], infinite)]


def divide(eqn: Eqn, args: list[Any]) -> list[Any]:
    """A quotient of reals."""
    if np.issubdtype(np.dtype(eqn.outputs[0].dtype), np.integer):
        raise Unreadable("it divides integers that depend on the parameters or inputs", _REALS)
    domain = eqn.domain
    a, b = domain._aligned(domain.lift(args[0]), domain.lift(args[1]))
    if a.infinite is not None and b.infinite is None and concrete(domain, args[1]) is not None and (args[1] > 0).all():
        over = inverse(b.values)
        return [domain.record(a.values * over % PRIME, [(a, lambda w: w * over % PRIME)], a.infinite)]
    domain.finite(a, b)
    over = domain.divided(b.values)
    value = a.values * over % PRIME
    return [domain.entrywise(value, (a, over), (b, -value * over % PRIME))]


def exponential(eqn: Eqn, args: list[Any]) -> list[Any]:
    """e^z, and zero at minus infinity."""
    domain, jet = eqn.domain, eqn.domain.lift(args[0])
    value = domain.functions.exponential(jet.values)
    if jet.infinite is not None:
        if (jet.infinite > 0).any():
            raise Unreadable("it is infinite", "mask with minus infinity")
        value = np.where(jet.infinite < 0, 0, value)
    return [domain.entrywise(value, (jet, value))]


def _exp(domain: JetDomain, z: np.ndarray) -> np.ndarray:
    return domain.functions.exponential(z % PRIME)


def log1p(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log(1 + z)."""
    return log(domain, (z + 1) % PRIME)


def log(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A free value with slope 1/z; log 1 = 0."""
    return np.where(z == 1, 0, domain.functions.free("log", z)), domain.divided(z)


def expm1(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """e^z - 1."""
    e = _exp(domain, z)
    return e - 1, e


def exp2(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """2^z: an exponential with a slope of its own."""
    value = domain.functions.free("exp2", z)
    return value, value * _constant(domain, "log 2")


def logistic(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sigmoid s = 1 / (1 + e^-z), slope s (1 - s)."""
    s = domain.divided((1 + _exp(domain, -z)) % PRIME)
    return s, s * (1 - s) % PRIME


def tanh(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(e^2z - 1) / (e^2z + 1), slope 1 - t^2."""
    e = _exp(domain, 2 * z)
    t = (e - 1) * domain.divided((e + 1) % PRIME) % PRIME
    return t, 1 - t * t


def sinh(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(e^z - e^-z) / 2, slope cosh z."""
    a, b = _exp(domain, z), _exp(domain, -z)
    return (a - b) * _HALF, (a + b) * _HALF


def cosh(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(e^z + e^-z) / 2, slope sinh z."""
    value, slope = sinh(domain, z)
    return slope, value


def _circle(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A point (sin, cos) of the circle by its rational parameter, odd and even in z."""
    flipped = z > PRIME // 2
    u = domain.functions.free("circle", np.where(flipped, PRIME - z, z))
    u = np.where(z == 0, 0, np.where(flipped, PRIME - u, u))
    over = domain.divided((1 + u * u) % PRIME)
    return 2 * u * over % PRIME, (1 - u * u) % PRIME * over % PRIME


def sin(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sine, slope cosine."""
    return _circle(domain, z)


def cos(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosine, slope minus sine."""
    s, c = _circle(domain, z)
    return c, -s


def tan(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tangent t, slope 1 + t^2."""
    s, c = _circle(domain, z)
    t = s * domain.divided(c) % PRIME
    return t, 1 + t * t


def root(domain: JetDomain, z: np.ndarray, exponent: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A constant multiple c z^a: a free value v with slope a v / z. `exponent` is the residue of a."""
    v = np.where(z == 1, 1, domain.functions.free(name, z))
    return v, v * exponent % PRIME * domain.divided(z)


def sqrt(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A constant multiple of the square root, slope v / (2 z)."""
    return root(domain, z, _HALF, "sqrt")


def rsqrt(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One over the square root that `sqrt` draws."""
    v, _ = sqrt(domain, z)
    r = inverse(v)
    return r, -r * _HALF % PRIME * domain.divided(z)


def cbrt(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A constant multiple of the cube root."""
    return root(domain, z, pow(3, -1, PRIME), "cbrt")


def algebraic(name: str, slope: Callable[[JetDomain, np.ndarray], np.ndarray]) -> Scalar:
    """A free value whose slope is an expression of the argument."""

    def function(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.where(z == 0, 0, domain.functions.free(name, z)), slope(domain, z)

    return function


def _over_root(sign_one: int, sign_square: int) -> Callable[[JetDomain, np.ndarray], np.ndarray]:
    """The slope 1 / sqrt(+-1 +- z^2)."""
    return lambda domain, z: rsqrt(domain, (sign_one + sign_square * z * z) % PRIME)[0]


asin = algebraic("asin", _over_root(1, -1))
acos = algebraic("acos", lambda domain, z: -_over_root(1, -1)(domain, z))
asinh = algebraic("asinh", _over_root(1, 1))
acosh = algebraic("acosh", _over_root(-1, 1))
atan = algebraic("atan", lambda domain, z: domain.divided((1 + z * z) % PRIME))
atanh = algebraic("atanh", lambda domain, z: domain.divided((1 - z * z) % PRIME))


def opaque(name: str) -> Scalar:
    """A function with no algebraic relation between value and slope: both are free."""

    def function(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return domain.functions.free(name, z), domain.functions.free(f"{name}'", z)

    return function


def erf(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Odd, with slope 2/sqrt(pi) e^(-z^2)."""
    flipped = z > PRIME // 2
    value = domain.functions.free("erf", np.where(flipped, PRIME - z, z))
    value = np.where(z == 0, 0, np.where(flipped, PRIME - value, value))
    return value, _exp(domain, -(z * z)) * _constant(domain, "2/sqrt(pi)") % PRIME


def erfc(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 - erf."""
    value, slope = erf(domain, z)
    return 1 - value, -slope


def _constant(domain: JetDomain, name: str) -> np.ndarray:
    """A transcendental constant: free, the same in a whole sample."""
    return np.asarray(sum(ord(c) * 7919**i for i, c in enumerate(name)) % PRIME, np.int64)


def integer_power(eqn: Eqn, args: list[Any]) -> list[Any]:
    """z^n for a constant integer n."""
    domain, jet, n = eqn.domain, eqn.domain.lift(args[0]), int(eqn.params["y"])
    return [_integer_power(domain, jet, n)]


def _integer_power(domain: JetDomain, jet: Jet, n: int) -> Jet:
    domain.finite(jet)
    z = jet.values.astype(np.int64)
    base = domain.divided(z) if n < 0 else z
    lower = np.ones_like(z)  # z^(n-1)
    steps = abs(n - 1) if n < 0 else max(n - 1, 0)
    for _ in range(steps):
        lower = lower * base % PRIME
    value = lower * z % PRIME if n != 0 else np.ones_like(z)
    return domain.entrywise(value, (jet, n * lower % PRIME if n != 0 else np.zeros_like(z)))


def power(eqn: Eqn, args: list[Any]) -> list[Any]:
    """z^y: an integer power where y is a constant integer, else v with d log v = y d log z + log z d y."""
    domain = eqn.domain
    exponent = concrete(domain, args[1])
    if exponent is not None and exponent.size and (exponent == exponent.flat[0]).all():
        a = float(exponent.flat[0])
        jet = domain.lift(args[0])
        if a == int(a) and abs(a) <= 64:
            return [_integer_power(domain, jet, int(a))]
        domain.finite(jet)
        if abs(a) == 0.5:
            value, slope = (sqrt if a > 0 else rsqrt)(domain, jet.values)
        else:
            residue = int(domain.lift(np.asarray(a)).values[0])
            value, slope = root(domain, jet.values, residue, f"power {a}")
        return [domain.entrywise(value % PRIME, (jet, slope % PRIME))]
    z, y = domain._aligned(domain.lift(args[0]), domain.lift(args[1]))
    domain.finite(z, y)
    zv, yv = np.broadcast_arrays(z.values, y.values)
    value = domain.functions.free("power", (zv * 31 + yv * 1009) % PRIME)
    logarithm, over = log(domain, zv)
    return [domain.entrywise(value, (z, value * yv % PRIME * over % PRIME), (y, value * logarithm % PRIME))]


def angle(eqn: Eqn, args: list[Any]) -> list[Any]:
    """atan2(y, x): slopes x / (x^2 + y^2) and -y / (x^2 + y^2)."""
    domain = eqn.domain
    y, x = domain._aligned(domain.lift(args[0]), domain.lift(args[1]))
    domain.finite(y, x)
    yv, xv = np.broadcast_arrays(y.values, x.values)
    over = domain.divided((xv * xv + yv * yv) % PRIME)
    value = domain.functions.free("atan2", (yv * domain.divided(xv)) % PRIME)
    return [domain.entrywise(value, (y, xv * over % PRIME), (x, -yv * over % PRIME))]


# --- what compares


def absolute(eqn: Eqn, args: list[Any]) -> list[Any]:
    """Z or -z, by the sign that is drawn for z."""
    domain, jet = eqn.domain, eqn.domain.lift(args[0])
    domain.finite(jet)
    above = domain.above(jet, domain.lift(np.zeros((1,) * len(jet.shape))))
    sign = np.where(above, 1, -1)
    return [domain.entrywise(sign * jet.values % PRIME, (jet, sign))]


def sign(eqn: Eqn, args: list[Any]) -> list[Any]:
    """1 or -1 (0 at zero), slope zero."""
    domain, jet = eqn.domain, eqn.domain.lift(args[0])
    above = domain.above(jet, domain.lift(np.zeros((1,) * len(jet.shape))))
    return [Jet(np.where(jet.values == 0, 0, np.where(above, 1, PRIME - 1)))]


def stair(name: str) -> Rule:
    """Rounding: a free value with slope zero."""

    def rule(eqn: Eqn, args: list[Any]) -> list[Any]:
        jet = eqn.domain.lift(args[0])
        eqn.domain.opaque = True
        return [Jet(eqn.domain.functions.free(name, jet.values))]

    return rule


def relation(name: str) -> Rule:
    """A comparison: drawn for the difference, decided where the difference is zero by construction."""

    def rule(eqn: Eqn, args: list[Any]) -> list[Any]:
        domain = eqn.domain
        a, b = domain._aligned(domain.lift(args[0]), domain.lift(args[1]))
        if a.truth and b.truth:
            return [Jet(a.values == b.values if name == "eq" else a.values != b.values)]
        equal = (a.values.astype(np.int64) - b.values) % PRIME == 0
        if a.infinite is not None or b.infinite is not None:
            zero = np.zeros((1,) * a.values.ndim, np.int8)
            left, right = (zero if j.infinite is None else j.infinite for j in (a, b))
            equal = np.where((left != 0) | (right != 0), left == right, equal)
        if name in ("eq", "ne"):
            return [Jet(equal if name == "eq" else ~equal)]
        above = domain.above(a, b)
        strict = {"gt": above & ~equal, "ge": above | equal, "lt": ~above & ~equal, "le": ~above | equal}
        return [Jet(strict[name])]

    return rule


def negation(eqn: Eqn, args: list[Any]) -> list[Any]:
    """Not."""
    jet = eqn.domain.lift(args[0])
    if not jet.truth:
        raise Unreadable("it works on the bits of integers", _REALS)
    return [Jet(~jet.values)]


def finite(eqn: Eqn, args: list[Any]) -> list[Any]:
    """Everything is finite but infinite constants."""
    jet = eqn.domain.lift(args[0])
    return [Jet(np.ones(jet.values.shape, bool) if jet.infinite is None else jet.infinite == 0)]


def convert(eqn: Eqn, args: list[Any]) -> list[Any]:
    """Change of type: truth becomes 1 or 0; a real that becomes an integer is refused."""
    source, target = (np.dtype(aval.dtype) for aval in (eqn.inputs[0], eqn.outputs[0]))
    jet = eqn.domain.lift(args[0])
    if target == np.bool_:
        return [jet if jet.truth else Jet(jet.values != 0)]
    if jet.truth:
        return [Jet(jet.values.astype(np.int64))]
    if np.issubdtype(target, np.integer) and not np.issubdtype(source, np.integer):
        raise Unreadable("it makes integers of values that depend on the parameters or inputs", _REALS)
    return [jet]


def select(eqn: Eqn, args: list[Any]) -> list[Any]:
    """`select_n`: a move when the choice is constant, else by the truth values drawn."""
    which, *cases = args
    if concrete(eqn.domain, which) is not None:
        return movement(0)(eqn, args)
    domain = eqn.domain
    condition = domain.lift(which)
    if not condition.truth or len(cases) != 2:
        raise Unreadable("it selects by integers that depend on the parameters or inputs", _REALS)
    no, yes = domain._aligned(domain.lift(cases[0]), domain.lift(cases[1]))
    test = condition.values
    if test.ndim < no.values.ndim:  # a scalar condition
        test = test.reshape(len(test), *(1,) * (no.values.ndim - 1))
    return [domain.choose(test, yes, no)]


def clamp(eqn: Eqn, args: list[Any]) -> list[Any]:
    """`min(max(x, low), high)`."""
    low, x, high = args
    return [eqn.domain.combine("min", eqn.domain.combine("max", x, low), high)]


def logical(operation: str) -> Rule:
    """A logical operation on truth values."""
    return lambda eqn, args: [eqn.domain.combine(operation, *args)]


COLUMN: dict[str, Rule] = {
    "neg": negate,
    "div": divide,
    "abs": absolute,
    "sign": sign,
    "floor": stair("floor"),
    "ceil": stair("ceil"),
    "round": stair("round"),
    "clamp": clamp,
    "convert_element_type": convert,
    "square": smooth(lambda domain, z: (z * z, 2 * z)),
    "integer_pow": integer_power,
    "pow": power,
    "sqrt": smooth(sqrt),
    "rsqrt": smooth(rsqrt),
    "cbrt": smooth(cbrt),
    "exp": exponential,
    "exp2": smooth(exp2),
    "log": smooth(log),
    "log1p": smooth(log1p),
    "expm1": smooth(expm1),
    "logistic": smooth(logistic),
    "sin": smooth(sin),
    "cos": smooth(cos),
    "tan": smooth(tan),
    "asin": smooth(asin),
    "acos": smooth(acos),
    "atan": smooth(atan),
    "atan2": angle,
    "sinh": smooth(sinh),
    "cosh": smooth(cosh),
    "tanh": smooth(tanh),
    "asinh": smooth(asinh),
    "acosh": smooth(acosh),
    "atanh": smooth(atanh),
    "erf": smooth(erf),
    "erfc": smooth(erfc),
    "erf_inv": smooth(opaque("erf_inv")),
    **{name: relation(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: logical(name) for name in ("and", "or", "xor")},
    "not": negation,
    "is_finite": finite,
    "select_n": select,
}
"""The jets column of the primitive table."""

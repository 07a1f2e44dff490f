"""Rules of the jets column: what primitives do to residues and their derivatives where no record says it."""

from __future__ import annotations

import numpy as np

from quotax.elementwise import FUNCTIONS
from quotax.interpret.domain import Eqn, Rule, Unreadable, concrete
from quotax.interpret.jets.domain import Jet, JetDomain, Value
from quotax.interpret.jets.formulas import value_and_slope
from quotax.interpret.jets.residues import PRIME, inverse
from quotax.interpret.shared.movement import movement

_REALS = "compute with reals, or with constant integers"


def negate(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
    """The opposite, also of infinite constants."""
    jet = eqn.domain.lift(args[0])
    infinite = None if jet.infinite is None else -jet.infinite
    return [eqn.domain.record(-jet.values % PRIME, [(jet, lambda w: -w % PRIME)], infinite)]


def divide(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
    """A quotient of reals."""
    if np.issubdtype(np.dtype(eqn.outputs[0].dtype), np.integer):
        raise Unreadable("it divides integers that depend on the parameters or inputs", _REALS)
    domain = eqn.domain
    a, b = domain._aligned(domain.lift(args[0]), domain.lift(args[1]))
    known = concrete(domain, args[1])
    if a.infinite is not None and b.infinite is None and known is not None and (known > 0).all():
        over = inverse(b.values)
        return [domain.record(a.values * over % PRIME, [(a, lambda w: w * over % PRIME)], a.infinite)]
    domain.finite(a, b)
    over = domain.divided(b.values)
    value = a.values * over % PRIME
    return [domain.entrywise(value, (a, over), (b, -value * over % PRIME))]


def exponential(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
    """e^z, and zero at minus infinity."""
    domain, jet = eqn.domain, eqn.domain.lift(args[0])
    value = domain.functions.exponential(jet.values)
    if jet.infinite is not None:
        if (jet.infinite > 0).any():
            raise Unreadable("it is infinite", "mask with minus infinity")
        value = np.where(jet.infinite < 0, 0, value)
    return [domain.entrywise(value, (jet, value))]


def integer_power(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
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


def power(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
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
            value, slope = value_and_slope(FUNCTIONS["sqrt" if a > 0 else "rsqrt"], domain, jet.values)
        else:
            value = np.where(jet.values == 1, 1, domain.functions.free(f"power {a}", jet.values))
            residue = int(domain.lift(np.asarray(a)).values[0])
            slope = value * residue % PRIME * domain.divided(jet.values) % PRIME
        return [domain.entrywise(value, (jet, slope))]
    z, y = domain._aligned(domain.lift(args[0]), domain.lift(args[1]))
    domain.finite(z, y)
    zv, yv = np.broadcast_arrays(z.values, y.values)
    value = domain.functions.free("power", (zv * 31 + yv * 1009) % PRIME)
    logarithm, over = value_and_slope(FUNCTIONS["log"], domain, zv)
    return [domain.entrywise(value, (z, value * yv % PRIME * over % PRIME), (y, value * logarithm % PRIME))]


def angle(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
    """atan2(y, x): slopes x / (x^2 + y^2) and -y / (x^2 + y^2)."""
    domain = eqn.domain
    y, x = domain._aligned(domain.lift(args[0]), domain.lift(args[1]))
    domain.finite(y, x)
    yv, xv = np.broadcast_arrays(y.values, x.values)
    over = domain.divided((xv * xv + yv * yv) % PRIME)
    value = domain.functions.free("atan2", (yv * domain.divided(xv)) % PRIME)
    return [domain.entrywise(value, (y, xv * over % PRIME), (x, -yv * over % PRIME))]


# --- what compares


def absolute(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
    """Z or -z, by the sign that is drawn for z."""
    domain, jet = eqn.domain, eqn.domain.lift(args[0])
    domain.finite(jet)
    above = domain.above(jet, domain.lift(np.zeros((1,) * len(jet.shape))))
    sign = np.where(above, 1, -1)
    return [domain.entrywise(sign * jet.values % PRIME, (jet, sign))]


def sign(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
    """1 or -1 (0 at zero), slope zero."""
    domain, jet = eqn.domain, eqn.domain.lift(args[0])
    above = domain.above(jet, domain.lift(np.zeros((1,) * len(jet.shape))))
    return [Jet(np.where(jet.values == 0, 0, np.where(above, 1, PRIME - 1)))]


def stair(name: str) -> Rule[JetDomain]:
    """Rounding: a free value with slope zero."""

    def rule(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
        jet = eqn.domain.lift(args[0])
        eqn.domain.opaque = True
        return [Jet(eqn.domain.functions.free(name, jet.values))]

    return rule


def relation(name: str) -> Rule[JetDomain]:
    """A comparison: drawn for the difference, decided where the difference is zero by construction."""

    def rule(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
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
        if np.issubdtype(np.dtype(eqn.inputs[0].dtype), np.integer):  # places in an order, whose values are known
            above = domain.places(a) > domain.places(b)
        else:
            above = domain.above(a, b)
        strict = {"gt": above & ~equal, "ge": above | equal, "lt": ~above & ~equal, "le": ~above | equal}
        return [Jet(strict[name])]

    return rule


def negation(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
    """Not."""
    jet = eqn.domain.lift(args[0])
    if not jet.truth:
        raise Unreadable("it works on the bits of integers", _REALS)
    return [Jet(~jet.values)]


def finite(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
    """Everything is finite but infinite constants."""
    jet = eqn.domain.lift(args[0])
    return [Jet(np.ones(jet.values.shape, bool) if jet.infinite is None else jet.infinite == 0)]


def convert(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
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


def select(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
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


def clamp(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
    """`min(max(x, low), high)`."""
    low, x, high = args
    return [eqn.domain.combine("min", eqn.domain.combine("max", x, low), high)]


def logical(operation: str) -> Rule[JetDomain]:
    """A logical operation on truth values."""
    return lambda eqn, args: [eqn.domain.combine(operation, *args)]

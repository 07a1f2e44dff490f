r"""One rewriting rule for each nonlinearity: an argument in the field becomes a value in the field.

Each rule brings its argument to a canonical form first, so that arguments which differ by what the function commutes
with (positive factors under max, sums under exp, products under log, powers under roots, signs under odd functions)
meet in one generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import sympy as sp
from flint import fmpq

from quotax.certify.identities.signs import Factored, absolute, factored, known_sign, selector
from quotax.certify.identities.tower_field import Frac, Generator, Poly, Sign, TowerField, Undecided, small

EXP_SUM = "exp(a + b) = exp(a) exp(b)"
EXP_INFINITE = "exp(-oo) = 0"
EXP_LOG = "exp(c log z) = z^c for z > 0"
LOG_PRODUCT = "log(a b) = log(a) + log(b) for a > 0"
LOG_EXP = "log(exp(z)) = z"
ROOT_PRODUCT = "sqrt(c^2 z) = c sqrt(z) for c > 0"
ROOT_POWER = "(z^(1/q))^q = z"
MAX_SHIFT = "max(a + s, b + s, ...) = max(a, b, ...) + s"
MAX_SCALE = "max(c a, c b, ...) = c max(a, b, ...) for c > 0"
ODD = "f(-z) = -f(z)"
PYTHAGORAS = "cos(z)^2 + sin(z)^2 = 1"
TANH_EXP = "tanh(z) = (exp(2 z) - 1) / (exp(2 z) + 1)"
ANGLE_SUM = "cos(a + b) = cos(a) cos(b) - sin(a) sin(b), sin(a + b) = sin(a) cos(b) + cos(a) sin(b)"

DENOMINATOR_LIMIT = 400
ANGLE_TERMS = 4
Condition = Callable[[Frac, str], None]
"""Records that the function is defined only where a value is nonnegative."""


# Exponential and logarithm ----------------------------------------------------------------------------------------


def exponential(field: TowerField, value: Frac) -> Frac:
    """exp, through a basis over Q of all arguments met so far.

    An argument is reduced against the basis. What remains becomes a new member; the coefficients become powers, and
    a fractional one asks for a root of that member's exponential. So any two products of exponentials whose
    exponents agree are equal in the field.
    """
    if not value.n:
        return field.constant(1)
    result = field.constant(1)
    if value.d.is_constant():
        value, result = _without_logarithms(field, value)
        growth = value.n.derivative(field.infinite.index) if field.infinite else field.zero
        if growth and growth.is_constant():
            if growth.leading_coefficient() > 0:
                raise Undecided("exp of an infinite value")
            field.lemma(EXP_INFINITE)
            return field.constant(0)
        if not value.n:
            return result
    basis = field.exponents
    common = field.gcd(basis.denominator, value.d)
    missing = value.d / common
    if len(basis.denominator) * len(missing) > DENOMINATOR_LIMIT:
        return field.multiply(result, opaque(field, "exp", [value], sp.exp, "positive"))
    if not missing.is_one():
        members = [(field.times(n, missing), g) for n, g in basis.members]
        if len({n.monomial(0) for n, _ in members}) < len(members) or any(
            n.leading_coefficient() != 1 for n, _ in members
        ):
            return field.multiply(result, opaque(field, "exp", [value], sp.exp, "positive"))
        basis.members = members
    cofactor = basis.denominator / common
    basis.denominator = field.times(basis.denominator, missing)
    rest = field.times(value.n, cofactor)
    powers: list[tuple[Generator, sp.Rational]] = []
    for member, generators in sorted(basis.members, key=lambda m: m[0].monomial(0), reverse=True):
        coefficient = rest[member.monomial(0)]
        if coefficient:
            rest = rest - member * coefficient
            powers.append(_multiple(field, member, generators, coefficient))
    if rest:
        lead = rest.leading_coefficient()
        basis.members.append((rest / lead, []))
        powers.append(_multiple(field, *basis.members[-1], lead))
    if len(powers) > 1 or powers[0][1] != 1:
        field.lemma(EXP_SUM)
    return field.multiply(result, *(field.root(generator, power) for generator, power in powers))


def _multiple(
    field: TowerField, member: Poly, generators: list[Generator], coefficient: fmpq
) -> tuple[Generator, sp.Rational]:
    """The exponential of a multiple of a member of the basis, as a power of one of its generators."""
    number = sp.Rational(int(coefficient.p), int(coefficient.q))
    for generator in generators:
        if small(number / generator.payload):
            return generator, number / generator.payload
    argument = field.fraction(member * coefficient, field.exponents.denominator)
    generators.append(field.new("exp", "positive", lambda: sp.exp(field.show(argument)), number))
    return generators[-1], sp.Integer(1)


def _without_logarithms(field: TowerField, value: Frac) -> tuple[Frac, Frac]:
    """Split c log|f| off a sum, returning the rest and the product of |f|^c."""
    rest, result = value.n, field.constant(1)
    for generator in field.used(value.n):
        if generator.kind != "log":
            continue
        exponents = tuple(int(i == generator.index) for i in range(len(field.names)))
        coefficient = rest[exponents]
        power = sp.Rational(int(coefficient.p), int(coefficient.q))
        if power and small(power):
            rest = rest - field.variable(generator) * coefficient
            result = field.multiply(result, absolute_power(field, generator.payload, power))
            field.lemma(EXP_LOG)
    return Frac(rest, value.d), result


def logarithm(field: TowerField, value: Frac, defined: Condition) -> Frac:
    """Log z = sum of e_i log|f_i| over the factors of z, on the set where z > 0."""
    if not value.n:
        raise Undecided("log of an expression that is identically zero")
    defined(value, "positive")
    parts = factored(field, value)
    if parts.sign < 0 and all(known != "real" for _, _, known in parts.factors):
        raise Undecided("log of a negative expression")
    if len(parts.factors) > 1:
        field.lemma(LOG_PRODUCT)
    return _log_of_size(field, parts)


def _log_of_size(field: TowerField, parts: Factored) -> Frac:
    terms = [(log_of_number(field, int(parts.content.p)), 1), (log_of_number(field, int(parts.content.q)), -1)]
    terms += [(log_absolute(field, f), power) for f, power, _ in parts.factors]
    return field.add(*(field.scale(term, power) for term, power in terms))


def log_of_number(field: TowerField, number: int) -> Frac:
    """Log of a positive integer, by its primes."""
    total = field.constant(0)
    for prime, power in sp.factorint(number, limit=10_000).items():
        total = field.add(total, field.scale(_log_generator(field, field.constant(prime)), power))
    return total


def log_absolute(field: TowerField, f: Poly) -> Frac:
    """log|f| of one factor; the logarithm of a generator that is itself a power or an exponential is known."""
    used = field.used(f)
    if len(used) == 1 and len(f) == 1:
        generator = used[0]
        if generator.kind == "exp":
            field.lemma(LOG_EXP)
            for member, owners in field.exponents.members:
                if generator in owners:
                    lead = generator.payload / generator.order
                    number = field.constant(lead).n
                    return field.fraction(member * number, field.exponents.denominator)
        if generator.kind == "root":
            base, order = generator.payload
            total = _log_of_size(field, factored(field, base))
            return field.multiply(total, field.constant(sp.Rational(1, order * generator.order)))
        if generator.order > 1:
            whole = _log_generator(field, field.value(generator))
            return field.multiply(whole, field.constant(sp.Rational(1, generator.order)))
    return _log_generator(field, Frac(f, field.one))


def _shown_log(size: sp.Expr, sure: bool) -> sp.Expr:
    return sp.log(size if sure else sp.Abs(size, evaluate=False), evaluate=False)


def _log_generator(field: TowerField, base: Frac) -> Frac:
    def make() -> Frac:
        sure = known_sign(field, base.n) != "real"
        # log z >= 0 where z >= 1; the field cannot see it otherwise.
        sign = known_sign(field, base.n - field.one) if sure else "real"
        return field.value(field.new("log", sign, lambda: _shown_log(field.show(base), sure), base))

    return field.remember("log", [base], make)


# Roots ------------------------------------------------------------------------------------------------------------


def rational_power(field: TowerField, value: Frac, exponent: sp.Rational, defined: Condition | None) -> Frac:
    """z^(p/q) where z >= 0; with `defined` None, q odd, the real root of any z."""
    p, q = int(exponent.p), int(exponent.q)
    if q == 1:
        return field.power(value, p)
    if not value.n:
        if p < 0:
            raise Undecided("a negative power of an expression that is identically zero")
        return value
    if defined is not None:
        defined(value, "nonnegative")
    parts = factored(field, value)
    odd = [(f, e) for f, e, sign in parts.factors if sign == "real" and e % 2]
    pieces = [number_root(field, int(parts.content.p), q), field.invert(number_root(field, int(parts.content.q), q))]
    sign = parts.sign
    if defined is not None and sign < 0 and all(known != "real" for _, _, known in parts.factors):
        raise Undecided("a root of a negative expression")
    if defined is None:
        pieces.append(field.constant(sign))
        sign = 1
    for f, e, known in parts.factors:
        if known != "real" or not e % 2:
            if known == "real" and q % 2 and e % q == 0:
                pieces.append(field.power(Frac(f, field.one), e // q))
            else:
                pieces.append(absolute_power(field, Frac(f, field.one), sp.Rational(e, q)))
    if len(odd) == 1:
        f, power = odd[0]
        whole, part = divmod(power, q)
        # On the domain sign * f >= 0, so |f| = sign * f; an odd real root commutes with the sign.
        size = Frac(f * sign, field.one)
        pieces.append(field.power(size, whole))
        if part:
            pieces.append(field.power(_root_generator(field, size, q), part))
    elif odd:
        base = field.constant(sign)
        for f, e in odd:
            whole, part = divmod(e, q)
            factor = Frac(f, field.one)
            pieces.append(field.power(absolute(field, factor) if q % 2 == 0 else factor, whole))
            base = field.multiply(base, field.power(factor, part))
        pieces.append(_root_generator(field, base, q))
    if len(pieces) > 3:
        field.lemma(ROOT_PRODUCT)
    return field.power(field.multiply(*pieces), p)


def absolute_power(field: TowerField, f: Frac, exponent: sp.Rational) -> Frac:
    """|f|^e of one factor."""
    used = field.used(f.n)
    if len(used) == 1 and len(f.n) == 1 and used[0].sign != "real":
        degree = f.n.degrees()[used[0].index]
        return field.root(used[0], exponent * degree / used[0].order)
    if known_sign(field, f.n) == "real":
        f = f if exponent.q == 1 and exponent.p % 2 == 0 else absolute(field, f)
    if exponent.q == 1:
        return field.power(f, int(exponent))
    if f.n.is_constant():
        return field.power(number_root(field, int(f.n.leading_coefficient().p), int(exponent.q)), int(exponent.p))
    whole, part = divmod(int(exponent.p), int(exponent.q))
    return field.multiply(field.power(f, whole), field.power(_root_generator(field, f, int(exponent.q)), part))


def number_root(field: TowerField, number: int, q: int) -> Frac:
    """The q-th root of a positive integer, by its primes."""
    result = field.constant(1)
    for prime, power in sp.factorint(number, limit=10_000).items():
        whole, part = divmod(power, q)
        result = field.multiply(result, field.constant(sp.Integer(prime) ** whole))
        if part:
            result = field.multiply(result, field.power(_root_generator(field, field.constant(prime), q), part))
    return result


def _shown_root(size: sp.Expr, q: int) -> sp.Expr:
    return sp.Function("real_root")(size, q) if q % 2 else sp.Pow(size, sp.Rational(1, q), evaluate=False)


def _root_generator(field: TowerField, base: Frac, q: int) -> Frac:
    def make() -> Frac:
        sign = "real" if q % 2 and known_sign(field, base.n) == "real" else "nonnegative"
        if known_sign(field, base.n) == "positive":
            sign = "positive"
        generator = field.new("root", sign, lambda: _shown_root(field.show(base), q), (base, q))
        field.relate(field.variable(generator) ** (q * generator.order) - base.n)
        field.lemma(ROOT_POWER)
        return field.value(generator)

    return field.remember(("root", q), [base], make)


# Maxima -----------------------------------------------------------------------------------------------------------


def maximum(field: TowerField, values: Sequence[Frac]) -> Frac:
    """The largest value.

    Two values: a + (b - a) [b > a], which joins max with abs and piecewise functions. More: a + k M, where M >= 0 is
    the maximum of 0 and the differences to a, divided by their common positive factor k; a is chosen by those
    differences alone, so that M does not change when all values are shifted, scaled or permuted.
    """
    distinct: list[Frac] = []
    for v in values:
        if all(field.subtract(v, other).n for other in distinct):
            distinct.append(v)
    below = [v for v in distinct if any(_never_below(field, w, v) for w in distinct if w is not v)]
    distinct = [v for v in distinct if v not in below]
    if len(distinct) == 1:
        return distinct[0]
    if len(distinct) == 2:
        first, second = distinct
        gap = field.subtract(second, first)
        return field.add(first, field.multiply(gap, field.fraction(selector(field, gap), field.one)))
    candidates = []
    for base in distinct:
        gaps = [field.subtract(v, base) for v in distinct if v is not base]
        scale = common_scale(field, gaps)
        gaps = [field.multiply(gap, field.invert(scale)) for gap in gaps]
        gaps.sort(key=field.text)
        candidates.append((tuple(map(field.text, gaps)), base, scale, gaps))
    _, base, scale, gaps = min(candidates, key=lambda c: c[0])
    field.lemma(MAX_SHIFT)
    if not scale.n.is_constant():
        field.lemma(MAX_SCALE)
    return field.add(base, field.multiply(scale, opaque(field, "max0", gaps, _maximum_with_zero, "nonnegative")))


def _never_below(field: TowerField, upper: Frac, lower: Frac) -> bool:
    parts = factored(field, field.subtract(upper, lower))
    return parts.sign > 0 and all(known != "real" for _, _, known in parts.factors)


def _maximum_with_zero(*values: sp.Expr) -> sp.Expr:
    return sp.Max(0, *values, evaluate=False)


def common_scale(field: TowerField, values: Sequence[Frac]) -> Frac:
    """The positive factor, content included, that all values share."""
    denominator = field.one
    for v in values:
        denominator = field.times(denominator, v.d / field.gcd(denominator, v.d))
    numerators = [field.times(v.n, denominator / v.d) for v in values]
    common = numerators[0]
    for n in numerators[1:]:
        common = field.gcd(common, n)
    scale = Frac(field.one, field.one)
    for f, power in field.factor(common)[1]:
        kept = power if known_sign(field, f) != "real" else power - power % 2
        scale = field.multiply(scale, field.power(Frac(f, field.one), kept))
    for f, power in field.factor(denominator)[1]:
        kept = power if known_sign(field, f) != "real" else power + power % 2
        scale = field.multiply(scale, field.invert(field.power(Frac(f, field.one), kept)))
    leads = [abs(field.multiply(v, field.invert(scale)).n.leading_coefficient()) for v in values]
    numerator = math.gcd(*(int(c.p) for c in leads))
    return field.multiply(scale, field.constant(sp.Rational(numerator, math.lcm(*(int(c.q) for c in leads)))))


# Everything else --------------------------------------------------------------------------------------------------


def opaque(
    field: TowerField, name: str, arguments: Sequence[Frac], meaning: Callable[..., sp.Expr], sign: Sign = "real"
) -> Frac:
    """A function of which nothing is known but that equal arguments have equal values."""

    def make() -> Frac:
        shown = list(arguments)
        return field.value(field.new(name, sign, lambda: meaning(*map(field.show, shown)), shown))

    return field.remember(name, arguments, make)


def oriented(value: Frac) -> tuple[int, Frac]:
    """A sign and the value whose numerator has a positive leading coefficient."""
    if value.n and value.n.leading_coefficient() < 0:
        return -1, Frac(-value.n, value.d)
    return 1, value


def odd(field: TowerField, name: str, value: Frac, meaning: Callable[..., sp.Expr]) -> Frac:
    """An odd function with f(0) = 0."""
    if not value.n:
        return value
    sign, size = oriented(value)
    if sign < 0:
        field.lemma(ODD)
    return field.scale(opaque(field, name, [size], meaning), sign)


def hyperbolic_tangent(field: TowerField, value: Frac) -> Frac:
    """Tanh as an odd function of its own, or through exp on the second attempt."""
    if not field.hints.expand:
        return odd(field, "tanh", value, sp.tanh)
    field.lemma(TANH_EXP)
    square = exponential(field, field.scale(value, 2))
    one = field.constant(1)
    return field.multiply(field.subtract(square, one), field.invert(field.add(square, one)))


def cosine_and_sine(field: TowerField, value: Frac) -> tuple[Frac, Frac]:
    """Both at once, tied by cos^2 + sin^2 = 1; sums of angles are taken apart on the second attempt."""
    if not value.n:
        return field.constant(1), field.constant(0)
    if field.hints.expand and 1 < len(value.n) <= ANGLE_TERMS:
        field.lemma(ANGLE_SUM)
        cosine, sine = field.constant(1), field.constant(0)
        for exponents, coefficient in sorted(value.n.to_dict().items()):
            term = field.fraction(field.context.from_dict({exponents: coefficient}), value.d)
            c, s = cosine_and_sine(field, term)
            cosine, sine = (
                field.subtract(field.multiply(cosine, c), field.multiply(sine, s)),
                field.add(field.multiply(sine, c), field.multiply(cosine, s)),
            )
        return cosine, sine
    sign, size = oriented(value)

    def make() -> tuple[Frac, Frac]:
        s = field.new("sin", "real", lambda: sp.sin(field.show(size)))
        c = field.new("cos", "real", lambda: sp.cos(field.show(size)))
        field.relate(field.variable(c) ** 2 + field.variable(s) ** 2 - field.one)
        return field.value(c), field.value(s)

    cosine, sine = field.remember("angle", [size], make)
    field.lemma(PYTHAGORAS)
    if sign < 0:
        field.lemma(ODD)
    return cosine, field.scale(sine, sign)

r"""Signs of fractions: what is known positive, indicators of the rest, and the pieces they select.

A fraction is factored, and its sign is the product of the signs of its factors. Positive factors drop out, which is
why $\max(c z, 0) = c \max(z, 0)$ for $c > 0$ needs no rule of its own. Each remaining irreducible factor f, scaled to
leading coefficient 1, owns the indicator $[f > 0]$, and $[f = 0]$ when a strict or an equal comparison asks for it.
"""

from __future__ import annotations

from typing import NamedTuple

import sympy as sp
from flint import fmpq

from quotax.certify.identities.tower_field import Frac, Poly, Sign, TowerField

IS_POSITIVE, IS_ZERO = sp.Function("positive"), sp.Function("zero")
"""How indicators are shown; SymPy folds nested piecewise expressions at great cost, even unevaluated ones."""

SCALE = "max(c z, 0) = c max(z, 0) for c > 0"
FLIP = "[-z > 0] = 1 - [z >= 0]"
ONE_HOT = "[t = v] [t = w] = 0 for v != w"
SIGN_TERMS = 2_000
CASE_TERMS = 60
"""Longest polynomial whose indicators are gone through one by one."""
SEPARATE_LIMIT = 3
"""With more factors of unknown sign than this, their product gets one indicator (2^k terms otherwise)."""


class Factored(NamedTuple):
    """sign * content * product of factor ** power, each factor with what is known of its sign."""

    sign: int
    content: fmpq
    factors: list[tuple[Poly, int, Sign]]


def known_sign(field: TowerField, poly: Poly) -> Sign:
    """What the form of a polynomial says of its sign; `real` when that is nothing.

    Positive or nonnegative when every monomial is, with a positive coefficient; else by the two cases of the newest
    indicator.
    """
    if field.infinite and poly.degrees()[field.infinite.index] == 1:
        # Larger than anything finite: the sign of f is the sign of its coefficient.
        return known_sign(field, poly.derivative(field.infinite.index))
    if len(poly) > SIGN_TERMS:
        return "real"
    found = _sign_by_monomials(field, poly)
    return found if found != "real" else _sign_by_cases(field, poly)


def _sign_by_monomials(field: TowerField, poly: Poly) -> Sign:
    if any(coefficient < 0 for coefficient in poly.coeffs()):
        return "real"
    used = field.used(poly)
    best: Sign = "nonnegative"
    for monomial in poly.monoms():
        strict = True
        for generator in used:
            power = monomial[generator.index]
            if not power or generator.sign == "positive":
                continue
            if generator.sign == "real" and power % 2:
                return "real"
            strict = False
        if strict:
            best = "positive"
    return best


def _sign_by_cases(field: TowerField, poly: Poly) -> Sign:
    """With h = [f > 0]: where h = 1, p = q f + r with f > 0; where h = 0, p = q (-f) + r with -f >= 0."""
    generator = next((g for g in field.used(poly) if g.kind == "positive"), None)
    if generator is None or len(poly) > CASE_TERMS:
        return "real"
    signs: list[Sign] = []
    for value, size in ((1, generator.payload), (0, -generator.payload)):
        part = poly.subs({field.names[generator.index]: value})
        known = known_sign(field, part)
        if known == "real":
            quotient, rest = divmod(part, size)
            if quotient and known_sign(field, quotient) != "real":
                known = known_sign(field, rest)
        if known == "real":
            return "real"
        signs.append(known)
    return "positive" if signs == ["positive", "positive"] else "nonnegative"


def factored(field: TowerField, value: Frac) -> Factored:
    """The factors of numerator and denominator (negative powers)."""
    content, above = field.factor(value.n)
    other, below = field.factor(value.d)
    content = content / other
    powers = [*above, *((f, -e) for f, e in below)]
    sign = (content > 0) - (content < 0)
    factors: list[tuple[Poly, int, Sign]] = []
    for f, power in powers:
        known = known_sign(field, f)
        if known == "real" and field.infinite and known_sign(field, -f) == "positive":
            f, known, sign = -f, "positive", sign * (-1) ** power
        factors.append((f, power, known))
    return Factored(sign, abs(content), factors)


def unknown(field: TowerField, parts: Factored) -> list[Poly]:
    """The factors that decide the sign, merged into one when there are many."""
    odd = sorted((f for f, e, sign in parts.factors if sign == "real" and e % 2), key=str)
    if len(odd) > SEPARATE_LIMIT:
        product = field.one
        for f in odd:
            product = field.times(product, f)
        odd = [product / product.leading_coefficient()]
    if any(sign != "real" and field.used(f) for f, _, sign in parts.factors):
        field.lemma(SCALE)
    return odd


def positive(field: TowerField, f: Poly) -> Poly:
    """The indicator [f > 0]."""

    def make() -> Poly:
        generator = field.new("positive", "nonnegative", lambda: IS_POSITIVE(field.expression(f)), f)
        h = field.variable(generator)
        field.relate(h * h - h)
        return h

    return field.remember("positive", [Frac(f, field.one)], make)


def vanishing(field: TowerField, f: Poly) -> Poly:
    """The indicator [f = 0] of a polynomial that is not constant."""
    h = positive(field, f) if known_sign(field, f) == "real" else None

    def make() -> Poly:
        generator = field.new("zero", "nonnegative", lambda: IS_ZERO(field.expression(f)), f)
        z = field.variable(generator)
        field.relate(z * z - z)
        if h is not None:
            field.relate(z * h)
        if field.hints.vanishing:
            field.relate(z * f)
        for other, previous in field.zeros:
            if (f - other).is_constant() and f != other:
                field.relate(z * field.variable(previous))
                field.lemma(ONE_HOT)
        field.zeros.append((f, generator))
        return z

    return field.remember("zero", [Frac(f, field.one)], make)


def selector(field: TowerField, value: Frac) -> Poly:
    """A switch in {0, 1} that is [value > 0] wherever value is not 0: enough for max, min, abs, exact at ties."""
    if not value.n:
        return field.one
    parts = factored(field, value)
    switch = field.one if parts.sign > 0 else field.zero
    for f in unknown(field, parts):
        h = positive(field, f)
        switch = field.times(switch, h) + field.times(field.one - switch, field.one - h)
    return switch


def strictly_above(field: TowerField, value: Frac) -> Poly:
    """The indicator [value > 0], exact at 0."""
    if not value.n:
        return field.zero
    parts = factored(field, value)
    up, down = (field.one, field.zero) if parts.sign > 0 else (field.zero, field.one)
    real = unknown(field, parts)
    for f in real:
        h = positive(field, f)
        if len(real) == 1 and parts.sign > 0:
            up = h
            break
        low = field.one - h - vanishing(field, f)
        field.lemma(FLIP)
        up, down = field.times(up, h) + field.times(down, low), field.times(up, low) + field.times(down, h)
    for f, power, sign in parts.factors:
        if power > 0 and (sign == "nonnegative" or (sign == "real" and power % 2 == 0)):
            up = field.times(up, field.one - vanishing(field, f))
    return up


def equal_to_zero(field: TowerField, value: Frac) -> Poly:
    """The indicator [value = 0]."""
    if not value.n:
        return field.one
    different = field.one
    for f, power, sign in factored(field, value).factors:
        if power > 0 and sign != "positive":
            different = field.times(different, field.one - vanishing(field, f))
    return field.one - different


def absolute(field: TowerField, value: Frac) -> Frac:
    """|value| = value (2 [value > 0] - 1)."""
    switch = field.fraction(selector(field, value) * 2 - field.one, field.one) if value.n else value
    return field.multiply(value, switch)


def condition(field: TowerField, value: Frac, name: str) -> tuple[str, ...] | None:
    """A name for the set where value >= 0, the same for positive multiples; None when it is everywhere."""
    parts = factored(field, value)
    odd = sorted(str(f) for f, e, sign in parts.factors if sign == "real" and e % 2)
    if not odd and parts.sign >= 0:
        return None
    return (name, "+" if parts.sign > 0 else "-", *odd)

r"""Which scalings, shifts and flips an elementwise function turns into scalings and shifts of its value.

Nothing here knows a function by name. A form such as $F(\alpha z) = \alpha^p F(z)$ is guessed from numbers and then
proved, for all real arguments, by the prover that is handed in.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import sympy as sp

from quotax.kernel.lemma import Prover
from quotax.kernel.transformation import ALPHA, SHIFT, Effect

_POINTS = 8
"""Points at which a form is guessed; a guess is proved, so few are enough."""


class Lemmas:
    """Lemmas by function and by what happens to its arguments: the same ones whatever was asked before."""

    def __init__(self, prove: Prover) -> None:
        """`prove` decides identities of expressions in real symbols."""
        self.prove = prove
        self._known: dict[tuple[object, ...], Effect | None] = {}

    def scaling(
        self, function: sp.Expr, scaled: Sequence[sp.Symbol], kind: Literal["positive", "nonzero", "sign"]
    ) -> Effect | None:
        """What becomes of the value when these arguments are multiplied by one factor of this kind."""
        key = ("scale", function, tuple(scaled), kind)
        if key not in self._known:
            self._known[key] = self._scaling(function, scaled, kind)
        return self._known[key]

    def shifting(self, function: sp.Expr, shifted: Sequence[sp.Symbol]) -> Effect | None:
        """What becomes of the value when these arguments are shifted by one number."""
        key = ("shift", function, tuple(shifted))
        if key not in self._known:
            self._known[key] = self._shifting(function, shifted)
        return self._known[key]

    def _scaling(self, function: sp.Expr, scaled: Sequence[sp.Symbol], kind: str) -> Effect | None:
        if kind == "nonzero":
            return self._nonzero(function, scaled)
        alpha = ALPHA[kind]
        if kind == "sign":
            return self._flip(function, scaled)
        image = function.xreplace({z: alpha * z for z in scaled})
        samples = _pairs(function, scaled, 2.0, 0.0)
        found = [(a, b) for a, b in samples if a is not None and b is not None]
        powers = _constant([sp.log(abs(b / a), 2) for a, b in found if a and b])
        if found and not any(a or b for a, b in found):
            powers = [sp.Integer(0)]  # what is zero nearly everywhere, `[z = 0]`, shows no power but may have this one
        for power in powers:
            if self._holds([image], [alpha**power * function]):
                return Effect(power=power, words=f"F(αz) = {_power('α', power)}F(z) for α > 0")
        for logs in _constant([(b - a) / sp.log(2.0) for a, b in found]):
            if logs and self._holds([image], [function + logs * sp.log(alpha)]):
                return Effect(logs=logs, words=f"F(αz) = F(z) + {logs} log α for α > 0")
        return None

    def _flip(self, function: sp.Expr, scaled: Sequence[sp.Symbol]) -> Effect | None:
        image = function.xreplace({z: -z for z in scaled})
        samples = _pairs(function, scaled, -1.0, 0.0)
        found = [(a, b) for a, b in samples if a is not None and b is not None]
        if not found:
            return None
        if all(abs(a - b) < 1e-9 * (1 + abs(a)) for a, b in found) and self._holds([image], [function]):
            return Effect(words="F(-z) = F(z)")
        for twice in _constant([a + b for a, b in found]):
            if self._holds([image], [twice - function]):
                words = "F(-z) = -F(z)" if not twice else f"F(-z) = {twice} - F(z)"
                return Effect(power=sp.Integer(1), centre=twice / 2, words=words)
        return None

    def _nonzero(self, function: sp.Expr, scaled: Sequence[sp.Symbol]) -> Effect | None:
        """A nonzero factor is a positive one times a sign."""
        positive, flip = self.scaling(function, scaled, "positive"), self.scaling(function, scaled, "sign")
        if positive is None or flip is None or (positive.logs and flip.power) or flip.centre:
            return None
        if positive.logs:
            return Effect(logs=positive.logs, absolute=True, words=f"F(αz) = F(z) + {positive.logs} log|α| for α ≠ 0")
        odd = flip.power == 1
        power = positive.power
        if power == int(power) and (int(power) % 2 == 1) == odd:
            return Effect(power=power, words=f"F(αz) = {_power('α', power)}F(z) for α ≠ 0")
        if not odd:
            return Effect(power=power, absolute=True, words=f"F(αz) = {_power('|α|', power)}F(z) for α ≠ 0")
        return None

    def _shifting(self, function: sp.Expr, shifted: Sequence[sp.Symbol]) -> Effect | None:
        image = function.xreplace({z: z + SHIFT for z in shifted})
        samples = _pairs(function, shifted, 1.0, 0.5)
        found = [(a, b) for a, b in samples if a is not None and b is not None]
        for shift in _constant([(b - a) / 0.5 for a, b in found]):
            if self._holds([image], [function + shift * SHIFT]):
                return Effect(shift=shift, words=f"F(z + s) = F(z) + {shift} s" if shift else "F(z + s) = F(z)")
        for rate in _constant([sp.log(abs(b / a)) / 0.5 for a, b in found if a and b]):
            if self._holds([image], [sp.exp(rate * SHIFT) * function]):
                return Effect(rate=rate, words=f"F(z + s) = exp({rate} s) F(z)")
        return None

    def _holds(self, left: Sequence[sp.Expr], right: Sequence[sp.Expr]) -> bool:
        try:
            return bool(self.prove(left, right))
        except Exception:  # a prover that gives up has proved nothing
            return False


def _pairs(
    function: sp.Expr, chosen: Sequence[sp.Symbol], factor: float, shift: float
) -> list[tuple[sp.Expr | None, sp.Expr | None]]:
    """Values at random points and at their images; the points depend on the function alone."""
    source = random.Random(zlib.crc32(str(function).encode()))
    symbols = sorted(function.free_symbols, key=str)
    out = []
    for _ in range(_POINTS):
        point = {z: sp.Float(source.choice([-1, 1]) * source.uniform(0.3, 1.7)) for z in symbols}
        for z in symbols:
            if z.is_positive:
                point[z] = abs(point[z])
        image = {z: factor * v + shift if z in chosen else v for z, v in point.items()}
        out.append((_value(function, point), _value(function, image)))
    return out


def _value(function: sp.Expr, point: dict[sp.Symbol, sp.Expr]) -> sp.Expr | None:
    try:
        value = sp.N(function.xreplace(point))
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    return value if value.is_Number and value.is_finite else None


def _constant(values: Sequence[sp.Expr]) -> list[sp.Rational]:
    """The rational number of small denominator that all values are, in a list; empty when they differ."""
    numbers = [float(v) for v in values if sp.sympify(v).is_finite]
    if not numbers or not all(map(math.isfinite, numbers)):  # SymPy's numbers may be too large for a float
        return []
    if max(numbers) - min(numbers) > 1e-9 * (1 + abs(numbers[0])):
        return []
    rational = sp.Rational(Fraction(numbers[0]).limit_denominator(64))
    return [rational] if abs(float(rational) - numbers[0]) < 1e-9 * (1 + abs(numbers[0])) else []


def _power(base: str, power: sp.Rational) -> str:
    return "" if power == 0 else f"{base} " if power == 1 else f"{base}^{power} "

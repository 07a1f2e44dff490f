r"""Sizes of axes as polynomials in the axes' names: what "every width" means.

A size is a polynomial with integer coefficients in *symbols*: the names of axes, each at least one, and expressions
that are no polynomial (`floordiv(k + 1, 2)`, `mod(-1, h)`, `max(h, 64)`), each a symbol of its own of which nothing but
its sign is used. Two sizes are equal when they are the same polynomial: then they are equal for all values of the
axes. That two sizes differ, or that one is larger, is known only where it holds for all values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import SupportsInt

Monomial = tuple[tuple[str, int], ...]
"""Symbols with their powers, sorted by name."""


class Size(tuple[tuple[Monomial, int], ...]):
    """A polynomial in the names of axes: pairs (monomial, coefficient), sorted, no coefficient zero."""

    __slots__ = ()

    def __new__(cls, terms: Mapping[Monomial, int]) -> Size:
        """Sorted, without zeros."""
        return super().__new__(cls, sorted((m, int(c)) for m, c in terms.items() if c))

    @classmethod
    def of(cls, value: Size | str | SupportsInt) -> Size:
        """An integer, an axis name, or a size as it is."""
        if isinstance(value, Size):
            return value
        if isinstance(value, str):
            return cls({((value, 1),): 1})
        return cls({(): int(value)})

    @property
    def value(self) -> int | None:
        """The integer that it is, if it is one."""
        if not self:
            return 0
        return self[0][1] if len(self) == 1 and self[0][0] == () else None

    def plus(self, other: Size | int, times: int = 1) -> Size:
        """`self + times * other`."""
        out = dict(self)
        for monomial, coefficient in Size.of(other):
            out[monomial] = out.get(monomial, 0) + times * coefficient
        return Size(out)

    def minus(self, other: Size | int) -> Size:
        """`self - other`."""
        return self.plus(other, -1)

    def times(self, other: Size | int) -> Size:
        """`self * other`."""
        out: dict[Monomial, int] = {}
        for m1, c1 in self:
            for m2, c2 in Size.of(other):
                powers = dict(m1)
                for symbol, power in m2:
                    powers[symbol] = powers.get(symbol, 0) + power
                key = tuple(sorted(powers.items()))
                out[key] = out.get(key, 0) + c1 * c2
        return Size(out)

    def over(self, other: Size | int) -> Size | None:
        """The size that makes `self` with `other`, when there is one: division of polynomials without a remainder."""
        divisor = Size.of(other)
        if not divisor:
            return None
        lead, by = max(divisor, key=_degree)
        rest, quotient = self, Size({})
        while rest:
            monomial, coefficient = max(rest, key=_degree)
            left = _divided(monomial, lead)
            if left is None or coefficient % by:
                return None
            step = Size({left: coefficient // by})
            quotient = quotient.plus(step)
            rest = rest.minus(step.times(divisor))
        return quotient

    @property
    def nonnegative(self) -> bool:
        """Whether it is at least zero for all values of the axes: sufficient, not necessary.

        With every axis written as 1 + n, a polynomial in n and in symbols that are not negative has no negative
        coefficient. A symbol of unknown sign must not occur.
        """
        out: dict[Monomial, int] = {}
        for monomial, coefficient in self:
            for shifted, count in _shifted(monomial):
                if any(not (s.isidentifier() or s.startswith("mod(")) for s, _ in shifted):
                    return False
                out[shifted] = out.get(shifted, 0) + coefficient * count
        return all(c >= 0 for c in out.values())

    def raised(self, axis: str, by: int) -> Size:
        """The size with an axis replaced by itself plus a number."""
        out = ZERO
        for monomial, coefficient in self:
            part = Size({tuple((s, p) for s, p in monomial if s != axis): coefficient})
            for _ in range(dict(monomial).get(axis, 0)):
                part = part.times(Size.of(axis).plus(by))
            out = out.plus(part)
        return out

    @property
    def positive(self) -> bool:
        """Whether it is at least one for all values of the axes: sufficient, not necessary."""
        return self.minus(1).nonnegative

    def at(self, sizes: Mapping[str, int]) -> int:
        """Its value at these sizes of the axes; expressions that are no polynomial are computed from their text."""
        total = 0
        for monomial, coefficient in self:
            for symbol, power in monomial:
                known = sizes[symbol] if symbol in sizes else read(symbol, sizes).value
                assert known is not None
                coefficient *= known**power
            total += coefficient
        return total

    @property
    def symbols(self) -> set[str]:
        """The symbols that occur."""
        return {s for monomial, _ in self for s, _ in monomial}

    def __str__(self) -> str:
        """For example `3*h - 1`."""
        words = []
        for monomial, coefficient in reversed(self):
            factors = [s if p == 1 else f"{s}^{p}" for s, p in monomial]
            if abs(coefficient) != 1 or not factors:
                factors = [str(abs(coefficient)), *factors]
            words.append(("- " if coefficient < 0 else "+ ") + "*".join(factors))
        return " ".join(words).removeprefix("+ ") or "0"

    def __repr__(self) -> str:
        """The same."""
        return str(self)


ONE, ZERO = Size.of(1), Size.of(0)


def read(text: str, names: Mapping[str, Size | str | int] | None = None) -> Size:
    """A size from the text of an expression, as JAX prints it: `2*k`, `h^2 - 1`, `floordiv(k + 1, 2)`."""
    import re

    known = {name: _Reading(Size.of(name)) for name in re.findall(r"[A-Za-z_]\w*", text) if name not in FUNCTIONS}
    known |= {name: _Reading(Size.of(value)) for name, value in (names or {}).items()}
    found = eval(text.replace("^", "**"), {"__builtins__": {}}, {**FUNCTIONS, **known})
    return found.size if isinstance(found, _Reading) else Size.of(found)


class _Reading:
    """A size with Python's operators, for reading an expression."""

    def __init__(self, size: Size) -> None:
        self.size = size

    def __add__(self, other: _Reading | int) -> _Reading:
        return _Reading(self.size.plus(_size(other)))

    def __sub__(self, other: _Reading | int) -> _Reading:
        return _Reading(self.size.minus(_size(other)))

    def __mul__(self, other: _Reading | int) -> _Reading:
        return _Reading(self.size.times(_size(other)))

    def __rsub__(self, other: _Reading | int) -> _Reading:
        return _Reading(_size(other).minus(self.size))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> _Reading:
        return _Reading(ZERO.minus(self.size))

    def __pow__(self, power: int) -> _Reading:
        out = ONE
        for _ in range(power):
            out = out.times(self.size)
        return _Reading(out)


def _size(value: _Reading | int) -> Size:
    return value.size if isinstance(value, _Reading) else Size.of(value)


def _opaque(name: str, compute: Callable[[int, int], int]) -> Callable[[_Reading | int, _Reading | int], _Reading]:
    def made(left: _Reading | int, right: _Reading | int) -> _Reading:
        a, b = _size(left), _size(right)
        if a.value is not None and b.value is not None:
            return _Reading(Size.of(compute(a.value, b.value)))
        # a remainder is known not to be negative when what divides is known to be positive
        shown = "remainder" if name == "mod" and not b.positive else name
        return _Reading(Size.of(f"{shown}({a}, {b})"))

    return made


FUNCTIONS = {
    "floordiv": _opaque("floordiv", lambda a, b: a // b),
    "mod": _opaque("mod", lambda a, b: a % b),
    "remainder": _opaque("mod", lambda a, b: a % b),
    "max": _opaque("max", max),
    "min": _opaque("min", min),
}


def _degree(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    return (sum(p for _, p in term[0]), term[0])


def _divided(monomial: Monomial, by: Monomial) -> Monomial | None:
    powers = dict(monomial)
    for symbol, power in by:
        powers[symbol] = powers.get(symbol, 0) - power
    return None if any(p < 0 for p in powers.values()) else tuple(sorted((s, p) for s, p in powers.items() if p))


def _shifted(monomial: Monomial) -> list[tuple[Monomial, int]]:
    """The monomial with every axis replaced by itself plus one, written out."""
    out: dict[Monomial, int] = {(): 1}
    for symbol, power in monomial:
        for _ in range(power):
            fresh: dict[Monomial, int] = {}
            for m, c in out.items():
                powers = dict(m)
                powers[symbol] = powers.get(symbol, 0) + 1
                raised = tuple(sorted(powers.items()))
                fresh[raised] = fresh.get(raised, 0) + c
                if symbol.isidentifier():
                    fresh[m] = fresh.get(m, 0) + c
            out = fresh
    return list(out.items())

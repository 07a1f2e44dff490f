r"""Exact fractions over a growing tower of generators.

A *generator* is a base symbol or the value of one nonlinearity at one argument: $e^{b}$, $\log|f|$, $f^{1/q}$, the
indicators $[f > 0]$ and $[f = 0]$, or an opaque $\phi(a)$. Every intermediate value of a network is then a fraction
$n/d$ of two polynomials in the generators with rational coefficients, and what is known of the nonlinearities is a
list of polynomial *relations* ($H^2 = H$, $r^q = f$, $c^2 = 1 - s^2$, ...), each true at every point.

Every operation preserves the value of what it rewrites, wherever the denominators are not zero. Hence a difference
that reduces to the zero polynomial is zero as a function: the field can miss an identity, it cannot invent one.

Generators are ordered lexicographically, newest first, so that the leading monomial of a relation is always the one
it is meant to remove and `divmod` by the relation does the removing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import sympy as sp
from flint import Ordering, fmpq, fmpq_mpoly_ctx

from quotax.trees import Tree

Poly = Any
"""A `flint.fmpq_mpoly` (python-flint ships no types)."""

Sign = Literal["positive", "nonnegative", "real"]

PRODUCT_LIMIT = 40_000_000
"""Largest product of term counts that is multiplied out: about ten seconds of flint, which cannot be interrupted."""
TERM_LIMIT = 400_000
GCD_PRODUCTS = 1_000_000
FACTOR_LIMIT = 1_500
INDICATOR_LIMIT = 8
POWER_LIMIT = 64
"""Exponents with a larger numerator or denominator (0.01 in binary, a mask of -1e30) are left unevaluated."""
DEGREE_LIMIT = 512
"""Largest degree of a polynomial that is factored: flint may go dense, and ends the process without memory."""


class Undecided(Exception):
    """The proof stops here; the message says why."""


class Swollen(Undecided):
    """An intermediate value has too many terms; `index` is the pair that was being compared."""

    index: int = 0


class Restart(Exception):
    """The walk must start again, with one more hint or with more generators."""

    def __init__(self, key: Hashable = None, order: int = 1) -> None:
        """`key` is a generator that needs a root of `order`; None asks for a larger tower."""
        super().__init__(key, order)
        self.key = key
        self.order = order


def small(power: sp.Rational) -> bool:
    """Whether a power may be written out."""
    return abs(power.p) <= POWER_LIMIT and power.q <= POWER_LIMIT


class Frac(NamedTuple):
    """A fraction in lowest terms whose denominator has leading coefficient 1."""

    n: Poly
    d: Poly


@dataclass(eq=False)
class Generator:
    """One variable of the field.

    The variable stands for `base ** (1 / order)` when some expression needs a root of a positive generator: with
    $c = g^2$ the square root of $c$ costs nothing.
    """

    index: int
    key: Hashable
    kind: str
    sign: Sign
    meaning: Callable[[], sp.Expr]
    order: int = 1
    payload: Tree = None


@dataclass
class Hints:
    """What earlier walks of the same expressions found out."""

    towers: int = 16
    orders: dict[Hashable, int] = field(default_factory=dict)
    vanishing: bool = True
    """Whether f [f = 0] = 0 may be used: not when f divides a denominator, where n/d says nothing at f = 0."""
    expand: bool = False
    """Whether tanh is written through exp and angles are split."""
    products: int = PRODUCT_LIMIT
    """Largest product of term counts."""
    shared: frozenset[sp.Basic] = frozenset()
    """Nodes that both sides seem to have in common: cut points."""


@dataclass
class ExponentBasis:
    """Arguments of exp, linearly independent over Q: numerators over one denominator, with distinct leading monomials.

    `members` holds (numerator with leading coefficient 1, generators); each generator stands for the exponential of
    `payload` times its member. There are several where the ratio of two coefficients is no small fraction.
    """

    denominator: Poly
    members: list[tuple[Poly, list[Generator]]] = field(default_factory=list)


class TowerField:
    """The generators, the relations, and arithmetic modulo the relations."""

    def __init__(self, symbols: Sequence[sp.Symbol], hints: Hints, deadline: float) -> None:
        """Reserve `hints.towers` variables for generators that appear on the way."""
        self.hints = hints
        self.deadline = deadline
        count = hints.towers + len(symbols)
        self.names = tuple(f"t{i}" for i in range(count))
        self.context = fmpq_mpoly_ctx.get(self.names, Ordering.lex)
        self._variables = self.context.gens()
        self.zero, self.one = self.context.constant(0), self.context.constant(1)
        self.generators: dict[int, Generator] = {}
        self.relations: list[tuple[tuple[tuple[int, int], ...], Poly]] = []
        self.lemmas: dict[str, None] = {}
        self.inverted: dict[str, Poly] = {}
        self.infinite: Generator | None = None
        self.zeros: list[tuple[Poly, Generator]] = []
        self.exponents = ExponentBasis(self.one)
        self._by_key: dict[Hashable, Tree] = {}
        self._by_kind: dict[Hashable, list[tuple[Frac, Tree]]] = {}
        self._free = hints.towers - 1
        self._regular: dict[str, bool] = {}
        self._shown: dict[int, sp.Expr] = {}
        for offset, symbol in enumerate(symbols):
            sign = "positive" if symbol.is_positive else "nonnegative" if symbol.is_nonnegative else "real"
            key = ("symbol", symbol.name, offset)
            index = hints.towers + offset
            self.generators[index] = Generator(index, key, "symbol", sign, lambda s=symbol: s, self._order(key))

    # Generators ------------------------------------------------------------------------------------------------

    def _order(self, key: Hashable) -> int:
        return self.hints.orders.get(key, 1)

    def symbol(self, offset: int) -> Frac:
        """The value of the base symbol at this place."""
        return self.value(self.generators[self.hints.towers + offset])

    def new(self, kind: str, sign: Sign, meaning: Callable[[], sp.Expr], payload: Tree = None) -> Generator:
        """A generator larger than all that exist; numbered, so that a second walk gives it the same key."""
        if self._free < 0:
            raise Restart
        index, self._free = self._free, self._free - 1
        key = (kind, self.hints.towers - index)
        made = Generator(index, key, kind, sign, meaning, self._order(key), payload)
        self.generators[index] = made
        return made

    def variable(self, generator: Generator) -> Poly:
        """The polynomial variable itself."""
        return self._variables[generator.index]

    def value(self, generator: Generator) -> Frac:
        """What the generator stands for: the variable to the power `order`."""
        return Frac(self._variables[generator.index] ** generator.order, self.one)

    def root(self, generator: Generator, power: sp.Rational) -> Frac:
        """A rational power of a nonnegative generator, asking for a root of it if there is none yet."""
        exponent = power * generator.order
        if exponent.q * generator.order > DEGREE_LIMIT:
            raise Undecided("a root of too high an order")
        if exponent.q != 1:
            raise Restart(generator.key, int(exponent.q))
        return self.power(Frac(self._variables[generator.index], self.one), int(exponent))

    def remember(self, kind: Hashable, arguments: Sequence[Frac], make: Callable[[], Tree]) -> Tree:
        """The object made for these arguments before, or a new one.

        Fractions in the same generators may be equal without being written alike once roots or indicators occur, so
        a few earlier arguments are also compared by their difference.
        """
        key = (kind, *(self.text(a) for a in arguments))
        if key in self._by_key:
            return self._by_key[key]
        if len(arguments) == 1:
            argument = arguments[0]
            known = self._by_kind.setdefault(kind, [])
            if self._has(argument, ("root", "positive", "zero", "cos", "sin")):
                for other, found in known[:40]:
                    if (
                        len(other.n) * len(argument.d) + len(argument.n) * len(other.d) < 3000
                        and not self.subtract(argument, other).n
                    ):
                        self._by_key[key] = found
                        return found
            self._by_key[key] = made = make()
            known.append((argument, made))
            return made
        self._by_key[key] = made = make()
        return made

    def _has(self, value: Frac, kinds: Iterable[str]) -> bool:
        kinds = tuple(kinds)
        return any(g.kind in kinds for g in self.used(value.n) + self.used(value.d))

    def used(self, poly: Poly) -> list[Generator]:
        """The generators that occur, newest first."""
        return [self.generators[i] for i, degree in enumerate(poly.degrees()) if degree > 0]

    def lemma(self, words: str) -> None:
        """Record that a rewriting lemma was used."""
        self.lemmas[words] = None

    # Polynomials -----------------------------------------------------------------------------------------------

    def relate(self, poly: Poly) -> None:
        """Add the relation `poly = 0`, which removes its leading monomial from now on."""
        powers = tuple((index, power) for index, power in enumerate(poly.monomial(0)) if power)
        self.relations.append((powers, poly))

    def check(self) -> None:
        """Stop when the time is over."""
        if time.monotonic() > self.deadline:
            raise Undecided("budget of time exceeded")

    def reduce(self, poly: Poly) -> Poly:
        """The normal form modulo the relations, newest first, until nothing changes."""
        if not self.relations:
            return poly
        changed = True
        while changed:
            changed = False
            degrees = poly.degrees()
            for leading, relation in reversed(self.relations):
                if all(degrees[index] >= power for index, power in leading):
                    self._guard(len(poly), len(relation))
                    remainder = divmod(poly, relation)[1]
                    if remainder != poly:
                        poly, changed = remainder, True
                        degrees = poly.degrees()
        return poly

    def _guard(self, left: int, right: int) -> None:
        self.check()
        if left * right > self.hints.products or max(left, right) > TERM_LIMIT:
            raise Swollen(f"budget of terms exceeded: a product of {left} and {right} terms")

    def times(self, left: Poly, right: Poly) -> Poly:
        """The product in normal form."""
        self._guard(len(left), len(right))
        return self.reduce(left * right)

    def gcd(self, left: Poly, right: Poly) -> Poly:
        """The greatest common divisor; 1 when finding it would take too long (which is sound)."""
        self.check()
        if left.is_constant() or right.is_constant():
            return self.one
        if len(left) * len(right) > min(GCD_PRODUCTS, self.hints.products):
            common = left.term_content().gcd(right.term_content())
            return self.one if common.is_constant() else common
        return left.gcd(right)

    def factor(self, poly: Poly) -> tuple[fmpq, list[tuple[Poly, int]]]:
        """Content and irreducible factors with leading coefficient 1; monomials only when the polynomial is long."""
        self.check()
        content: fmpq = fmpq(1)
        if len(poly) <= FACTOR_LIMIT and max(poly.degrees(), default=0) <= DEGREE_LIMIT:
            content, factors = poly.factor()
        else:
            monomial = poly.term_content()
            monomial = monomial / monomial.leading_coefficient()
            factors = [*monomial.factor()[1], (poly / monomial, 1)]
        monic = []
        for factor, power in factors:
            lead = factor.leading_coefficient()
            content *= lead**power
            monic.append((factor / lead, power))
        return content, monic

    # Fractions -------------------------------------------------------------------------------------------------

    def constant(self, value: sp.Rational) -> Frac:
        """A rational number."""
        number = sp.Rational(value)
        return Frac(self.context.constant(fmpq(int(number.p), int(number.q))), self.one)

    def fraction(self, numerator: Poly, denominator: Poly) -> Frac:
        """Numerator over denominator, in lowest terms; both already in normal form."""
        if not denominator:
            raise Undecided("a denominator is identically zero")
        if not numerator:
            return Frac(self.zero, self.one)
        common = self.gcd(numerator, denominator)
        if not common.is_one():
            numerator, denominator = numerator / common, denominator / common
        lead = denominator.leading_coefficient()
        if lead != 1:
            numerator, denominator = numerator / lead, denominator / lead
        return Frac(numerator, denominator)

    def add(self, *terms: Frac) -> Frac:
        """The sum; terms with one denominator are added before anything is multiplied."""
        groups: dict[str, list[Poly]] = {}
        for n, d in terms:
            entry = groups.setdefault(str(d), [self.zero, d])
            entry[0] = entry[0] + n
        parts = [self.fraction(n, d) for n, d in groups.values() if n]
        if not parts:
            return Frac(self.zero, self.one)
        total = parts[0]
        for n, d in parts[1:]:
            common = self.gcd(total.d, d)
            left, right = d / common, total.d / common
            total = self.fraction(self.times(total.n, left) + self.times(n, right), self.times(total.d, left))
        return total

    def subtract(self, left: Frac, right: Frac) -> Frac:
        """The difference."""
        return self.add(left, self.scale(right, -1))

    def scale(self, value: Frac, number: sp.Rational) -> Frac:
        """A rational multiple."""
        return Frac(value.n * number, value.d) if number else Frac(self.zero, self.one)

    def multiply(self, *factors: Frac) -> Frac:
        """The product, common factors of opposite sides removed first."""
        n, d = self.one, self.one
        for other in factors:
            first, second = self.gcd(n, other.d), self.gcd(other.n, d)
            n = self.times(n / first, other.n / second)
            d = self.times(d / second, other.d / first)
        return self.fraction(n, d)

    def power(self, value: Frac, exponent: int) -> Frac:
        """An integer power."""
        if exponent < 0:
            value, exponent = self.invert(value), -exponent
        if exponent * max(1, *value.n.degrees(), *value.d.degrees()) > 4 * DEGREE_LIMIT:
            raise Undecided("a power of too high a degree")
        result = Frac(self.one, self.one)
        square = value
        while exponent:
            if exponent & 1:
                result = Frac(self.times(result.n, square.n), self.times(result.d, square.d))
            exponent >>= 1
            if exponent:
                square = Frac(self.times(square.n, square.n), self.times(square.d, square.d))
        # Powers of a fraction in lowest terms are in lowest terms, but the relations may bring common factors back.
        return self.fraction(result.n, result.d)

    def invert(self, value: Frac) -> Frac:
        """The inverse, with square roots moved from the denominator to the numerator."""
        numerator, denominator = value.d, value.n
        if not denominator:
            raise Undecided("division by an expression that is identically zero")
        if not denominator.is_constant():
            self.inverted.setdefault(str(denominator), denominator)
        for generator in self.used(denominator):
            if generator.kind != "root" or len(denominator) > 60:
                continue
            variable, degree = self.variable(generator), denominator.degrees()[generator.index]
            low = denominator.subs({self.names[generator.index]: 0})
            if generator.order == 1 and generator.payload[1] == 2 and degree == 1:
                conjugate = low * 2 - denominator
            elif not low and degree == denominator.term_content().degrees()[generator.index]:
                conjugate = variable ** (-degree % (generator.payload[1] * generator.order))
            else:
                continue
            numerator, denominator = self.times(numerator, conjugate), self.times(denominator, conjugate)
        return self.fraction(numerator, denominator)

    def regular(self, poly: Poly) -> bool:
        """Whether a polynomial can vanish on a thin set only, whatever its indicators are."""
        key = str(poly)
        if key not in self._regular:
            switches = [g for g in self.used(poly) if g.kind in ("positive", "zero")]
            self._regular[key] = len(switches) <= INDICATOR_LIMIT and all(
                poly.subs({self.names[g.index]: mask >> i & 1 for i, g in enumerate(switches)})
                for mask in range(1 << len(switches) if switches else 0)
            )
            if not switches:
                self._regular[key] = bool(poly)
        return self._regular[key]

    # Reading ---------------------------------------------------------------------------------------------------

    @staticmethod
    def text(value: Frac) -> str:
        """A string that is the same for the same fraction."""
        return f"{value.n}/{value.d}"

    def meaning(self, generator: Generator) -> sp.Expr:
        """What the generator stands for, in the network's symbols."""
        if generator.index not in self._shown:
            self.check()
            self._shown[generator.index] = generator.meaning()
        return self._shown[generator.index]

    def expression(self, poly: Poly) -> sp.Expr:
        """The polynomial as a SymPy expression of the network's symbols."""
        used = [(g, self.meaning(g)) for g in self.used(poly)]
        terms = []
        for exponents, coefficient in poly.to_dict().items():
            term = sp.Rational(int(coefficient.p), int(coefficient.q))
            for generator, meaning in used:
                power = exponents[generator.index]
                if power:
                    term = term * meaning ** sp.Rational(int(power), generator.order)
            terms.append(term)
        return sp.Add(*terms)

    def show(self, value: Frac) -> sp.Expr:
        """The fraction as a SymPy expression."""
        return self.expression(value.n) / self.expression(value.d)

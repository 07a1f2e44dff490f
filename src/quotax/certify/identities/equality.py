r"""Exact identities of network expressions at given widths.

Every node of the two expressions becomes a fraction in one tower field (`tower_field`), by one rule for each function
(`functions`, `signs`); two expressions are equal when the numerator of their difference reduces to zero. A proof
holds for all real values of the symbols (positive ones where the symbol is positive) at which both sides are defined,
and both sides must be defined on the same set: $\log(-x)$ never equals $\log x$ by being nowhere compared with it.

What is not found equal is *not proved*, never refuted.

    >>> import sympy as sp
    >>> z, c = sp.Symbol("z", real=True), sp.Symbol("c", positive=True)
    >>> bool(prove_equal([sp.Max(c * z, 0) / c], [sp.Max(z, 0)]))
    True
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational
from sympy.logic.boolalg import ITE, And, Boolean, BooleanFalse, BooleanTrue, Not, Or

from quotax.certify.identities import functions, signs
from quotax.certify.identities.common_parts import nodes, private_symbols, shared_nodes, symbols_of
from quotax.certify.identities.tower_field import Frac, Hints, Restart, Swollen, TowerField, Undecided, small
from quotax.elementwise import FUNCTIONS, Elementwise, formula

NONZERO = "denominators are not zero"
SHARED = "a part that both sides have in common is named once"
FIRST_PRODUCTS = 100_000
"""Product of term counts above which common parts are looked for."""
CUT_TERMS = 16
RESTART_LIMIT = 40
RESIDUAL_TERMS = 40
RESIDUAL_SECONDS = 2.0


@dataclass(frozen=True)
class Equality:
    """Whether two lists of expressions were proved equal, and how, or what was left.

    `bool(verdict)` is `equal`. A verdict that is not equal is no refutation.
    """

    equal: bool
    index: int | None = None
    residual: sp.Expr | str | None = None
    lemmas: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether equality is proved."""
        return self.equal


def prove_equal(left: Sequence[sp.Expr], right: Sequence[sp.Expr], budget_seconds: float = 60.0) -> Equality:
    """Prove `left[i] == right[i]` for every i, as functions of their symbols.

    Symbols are real; one with `is_positive` is positive. Infinite constants stand for masks and are larger than every
    finite value. The budget bounds the time between two polynomial operations, and each operation is bounded in size.
    """
    if len(left) != len(right):
        return Equality(False, min(len(left), len(right)), f"{len(left)} expressions against {len(right)}")
    pairs = [(sp.sympify(a), sp.sympify(b)) for a, b in zip(left, right, strict=True)]
    if all(a == b for a, b in pairs):
        return Equality(True)
    deadline = time.monotonic() + budget_seconds
    sides = [side for pair in pairs for side in pair]
    towers = _towers(sides)
    try:
        verdict = _attempt(pairs, Hints(towers=towers, products=FIRST_PRODUCTS), deadline)
    except Swollen:
        firsts, seconds = zip(*pairs, strict=True)
        shared = shared_nodes(firsts, seconds)
        verdict = _last_attempt(pairs, Hints(towers=towers, shared=shared), deadline)
        if not verdict:
            verdict = _last_attempt(pairs, Hints(towers=towers), deadline)
    for kinds, hints in (
        ((sp.tanh, sp.sin, sp.cos), Hints(towers=towers, expand=True, products=FIRST_PRODUCTS)),
        # f [f = 0] = 0 may hide a common factor of an argument; without it the factor is seen.
        ((sp.Piecewise, sp.sign), Hints(towers=towers, vanishing=False)),
    ):
        if not verdict and time.monotonic() < deadline and any(isinstance(n, kinds) for n in nodes(sides)):
            other = _last_attempt(pairs, hints, deadline)
            verdict = other if other else verdict
    return verdict


def _last_attempt(pairs: Sequence[tuple[sp.Expr, sp.Expr]], hints: Hints, deadline: float) -> Equality:
    try:
        return _attempt(pairs, hints, deadline)
    except Swollen as stop:
        return Equality(False, stop.index, str(stop))


def _towers(sides: Sequence[sp.Expr]) -> int:
    """A first guess of the generators needed: one for each nonlinear node, rounded up so that contexts are reused."""
    count = sum(not isinstance(n, (sp.Add, sp.Mul, sp.Symbol, sp.Number)) for n in nodes(sides))
    return 16 * (1 + count // 16)


def _attempt(pairs: Sequence[tuple[sp.Expr, sp.Expr]], hints: Hints, deadline: float) -> Equality:
    """Walk and compare; start again with what the walk found to be missing."""
    for _ in range(RESTART_LIMIT):
        try:
            return _compare(pairs, hints, deadline)
        except Restart as missing:
            if missing.key is None:
                hints.towers *= 2
            else:
                hints.orders[missing.key] = hints.orders.get(missing.key, 1) * missing.order
        except Swollen:
            raise
        except Undecided as stop:  # where what was compared already is looked at once more
            return Equality(False, 0, str(stop))
        except RecursionError:
            return Equality(False, 0, "the expression is nested too deeply")
    return Equality(False, 0, "budget of restarts exceeded")


def _compare(pairs: Sequence[tuple[sp.Expr, sp.Expr]], hints: Hints, deadline: float) -> Equality:
    walk = Walk(pairs, hints, deadline)
    field = walk.field
    for index, (a, b) in enumerate(pairs):
        if a == b:
            continue
        try:
            difference = field.subtract(walk.value(a), walk.value(b))
            # Fractions that differ in form can still meet after the common denominator is rationalised.
            residue = field.reduce(difference.n)
        except Swollen as stop:
            stop.index = index
            raise
        except Undecided as stop:
            return Equality(False, index, str(stop), tuple(field.lemmas))
        if hints.vanishing and field.zeros and _touches(field):
            # f [f = 0] = 0 was used where f divides a denominator; without that relation [f = 0] stays a free symbol.
            hints.vanishing = False
            raise Restart(("none",), 1)
        if residue:
            return Equality(False, index, _residual(field, Frac(residue, difference.d)), tuple(field.lemmas))
        if walk.conditions(a) != walk.conditions(b):
            return Equality(False, index, "the two sides are not defined on the same set", tuple(field.lemmas))
    assumptions = (NONZERO,) if field.inverted else ()
    if field.infinite:
        assumptions += ("infinite constants are limits",)
    return Equality(True, None, None, tuple(field.lemmas), assumptions)


def _touches(field: TowerField) -> bool:
    return any(not field.gcd(f, d).is_constant() for f, _ in field.zeros for d in field.inverted.values())


def _residual(field: TowerField, difference: Frac) -> sp.Expr | str:
    if len(difference.n) + len(difference.d) > RESIDUAL_TERMS:
        return f"a numerator of {len(difference.n)} terms over {len(difference.d)} terms"
    field.deadline = time.monotonic() + RESIDUAL_SECONDS
    try:
        return field.show(difference)
    except Undecided:
        return f"a numerator of {len(difference.n)} terms over {len(difference.d)} terms"


class Walk:
    """The value of every node of some expressions in one field, each node once."""

    def __init__(self, pairs: Sequence[tuple[sp.Expr, sp.Expr]], hints: Hints, deadline: float) -> None:
        """Make the field of the symbols that occur."""
        firsts, seconds = zip(*pairs, strict=True)
        sides = [*firsts, *seconds]
        symbols = sorted(symbols_of(sides), key=lambda s: (str(s), sp.srepr(s)))
        infinity = [sp.Dummy("infinity", positive=True)] if any(n in (sp.oo, -sp.oo) for n in nodes(sides)) else []
        self.field = TowerField([*symbols, *infinity], hints, deadline)
        self._memo: dict[sp.Basic, Frac] = {s: self.field.symbol(i) for i, s in enumerate(symbols)}
        if infinity:
            self.field.infinite = self.field.generators[hints.towers + len(symbols)]
            self._memo[sp.oo] = self.field.symbol(len(symbols))
            self._memo[-sp.oo] = self.field.scale(self._memo[sp.oo], -1)
        self._own: dict[sp.Basic, frozenset[tuple[str, ...]]] = {}
        self._open: list[set[tuple[str, ...]]] = []
        private = private_symbols(firsts, seconds) if hints.shared else frozenset()
        self._private = [hints.towers + i for i, s in enumerate(symbols) if s in private]
        self._sums: list[tuple[frozenset[sp.Basic], Frac]] = []

    def value(self, node: sp.Basic) -> Frac:
        """The node in the field."""
        found = self._memo.get(node)
        if found is None:
            self.field.check()
            self._open.append(set())
            found = self._rule(node)
            if node in self.field.hints.shared and len(found.n) + len(found.d) > CUT_TERMS:
                found = self._cut(found)
                if isinstance(node, sp.Add):
                    self._sums.append((frozenset(node.args), found))
            self._own[node] = frozenset(self._open.pop())
            self._memo[node] = found
        return found

    def _cut(self, value: Frac) -> Frac:
        """A generator for the value, less its rational content and its monomial in the symbols of one side."""
        field = self.field
        above, below = value.n.term_content().degrees(), value.d.term_content().degrees()
        scale = field.fraction(field.one * value.n.leading_coefficient(), field.one)
        for index in self._private:
            power = above[index] - below[index]
            if power:
                variable = Frac(field.variable(field.generators[index]), field.one)
                scale = field.multiply(scale, field.power(variable, power))
        rest = field.multiply(value, field.invert(scale))
        sure = all(signs.known_sign(field, p) == "positive" for p in rest)
        field.lemma(SHARED)
        named = functions.opaque(field, "cut", [rest], lambda e: e, "positive" if sure else "real")
        return field.multiply(scale, named)

    def _sum(self, node: sp.Add) -> Frac:
        """A sum, with the largest cut points among its partial sums: SymPy flattens x + (y + z), hiding y + z."""
        rest = set(node.args)
        terms = []
        values = {a: self.value(a) for a in node.args}
        for part, value in sorted(self._sums, key=lambda s: -len(s[0])):
            if part <= rest:
                rest -= part
                terms.append(value)
        return self.field.add(*terms, *(values[a] for a in node.args if a in rest))

    def conditions(self, root: sp.Basic) -> frozenset[tuple[str, ...]]:
        """Where the expression is defined: the conditions of all its nodes."""
        seen: set[sp.Basic] = set()
        stack, found = [root], set()
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                found |= self._own.get(node, frozenset())
                stack.extend(node.args)
        return frozenset(found)

    def substituted(self, form: sp.Expr, value: Frac) -> Frac:
        """A formula in z at a value; where it is defined, what is being walked is."""
        symbol = sp.Dummy("z", real=True)
        self._memo[symbol] = value
        form = form.xreplace({formula("z"): symbol})
        found = self.value(form)
        self._open[-1] |= self.conditions(form)
        return found

    def _defined(self, value: Frac, name: str) -> None:
        condition = signs.condition(self.field, value, name)
        if condition is not None:
            self._open[-1].add(condition)

    def _rule(self, node: sp.Basic) -> Frac:
        field = self.field
        if isinstance(node, sp.Add):
            return self._sum(node)
        if isinstance(node, sp.Mul):
            return field.multiply(*map(self.value, node.args))
        if isinstance(node, (sp.Integer, sp.Rational, sp.Float)):
            # Floats are what the model computes with: their exact binary value.
            return field.constant(node)
        if isinstance(node, sp.exp):
            return functions.exponential(field, self.value(node.args[0]))
        if isinstance(node, sp.Pow):
            return self._power(node)
        if isinstance(node, (sp.Max, sp.Min)):
            return self._extremum(node)
        if isinstance(node, sp.Piecewise):
            return self._piecewise(node)
        if isinstance(node, (Boolean, BooleanTrue, BooleanFalse)):
            return self._truth(node)
        if isinstance(node, sp.NumberSymbol):
            if node is sp.E:
                return functions.exponential(field, field.constant(1))
            return functions.opaque(field, str(node), [], lambda: node, "positive" if node.is_positive else "real")
        if isinstance(node, (sp.Function, AppliedUndef)):
            return self._function(node)
        raise Undecided(f"`{str(node)[:60]}` has no rule")

    def _function(self, node: sp.Function) -> Frac:
        field, name = self.field, node.func.__name__
        arguments = [self.value(a) for a in node.args]
        if name in UNARY and len(arguments) == 1:
            return UNARY[name](self, arguments[0])
        if name == "KroneckerDelta":
            return self._switch(signs.equal_to_zero(field, field.subtract(*arguments[:2])))
        return functions.opaque(field, f"{name}/{len(arguments)}", arguments, node.func)

    def _switch(self, poly: object) -> Frac:
        return Frac(poly, self.field.one)

    def _power(self, node: sp.Pow) -> Frac:
        field, (base, exponent) = self.field, node.args
        if base is sp.E:
            return functions.exponential(field, self.value(exponent))
        number = sp.Rational(exponent) if isinstance(exponent, (sp.Rational, sp.Float)) else None
        value = self.value(base)
        if number is not None and small(number):
            if number.p < 0:
                self._pole(value)
            if number.q == 1:
                return field.power(value, int(number))
            return functions.rational_power(field, value, number, self._defined)
        power = self.value(exponent)
        parts = signs.factored(field, value)
        if parts.sign > 0 and all(sign == "positive" for _, _, sign in parts.factors):
            log = functions.logarithm(field, value, self._defined)
            return functions.exponential(field, field.multiply(power, log))
        return functions.opaque(field, "pow", [value, power], sp.Pow)

    def _pole(self, value: Frac) -> None:
        """A denominator that vanishes on an open set (a dead unit) restricts where the expression is defined."""
        field = self.field
        if not field.regular(value.n):
            for factor, _ in field.factor(value.n)[1]:
                if not field.regular(factor):
                    self._open[-1].add(("nonzero", str(factor)))

    def _extremum(self, node: sp.Expr) -> Frac:
        leaves, stack = [], list(node.args)
        while stack:
            leaf = stack.pop()
            if isinstance(leaf, node.func):
                stack.extend(leaf.args)
            else:
                leaves.append(leaf)
        values = [self.value(leaf) for leaf in leaves]
        if isinstance(node, sp.Max):
            return functions.maximum(self.field, values)
        field = self.field
        return field.scale(functions.maximum(field, [field.scale(v, -1) for v in values]), -1)

    def _piecewise(self, node: sp.Piecewise) -> Frac:
        field = self.field
        total, left = field.constant(0), field.constant(1)
        for branch, test in node.args:
            chosen = field.multiply(left, self.value(test))
            if chosen.n:
                total = field.add(total, field.multiply(chosen, self.value(branch)))
            left = field.subtract(left, chosen)
            if not left.n:
                return total
        raise Undecided("a piecewise expression does not cover every case")

    def _truth(self, node: sp.Basic) -> Frac:
        field = self.field
        one = field.constant(1)
        if node in (sp.true, sp.false):
            return one if node == sp.true else field.constant(0)
        if isinstance(node, And):
            return field.multiply(*map(self.value, node.args))
        if isinstance(node, Not):
            return field.subtract(one, self.value(node.args[0]))
        if isinstance(node, Or):
            return field.subtract(one, field.multiply(*(field.subtract(one, self.value(a)) for a in node.args)))
        if isinstance(node, ITE):
            test, yes, no = map(self.value, node.args)
            return field.add(field.multiply(test, yes), field.multiply(field.subtract(one, test), no))
        if isinstance(node, Relational):
            gap = field.subtract(self.value(node.lhs), self.value(node.rhs))
            other = field.scale(gap, -1)
            if isinstance(node, sp.Gt):
                return self._switch(signs.strictly_above(field, gap))
            if isinstance(node, sp.Lt):
                return self._switch(signs.strictly_above(field, other))
            if isinstance(node, sp.Ge):
                return self._switch(field.one - signs.strictly_above(field, other))
            if isinstance(node, sp.Le):
                return self._switch(field.one - signs.strictly_above(field, gap))
            if isinstance(node, sp.Eq):
                return self._switch(signs.equal_to_zero(field, gap))
            if isinstance(node, sp.Ne):
                return self._switch(field.one - signs.equal_to_zero(field, gap))
        raise Undecided(f"the condition `{str(node)[:60]}` has no rule")


# Functions of one argument ----------------------------------------------------------------------------------------


def _sign(walk: Walk, z: Frac) -> Frac:
    field = walk.field
    below = signs.strictly_above(field, field.scale(z, -1))
    return field.fraction(signs.strictly_above(field, z) - below, field.one)


def _recorded(function: Elementwise) -> Callable[[Walk, Frac], Frac]:
    """What a record says: the function made of others, or that it is odd."""

    def rule(walk: Walk, z: Frac) -> Frac:
        if not function.through:
            return functions.odd(walk.field, str(function.sympy), z, formula(function.form).func)
        return walk.substituted(formula(function.through), z)

    return rule


UNARY: dict[str, Callable[[Walk, Frac], Frac]] = {
    **{f.sympy: _recorded(f) for f in FUNCTIONS.values() if f.sympy and (f.through or f.parity == -1)},
    "log": lambda walk, z: functions.logarithm(walk.field, z, walk._defined),
    "Abs": lambda walk, z: signs.absolute(walk.field, z),
    "sign": _sign,
    "cbrt": lambda walk, z: functions.rational_power(walk.field, z, sp.Rational(1, 3), None),
    "tanh": lambda walk, z: functions.hyperbolic_tangent(walk.field, z),
    "cos": lambda walk, z: functions.cosine_and_sine(walk.field, z)[0],
    "sin": lambda walk, z: functions.cosine_and_sine(walk.field, z)[1],
    "re": lambda walk, z: z,
    "conjugate": lambda walk, z: z,
}
"""Functions with rules: those of the records, and those whose own rule says more."""

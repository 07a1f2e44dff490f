r"""Transformation laws, and what scalings, shifts and flips of its arguments do to the value of a function.

A law says how a tensor moves: $T' = c\,s\,(M\,T) + \sigma$ with a number $c$, factors $s$, matrices $M$ on named axes
and a shift $\sigma$. An `Effect` says what a function makes of such a law; it is a statement about real numbers, which
`identities` writes out for a prover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import sympy as sp

from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Atom, Exact
from quotax.kernel.indices import Bound, Index
from quotax.kernel.polynomials import Algebra, Factor, Poly, fraction, key_of, renamed

ALPHA = {
    "positive": sp.Symbol("alpha", positive=True),
    "sign": sp.Symbol("epsilon", real=True),
}
SHIFT = sp.Symbol("sigma", real=True)


@dataclass(frozen=True)
class Law:
    """`T' = coefficient * scale * (matrices acting on T) + shift`.

    `scale` are factors at free indices only; `matrices` maps a free index to the word of group matrices that ends in
    the bound index that takes its place.
    """

    coefficient: Fraction = Fraction(1)
    scale: tuple[Factor, ...] = ()
    matrices: tuple[tuple[Index, tuple[Factor, ...], Index], ...] = ()
    shift: Poly = field(default_factory=dict)

    @property
    def factor(self) -> tuple[Fraction, tuple[Factor, ...]]:
        """The number that multiplies, without the matrices."""
        return self.coefficient, self.scale


def applied(algebra: Algebra, law: Law, poly: Poly, shifted: bool = False) -> Poly:
    """The law on a polynomial in the same free indices: `T_i` becomes `c s_i sum_j M_ij T_j + sigma_i`.

    The sums of the words get numbers above those of each term, so that no word captures an index of what it acts on.
    """
    out: Poly = {}
    for term, coefficient in poly.items():
        number = algebra.unused(term)
        words: list[Factor] = []
        moves: dict[Index, Index] = {}
        for index, word, end in law.matrices:
            names: dict[Index, Index] = {}
            for i in (end, *algebra.bound_in(word)):
                if i not in names:
                    names[i] = Bound(number, i.extent)
                    number += 1
            moves[index] = names[end]
            words += renamed(word, names)
        factors = [*renamed(term, moves), *words, *law.scale]
        out = algebra.add(out, algebra.normal(coefficient * law.coefficient, factors))
    return algebra.add(out, law.shift) if shifted else out


@dataclass(frozen=True)
class Effect:
    """How a value moves: `F' = (alpha or |alpha|)^power * exp(rate * sigma) * F + constant part`.

    `logs` adds `logs * log(alpha)`, `shift` adds `shift * sigma`; `centre` is the value about which a flip acts:
    `F' - centre = alpha^power (F - centre)`.
    """

    power: sp.Rational = sp.S.Zero
    absolute: bool = False
    rate: sp.Rational = sp.S.Zero
    logs: sp.Rational = sp.S.Zero
    shift: sp.Rational = sp.S.Zero
    centre: sp.Expr = sp.S.Zero
    words: str = ""


def identities(
    function: sp.Expr, chosen: Sequence[sp.Symbol], kind: str, effect: Effect
) -> list[tuple[sp.Expr, sp.Expr]]:
    """What has to hold for all real arguments: left and right sides, for this kind of factor, or for a shift.

    A factor that is not zero is a positive one times a sign: both cases are stated.
    """
    out: list[tuple[sp.Expr, sp.Expr]] = []
    if kind == "shift":
        image = function.xreplace({z: z + SHIFT for z in chosen})
        return [(image, sp.exp(effect.rate * SHIFT) * function + effect.shift * SHIFT)]
    if kind in ("positive", "nonzero"):
        alpha = ALPHA["positive"]
        image = function.xreplace({z: alpha * z for z in chosen})
        value = effect.centre + alpha**effect.power * (function - effect.centre) + effect.logs * sp.log(alpha)
        out.append((image, value))
    if kind in ("sign", "nonzero"):
        image = function.xreplace({z: -z for z in chosen})
        odd = not effect.absolute and effect.power.q == 1 and effect.power.p % 2 == 1
        out.append((image, 2 * effect.centre - function if odd else function))
    return out


def kind_of(algebra: Algebra, coefficient: Fraction, scale: Sequence[Factor]) -> str | None:
    """Whether a factor is positive, a sign, or nonzero; None when it may vanish."""
    if not coefficient:
        return None
    signs = "positive" if coefficient > 0 else "sign"
    unit = abs(coefficient) == 1
    for number, _, power in scale:
        sign = algebra.atoms[number].sign
        whole = power == int(power)
        if sign == "positive" or (sign == "nonzero" and whole and int(power) % 2 == 0):
            unit = False
        elif sign == "sign" and whole:
            signs = "sign"
        elif sign == "nonzero" and whole:
            signs, unit = "sign", False
        else:
            return None
    if signs == "positive":
        return "positive"
    return "sign" if unit else "nonzero"


def scaled(
    algebra: Algebra, value: Poly, effect: Effect, coefficient: Fraction, scale: Sequence[Factor]
) -> Poly | None:
    """The value under this effect of a factor: `c + a^p (F - c)`, or `F + l log|a|`; None when it cannot be written."""
    if effect.logs:
        total = logarithm(algebra, coefficient, scale)
        return None if total is None else algebra.add(value, total, fraction(effect.logs))
    if not effect.centre.is_Rational:
        return None
    centre = algebra.scale({(): Fraction(1)}, fraction(effect.centre))
    factor = powered(algebra, coefficient, scale, effect)
    if factor is None:
        return None
    return algebra.add(algebra.multiply(algebra.add(value, centre, -1), factor), centre)


def powered(algebra: Algebra, coefficient: Fraction, scale: Sequence[Factor], effect: Effect) -> Poly | None:
    """The factor to the power of the effect, through absolute values where the effect says so.

    `(c s)^p = c^p s^p` for whole p, and for any p where c and s are positive; `|e| = 1` for a sign. A root of
    a nonzero s is one of `|s|`: `identities` has asked that a flip changes nothing there.
    """
    exact = fraction(effect.power)
    power: Exact = int(exact) if exact.denominator == 1 else exact
    if effect.absolute:
        coefficient = abs(coefficient)
    if coefficient < 0 and power != int(power):
        return None
    number = {(): coefficient ** int(power)} if power == int(power) else algebra.root(coefficient, power)
    factors = []
    for atom, at, p in scale:
        sign = algebra.atoms[atom].sign
        if effect.absolute and sign == "sign":
            continue
        if sign == "nonzero" and (effect.absolute or power != int(power)):
            factors.append(Factor(magnitude(algebra, atom), at, p * power))
        elif sign == "sign" and power != int(power):
            return None
        else:
            factors.append(Factor(atom, at, p * power))
    return algebra.multiply(number, algebra.normal(1, factors))


def magnitude(algebra: Algebra, atom: int) -> int:
    """The absolute value of an entry that may be negative."""
    base = algebra.atoms[atom]
    made = algebra.atoms.make(
        ("abs", atom), kinds.Magnitude(atom), f"|{base.name}|", base.slots, sign="positive", moved=base.moved
    )
    return made.number


def exponential(algebra: Algebra, poly: Poly, rate: Exact = 1) -> Poly:
    """`exp(r sum_k c_k t_k) = prod_k exp(t_k)^(r c_k)`: one factor for each term."""
    factors: list[Factor] = []
    for term, coefficient in poly.items():
        single: Poly = {term: Fraction(1)}
        labels = algebra.free_in(single)
        definition = algebra.in_slots(single, labels)
        made = algebra.atoms.make(
            ("exp", key_of(definition)), kinds.Exponential(definition), "exp", [i.extent for i in labels],
            sign="positive", moved=True,
        )  # fmt: skip
        factors.append(Factor(made.number, tuple(labels), coefficient * Fraction(str(rate))))
    return algebra.normal(1, factors)


def logarithm(algebra: Algebra, coefficient: Fraction, scale: Sequence[Factor]) -> Poly | None:
    """The logarithm of the absolute value of a factor: `log|c prod_k s_k^p_k| = log|c| + sum_k p_k log|s_k|`."""
    out: Poly = {}
    if abs(coefficient) != 1:
        value = abs(coefficient)
        made = algebra.atoms.make(("log of", value), kinds.Real(sp.log(sp.Rational(str(value)))), f"log {value}", ())
        out = algebra.entry(made, ())
    for number, at, power in scale:
        atom = algebra.atoms[number]
        if atom.sign == "sign":
            continue
        if isinstance(atom.what, kinds.Exponential):
            return None
        if isinstance(atom.what, kinds.Magnitude):  # |g| is as large as g
            number = atom.what.of
        out = algebra.add(out, algebra.entry(log_magnitude(algebra, number), at), power)
    return out


def log_magnitude(algebra: Algebra, atom: int) -> Atom:
    """The logarithm of the absolute value of an entry."""
    base = algebra.atoms[atom]
    return algebra.atoms.make(("log", atom), kinds.Logarithm(atom), f"log|{base.name}|", base.slots, moved=True)


def permutes(algebra: Algebra, word: Sequence[Factor]) -> bool:
    """Whether a word is made of permutations of the group: every row and every column selects one entry."""
    found = [(algebra.atoms[number], power) for number, _, power in word]
    return all(isinstance(atom.what, kinds.Matrix) and atom.rows and power == 1 for atom, power in found)


def leads(word: Sequence[Factor], start: Index, end: Index) -> bool:
    """Whether a word is a path of matrices from one index to another, through indices of its own."""
    here, passed = start, {start}
    for _, at, _ in word:
        left, right = at[-2:]
        if (left == here) == (right == here) or any(ix.has(i, Bound) for i in at[:-2]):
            return False
        here = right if left == here else left
        if not isinstance(here, Bound) or here in passed:
            return False
        passed.add(here)
    return bool(word) and here == end


def touches(algebra: Algebra, law: Law, blocked: Sequence[Index]) -> bool:
    """Whether the factor or the shift of a law varies along one of these indices."""
    at = {i for _, there, _ in law.scale for j in there for i in ix.parts(j)}
    return bool(at & set(blocked)) or bool(set(algebra.free_in(law.shift)) & set(blocked))

"""The group element in polynomials: its atoms, and the relations between its entries."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from quotax.interpret.laws import indices as ix
from quotax.interpret.laws.algebra import Algebra, Atom, Factor, Poly, Rewritten, occurrences
from quotax.interpret.laws.indices import BOUND, FIXED, PAIR, Index, Range

Kind = Literal["general", "orthogonal", "permutation", "complex", "positive", "nonzero", "sign", "vector"]
"""Matrices (general, orthogonal, permutation, complex scalings of pairs), factors (positive, nonzero, sign), shifts."""


@dataclass(frozen=True)
class Element:
    """What is known of a group element: `each` and `axis` are the ranges of its slots (`axis` twice for a matrix)."""

    kind: Kind
    each: Range | None
    axis: Range | None
    pairs: str = "adjacent"

    @property
    def is_matrix(self) -> bool:
        """Whether an element is a matrix on its axis."""
        return self.kind in ("general", "orthogonal", "permutation", "complex")

    @property
    def slots(self) -> tuple[Range, ...]:
        """The ranges of the slots of `g`."""
        own = (self.axis,) if self.axis is not None else ()
        return ((self.each,) if self.each is not None else ()) + own * (2 if self.is_matrix else 1)

    def install(self, algebra: Algebra) -> None:
        """Make the element's atoms and give the algebra its relations."""
        copies = (0,) if self.each is not None else ()
        first = len(copies)
        sign = {"positive": "positive", "nonzero": "nonzero", "sign": "sign", "permutation": "boolean"}
        rows = ()
        if self.kind == "permutation":
            rows = (((*copies, first), (first + 1,), True), ((*copies, first + 1), (first,), True))
        facts = {"sign": sign.get(self.kind, "real"), "moved": True, "rows": rows}
        g = algebra.atom("g", "matrix" if self.is_matrix else "element", "g", self.slots, **facts)
        if not self.is_matrix:
            return
        inverse = g
        if self.kind in ("general", "complex"):
            inverse = algebra.atom("inv(g)", "matrix", "g⁻¹", self.slots, moved=True)
        algebra.relations.append(lambda a, factors: self._cancelled(a, factors, g, inverse))
        if self.kind == "complex" and self.axis is not None:
            half = ix.over(self.axis, (2,) * len(self.axis))
            if half is not None:
                slots = (*((self.each,) if self.each is not None else ()), half)
                real = algebra.atom("re g", "element", "a", slots, moved=True)
                imaginary = algebra.atom("im g", "element", "b", slots, moved=True)
                norm = algebra.atom("1/|g|^2", "element", "|g|⁻²", slots, moved=True, sign="positive")
                algebra.relations.append(
                    lambda a, factors: self._opened(
                        a, factors, {g.number: False, inverse.number: True}, real, imaginary, norm
                    )
                )
                algebra.relations.append(lambda a, factors: _modulus(a, factors, real, imaginary, norm))

    def entry(self, algebra: Algebra, at: tuple[Index, ...], inverted: bool = False) -> Poly:
        """`g` or its inverse at these indices, `each` first."""
        if not self.is_matrix:
            made = algebra.atom("g", "element", "g", self.slots)
            return {((made.number, at, -1 if inverted else 1),): Fraction(1)}
        if inverted and self.kind in ("orthogonal", "permutation"):
            at, inverted = (*at[:-2], at[-1], at[-2]), False
        made = algebra.atom("inv(g)" if inverted else "g", "matrix", "g", self.slots)
        return algebra.normal(1, [(made.number, at, 1)])

    def _cancelled(self, algebra: Algebra, factors: list[Factor], g: Atom, inverse: Atom) -> list[Rewritten] | None:
        """The product of a matrix with its inverse, summed over their common index, is a delta."""
        mine = [k for k, f in enumerate(factors) if f[0] in (g.number, inverse.number)]
        for place, k in enumerate(mine):
            for j in mine[:place]:
                for one, two in ((factors[j], factors[k]), (factors[k], factors[j])):
                    if one[2] != 1 or two[2] != 1 or one[1][:-2] != two[1][:-2]:
                        continue
                    for left, right in self._meetings(one, two, g, inverse):
                        # `left`, `right`: (slot that is summed, slot that stays), counted from the end
                        common = one[1][left[0]]
                        if common != two[1][right[0]] or common[0] != BOUND or len(occurrences(factors, common)) != 2:
                            continue
                        algebra.lemmas["inverse: g g⁻¹ = 1"] = None
                        rest = [f for m, f in enumerate(factors) if m not in (j, k)]
                        return [(Fraction(1), [*rest, algebra.delta(one[1][left[1]], two[1][right[1]])], (common,))]
        return None

    def _meetings(
        self, one: Factor, two: Factor, g: Atom, inverse: Atom
    ) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        if g is inverse:
            return [((-1, -2), (-1, -2)), ((-2, -1), (-2, -1))]
        if one[0] != two[0]:
            return [((-1, -2), (-2, -1))]
        return []

    def _opened(
        self, algebra: Algebra, factors: list[Factor], mine: dict[int, bool], real: Atom, imaginary: Atom, norm: Atom
    ) -> list[Rewritten] | None:
        """A complex scaling at half of a pair: rows `(a, -b)`, `(b, a)`; the inverse is its conjugate over `|g|²`."""
        for k, (number, at, power) in enumerate(factors):
            if number not in mine or power != 1:
                continue
            for side in (-2, -1):
                split = self._split(at[side])
                if split is None:
                    continue
                place, half = split
                other = at[-1 if side == -2 else -2]
                rest = [f for m, f in enumerate(factors) if m != k]
                out: list[Rewritten] = []
                for column in (0, 1):
                    row, col = (half, column) if side == -2 else (column, half)
                    atom = real if row == col else imaginary
                    sign = -1 if (row, col) == (0, 1) else 1
                    if mine[number]:  # the inverse: the conjugate matrix over the modulus
                        sign = sign if row == col else -sign
                    extra = [(atom.number, (*at[:-2], place), 1)]
                    if mine[number]:
                        extra.append((norm.number, (*at[:-2], place), 1))
                    meets = algebra.delta(other, self._joined(place, column))
                    out.append((Fraction(sign), [*rest, *extra, meets], ()))
                algebra.lemmas["complex scaling: each pair is multiplied by a + ib"] = None
                return out
        return None

    def _split(self, index: Index) -> tuple[Index, int] | None:
        """The pair's place and which half of it, if the index says which half."""
        if index[0] != PAIR:
            return None
        outer, inner = index[1], index[2]
        place, half = (outer, inner) if self.pairs == "adjacent" else (inner, outer)
        if half[0] != FIXED or any(size != 2 for size in half[2]):
            return None
        return place, half[1]

    def _joined(self, place: Index, half: int) -> Index:
        which = ix.fixed(half, (2,) * len(ix.extent(place)))
        return ix.pair(place, which) if self.pairs == "adjacent" else ix.pair(which, place)


def _modulus(
    algebra: Algebra, factors: list[Factor], real: Atom, imaginary: Atom, norm: Atom
) -> list[Rewritten] | None:
    """`b² / |g|² = 1 - a² / |g|²`."""
    for k, (number, at, power) in enumerate(factors):
        if number == imaginary.number and power >= 2:
            for j, (other, there, count) in enumerate(factors):
                if other == norm.number and there == at and count >= 1:
                    rest = [f for m, f in enumerate(factors) if m not in (j, k)]
                    less = [(imaginary.number, at, power - 2)] if power > 2 else []
                    one = [*rest, *less, *([(norm.number, at, count - 1)] if count > 1 else [])]
                    two = [*rest, *less, (norm.number, at, count), (real.number, at, 2)]
                    algebra.lemmas["modulus: a² + b² = |g|²"] = None
                    return [(Fraction(1), one, ()), (Fraction(-1), two, ())]
    return None

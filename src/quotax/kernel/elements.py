"""The group element in polynomials: its atoms, and the relations between its entries."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from quotax.kernel import indices as ix
from quotax.kernel.atoms import Matrix, Scalar
from quotax.kernel.indices import Bound, Fixed, Index, Pair
from quotax.kernel.polynomials import Algebra, Atom, Atoms, Factor, Poly, Rewritten, Rule, renamed
from quotax.kernel.projectors import Projector
from quotax.kernel.rewriting import occurrences
from quotax.kernel.sizes import ONE, Size

Kind = Literal[
    "general", "orthogonal", "fixing", "permutation", "centred", "complex",
    "positive", "paired", "nonzero", "sign", "vector",
]  # fmt: skip
"""Matrices (general, orthogonal, orthogonal that fix the vector of ones, permutations, those that fix what sums to
zero, complex scalings of pairs), factors (positive, positive and the same at both indices of a pair, nonzero, sign),
shifts."""

_TURNS = ("orthogonal", "fixing", "permutation")
"""The transpose is the inverse."""

_SIGNS = {"positive": "positive", "paired": "positive", "nonzero": "nonzero", "sign": "sign", "permutation": "boolean"}
_TWO = Size.of(2)


@dataclass(frozen=True)
class Element:
    """What is known of a group element: `each` and `axis` are the extents of its slots (`axis` twice for a matrix)."""

    kind: Kind
    each: tuple[Size, ...]
    axis: Size | None
    pairs: str = "adjacent"
    projectors: tuple[Projector, ...] = ()
    """Projectors onto kernels of parameters, beside which it stands in the action."""

    @property
    def is_matrix(self) -> bool:
        """Whether an element is a matrix on its axis."""
        return self.kind in ("general", "centred", "complex", *_TURNS)

    @property
    def slots(self) -> tuple[Size, ...]:
        """The extents of the slots of `g`."""
        own = (self.axis,) if self.axis is not None else ()
        return self.each + own * (2 if self.is_matrix else 1)

    def _atom(self, atoms: Atoms, inverted: bool = False) -> Atom:
        if inverted:
            return atoms.make("inv(g)", Matrix(), "g⁻¹", self.slots, moved=True)
        copies = tuple(range(len(self.each)))
        first = len(copies)
        rows: tuple[tuple[tuple[int, ...], tuple[int, ...], bool], ...] = ()
        if self.kind == "permutation":
            rows = (((*copies, first), (first + 1,), True), ((*copies, first + 1), (first,), True))
        what = Matrix() if self.is_matrix else Scalar()
        return atoms.make("g", what, "g", self.slots, sign=_SIGNS.get(self.kind, "real"), moved=True, rows=rows)

    def relations(self, atoms: Atoms) -> tuple[Rule, ...]:
        """The relations between the entries of the element, whose atoms are made here, and of the projectors."""
        own = self._own(atoms)
        return (*own, *(rule for projector in self.projectors for rule in projector.relations(atoms)))

    def _own(self, atoms: Atoms) -> tuple[Rule, ...]:
        g = self._atom(atoms)
        half = self.axis.over(2) if self.kind in ("complex", "paired") and self.axis is not None else None
        if self.kind == "paired" and half is not None:
            factor = atoms.make("g of pairs", Scalar(), "s", (*self.each, half), moved=True, sign="positive")
            return (lambda algebra, factors: self._shared(algebra, factors, g, factor),)
        if not self.is_matrix:
            return ()
        inverse = g if self.kind in _TURNS else self._atom(atoms, inverted=True)
        out: list[Rule] = [lambda algebra, factors: _cancelled(algebra, factors, g, inverse)]
        if self.kind == "fixing":
            out.append(lambda algebra, factors: _summed(algebra, factors, g))
        if self.kind == "centred":
            slots = (*self.each, self.axis or ONE)
            w, v = (atoms.make(f"w of {g}", Scalar(), g, slots, moved=True) for g in ("g", "inv(g)"))
            columns = {g.number: w, inverse.number: v}
            out.append(lambda algebra, factors: _beside_one(algebra, factors, columns))
            out.append(lambda algebra, factors: _undone(algebra, factors, w, v))
        if half is not None:
            slots = (*self.each, half)
            real = atoms.make("re g", Scalar(), "a", slots, moved=True)
            imaginary = atoms.make("im g", Scalar(), "b", slots, moved=True)
            norm = atoms.make("1/|g|^2", Scalar(), "|g|⁻²", slots, moved=True, sign="positive")
            mine = {g.number: False, inverse.number: True}
            out.append(self._halved)
            out.append(lambda algebra, factors: self._opened(algebra, factors, mine, (real, imaginary, norm)))
            out.append(lambda algebra, factors: _modulus(algebra, factors, real, imaginary, norm))
        return tuple(out)

    def entry(self, algebra: Algebra, at: tuple[Index, ...], inverted: bool = False) -> Poly:
        """`g` or its inverse at these indices, `each` first."""
        if not self.is_matrix:
            return {(Factor(self._atom(algebra.atoms).number, at, -1 if inverted else 1),): Fraction(1)}
        if inverted and self.kind in _TURNS:
            at, inverted = (*at[:-2], at[-1], at[-2]), False
        return algebra.entry(self._atom(algebra.atoms, inverted), at)

    def _opened(
        self, algebra: Algebra, factors: list[Factor], mine: dict[int, bool], made: tuple[Atom, Atom, Atom]
    ) -> list[Rewritten] | None:
        """A complex scaling at half of a pair: rows `(a, -b)`, `(b, a)`; the inverse is its conjugate over `|g|²`."""
        real, imaginary, norm = made
        for k, (number, at, power) in enumerate(factors):
            if number not in mine or power != 1:
                continue
            for side in (-2, -1):
                split = self._half(at[side])
                if split is None:
                    continue
                place, half = split
                other = at[-1 if side == -2 else -2]
                rest = [f for m, f in enumerate(factors) if m != k]
                out: list[Rewritten] = []
                for column in (0, 1):
                    row, col = (half, column) if side == -2 else (column, half)
                    sign = -1 if (row, col) == (0, 1) else 1
                    if mine[number] and row != col:  # the conjugate
                        sign = -sign
                    atom = real if row == col else imaginary
                    extra: list[Factor] = [Factor(atom.number, (*at[:-2], place), 1)]
                    if mine[number]:
                        extra.append(Factor(norm.number, (*at[:-2], place), 1))
                    meets = algebra.delta(other, self._joined(place, column))
                    out.append((Fraction(sign), [*rest, *extra, meets], ()))
                algebra.lemmas["complex scaling: each pair is multiplied by a + ib"] = None
                return out
        return None

    def _halved(self, algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
        r"""$\sum_{b<2} F_b = F_0 + F_1$ where `b` is the half of a pair.

        A rotation that is written over whole rows, `z cos + swapped(z) sin`, is summed over halves; `g` is known at
        each of them alone.
        """
        for _, at, _ in factors:
            for index in at:
                for joint in ix.inside(index):
                    if not isinstance(joint, Pair) or joint.extent != self.axis:
                        continue
                    _, half = self._place(joint)
                    if isinstance(half, Bound) and half.extent == _TWO:
                        terms = (renamed(factors, {half: ix.fixed(number, _TWO)}) for number in (0, 1))
                        return [(Fraction(1), term, (half,)) for term in terms]
        return None

    def _shared(self, algebra: Algebra, factors: list[Factor], g: Atom, factor: Atom) -> list[Rewritten] | None:
        """`g = s` at both indices of a pair: what the index says of the place of the pair is enough."""
        for k, (number, at, power) in enumerate(factors):
            if number == g.number and isinstance(at[-1], Pair):
                place, half = self._place(at[-1])
                if half.extent == _TWO:
                    algebra.lemmas["pairs: both indices are multiplied by one factor"] = None
                    rest = [f for m, f in enumerate(factors) if m != k]
                    return [(Fraction(1), [*rest, Factor(factor.number, (*at[:-1], place), power)], ())]
        return None

    def _place(self, index: Pair) -> tuple[Index, Index]:
        """The place of a pair, and the half of it, that a joint index is made of."""
        return (index.outer, index.inner) if self.pairs == "adjacent" else (index.inner, index.outer)

    def _half(self, index: Index) -> tuple[Index, int] | None:
        """The pair's place and which half of it, if the index says which half."""
        if not isinstance(index, Pair):
            return None
        place, half = self._place(index)
        if not isinstance(half, Fixed) or half.extent != _TWO or half.position.value is None:
            return None
        return place, half.position.value

    def _joined(self, place: Index, half: int) -> Index:
        which = ix.fixed(half, _TWO)
        return ix.pair(place, which) if self.pairs == "adjacent" else ix.pair(which, place)


def _cancelled(algebra: Algebra, factors: list[Factor], g: Atom, inverse: Atom) -> list[Rewritten] | None:
    r"""$\sum_j g_{ij} (g^{-1})_{jk} = \delta_{ik}$; where the inverse is the transpose, $\sum_j g_{ij} g_{kj}$ too."""
    mine = [k for k, f in enumerate(factors) if f.atom in (g.number, inverse.number)]
    # (slot that is summed, slot that stays) of both, counted from the end
    meetings = [((-1, -2), (-1, -2)), ((-2, -1), (-2, -1))] if g is inverse else [((-1, -2), (-2, -1))]
    for place, k in enumerate(mine):
        for j in mine[:place]:
            for one, two in ((factors[j], factors[k]), (factors[k], factors[j])):
                if (one.power, two.power) != (1, 1) or one.at[:-2] != two.at[:-2]:
                    continue
                if g is not inverse and one.atom == two.atom:
                    continue
                for left, right in meetings:
                    common = one.at[left[0]]
                    if common != two.at[right[0]] or not isinstance(common, Bound):
                        continue
                    if len(occurrences(factors, common)) == 2:
                        algebra.lemmas["inverse: g g⁻¹ = 1"] = None
                        rest = [f for m, f in enumerate(factors) if m not in (j, k)]
                        return [(Fraction(1), [*rest, algebra.delta(one.at[left[1]], two.at[right[1]])], (common,))]
    return None


def _summed(algebra: Algebra, factors: list[Factor], g: Atom) -> list[Rewritten] | None:
    r"""$\sum_j g_{ij} = 1$ where `g 1 = 1`, and $\sum_i g_{ij} = 1$ because the inverse fixes `1` too."""
    for k, (number, at, power) in enumerate(factors):
        for index in at[-2:] if number == g.number and power == 1 else ():
            if isinstance(index, Bound) and len(occurrences(factors, index)) == 1:
                algebra.lemmas["ones: g 1 = 1"] = None
                return [(Fraction(1), [f for m, f in enumerate(factors) if m != k], (index,))]
    return None


def _beside_one(algebra: Algebra, factors: list[Factor], columns: Mapping[int, Atom]) -> list[Rewritten] | None:
    r"""$g_{ij} = \delta_{ij} + w_i$: all columns of `g - 1` are the same, where `g` fixes what sums to zero."""
    for k, (number, at, power) in enumerate(factors):
        if number in columns and power == 1:
            algebra.lemmas["centred: g = 1 + w 1ᵀ"] = None
            rest = [f for m, f in enumerate(factors) if m != k]
            one = algebra.delta(at[-2], at[-1])
            return [(Fraction(1), [*rest, f], ()) for f in (one, Factor(columns[number].number, at[:-1], 1))]
    return None


def _undone(algebra: Algebra, factors: list[Factor], w: Atom, v: Atom) -> list[Rewritten] | None:
    r"""$w_i \sum_j v_j = -(w_i + v_i)$, and the same with the two exchanged, where $1 + v 1^T$ is the inverse."""
    mine = [k for k, f in enumerate(factors) if f.atom in (w.number, v.number)]
    for k, j in itertools.permutations(mine, 2):
        stays, summed = factors[k], factors[j]
        if stays.atom == summed.atom or stays.at[:-1] != summed.at[:-1] or summed.power != 1 or stays.power < 1:
            continue
        index = summed.at[-1]
        if isinstance(index, Bound) and len(occurrences(factors, index)) == 1:
            algebra.lemmas["inverse: w + v + w 1ᵀv = 0"] = None
            rest = [f for m, f in enumerate(factors) if m not in (j, k)]
            rest += [stays._replace(power=stays.power - 1)] if stays.power > 1 else []
            return [(Fraction(-1), [*rest, Factor(a.number, stays.at, 1)], (index,)) for a in (w, v)]
    return None


def _modulus(
    algebra: Algebra, factors: list[Factor], real: Atom, imaginary: Atom, norm: Atom
) -> list[Rewritten] | None:
    """`b² / |g|² = 1 - a² / |g|²`."""
    for k, (number, at, power) in enumerate(factors):
        if number == imaginary.number and power >= 2:
            for j, (other, there, count) in enumerate(factors):
                if other == norm.number and there == at and count >= 1:
                    rest = [f for m, f in enumerate(factors) if m not in (j, k)]
                    less = [Factor(imaginary.number, at, power - 2)] if power > 2 else []
                    one = [*rest, *less, *([Factor(norm.number, at, count - 1)] if count > 1 else [])]
                    two = [*rest, *less, Factor(norm.number, at, count), Factor(real.number, at, 2)]
                    algebra.lemmas["modulus: a² + b² = |g|²"] = None
                    return [(Fraction(1), one, ()), (Fraction(-1), two, ())]
    return None

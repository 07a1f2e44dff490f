r"""Polynomials in tensors with named indices, and their normal form.

A polynomial is a sum of terms $c\,\prod_k A_k[\ldots]^{p_k}$, each summed over its bound indices. An *atom* $A_k$ is a
parameter, an input, a constant, an entry of the group element, a named polynomial, or the value of a function of
polynomials; two atoms made in the same way are one atom. The normal form applies the identities of `rewriting` and of
the group, adds equal terms, and numbers bound indices canonically: equal normal forms are equal functions for all
sizes. Every rewriting is an identity; one that is missed costs a proof, never its truth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

import sympy as sp
from sympy import integer_nthroot

from quotax.kernel import indices as ix
from quotax.kernel.atoms import Atom, Atoms, Delta, Exact, Extent, Factor, Poly, Ramp, Rational, Term
from quotax.kernel.indices import Bound, Free, Index
from quotax.kernel.sizes import Size
from quotax.presenting.telling import in_time

Rewritten = tuple[Fraction, list[Factor], tuple[Index, ...]]
"""Coefficient, factors, and the bound indices whose sums were carried out."""
Rule = Callable[["Algebra", list[Factor]], "list[Rewritten] | None"]

Key = frozenset[tuple[Term, Fraction]]
"""A polynomial, hashable."""
Place = tuple[int, float, tuple[tuple[object, ...], ...]]
"""Where a factor stands among others."""
I = TypeVar("I", bound=Index)

TERMS = 4000
"""Polynomials with more terms than this are not written out."""
_ORDERS = 120
"""Orders of indistinguishable bound indices that are tried for the canonical one."""

UNIT: Poly = {(): Fraction(1)}


class TooLarge(Exception):
    """A polynomial would have too many terms to be compared."""


@dataclass(frozen=True, eq=False)
class Algebra:
    """The normal form of polynomials in these atoms, by identities of every algebra and relations of a group."""

    atoms: Atoms
    identities: tuple[Rule, ...]
    relations: tuple[Rule, ...] = ()
    lemmas: dict[str, None] = field(default_factory=dict)
    """Identities that were used, in words."""
    _normal: dict[Term, Poly] = field(default_factory=dict)

    # --- small polynomials

    def entry(self, atom: Atom, at: Sequence[Index], power: Exact = 1) -> Poly:
        """One entry of an atom."""
        return self.normal(1, [Factor(atom.number, tuple(at), power)])

    def delta(self, left: Index, right: Index) -> Factor:
        """The Kronecker delta of two indices of one extent."""
        made = self.atoms.make(("delta", left.extent), Delta(), "δ", (left.extent, left.extent), sign="boolean")
        return Factor(made.number, (left, right), 1)

    def size(self, size: Size) -> Poly:
        """The number of values of an extent."""
        out: Poly = {}
        for monomial, coefficient in size:
            factors = []
            for symbol, power in monomial:
                sign = "positive" if symbol.isidentifier() else "real"
                made = self.atoms.make(("size", symbol), Extent(symbol), f"|{symbol}|", (), sign=sign)
                factors.append(Factor(made.number, (), power))
            out = self.add(out, self.normal(Fraction(coefficient), factors))
        return out

    def root(self, value: Fraction, power: Exact) -> Poly:
        """A power of a positive rational, exactly: a number when it is rational, else a power of an atom."""
        power = Fraction(power)
        if power.denominator == 1:
            return {(): value ** int(power)}
        exact = _exact_root(value, power.denominator)
        if exact is not None:
            return {(): exact**power.numerator}
        return self.normal(1, [Factor(self.rational(value).number, (), power)])

    def rational(self, value: Fraction) -> Atom:
        """A positive rational of which roots are taken."""
        return self.atoms.make(("rational", value), Rational(value), str(value), (), sign="positive")

    def ramp(self, extent: Size) -> Atom:
        """The ramp along an extent."""
        return self.atoms.make(("iota", extent), Ramp(), "n", (extent,), sign="nonnegative")

    # --- arithmetic

    def add(self, left: Poly, right: Poly, scale: Exact = 1) -> Poly:
        """`left + scale * right`."""
        out = dict(left)
        for term, coefficient in right.items():
            total = out.get(term, 0) + scale * coefficient
            if total:
                out[term] = total
            else:
                out.pop(term, None)
        return out

    def multiply(self, left: Poly, right: Poly, summed: Iterable[Index] = ()) -> Poly:
        """The product, summed over these free indices."""
        if len(left) * len(right) > TERMS:
            raise TooLarge
        summed = tuple(summed)
        out: Poly = {}
        for t1, c1 in left.items():
            start = self.unused(t1)
            for t2, c2 in right.items():
                second = self.renumbered(t2, start)
                out = self.add(out, self.sum_term(c1 * c2, [*t1, *second], summed))
        return out

    def unused(self, factors: Iterable[Factor]) -> int:
        """A number above those of all bound indices."""
        return 1 + max((i.number for i in self.bound_in(factors)), default=-1)

    def renumbered(self, factors: Iterable[Factor], start: int) -> list[Factor]:
        """Factors whose bound indices have numbers from `start` on."""
        factors = list(factors)
        bound = self.bound_in(factors) if start else []
        shift: dict[Index, Index] = {i: Bound(start + k, i.extent) for k, i in enumerate(bound)}
        return renamed(factors, shift) if shift else factors

    def sum_term(self, coefficient: Exact, factors: list[Factor], summed: Sequence[Index]) -> Poly:
        """The normal form of a term summed over these free indices."""
        if not summed:
            return self.normal(coefficient, factors)
        start = self.unused(factors)
        mapping: dict[Index, Index] = {index: Bound(start + k, index.extent) for k, index in enumerate(summed)}
        present = {i for _, at, _ in factors for index in at for i in ix.parts(index)}
        out = self.normal(coefficient, renamed(factors, mapping))
        for index in summed:
            if index not in present:
                out = self.multiply(out, self.size(index.extent))
        return out

    def total(self, poly: Poly, summed: Sequence[Index]) -> Poly:
        """The sum over these free indices."""
        out: Poly = {}
        for term, coefficient in poly.items():
            out = self.add(out, self.sum_term(coefficient, list(term), summed))
        return out

    def scale(self, poly: Poly, coefficient: Exact) -> Poly:
        """A multiple."""
        return {term: c * coefficient for term, c in poly.items()} if coefficient else {}

    def substitute(self, poly: Poly, mapping: Mapping[I, Index]) -> Poly:
        """`poly` with free indices replaced."""
        mapping = {a: b for a, b in mapping.items() if a != b}
        if not mapping:
            return poly
        out: Poly = {}
        for term, coefficient in poly.items():
            out = self.add(out, self.normal(coefficient, renamed(term, mapping)))
        return out

    def substituted(self, poly: Poly) -> Poly:
        """The normal form of a polynomial whose terms are not."""
        out: Poly = {}
        for term, coefficient in poly.items():
            out = self.add(out, self.normal(coefficient, term))
        return out

    def in_slots(self, poly: Poly, labels: Sequence[Index]) -> Poly:
        """`poly` with these free indices as slots number 0, 1, ...: how the definition of an atom is written."""
        return self.substitute(poly, {label: slot(k, label.extent) for k, label in enumerate(labels)})

    def at(self, poly: Poly, at: Sequence[Index]) -> Poly:
        """A polynomial in slots, at these indices."""
        return self.substitute(poly, {slot(k, index.extent): index for k, index in enumerate(at)})

    def bound_in(self, factors: Iterable[Factor]) -> list[Bound]:
        """The bound indices that occur, each once."""
        return list(
            dict.fromkeys(i for _, at, _ in factors for index in at for i in ix.parts(index) if isinstance(i, Bound))
        )

    def free_in(self, *polys: Poly) -> list[Free]:
        """The free indices that occur, in the order of their places."""
        found = {
            i
            for poly in polys
            for term in poly
            for _, at, _ in term
            for index in at
            for i in ix.parts(index)
            if isinstance(i, Free)
        }
        return sorted(found, key=ix.order)

    def moved(self, factor: Factor) -> bool:
        """Whether a factor is made of the group element."""
        return self.atoms[factor.atom].moved

    # --- normal form

    def normal(self, coefficient: Exact, factors: Sequence[Factor]) -> Poly:
        """The normal form of one term."""
        if not coefficient:
            return {}
        key = tuple(factors)
        if key not in self._normal:
            self._normal[key] = self._make_normal(list(factors))
        return {term: c * coefficient for term, c in self._normal[key].items()}

    def _make_normal(self, factors: list[Factor]) -> Poly:
        out: Poly = {}
        pending: list[tuple[Fraction, list[Factor]]] = [(Fraction(1), factors)]
        turns = 0
        while pending:
            turns += 1
            in_time()
            if turns > 4 * TERMS:
                raise TooLarge
            coefficient, current = pending.pop()
            rewritten = self._rewrite(current)
            if rewritten is not None:
                pending += [(coefficient * c, fs) for c, fs in rewritten if c]
                continue
            term = self._canonical(current)
            total = out.get(term, 0) + coefficient
            if total:
                out[term] = total
            else:
                out.pop(term, None)
        return out

    def _rewrite(self, factors: list[Factor]) -> list[tuple[Fraction, list[Factor]]] | None:
        """One rewriting, or None when there is none; a sum whose index no longer occurs is the size of its extent."""
        before = self.bound_in(factors)
        results: list[Rewritten] | None = None
        for rule in (*self.identities, *self.relations):
            results = rule(self, factors)
            if results is not None:
                break
        if results is None:
            return None
        out: list[tuple[Fraction, list[Factor]]] = []
        for coefficient, current, consumed in results:
            lost = set(before) - set(self.bound_in(current)) - set(consumed)
            terms = [(coefficient, current)]
            for index in sorted(lost, key=ix.order):
                terms = [(c * k, [*fs, *t]) for c, fs in terms for t, k in self.size(index.extent).items()]
            out += terms
        return out

    def _canonical(self, factors: list[Factor]) -> Term:
        """Factors sorted, bound indices numbered in an order that does not depend on their old numbers.

        Indices are told apart by what they stand in, again and again; those that stay alike are tried in several
        orders, and the least term wins. Two names for one term would only cost a proof.
        """
        unknown = self.bound_in(factors)
        if not unknown:
            return tuple(sorted(factors, key=order_of))
        if len(unknown) == 1:
            naming: dict[Index, Index] = {unknown[0]: Bound(0, unknown[0].extent)}
            return tuple(sorted(renamed(factors, naming), key=order_of))
        rank = _ranked({i: (i.extent,) for i in unknown})
        for _ in range(len(unknown) + 1):
            seen: dict[Index, list[tuple[object, ...]]] = {i: [] for i in unknown}
            for number, at, power in factors:
                shown = tuple(_shown(i, rank) for i in at)
                for slot_number, index in enumerate(at):
                    for place, part in enumerate(ix.parts(index)):
                        if isinstance(part, Bound):
                            seen[part].append((f"{number:09}", float(power), slot_number, place, shown))
            fresh = _ranked({i: (rank[i], tuple(sorted(seen[i], key=repr))) for i in unknown})
            if len(set(fresh.values())) == len(set(rank.values())):
                break
            rank = fresh
        by_rank = sorted(unknown, key=lambda i: rank[i])
        classes = [list(group) for _, group in itertools.groupby(by_rank, key=lambda i: rank[i])]
        best: tuple[list[Place], Term] | None = None
        orders = itertools.product(*(itertools.permutations(group) for group in classes))
        for chosen in itertools.islice(orders, _ORDERS):
            naming = {i: Bound(k, i.extent) for k, i in enumerate(itertools.chain(*chosen))}
            term = tuple(sorted(renamed(factors, naming), key=order_of))
            key = [order_of(f) for f in term]
            if best is None or key < best[0]:
                best = (key, term)
        assert best is not None
        return best[1]


def slot(number: int, extent: Size) -> Free:
    """The free index that stands for a slot in the definition of an atom."""
    return Free((0, number), extent)


def renamed(factors: Iterable[Factor], mapping: Mapping[I, Index]) -> list[Factor]:
    """Factors with indices replaced."""
    return [Factor(a, tuple(ix.replaced(i, mapping) for i in at), p) for a, at, p in factors]


def rational(poly: Poly) -> Fraction | None:
    """The number that a polynomial is, if it is one."""
    if not poly:
        return Fraction(0)
    return poly[()] if set(poly) == {()} else None


def single(poly: Poly) -> Factor | None:
    """The factor when a polynomial is one entry: not a multiple, not a power, not a product."""
    if len(poly) != 1:
        return None
    ((term, coefficient),) = poly.items()
    return term[0] if coefficient == 1 and len(term) == 1 and term[0].power == 1 else None


def fraction(value: sp.Rational) -> Fraction:
    """A SymPy rational as a fraction."""
    return Fraction(int(value.p), int(value.q))


def key_of(poly: Poly) -> Key:
    """A polynomial, hashable."""
    return frozenset(poly.items())


def sign_of(algebra: Algebra, poly: Poly) -> str:
    """What is known of the sign of every value: `positive`, `nonnegative` or `real`.

    A sum of terms none of which is negative is not, and is positive when one of them is.
    """
    signs = {_sign_of_term(algebra, term, coefficient) for term, coefficient in poly.items()}
    if signs and signs <= {"positive", "nonnegative"}:
        return "positive" if "positive" in signs else "nonnegative"
    return "real"


def _sign_of_term(algebra: Algebra, term: Term, coefficient: Fraction) -> str:
    if coefficient < 0:
        return "real"
    # a sum over an extent that may be empty is only not negative
    result = "positive" if all(i.extent.positive for i in algebra.bound_in(term)) else "nonnegative"
    for number, _, power in term:
        sign = algebra.atoms[number].sign
        if sign == "positive":
            continue
        whole = power == int(power)
        if sign == "nonzero" and whole and int(power) % 2 == 0:
            continue
        if sign in ("nonnegative", "boolean") or (whole and int(power) % 2 == 0):
            result = "nonnegative"
        else:
            return "real"
    return result


def _exact_root(value: Fraction, degree: int) -> Fraction | None:
    (above, whole), (below, also) = (integer_nthroot(n, degree) for n in (value.numerator, value.denominator))
    return Fraction(int(above), int(below)) if whole and also else None


def order_of(factor: Factor) -> Place:
    """What factors are sorted by: first the number of the atom."""
    number, at, power = factor
    return (number, float(power), tuple(map(ix.order, at)))


def _ranked(colours: Mapping[Bound, object]) -> dict[Bound, int]:
    distinct = {c: k for k, c in enumerate(sorted(set(colours.values()), key=repr))}
    return {i: distinct[c] for i, c in colours.items()}


def _shown(index: Index, rank: Mapping[Bound, int]) -> object:
    if isinstance(index, ix.Pair):
        return ("pair", _shown(index.outer, rank), _shown(index.inner, rank))
    if isinstance(index, ix.Affine):
        return ("affine", index.start, index.stride, _shown(index.of, rank))
    return ("bound", rank[index]) if isinstance(index, Bound) else index

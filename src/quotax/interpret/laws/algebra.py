r"""Polynomials in tensors with named indices, and their normal form under the relations of a group.

A polynomial is a sum of terms $c\,\prod_k A_k[\ldots]^{p_k}$, each summed over its bound indices. An *atom* $A_k$ is a
parameter, an input, a constant, an entry of the group element, or the value of a function of other polynomials; two
atoms made in the same way are one atom. The normal form contracts deltas and $g\,g^{-1}$, uses what is known of
selection matrices and of sums of a range, and numbers bound indices canonically: equal normal forms are equal
functions for all sizes. Every rewriting is an identity; an identity that is missed costs a proof, never its truth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from quotax.interpret.constants import simplest_rational
from quotax.interpret.laws import indices as ix
from quotax.interpret.laws.indices import BOUND, FIXED, FREE, PAIR, Index, Range

Factor = tuple[int, tuple[Index, ...], Any]
"""(number of the atom, its indices, power)."""
Term = tuple[Factor, ...]
Poly = dict[Term, Fraction]

TERMS = 4000
"""Polynomials with more terms than this are not written out."""
_ORDERS = 120
"""Orders of indistinguishable bound indices that are tried for the canonical one."""
_APART = 1_000_000
"""Added to the numbers of a pattern's bound indices, so that none is a bound index of what it is matched with."""
Rewritten = tuple[Fraction, list[Factor], tuple[Index, ...]]
"""Coefficient, factors, and the bound indices whose sums were carried out."""


class TooLarge(Exception):
    """A polynomial would have too many terms to be compared."""


@dataclass(eq=False)
class Atom:
    """One tensor. `sign` is what is known of every entry; `moved` says that it is, or is made of, the group element.

    `rows` lists selections: pairs `(rows, columns)` of slots such that for each value of the rows at most one value of
    the columns has entry 1 and all others have 0; `total` says for each of them that there always is one.
    """

    number: int
    kind: str
    name: str
    slots: tuple[Range, ...]
    sign: str = "real"
    moved: bool = False
    rows: tuple[tuple[tuple[int, ...], tuple[int, ...], bool], ...] = ()
    data: Any = None


@dataclass(eq=False)
class Algebra:
    """The atoms of one proof and the normal form of polynomials in them.

    Attributes:
        sizes: the range of each named axis.
        relations: rewriting of products of group entries, given by the group (see `group.py`).
    """

    sizes: Mapping[str, Range]
    atoms: list[Atom] = field(default_factory=list)
    relations: list[Callable[[Algebra, list[Factor]], list[Rewritten] | None]] = field(default_factory=list)
    lemmas: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    images: dict[int, Poly] = field(default_factory=dict)
    """What the action makes of an atom, in its slots."""
    _known: dict[Any, Atom] = field(default_factory=dict)
    _normal: dict[Any, Poly] = field(default_factory=dict)

    # --- atoms

    def atom(self, key: Any, kind: str, name: str, slots: Sequence[Range], **facts: Any) -> Atom:
        """The atom made in this way, made once."""
        if key not in self._known:
            self._known[key] = Atom(len(self.atoms), kind, name, tuple(slots), **facts)
            self.atoms.append(self._known[key])
        return self._known[key]

    def delta(self, left: Index, right: Index) -> Factor:
        """The Kronecker delta of two indices."""
        extent = ix.extent(left)
        made = self.atom(("delta", extent), "delta", "δ", (extent, extent), sign="boolean")
        return (made.number, (left, right), 1)

    def number(self, values: Sequence[Any]) -> Poly:
        """A number that may depend on the sizes: a rational times powers of sizes, or a constant of its own."""
        values = [float(v) for v in values]
        if all(v == values[0] for v in values) and np.isfinite(values[0]):
            exact = Fraction(simplest_rational(values[0]))
            return {(): exact} if exact else {}
        found = self._fit(values)
        if found is not None:
            coefficient, powers = found
            factors = []
            for axis, power in powers.items():
                made = self.atom(("size", axis), "size", f"|{axis}|", (), sign="positive")
                factors.append((made.number, (), power))
            self.notes["numbers that depend on sizes follow the formula found at the sizes traced"] = None
            return self.normal(coefficient, factors)
        positive = all(v > 0 for v in values)
        made = self.atom(("number", *values), "const", "c", (), sign="positive" if positive else "real")
        return {((made.number, (), 1),): Fraction(1)}

    def root(self, value: Fraction, power: Any) -> Poly:
        """A power of a positive rational, exactly: a number when it is rational, else an entry of a constant."""
        power = Fraction(power)
        if power.denominator == 1:
            return {(): value ** int(power)}
        made = self.atom(("rational", value), "rational", str(value), (), sign="positive", data=value)
        exact = _exact_root(value, power.denominator)
        if exact is not None:
            return {(): exact**power.numerator}
        return {((made.number, (), power),): Fraction(1)}

    def _fit(self, values: Sequence[float]) -> tuple[Fraction, dict[str, Any]] | None:
        """`values` as q times a product of at most two sizes to small powers."""
        if not all(np.isfinite(v) and v for v in values):
            return None
        powers = [1, -1, Fraction(1, 2), Fraction(-1, 2), 2, -2]
        varying = {axis: extent for axis, extent in self.sizes.items() if not ix.constant(extent)}
        singles = [((axis, p),) for axis in varying for p in powers]
        doubles = [
            ((a, p), (b, q)) for a, b in itertools.combinations(varying, 2) for p in powers[:4] for q in powers[:4]
        ]
        for candidate in (*singles, *doubles):
            ratio = [
                v / float(np.prod([float(varying[axis][k]) ** float(p) for axis, p in candidate]))
                for k, v in enumerate(values)
            ]
            if max(ratio) - min(ratio) <= 1e-13 * abs(ratio[0]):
                exact = Fraction(ratio[0]).limit_denominator(4096)
                if abs(float(exact) - ratio[0]) <= 1e-13 * abs(ratio[0]):
                    return exact, dict(candidate)
        return None

    def size(self, extent: Range) -> Poly:
        """The number of values of a range."""
        return self.number(extent)

    def remember(self, plain: Poly, moved: Poly) -> None:
        """Keep what the action makes of an atom, when `plain` is one entry of it."""
        if len(plain) != 1:
            return
        ((term, coefficient),) = plain.items()
        if coefficient != 1 or len(term) != 1 or term[0][2] != 1:
            return
        number, at, _ = term[0]
        if all(i[0] == FREE for i in at) and len(set(at)) == len(at) and set(self.free_in(moved)) <= set(at):
            self.images.setdefault(number, self.substitute(moved, {i: ix.free(k, i[2]) for k, i in enumerate(at)}))

    def image(self, number: int, at: tuple[Index, ...]) -> Poly | None:
        """What the action makes of an entry; None when that is not known. Inputs and constants do not move."""
        if number in self.images:
            return self.substitute(self.images[number], {ix.free(k, ix.extent(i)): i for k, i in enumerate(at)})
        if self.atoms[number].kind in ("input", "tokens", "const", "size", "delta", "rational"):
            return {((number, at, 1),): Fraction(1)}
        return None

    # --- arithmetic

    def add(self, left: Poly, right: Poly, scale: Any = 1) -> Poly:
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
            offset = 1 + max((i[1] for i in self.bound_in(t1)), default=-1)
            for t2, c2 in right.items():
                shift = {i: ix.bound(i[1] + offset, i[2]) for i in self.bound_in(t2)} if offset else {}
                second = [(a, tuple(ix.replaced(i, shift) for i in at), p) for a, at, p in t2] if shift else list(t2)
                out = self.add(out, self.sum_term(c1 * c2, [*t1, *second], summed))
        return out

    def sum_term(self, coefficient: Any, factors: list[Factor], summed: Sequence[Index]) -> Poly:
        """The normal form of a term summed over these free indices."""
        if not summed:
            return self.normal(coefficient, factors)
        start = 1 + max((i[1] for i in self.bound_in(factors)), default=-1)
        mapping = {index: ix.bound(start + k, index[2]) for k, index in enumerate(summed)}
        present = {i for _, at, _ in factors for index in at for i in ix.atoms(index)}
        moved = [(a, tuple(ix.replaced(i, mapping) for i in at), p) for a, at, p in factors]
        out = self.normal(coefficient, moved)
        for index in summed:
            if index not in present:
                out = self.multiply(out, self.size(index[2]))
        return out

    def total(self, poly: Poly, summed: Sequence[Index]) -> Poly:
        """The sum over these free indices."""
        out: Poly = {}
        for term, coefficient in poly.items():
            out = self.add(out, self.sum_term(coefficient, list(term), summed))
        return out

    def scale(self, poly: Poly, coefficient: Any) -> Poly:
        """A multiple."""
        return {term: c * coefficient for term, c in poly.items()} if coefficient else {}

    def substitute(self, poly: Poly, mapping: Mapping[Index, Index]) -> Poly:
        """`poly` with free indices replaced."""
        mapping = {a: b for a, b in mapping.items() if a != b}
        if not mapping:
            return poly
        out: Poly = {}
        for term, coefficient in poly.items():
            factors = [(a, tuple(ix.replaced(i, mapping) for i in at), p) for a, at, p in term]
            out = self.add(out, self.normal(coefficient, factors))
        return out

    def bound_in(self, factors: Iterable[Factor]) -> list[Index]:
        """The bound indices that occur, each once."""
        return list(dict.fromkeys(i for _, at, _ in factors for index in at for i in ix.atoms(index) if i[0] == BOUND))

    def free_in(self, *polys: Poly) -> list[Index]:
        """The free indices that occur, in the order of their places."""
        found = {
            i for poly in polys for term in poly for _, at, _ in term for index in at for i in ix.atoms(index)
            if i[0] == FREE
        }  # fmt: skip
        return sorted(found)

    def moved(self, factor: Factor) -> bool:
        """Whether a factor is made of the group element."""
        return self.atoms[factor[0]].moved

    # --- normal form

    def normal(self, coefficient: Any, factors: Sequence[Factor]) -> Poly:
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
        """One rewriting, or None when there is none; a sum whose index no longer occurs is the size of its range."""
        before = self.bound_in(factors)
        merged = self._merged(factors)
        if merged is not None:
            factors[:] = merged
            results: list[Rewritten] | None = (
                [(Fraction(1), factors, ())] if set(before) - set(self.bound_in(factors)) else None
            )
        else:
            results = None
        if results is None:
            for rule in (
                _deltas,
                _repacked,
                _constants,
                _rationals,
                _magnitudes,
                _selections,
                *self.relations,
                _normalisations,
            ):
                results = rule(self, factors)
                if results is not None:
                    break
        if results is None:
            return None
        out: list[tuple[Fraction, list[Factor]]] = []
        for coefficient, current, consumed in results:
            lost = set(before) - set(self.bound_in(current)) - set(consumed)
            terms = [(coefficient, current)]
            for index in lost:
                terms = [(c * k, [*fs, *t]) for c, fs in terms for t, k in self.size(index[2]).items()]
            out += terms
        return out

    def _merged(self, factors: list[Factor]) -> list[Factor] | None:
        """Powers of one entry added; powers that are zero dropped. None when nothing changes."""
        powers: dict[tuple[int, tuple[Index, ...]], Any] = {}
        changed = False
        for number, at, power in factors:
            changed |= (number, at) in powers
            powers[number, at] = powers.get((number, at), 0) + power
        out = []
        for (number, at), raw in powers.items():
            power, sign = raw, self.atoms[number].sign
            if sign == "sign":
                power %= 2
            elif sign == "boolean" and power > 1:
                power = 1
            changed |= power != raw
            if power:
                out.append((number, at, int(power) if power == int(power) else power))
            else:
                changed = True
        return out if changed else None

    def _canonical(self, factors: list[Factor]) -> Term:
        """Factors sorted, bound indices numbered in an order that does not depend on their old numbers."""
        unknown = self.bound_in(factors)
        if not unknown:
            return tuple(sorted(factors, key=_order))
        colours: dict[Index, Any] = {i: (i[2],) for i in unknown}
        rank = _ranked(colours)
        for _ in range(len(unknown) + 1):
            seen: dict[Index, list[Any]] = {i: [] for i in unknown}
            for number, at, power in factors:
                shown = tuple(_shown(i, rank) for i in at)
                for slot, index in enumerate(at):
                    for place, part in enumerate(ix.atoms(index)):
                        if part[0] == BOUND:
                            seen[part].append((number, power, slot, place, shown))
            fresh = _ranked({i: (rank[i], tuple(sorted(seen[i], key=repr))) for i in unknown})
            if len(set(fresh.values())) == len(set(rank.values())):
                break
            rank = fresh
        classes = [
            list(group) for _, group in itertools.groupby(sorted(unknown, key=lambda i: rank[i]), key=lambda i: rank[i])
        ]
        best: Term | None = None
        orders = itertools.product(*(itertools.permutations(group) for group in classes))
        for order in itertools.islice(orders, _ORDERS):
            naming = {i: ix.bound(k, i[2]) for k, i in enumerate(itertools.chain(*order))}
            named = [(a, tuple(ix.replaced(i, naming) for i in at), p) for a, at, p in factors]
            term = tuple(sorted(named, key=_order))
            if best is None or [_order(f) for f in term] < [_order(f) for f in best]:
                best = term
        assert best is not None
        return best

    # --- constants

    def constant(self, arrays: Sequence[np.ndarray], at: Sequence[Index]) -> Poly:
        """A constant tensor, given by its array in each trace; `at` has one index for each dimension."""
        arrays, at = [np.asarray(a) for a in arrays], list(at)
        for axis in reversed(range(len(at))):
            index = at[axis]
            if index[0] == FIXED:
                arrays = [np.take(a, index[1], axis) for a in arrays]
                del at[axis]
            elif index[0] == PAIR:
                parts = (ix.extent(index[1]), ix.extent(index[2]))
                arrays = [
                    a.reshape(*a.shape[:axis], parts[0][k], parts[1][k], *a.shape[axis + 1 :])
                    for k, a in enumerate(arrays)
                ]
                return self.constant(arrays, [*at[:axis], index[1], index[2], *at[axis + 1 :]])
        for axis in reversed(range(len(at))):
            if all(a.shape[axis] > 0 and _uniform(a, axis) for a in arrays):
                arrays = [np.take(a, 0, axis) for a in arrays]
                del at[axis]
        if not at:
            return self.number([a[()] for a in arrays])
        if len(at) == 2 and all(_is_identity(a) for a in arrays):
            return self.normal(1, [self.delta(at[0], at[1])])
        slots = tuple(ix.extent(i) for i in at)
        key = ("constant", *((a.shape, a.astype(float).tobytes()) for a in arrays))
        facts: dict[str, Any] = {"data": tuple(arrays)}
        low = min(float(np.min(a)) if a.size else 0.0 for a in arrays)
        if all(np.all((a == 0) | (a == 1)) for a in arrays):
            facts["sign"] = "boolean"
            facts["rows"] = _selections_of(arrays, len(at))
        elif low > 0:
            facts["sign"] = "positive"
        made = self.atom(key, "const", "c", slots, **facts)
        return self.normal(1, [(made.number, tuple(at), 1)])


def _exact_root(value: Fraction, order: int) -> Fraction | None:
    parts = []
    for n in (value.numerator, value.denominator):
        guess = round(n ** (1 / order))
        parts.append(next((r for r in (guess - 1, guess, guess + 1) if r > 0 and r**order == n), None))
    return None if None in parts else Fraction(parts[0] or 1, parts[1] or 1)


def _uniform(array: np.ndarray, axis: int) -> bool:
    first = np.take(array, [0], axis)
    return bool(np.all((array == first) | ((array != array) & (first != first))))


def _is_identity(array: np.ndarray) -> bool:
    return array.shape[0] == array.shape[1] and bool(np.array_equal(array, np.eye(len(array))))


def _selections_of(
    arrays: Sequence[np.ndarray], rank: int
) -> tuple[tuple[tuple[int, ...], tuple[int, ...], bool], ...]:
    """Which single slot is selected by the others, if any."""
    found = []
    for column in range(rank):
        hits = [a.sum(column) for a in arrays]
        if all(np.all(h <= 1) for h in hits):
            rows = tuple(k for k in range(rank) if k != column)
            found.append((rows, (column,), all(bool(np.all(h == 1)) for h in hits)))
    return tuple(found)


def _order(factor: Factor) -> Any:
    number, at, power = factor
    return (number, float(power), tuple(map(_sortable, at)))


def _sortable(index: Index) -> Any:
    if index[0] == PAIR:
        return (PAIR, _sortable(index[1]), _sortable(index[2]))
    return index


def _ranked(colours: Mapping[Index, Any]) -> dict[Index, int]:
    distinct = {c: k for k, c in enumerate(sorted(set(colours.values()), key=repr))}
    return {i: distinct[c] for i, c in colours.items()}


def _shown(index: Index, rank: Mapping[Index, int]) -> Any:
    if index[0] == PAIR:
        return (PAIR, _shown(index[1], rank), _shown(index[2], rank))
    return ("bound", rank[index]) if index[0] == BOUND else index


# --- rewritings: each takes the algebra and the factors, and returns terms or None


def _with(factors: Sequence[Factor], mapping: Mapping[Index, Index], without: Iterable[int] = ()) -> list[Factor]:
    skip = set(without)
    return [(a, tuple(ix.replaced(i, mapping) for i in at), p) for k, (a, at, p) in enumerate(factors) if k not in skip]


def occurrences(factors: Sequence[Factor], index: Index) -> list[int]:
    """Which factors an index occurs in."""
    return [k for k, (_, at, _) in enumerate(factors) for i in at if index in tuple(ix.atoms(i))]


def _deltas(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    for k, (number, at, _) in enumerate(factors):
        if algebra.atoms[number].kind != "delta":
            continue
        left, right = at
        rest = [f for j, f in enumerate(factors) if j != k]
        if left == right:
            return [(Fraction(1), rest, ())]
        if left[0] == FIXED == right[0]:
            return []
        for one, other in ((left, right), (right, left)):
            if one[0] == BOUND and one not in tuple(ix.atoms(other)):
                return [(Fraction(1), _with(rest, {one: other}), (one,))]
        if left[0] == PAIR == right[0] and ix.extent(left[2]) == ix.extent(right[2]):
            return [(Fraction(1), [*rest, algebra.delta(left[1], right[1]), algebra.delta(left[2], right[2])], ())]
        for one, other in ((left, right), (right, left)):
            if one[0] == FIXED and other[0] == PAIR and ix.constant(ix.extent(other[2])):
                inner = ix.extent(other[2])[0]
                ends = (
                    algebra.delta(ix.fixed(one[1] // inner, ix.extent(other[1])), other[1]),
                    algebra.delta(ix.fixed(one[1] % inner, ix.extent(other[2])), other[2]),
                )
                return [(Fraction(1), [*rest, *ends], ())]
        # between free indices and fixed positions: one name for both in all other factors
        if {left[0], right[0]} <= {FREE, FIXED}:
            low, high = (right, left) if left[0] == FREE and (right[0] == FIXED or right < left) else (left, right)
            if any(high in tuple(ix.atoms(i)) for _, f, _ in rest for i in f):
                return [(Fraction(1), [*_with(rest, {high: low}), algebra.delta(low, high)], ())]
            if (low, high) != at:
                return [(Fraction(1), [*rest, algebra.delta(low, high)], ())]
        elif left > right:
            return [(Fraction(1), [*rest, algebra.delta(right, left)], ())]
    return None


def _repacked(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """Two bound indices that only occur as one pair are one bound index."""
    pairs = {i for _, at, _ in factors for i in at if i[0] == PAIR}
    if not pairs:
        return None
    everything = [part for _, at, _ in factors for i in at for part in _subindices(i)]
    for index in sorted({p for i in pairs for p in _subindices(i) if p[0] == PAIR}, key=repr):
        outer, inner = index[1], index[2]
        if outer[0] == BOUND == inner[0] and outer != inner:
            count = everything.count(index)
            if everything.count(outer) == count == everything.count(inner):
                start = 1 + max(i[1] for i in algebra.bound_in(factors))
                joint = ix.bound(start, ix.extent(index))
                return [(Fraction(1), _with(factors, {index: joint}), (outer, inner))]
    return None


def _subindices(index: Index) -> Iterable[Index]:
    yield index
    if index[0] == PAIR:
        yield from _subindices(index[1])
        yield from _subindices(index[2])


def _rationals(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """Whole powers of a number under a root are numbers."""
    for k, (number, _, power) in enumerate(factors):
        atom = algebra.atoms[number]
        if atom.kind == "rational" and (power == int(power) or abs(power) > 1):
            whole = int(power)
            rest = [f for j, f in enumerate(factors) if j != k]
            left = power - whole
            return [(Fraction(atom.data) ** whole, [*rest, *([(number, (), left)] if left else [])], ())]
    return None


def _magnitudes(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """`|g|² = g²`: of an absolute value, only a power below two is kept."""
    for k, (number, at, power) in enumerate(factors):
        atom = algebra.atoms[number]
        if atom.kind == "abs" and not 0 < power < 2:
            even = 2 * (power // 2)
            rest = [f for j, f in enumerate(factors) if j != k]
            left = power - even
            kept = [(number, at, left)] if left else []
            return [(Fraction(1), [*rest, *kept, (atom.data, at, int(even))], ())]
    return None


def _constants(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """A constant at a fixed position, or at a pair, is a smaller constant."""
    for k, (number, at, power) in enumerate(factors):
        atom = algebra.atoms[number]
        if atom.kind == "const" and power == 1 and at and any(i[0] in (FIXED, PAIR) for i in at):
            poly = algebra.constant(atom.data, at)
            key = ((number, at, 1),)
            if poly != {key: 1}:
                rest = [f for j, f in enumerate(factors) if j != k]
                return [(c, [*rest, *t], ()) for t, c in poly.items()]
    return None


def _selections(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """Rows of selection matrices: two that select from one row select the same; a total one sums to one."""
    for k, (number, at, _) in enumerate(factors):
        for rows, columns, total in algebra.atoms[number].rows:
            for j in range(k):
                other, there, _ = factors[j]
                if other == number and all(at[r] == there[r] for r in rows) and at != there:
                    algebra.lemmas["selection: a row that selects twice selects the same entry"] = None
                    deltas = [algebra.delta(at[c], there[c]) for c in columns]
                    return [(Fraction(1), [f for m, f in enumerate(factors) if m != k] + deltas, ())]
            everywhere = [p for _, there, _ in factors for i in there for p in ix.atoms(i)]
            if total and all(at[c][0] == BOUND and everywhere.count(at[c]) == 1 for c in columns):
                algebra.lemmas["selection: every row of a selection sums to one"] = None
                return [(Fraction(1), [f for m, f in enumerate(factors) if m != k], tuple(at[c] for c in columns))]
    return None


def _normalisations(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """A sum divided by itself is one: `sum_s e[t,s] / d[t]` where `d[t]` is that sum."""
    for k, (number, at, power) in enumerate(factors):
        atom = algebra.atoms[number]
        if atom.kind != "let" or power > -1 or len(atom.data) != 1:
            continue
        ((term, coefficient),) = atom.data.items()
        if not algebra.bound_in(term):
            continue
        chosen = _match(algebra, term, at, factors, k)
        if chosen is not None:
            algebra.lemmas["normalisation: a sum divided by itself is one"] = None
            rest = [f for m, f in enumerate(factors) if m != k and m not in chosen]
            inside = algebra.bound_in([factors[m] for m in chosen])
            gone = tuple(i for i in inside if not any(i in tuple(ix.atoms(j)) for j in at))
            return [(1 / Fraction(coefficient), [*rest, (number, at, power + 1)], gone)]
    return None


def _match(
    algebra: Algebra, term: Term, at: tuple[Index, ...], factors: Sequence[Factor], skip: int
) -> list[int] | None:
    """Factors that make up `term` at these slots, their bound indices occurring nowhere else."""
    slots = {ix.free(k, ix.extent(i)): i for k, i in enumerate(at)}
    apart = {i: ix.bound(i[1] + _APART, i[2]) for i in algebra.bound_in(term)}
    wanted = [(a, tuple(ix.replaced(ix.replaced(i, apart), slots) for i in there), p) for a, there, p in term]

    def extend(position: int, naming: dict[Index, Index], taken: list[int]) -> list[int] | None:
        if position == len(wanted):
            names = list(naming.values())
            if len(set(names)) != len(names) or len(names) != len(algebra.bound_in(term)):
                return None
            outside = [
                i for m, (_, there, _) in enumerate(factors) if m not in taken for j in there for i in ix.atoms(j)
            ]
            inside = [i for m in taken for j in factors[m][1] for i in ix.atoms(j)]
            fine = all(n[0] == BOUND and n not in outside and n in inside and n not in at for n in names)
            return taken if fine else None
        number, there, power = wanted[position]
        for m, (other, here, p) in enumerate(factors):
            if m == skip or m in taken or other != number or p != power:
                continue
            fresh = dict(naming)
            if all(_unify(w, h, fresh) for w, h in zip(there, here, strict=True)):
                found = extend(position + 1, fresh, [*taken, m])
                if found is not None:
                    return found
        return None

    return extend(0, {}, [])


def _unify(wanted: Index, here: Index, naming: dict[Index, Index]) -> bool:
    if wanted[0] == BOUND and wanted[1] >= _APART:
        if here[0] != BOUND or here[2] != wanted[2]:
            return False
        return naming.setdefault(wanted, here) == here
    if wanted[0] == PAIR == here[0]:
        return _unify(wanted[1], here[1], naming) and _unify(wanted[2], here[2], naming)
    return wanted == here

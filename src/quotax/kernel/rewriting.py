r"""The identities that hold in every algebra: each takes the factors of a term and returns what it equals, or None.

All of them hold for every size: $\sum_j \delta_{ij} F_j = F_i$, the digits of a joint index, what a constant, a ramp or
a selection is at a given position, and that a sum divided by itself is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Exact
from quotax.kernel.indices import Affine, Bound, Fixed, Free, Index, Pair
from quotax.kernel.polynomials import Algebra, Factor, Poly, Rewritten, Rule, Term, renamed, slot
from quotax.kernel.sizes import ONE, ZERO, Size
from quotax.trees import AnyArray


def _without(factors: Sequence[Factor], *gone: int) -> list[Factor]:
    return [f for k, f in enumerate(factors) if k not in gone]


def occurrences(factors: Sequence[Factor], index: Index) -> list[int]:
    """Which factors an index occurs in, once for every time."""
    return [k for k, (_, at, _) in enumerate(factors) for i in at for part in ix.parts(i) if part == index]


def powers(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """Powers of one entry are added; a square of a sign is one, and a power of a truth value is itself.

    A truth value is not cancelled with its reciprocal: what is chosen by it and divided by it is not chosen where it
    is zero, so `p / p` stays p.
    """
    added: dict[tuple[int, tuple[Index, ...]], list[Exact]] = {}
    for number, at, power in factors:
        added.setdefault((number, at), []).append(power)
    out: list[Factor] = []
    changed = False
    for (number, at), all_powers in added.items():
        sign = algebra.atoms[number].sign
        power = sum(all_powers)
        if sign == "sign":
            power %= 2
        elif sign == "boolean":
            power = 1 if any(p > 0 for p in all_powers) else -1
        changed |= len(all_powers) > 1 or power != all_powers[0] or not power
        if power:
            out.append(Factor(number, at, int(power) if power == int(power) else power))
    return [(Fraction(1), out, ())] if changed else None


def deltas(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """Kronecker deltas: summed, taken apart, decided, or turned the way in which equal ones look equal."""
    for k, (number, at, power) in enumerate(factors):
        if not isinstance(algebra.atoms[number].what, kinds.Delta) or power < 1:
            continue
        left, right = at
        rest = _without(factors, k)
        if left == right:
            return [(Fraction(1), rest, ())]
        for one, other in ((left, right), (right, left)):
            # an index is within its extent, so exactly one value of the bound one equals the other
            if isinstance(one, Bound) and one not in tuple(ix.parts(other)):
                return [(Fraction(1), renamed(rest, {one: other}), (one,))]
        split = _split(algebra, left, right)
        if split is None:
            split = _split(algebra, right, left)
        if split is not None:
            return [(Fraction(1), [*rest, *split[0]], ())] if split else []
        # one name for both in all other factors
        if isinstance(left, Free | Fixed) and isinstance(right, Free | Fixed):
            turn = isinstance(left, Free) and (isinstance(right, Fixed) or ix.order(right) < ix.order(left))
            low, high = (right, left) if turn else (left, right)
            if isinstance(high, Free):
                if any(high == part for _, f, _ in rest for i in f for part in ix.parts(i)):
                    return [(Fraction(1), [*renamed(rest, {high: low}), algebra.delta(low, high)], ())]
                if (low, high) != at:
                    return [(Fraction(1), [*rest, algebra.delta(low, high)], ())]
        elif ix.order(right) < ix.order(left):
            return [(Fraction(1), [*rest, algebra.delta(right, left)], ())]
    return None


def parts_of_one(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """What a sum of deltas over a part of a dimension leaves out: `sum_i [p = a + i] = 1 - sum_(j < a) [p = j]`.

    The part is all from a on, or all but a few at the end, and its index occurs nowhere else: a shift of every row that
    a class token is put before is the shift of all rows. A few entries are written out, so that they meet others.
    """
    for k, (number, at, power) in enumerate(factors):
        if not isinstance(algebra.atoms[number].what, kinds.Delta) or power < 1:
            continue
        rest = _without(factors, k)
        for part, other in (at, at[::-1]):
            if not isinstance(part, Affine) or part.stride != 1:
                continue
            summed = tuple(ix.parts(part.of))
            alone = len(set(summed)) == len(summed) and not set(summed) & set(ix.parts(other))
            whole = all(isinstance(i, Bound | Pair) for i in ix.inside(part.of))
            if not alone or not whole or any(occurrences(rest, i) for i in summed):
                continue
            end = part.start.plus(part.of.extent)
            start, count = (ZERO, part.start) if end == part.extent else (end, part.extent.minus(end))
            left: list[Index] = []
            if count.value is not None and count.value <= _FEW:
                left = [Fixed(start.plus(j), part.extent) for j in range(count.value)]
            elif start == ZERO:
                left = [ix.affine(0, 1, Bound(algebra.unused(factors), count), part.extent)]
            if left and (start == ZERO or part.start == ZERO):
                gone = [(Fraction(-1), [*rest, algebra.delta(other, index)], summed) for index in left]
                return [(Fraction(1), rest, summed), *gone]
    return None


_FEW = 4
"""Entries that are left out are written one by one up to this number."""


def _split(algebra: Algebra, left: Index, right: Index) -> list[list[Factor]] | None:
    """The delta as a product of simpler ones, in a list; an empty list when it is zero, None when nothing is known."""
    if isinstance(left, Fixed) and isinstance(right, Fixed):
        apart = left.position.minus(right.position)
        return [] if _differ(apart) else None
    if isinstance(left, Pair) and isinstance(right, Pair) and left.inner.extent == right.inner.extent:
        # a n + b = c n + d with b, d < n: a = c and b = d
        return [[algebra.delta(left.outer, right.outer), algebra.delta(left.inner, right.inner)]]
    if isinstance(left, Fixed) and isinstance(right, Pair):
        digits = _digits(left.position, right.inner.extent)
        if digits is not None:
            outer, inner = digits
            first = algebra.delta(Fixed(outer, right.outer.extent), right.outer)
            return [[first, algebra.delta(Fixed(inner, right.inner.extent), right.inner)]]
    if isinstance(left, Fixed) and isinstance(right, Affine):
        return _meeting(algebra, left.position.minus(right.start), right.stride, right.of)
    if isinstance(left, Affine) and isinstance(right, Affine):
        if (left.start, left.stride) == (right.start, right.stride) and left.of.extent == right.of.extent:
            return [[algebra.delta(left.of, right.of)]]
        for one, two in ((left, right), (right, left)):
            # [a, a + n) lies below [b, ...)
            end = one.start.plus(one.of.extent)
            if one.stride == 1 and two.stride > 0 and two.start.minus(end).nonnegative:
                return []
    if isinstance(left, Affine) and left.stride == 1 and isinstance(right, Pair) and isinstance(right.outer, Fixed):
        # a slice that lies outside the block of a pair whose block is known
        first = right.outer.position.times(right.inner.extent)
        end = first.plus(right.inner.extent)
        if first.minus(left.start.plus(left.of.extent)).nonnegative or left.start.minus(end).nonnegative:
            return []
    return None


def _differ(apart: Size) -> bool:
    return apart.positive or Size.of(0).minus(apart).positive


def _digits(position: Size, inner: Size) -> tuple[Size, Size] | None:
    """The position as (block, place in the block)."""
    if position.value is not None and inner.value is not None:
        return Size.of(position.value // inner.value), Size.of(position.value % inner.value)
    blocks = position.over(inner)
    if blocks is not None:
        return blocks, Size.of(0)
    if position.nonnegative and inner.minus(position).positive:
        return Size.of(0), position
    return None


def _meeting(algebra: Algebra, distance: Size, stride: int, of: Index) -> list[list[Factor]] | None:
    """`stride * of = distance` solved for `of`: no place, one place, or not known."""
    steps = distance.over(stride)
    if steps is None:
        return [] if distance.value is not None else None
    if Size.of(-1).minus(steps).nonnegative or steps.minus(of.extent).nonnegative:
        return []
    if steps.nonnegative and of.extent.minus(steps).positive:
        return [[algebra.delta(Fixed(steps, of.extent), of)]]
    return None


def repacked(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """Two bound indices that only occur as one pair are one bound index: a pair runs through its extent once."""
    joint = {p for _, at, _ in factors for i in at for p in ix.inside(i) if isinstance(p, Pair)}
    if not joint:
        return None
    everything = [p for _, at, _ in factors for i in at for p in ix.inside(i)]
    for index in sorted(joint, key=ix.order):
        outer, inner = index.outer, index.inner
        if isinstance(outer, Bound) and isinstance(inner, Bound) and outer != inner:
            count = everything.count(index)
            if everything.count(outer) == count == everything.count(inner):
                fresh = Bound(algebra.unused(factors), index.extent)
                return [(Fraction(1), renamed(factors, {index: fresh}), (outer, inner))]
    return None


def ramps(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """A ramp `0, 1, 2, ...` at a position is that position."""
    for k, (number, at, power) in enumerate(factors):
        if isinstance(algebra.atoms[number].what, kinds.Ramp) and power == 1 and not isinstance(at[0], Free | Bound):
            rest = _without(factors, k)
            return [(c, [*rest, *t], ()) for t, c in position(algebra, at[0]).items()]
    return None


def position(algebra: Algebra, index: Index) -> Poly:
    """The number of a position, as a polynomial in ramps and sizes; summed indices keep their names."""
    if isinstance(index, Fixed):
        return algebra.size(index.position)
    if isinstance(index, Pair):
        sizes, inner = algebra.size(index.inner.extent), position(algebra, index.inner)
        outer: Poly = {}
        for t, c in position(algebra, index.outer).items():
            for more, k in sizes.items():
                outer = algebra.add(outer, {(*t, *more): c * k})
        return algebra.add(outer, inner)
    if isinstance(index, Affine):
        return algebra.add(algebra.size(index.start), position(algebra, index.of), index.stride)
    if index.extent == ONE:
        return {}
    return {(Factor(algebra.ramp(index.extent).number, (index,), 1),): Fraction(1)}


def before(algebra: Algebra, low: Index, high: Index) -> Poly:
    """`[low <= high]` for two places of one extent."""
    size = low.extent
    made = algebra.atoms.make(("order", size), kinds.Order(), "[≤]", (size, size), sign="boolean")
    return algebra.entry(made, (low, high))


def orders(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """Every place is at least the first and at most the last, and at most itself; two known places compare.

    Each is said where it holds for all sizes; otherwise the factor stays.
    """
    for k, (number, (*at,), power) in enumerate(factors):
        atom = algebra.atoms[number]
        if not isinstance(atom.what, kinds.Order) or power < 1:
            continue
        low, high = at
        rest = _without(factors, k)
        if low == high:
            return [(Fraction(1), rest, ())]
        if isinstance(low, Fixed) and not low.position:
            return [(Fraction(1), rest, ())]
        if isinstance(high, Fixed) and high.position == atom.slots[0].minus(1):
            return [(Fraction(1), rest, ())]
        if isinstance(low, Fixed) and isinstance(high, Fixed):
            apart = high.position.minus(low.position)
            if apart.nonnegative:
                return [(Fraction(1), rest, ())]
            if Size.of(0).minus(apart).positive:
                return []
    return None


def rationals(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """Whole powers of a number under a root are numbers."""
    for k, (number, _, power) in enumerate(factors):
        what = algebra.atoms[number].what
        if isinstance(what, kinds.Rational) and (power == int(power) or abs(power) > 1):
            whole = int(power)
            left = power - whole
            kept = [Factor(number, (), left)] if left else []
            return [(what.value**whole, [*_without(factors, k), *kept], ())]
    return None


def magnitudes(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """`|g|² = g²`: of an absolute value, only a power below two is kept."""
    for k, (number, at, power) in enumerate(factors):
        what = algebra.atoms[number].what
        if isinstance(what, kinds.Magnitude) and not 0 < power < 2:
            even = 2 * (power // 2)
            left = power - even
            kept = [Factor(number, at, left)] if left else []
            return [(Fraction(1), [*_without(factors, k), *kept, Factor(what.of, at, int(even))], ())]
    return None


def constants(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """An array of numbers at a known position, or at a pair, is a smaller array of numbers."""
    for k, (number, at, power) in enumerate(factors):
        what = algebra.atoms[number].what
        if isinstance(what, kinds.Constant) and power == 1 and any(not isinstance(i, Free | Bound) for i in at):
            poly = constant(algebra, what.array, at)
            if poly != {((number, at, 1),): 1}:
                rest = _without(factors, k)
                return [(c, [*rest, *t], ()) for t, c in poly.items()]
    return None


def constant(algebra: Algebra, array: AnyArray, at: Sequence[Index]) -> Poly:
    """An array of rationals and floats at these indices, one for each dimension; all sizes are integers.

    `A[(i, j)]` is A reshaped, at i and j; `A[s + t i]` is `A[s], A[s + t], ...` at i; where A is the same along a
    dimension, any index there is the first; the unit matrix is a delta. What is left is an array of its own.
    """
    array, at = np.asarray(array), list(at)
    for axis in reversed(range(len(at))):
        index = at[axis]
        if isinstance(index, Fixed) and index.position.value is not None:
            array = np.take(array, index.position.value, axis)
            del at[axis]
        elif isinstance(index, Pair):
            counts = (index.outer.extent.value, index.inner.extent.value)
            array = array.reshape(*array.shape[:axis], *counts, *array.shape[axis + 1 :])
            return constant(algebra, array, [*at[:axis], index.outer, index.inner, *at[axis + 1 :]])
        elif isinstance(index, Affine) and index.start.value is not None and index.of.extent.value is not None:
            picked = index.start.value + index.stride * np.arange(index.of.extent.value)
            return constant(algebra, np.take(array, picked, axis), [*at[:axis], index.of, *at[axis + 1 :]])
    for axis in reversed(range(len(at))):
        if array.shape[axis] and bool(np.all(array == np.take(array, [0], axis))):
            array = np.take(array, 0, axis)
            del at[axis]
    if not at:
        value = array[()]
        exact = value if isinstance(value, Fraction) else Fraction(value.item() if hasattr(value, "item") else value)
        return {(): exact} if exact else {}
    if len(at) == 2 and array.shape[0] == array.shape[1] and np.array_equal(array, np.eye(len(array))):
        return {(algebra.delta(at[0], at[1]),): Fraction(1)}  # not summed here: the rest of the term is elsewhere
    facts: kinds.Facts = {}
    if np.all((array == 0) | (array == 1)):
        facts = {"sign": "boolean", "rows": _selections_of(array)}
    elif array.size and np.min(array) > 0:
        facts["sign"] = "positive"
    key = ("constant", array.shape, tuple(array.ravel().tolist()))
    made = algebra.atoms.make(key, kinds.Constant(array), "c", [i.extent for i in at], **facts)
    return {(Factor(made.number, tuple(at), 1),): Fraction(1)}


def _selections_of(array: np.ndarray) -> tuple[tuple[tuple[int, ...], tuple[int, ...], bool], ...]:
    """Which single slot is selected by the others, if any."""
    found = []
    for column in range(array.ndim):
        hits = (array == 1).sum(column)
        if np.all(hits <= 1):
            rows = tuple(k for k in range(array.ndim) if k != column)
            found.append((rows, (column,), bool(np.all(hits == 1))))
    return tuple(found)


def selections(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """Rows of selection matrices: two that select from one row select the same; a total one sums to one.

    At most one entry of a row is 1 and the others are 0: `e[r,c] e[r,c'] = e[r,c] [c = c']`, and `sum_c e[r,c] = 1`
    where there always is one.
    """
    for k, (number, at, power) in enumerate(factors):
        if power < 1:
            continue
        for rows, columns, total in algebra.atoms[number].rows:
            for j in range(k):
                other, there, count = factors[j]
                if other == number and count >= 1 and all(at[r] == there[r] for r in rows) and at != there:
                    algebra.lemmas["selection: a row that selects twice selects the same entry"] = None
                    meets = [algebra.delta(at[c], there[c]) for c in columns]
                    return [(Fraction(1), [*_without(factors, k), *meets], ())]
            if total and all(isinstance(at[c], Bound) and len(occurrences(factors, at[c])) == 1 for c in columns):
                algebra.lemmas["selection: every row of a selection sums to one"] = None
                return [(Fraction(1), _without(factors, k), tuple(at[c] for c in columns))]
    return None


def normalisations(algebra: Algebra, factors: list[Factor]) -> list[Rewritten] | None:
    """A sum divided by itself is one: with `d[t] = c sum_s e[t,s]`, `sum_s e[t,s] d[t]^p = d[t]^(p + 1) / c`."""
    for k, (number, at, power) in enumerate(factors):
        what = algebra.atoms[number].what
        if not isinstance(what, kinds.NamedSum) or power > -1 or len(what.poly) != 1:
            continue
        ((term, coefficient),) = what.poly.items()
        if not algebra.bound_in(term):
            continue
        chosen = _match(algebra, term, at, factors, k)
        if chosen is not None:
            algebra.lemmas["normalisation: a sum divided by itself is one"] = None
            within = algebra.bound_in([factors[m] for m in chosen])
            gone = tuple(i for i in within if not any(i in tuple(ix.parts(j)) for j in at))
            kept = [Factor(number, at, power + 1)] if power != -1 else []
            return [(1 / Fraction(coefficient), [*_without(factors, k, *chosen), *kept], gone)]
    return None


def _match(
    algebra: Algebra, term: Term, at: tuple[Index, ...], factors: Sequence[Factor], skip: int
) -> list[int] | None:
    """Factors that make up `term` at these slots, their bound indices occurring nowhere else.

    The bound indices of the pattern have negative numbers, which no term has.
    """
    bound = algebra.bound_in(term)
    slots: dict[Index, Index] = {slot(k, i.extent): i for k, i in enumerate(at)}
    apart: dict[Index, Index] = {i: Bound(-1 - i.number, i.extent) for i in bound}
    wanted = renamed(renamed(term, apart), slots)

    def fits(naming: Mapping[Index, Index], taken: list[int]) -> bool:
        names = list(naming.values())
        if len(set(names)) != len(names) or len(names) != len(bound):
            return False
        outside = _parts_of(f for m, f in enumerate(factors) if m not in taken)
        within = _parts_of(factors[m] for m in taken)
        return all(isinstance(n, Bound) and n not in outside and n in within and n not in at for n in names)

    def extend(place: int, naming: dict[Index, Index], taken: list[int]) -> list[int] | None:
        if place == len(wanted):
            return taken if fits(naming, taken) else None
        number, there, power = wanted[place]
        for m, (other, here, p) in enumerate(factors):
            if m == skip or m in taken or other != number or p != power:
                continue
            fresh = dict(naming)
            if all(_unify(w, h, fresh) for w, h in zip(there, here, strict=True)):
                found = extend(place + 1, fresh, [*taken, m])
                if found is not None:
                    return found
        return None

    return extend(0, {}, [])


def _parts_of(factors: Iterable[Factor]) -> set[Index]:
    return {part for _, at, _ in factors for i in at for part in ix.parts(i)}


def _unify(wanted: Index, here: Index, naming: dict[Index, Index]) -> bool:
    if isinstance(wanted, Bound) and wanted.number < 0:
        return isinstance(here, Bound) and here.extent == wanted.extent and naming.setdefault(wanted, here) == here
    if isinstance(wanted, Pair) and isinstance(here, Pair):
        return _unify(wanted.outer, here.outer, naming) and _unify(wanted.inner, here.inner, naming)
    if isinstance(wanted, Affine) and isinstance(here, Affine):
        same = (wanted.start, wanted.stride, wanted.extent) == (here.start, here.stride, here.extent)
        return same and _unify(wanted.of, here.of, naming)
    return wanted == here


RULES: tuple[Rule, ...] = (
    powers,
    deltas,
    repacked,
    ramps,
    orders,
    constants,
    rationals,
    magnitudes,
    selections,
    normalisations,
    parts_of_one,
)

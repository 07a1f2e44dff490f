"""Tensors before and after the action: what a value of the laws domain is, and its transformation law.

A value holds two polynomials in the same atoms: `plain`, the tensor at theta, and `moved`, the same tensor at
`g . theta`. Its *law* says the second as a function of the first: matrices on named axes, factors, and a shift.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from quotax.interpret.laws import indices as ix
from quotax.interpret.laws.algebra import Algebra, Factor, Poly, Term
from quotax.interpret.laws.indices import BOUND, FREE, Index, Range

Dims = tuple[tuple[Range, ...], ...]
"""For each dimension, the ranges whose product it is; none for a dimension of size one."""

_FACTORS = 32
"""More factors than this no dimension has."""


class NoLaw(Exception):
    """A primitive, or a way to use it, that the laws domain does not read."""


@dataclass(frozen=True)
class Constant:
    """A constant: its array in each trace."""

    arrays: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor before (`plain`) and after (`moved`) the action, as polynomials in the free indices of `dims`."""

    dims: Dims
    plain: Poly
    moved: Poly

    @property
    def invariant(self) -> bool:
        """Whether the action does not move it."""
        return self.plain == self.moved


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
    def trivial(self) -> bool:
        """Whether nothing but a shift happens."""
        return self.coefficient == 1 and not self.scale and not self.matrices

    @property
    def factor(self) -> tuple[Fraction, tuple[Factor, ...]]:
        """The number that multiplies, without the matrices."""
        return self.coefficient, self.scale


def place(dimension: int, factor: int, extent: Range) -> Index:
    """The free index of one factor of one dimension."""
    return ix.free(dimension * _FACTORS + factor, extent)


def free_indices(dims: Dims) -> list[list[Index]]:
    """The free indices of each dimension."""
    return [[place(d, f, extent) for f, extent in enumerate(factors)] for d, factors in enumerate(dims)]


def flat(nested: Sequence[Sequence[Any]]) -> list[Any]:
    """One list of all."""
    return [item for items in nested for item in items]


def dims_of(shapes: Sequence[Sequence[int]]) -> Dims:
    """One factor for each dimension that is not of size one: `shapes` are those of one array in each trace."""
    extents = [tuple(int(s[d]) for s in shapes) for d in range(len(shapes[0]))]
    return tuple(() if ix.trivial(extent) else (extent,) for extent in extents)


def whole(factors: Sequence[Range], traces: int) -> Range:
    """The size of a dimension with these factors."""
    out = (1,) * traces
    for extent in factors:
        out = ix.times(out, extent)
    return out


def relabelled(algebra: Algebra, value: Tensor, mapping: dict[Index, Index], dims: Dims) -> Tensor:
    """The same tensor with other free indices."""
    plain = algebra.substitute(value.plain, mapping)
    moved = plain if value.moved is value.plain or value.invariant else algebra.substitute(value.moved, mapping)
    return Tensor(dims, plain, moved)


def of_constant(algebra: Algebra, value: Constant, dims: Dims | None = None) -> Tensor:
    """A constant as a tensor; `dims` says how its dimensions factor."""
    shapes = [a.shape for a in value.arrays]
    dims = dims_of(shapes) if dims is None else dims
    labels = flat(free_indices(dims))
    arrays = [np.asarray(a).reshape([label[2][k] for label in labels]) for k, a in enumerate(value.arrays)]
    poly = algebra.constant(arrays, labels)
    return Tensor(dims, poly, poly)


def refined(algebra: Algebra, value: Tensor, wanted: Dims) -> Tensor:
    """The tensor with its dimensions factored as finely as `wanted` also is; `NoLaw` where the two do not fit."""
    if value.dims == wanted:
        return value
    mapping: dict[Index, Index] = {}
    dims = []
    for d, (mine, theirs) in enumerate(zip(value.dims, wanted, strict=True)):
        pieces, made = common_factors(mine, theirs)
        dims.append(tuple(made))
        position = 0
        for f, extent in enumerate(mine):
            count = pieces[f]
            parts = [place(d, position + k, made[position + k]) for k in range(count)]
            position += count
            joint = parts[0]
            for part in parts[1:]:
                joint = ix.pair(joint, part)
            mapping[place(d, f, extent)] = joint
    return relabelled(algebra, value, mapping, tuple(dims))


def common_factors(mine: Sequence[Range], theirs: Sequence[Range]) -> tuple[list[int], list[Range]]:
    """The coarsest common refinement of two factorings: how many pieces each of `mine` has, and the pieces."""
    pieces: list[int] = []
    made: list[Range] = []
    left = [list(mine), list(theirs)]
    heads: list[Range | None] = [None, None]
    count = 0
    while True:
        for k in (0, 1):
            if heads[k] is None and left[k]:
                heads[k] = left[k].pop(0)
                if k == 0 and count:
                    pieces.append(count)
                    count = 0
        a, b = heads
        if a is None and b is None:
            break
        if a is None or b is None:
            raise NoLaw("its dimensions do not factor alike")
        if a == b:
            made.append(a)
            count += 1
            heads = [None, None]
            continue
        small, big = (0, 1) if all(x <= y for x, y in zip(a, b, strict=True)) else (1, 0)
        part, rest = heads[small], heads[big]
        assert part is not None
        assert rest is not None
        quotient = ix.over(rest, part)
        if quotient is None:
            raise NoLaw(f"sizes {a} and {b} do not factor alike")
        made.append(part)
        count += 1
        heads[small], heads[big] = None, quotient
        if small == 0:
            pieces.append(count)
            count = 0
    if count:
        pieces.append(count)
    return pieces, made


def unified(algebra: Algebra, values: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of one shape, with their dimensions factored alike."""
    dims = values[0].dims
    for value in values[1:]:
        if value.dims != dims:
            dims = tuple(tuple(common_factors(mine, theirs)[1]) for mine, theirs in zip(dims, value.dims, strict=True))
    return [refined(algebra, value, dims) for value in values]


# --- laws


def find_law(algebra: Algebra, plain: Poly, moved: Poly) -> Law | None:
    """The law that takes `plain` to `moved`, or None when none of the known form does.

    A candidate is read off one term of `moved`: the group factors that end in its free indices. It is a law when
    applying it to `plain` accounts for as many terms of `moved` as `plain` has; what remains is the shift.
    """
    if plain == moved:
        return Law()
    if not plain:
        return Law(shift=moved) if not moved else None
    shift = algebra.add(moved, plain, -1)
    if len(shift) == len(moved) - len(plain):
        return Law(shift=shift)
    tried = []
    for term, coefficient in list(moved.items())[:24]:
        for candidate in _candidates(algebra, term, coefficient, plain):
            if candidate in tried:
                continue
            tried.append(candidate)
            shift = algebra.add(moved, applied(algebra, candidate, plain), -1)
            if len(shift) == max(len(moved) - len(plain), 0):
                return Law(candidate.coefficient, candidate.scale, candidate.matrices, shift)
        if len(tried) > 8:
            break
    return None


def applied(algebra: Algebra, law: Law, poly: Poly, shifted: bool = False) -> Poly:
    """The law on a polynomial in the same free indices."""
    out: Poly = {}
    for term, coefficient in poly.items():
        start = 1 + max((i[1] for i in algebra.bound_in(term)), default=-1)
        naming = {end: ix.bound(start + k, end[2]) for k, (_, _, end) in enumerate(law.matrices)}
        number = start + len(naming)
        inner: dict[Index, Index] = {}
        for _, word, end in law.matrices:
            for i in algebra.bound_in(word):
                if i != end and i not in inner:
                    inner[i] = ix.bound(number, i[2])
                    number += 1
        moves = {index: naming[end] for index, _, end in law.matrices}
        factors = [(a, tuple(ix.replaced(i, moves) for i in at), p) for a, at, p in term]
        names = naming | inner
        for _, word, _ in law.matrices:
            factors += [(a, tuple(ix.replaced(i, names) for i in at), p) for a, at, p in word]
        out = algebra.add(out, algebra.normal(coefficient * law.coefficient, [*factors, *law.scale]))
    return algebra.add(out, law.shift) if shifted else out


def _candidates(algebra: Algebra, term: Term, coefficient: Fraction, plain: Poly) -> list[Law]:
    moved = [f for f in term if algebra.moved(f)]
    rest = [f for f in term if not algebra.moved(f)]
    matrices: list[tuple[Index, tuple[Factor, ...], Index]] = []
    scale: list[Factor] = []
    waiting = [f for f in moved if algebra.atoms[f[0]].kind == "matrix"]
    for factor in moved:
        if algebra.atoms[factor[0]].kind == "matrix":
            continue
        if any(i[0] == BOUND for at in factor[1] for i in ix.atoms(at)):
            return []
        scale.append(factor)
    ends = [i for f in waiting for i in f[1][-2:] if i[0] != BOUND]
    if any(i[0] != FREE for i in ends):
        return []
    for start in ends:
        word, here = [], start
        while True:
            step = next((f for f in waiting if f not in word and here in f[1][-2:]), None)
            if step is None:
                break
            word.append(step)
            here = step[1][-1] if step[1][-2] == here else step[1][-2]
            if here[0] != BOUND:
                return []
            if any(here in tuple(ix.atoms(i)) for _, at, _ in rest for i in at):
                break
        if not any(start == m[0] for m in matrices):
            matrices.append((start, tuple(word), here))
        waiting = [f for f in waiting if f not in word]
    if waiting:
        return []
    signature = sorted((a, p) for a, _, p in rest)
    ratios = {coefficient / c for t, c in plain.items() if sorted((a, p) for a, _, p in t) == signature}
    # bound indices of the word get names of their own: those of the term mean nothing elsewhere
    named = []
    for number, (start, word, end) in enumerate(matrices):
        inner = dict.fromkeys(i for i in algebra.bound_in(word))
        naming = {i: ix.bound(900_000 + 100 * number + k, i[2]) for k, i in enumerate(inner)}
        named.append(
            (start, tuple((a, tuple(ix.replaced(i, naming) for i in at), p) for a, at, p in word), naming[end])
        )
    return [Law(ratio, tuple(sorted(scale)), tuple(sorted(named, key=repr))) for ratio in ratios]


def atomised(algebra: Algebra, poly: Poly) -> Poly:
    """`poly` as one atom of its own, whose definition is kept."""
    if single(poly):
        return poly
    labels = algebra.free_in(poly)
    slots = {label: ix.free(k, label[2]) for k, label in enumerate(labels)}
    definition = algebra.substitute(poly, slots)
    # a multiple of a known sum is a multiple of its atom
    lead = min(definition.items(), key=lambda item: repr(item[0]))[1]
    definition = algebra.scale(definition, 1 / lead)
    key = ("let", frozenset(definition.items()))
    made = algebra.atom(
        key,
        "let",
        f"T{len(algebra.atoms)}",
        [label[2] for label in labels],
        sign=sign_of(algebra, definition),
        moved=any(algebra.moved(f) for term in definition for f in term),
        data=definition,
    )
    return {((made.number, tuple(labels), 1),): lead}


def single(poly: Poly) -> bool:
    """Whether a polynomial is one entry of one atom, up to a number."""
    if len(poly) != 1:
        return False
    (term,) = poly
    return len(term) <= 1 and all(p == 1 and not any(ix.has(i, BOUND) for i in at) for _, at, p in term)


def simple(algebra: Algebra, poly: Poly) -> bool:
    """Whether a polynomial is a product of a few entries, nothing summed."""
    if len(poly) > 1:
        return False
    return all(len(term) <= 4 and not algebra.bound_in(term) for term in poly)


def sign_of(algebra: Algebra, poly: Poly) -> str:
    """What is known of the sign of every value."""
    signs = {_sign_of_term(algebra, term, coefficient) for term, coefficient in poly.items()}
    if signs <= {"positive", "nonnegative"} and signs:
        return "positive" if "positive" in signs else "nonnegative"
    return "real"


def _sign_of_term(algebra: Algebra, term: Term, coefficient: Fraction) -> str:
    if coefficient < 0:
        return "real"
    result = "positive"
    for number, _, power in term:
        sign = algebra.atoms[number].sign
        if sign == "positive":
            continue
        if power != int(power) or sign in ("nonnegative", "boolean") or int(power) % 2 == 0:
            if sign == "nonzero" and power == int(power):
                continue
            result = "nonnegative"
        else:
            return "real"
    return result


def settled(algebra: Algebra, value: Tensor) -> Tensor:
    """The value with long polynomials named, so that later products stay short.

    What does not move becomes one atom; so does what moves by a law without a shift. A shift is kept written out while
    it is short, because it may cancel later.
    """
    if value.invariant:
        if simple(algebra, value.plain) or not value.plain:
            return Tensor(value.dims, value.plain, value.plain)
        made = atomised(algebra, value.plain)
        lead = next(iter(made.values()))
        algebra.remember(algebra.scale(made, 1 / lead), algebra.scale(made, 1 / lead))
        return Tensor(value.dims, made, made)
    law = find_law(algebra, value.plain, value.moved)
    if (
        law is not None
        and value.plain
        and ((not law.shift and not simple(algebra, value.plain)) or len(value.plain) > 4)
    ):
        made = atomised(algebra, value.plain)
        image = applied(algebra, law, made, shifted=True)
        lead = next(iter(made.values()))
        algebra.remember(algebra.scale(made, 1 / lead), algebra.scale(image, 1 / lead))
        return Tensor(value.dims, made, image)
    if law is None and len(value.plain) + len(value.moved) > 40:
        return Tensor(value.dims, atomised(algebra, value.plain), atomised(algebra, value.moved))
    return value


def expanded(algebra: Algebra, poly: Poly, depth: int = 6) -> Poly:
    """`poly` with the definitions of its named sums written out, for a last comparison."""
    for _ in range(depth):
        out: Poly = {}
        changed = False
        for term, coefficient in poly.items():
            named = (k for k, f in enumerate(term) if algebra.atoms[f[0]].kind == "let" and f[2] in (1, 2, 3))
            target = next(named, None)
            if target is None:
                out = algebra.add(out, {term: coefficient})
                continue
            changed = True
            number, at, power = term[target]
            rest = [f for k, f in enumerate(term) if k != target]
            slots = {ix.free(k, ix.extent(i)): i for k, i in enumerate(at)}
            for chosen in itertools.product(algebra.atoms[number].data.items(), repeat=power):
                factors, product = list(rest), coefficient
                for copy, (inner, c) in enumerate(chosen):
                    apart = {i: ix.bound(i[1] + 500_000 * (copy + 1), i[2]) for i in algebra.bound_in(inner)}
                    product *= c
                    factors += [
                        (a, tuple(ix.replaced(ix.replaced(i, apart), slots) for i in there), p) for a, there, p in inner
                    ]
                out = algebra.add(out, algebra.normal(product, factors))
        poly = out
        if not changed:
            break
    return poly

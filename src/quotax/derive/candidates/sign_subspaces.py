"""The sets of places at which signs may be flipped: a subspace over GF(2), found by meeting in the middle.

A set of n places is a number of n bits, and the symmetric difference of sets is their sum. Flips commute and undo
themselves, so `F(A) = F(B)` at a generic point says that flipping `A + B` changes nothing. Every set is the sum of a
set of the first half of the places and one of the second: the values at `2^(n/2 + 1)` sets tell the whole subspace,
where the sets one by one would be `2^n`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

Values = Callable[[Sequence[int]], list[np.ndarray]]
"""What a model computes when the places of each of these sets are flipped."""

MOST = 20
"""Beyond this many unknown places the halves have too many sets."""
ENUMERATED = 12
"""Of a subspace of at most this dimension all elements are looked at for small ones."""
NEAR = 1e-10
"""Values that are closer than this, relative to the largest, are compared entry by entry."""


class SignSpace:
    """A subspace over GF(2) of sets of places, in echelon form."""

    def __init__(self, sets: Iterable[int] = ()) -> None:
        """The span of these sets."""
        self.rows: list[int] = []
        for one in sets:
            self.add(one)

    def rest(self, one: int) -> int:
        """What elimination leaves of a set: zero for an element."""
        for row in self.rows:
            one = min(one, one ^ row)  # the leading bit of the row goes, if the set has it
        return one

    def add(self, one: int) -> bool:
        """Include a set; whether it was new."""
        rest = self.rest(one)
        if rest:
            self.rows = sorted([*self.rows, rest], reverse=True)
        return bool(rest)


def sums(units: Sequence[int]) -> list[int]:
    """All sums of some of these sets, the empty one first."""
    out = [0]
    for unit in units:
        out += [one ^ unit for one in out]
    return out


def halves(units: Sequence[int]) -> list[int]:
    """Sets of which every sum of units is a sum of two."""
    return sums(units[::2]) + sums(units[1::2])[1:]


def alike(tried: Iterable[int], value: Values) -> tuple[list[int], bool]:
    """(sums of two of these sets with equal values, whether some sets lead to where the model is not defined)."""
    listed = list(dict.fromkeys(tried))
    outputs = value(listed)
    finite = np.isfinite(outputs[0])
    if not finite.any():
        return [], True
    known = [k for k, out in enumerate(outputs) if (np.isfinite(out) == finite).all()]
    told = np.array([outputs[k][finite] for k in known])
    size = 1 + np.abs(told).max(initial=0.0)
    keys = told @ np.random.default_rng(3).uniform(0.5, 1.5, told.shape[1]) / max(told.shape[1], 1)
    order = np.argsort(keys, kind="stable")
    out, firsts, before = [], [], -np.inf
    for k in order:
        if keys[k] - before > NEAR * size:
            firsts = []
        before = keys[k]
        near = next((one for one in firsts if close(told[one], told[k])), None)
        if near is None:
            firsts.append(k)
        else:
            out.append(listed[known[near]] ^ listed[known[k]])
    return out, len(known) < len(listed)


def matches(first: Sequence[int], value: Values, second: Sequence[int], other: Values) -> list[int]:
    """Sums of a set of each list where the one function, at the first, has the value of the other, at the second."""
    near, far = value(first), other(second)
    told = [np.nan_to_num(np.array(outputs), posinf=0, neginf=0) for outputs in (near, far)]
    weights = np.random.default_rng(3).uniform(0.5, 1.5, told[0].shape[1]) / max(told[0].shape[1], 1)
    keys, size = [values @ weights for values in told], 1 + np.abs(told[0]).max(initial=0.0)
    pairs = (
        (j, k) for k in range(len(second)) for j in np.flatnonzero(np.abs(keys[0] - keys[1][k]) < NEAR * size).tolist()
    )
    return [first[j] ^ second[k] for j, k in pairs if np.isfinite(near[j]).any() and close(near[j], far[k])]


def close(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether two outputs are the same as far as float64 can tell."""
    finite = np.abs(before[np.isfinite(before)])
    return np.allclose(before, after, rtol=1e-8, atol=1e-9 * (1 + finite.max(initial=0.0)), equal_nan=True)


def invariant(units: Sequence[int], values: Iterable[Values], smallest: Callable[[], Iterable[int]]) -> list[int]:
    """A basis of the sums of units that no value sees, each value at its own generic point.

    `smallest` lists sets by size: they are what is tried when there are too many units, or where most sets leave the
    domain of the model.
    """
    basis, few = list(units), smallest
    for value in values:
        if not basis:
            break
        many = len(basis) > MOST
        found, undefined = alike(few() if many else halves(basis), value)
        if undefined and not many:
            found += alike(few(), value)[0]
        within = SignSpace(basis)
        basis = SignSpace(one for one in found if not within.rest(one)).rows
        few = lambda own=tuple(basis): (0, *own)
    return basis


def small_generators(basis: Sequence[int], known: Sequence[int], avoided: int = 0) -> list[int]:
    """The smallest sets that generate, with those known, what the basis generates: none is a sum of others.

    Sets that have nothing of what is avoided come before others.
    """
    span, every = SignSpace(known), SignSpace([*basis, *known]).rows
    few = (0, *basis, *(one ^ other for one, other in itertools.product(basis, known)))
    ordered = _by_size(sums(every) if len(every) <= ENUMERATED else few)
    return [one for one in sorted(ordered, key=lambda one: (one & avoided).bit_count()) if span.add(one)]


def small_members(cosets: Sequence[int], space: Sequence[int]) -> list[int]:
    """The smallest set of each coset of a subspace."""
    within = sums(space) if len(space) <= ENUMERATED else [0, *space]
    distinct = {SignSpace(space).rest(one): one for one in reversed(cosets)}
    return _by_size(_by_size(one ^ other for other in within)[0] for one in distinct.values())


def _by_size(sets: Iterable[int]) -> list[int]:
    """By size, and among those of one size the first places first, as combinations of places are listed."""
    return sorted(sets, key=lambda one: (one.bit_count(), [k for k in range(one.bit_length()) if one >> k & 1]))

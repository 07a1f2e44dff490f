"""Dimensions as products and sums of unknown sizes, and what becomes of them when two of them are one.

Sizes are known throughout, and unknowns of different sizes never meet; two of the same size are one only where somebody
says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Dims = tuple["Unknown", ...]
"""A dimension: a product of unknowns."""


class Unknown:
    """A size that is followed; `parts` once it is known to be another one, or a product.

    `number` says that it is what it is: heights and widths of a convolution's kernel and image. `whole` is what a part
    was cut out of, `joined` what parts that are put together were; `rejoined` says of a number of parts that these met.
    `thinned` says that it counts every second entry of something, or every third.
    `terms` are the dimensions that it is the sum of, one after another, `copies` the number of copies of which one.
    """

    __slots__ = ("copies", "joined", "number", "parts", "read", "rejoined", "size", "terms", "thinned", "whole")

    def __init__(self, size: int) -> None:
        self.size = int(size)
        self.parts: Dims | None = None
        self.number = self.rejoined = self.thinned = False
        self.whole: Unknown | None = None
        self.joined: Unknown | None = None
        self.terms: tuple[Dims, ...] | None = None
        self.copies: tuple[int, Dims] | None = None
        self.read: set[int] = set()
        """The entries that are read alone: all of them, and they are things of their own, `q, k, v = qkv`."""


def factors(dim: Sequence[Unknown]) -> list[Unknown]:
    """The unknowns that a dimension is the product of, as far as is known; ones are left out."""
    out: list[Unknown] = []
    for unknown in dim:
        if unknown.parts is not None:
            out += factors(unknown.parts)
        elif unknown.size != 1:
            out.append(unknown)
    return out


def meet(first: Sequence[Unknown], second: Sequence[Unknown]) -> None:
    """Two dimensions are one: their factors meet from the left, larger ones taken apart by smaller ones."""
    a, b = factors(first), factors(second)
    if length(a) != length(b):
        return
    while a and b:
        if a[0] is b[0]:
            a, b = a[1:], b[1:]
        elif a[0].size == b[0].size:
            b[0].parts = (a[0],)
            a[0].number |= b[0].number
            a[0].rejoined |= b[0].rejoined
            a[0].thinned |= b[0].thinned
            a[0].copies = a[0].copies or b[0].copies
            one, other = a[0].terms, b[0].terms
            a[0].terms = one or other
            if one is not None and other is not None:
                _sums_meet(one, other)
            a, b = factors(a[1:]), factors(b[1:])
        else:
            if a[0].size < b[0].size:
                a, b = b, a
            if a[0].size % b[0].size:
                return
            a[0].parts = (b[0], Unknown(a[0].size // b[0].size))
            a, b = factors(a), factors(b)


def length(dim: Sequence[Unknown]) -> int:
    """The size of a dimension."""
    return math.prod(unknown.size for unknown in dim)


def summed(dim: Sequence[Unknown]) -> list[Dims]:
    """The terms of a dimension that is a sum, sums among them taken apart; itself where it is none."""
    roots = factors(dim)
    if len(roots) != 1 or roots[0].terms is None:
        return [tuple(dim)]
    return [part for term in roots[0].terms for part in summed(term)]


def _sums_meet(first: Sequence[Dims], second: Sequence[Dims]) -> None:
    """Two sums are one: their terms meet from the left, larger ones the sums of smaller ones."""
    a, b = [part for term in first for part in summed(term)], [part for term in second for part in summed(term)]
    while a and b:
        if length(a[0]) == length(b[0]):
            meet(a.pop(0), b.pop(0))
            continue
        if length(a[0]) < length(b[0]):
            a, b = b, a
        roots = factors(a[0])
        if len(roots) != 1 or roots[0].number:
            return
        roots[0].terms = (b[0], (Unknown(length(a[0]) - length(b[0])),))
        a = [*roots[0].terms, *a[1:]]


def run_of(dim: Dims, start: int, size: int) -> Dims | None:
    """Terms of a sum that make up what is between two places of it; nothing where a term would be cut."""
    found: list[Dims] = []
    terms, place = summed(dim), 0
    for term in terms:
        if start <= place and place + length(term) <= start + size:
            found.append(term)
        place += length(term)
    if len(terms) < 2 or not found or sum(map(length, found)) != size:
        return None
    if len(found) == 1:
        return found[0]
    whole = Unknown(size)
    whole.terms = tuple(found)
    return (whole,)


def reshaped(dims: Sequence[Dims], shape: Sequence[int]) -> list[Dims]:
    """The dimensions after a reshape: each output takes the next factors, the last of them taken apart if need be."""
    left = [u for dim in dims for u in factors(dim)]
    out: list[Dims] = []
    for size in shape:
        took: list[Unknown] = []
        while (have := math.prod(u.size for u in took)) != size:
            if not left:
                return [*out, *((Unknown(n),) for n in shape[len(out) :])]
            missing = size // have
            if size % have or (left[0].size > missing and left[0].size % missing):
                return [*out, *((Unknown(n),) for n in shape[len(out) :])]
            if left[0].size > missing:
                left[0].parts = (Unknown(missing), Unknown(left[0].size // missing))
                left = [u for v in left for u in factors((v,))]
            took.append(left.pop(0))
        out.append(tuple(took) or (Unknown(1),))
    return out


def take_copies_apart(dims: Sequence[Dims]) -> None:
    """What reads an axis put beside itself, `concatenate([sin(z), cos(z)])`, has that axis so many times.

    Copies of what is no axis of an argument, as the tables of a rotary embedding are, are as long as they are.
    """
    own = {unknown for dim in dims for unknown in factors(dim)}
    for whole in list(own):
        if whole.copies is None or whole.parts is not None or whole.number or whole.rejoined:
            continue
        count, dim = whole.copies
        if factors(dim) and own.issuperset(factors(dim)) and count * length(dim) == whole.size:
            number = Unknown(count)
            number.number = True
            whole.parts = (number, *dim)


def undo_cuts(dims: Sequence[Dims]) -> None:
    """Dimensions whose parts were put together again are one unknown, unless something else is as long as a part."""
    cut: dict[tuple[Unknown, ...], list[Unknown]] = {}
    elsewhere: set[Unknown] = set()
    waiting = [unknown for dim in dims for unknown in dim]
    seen: set[Unknown] = set()
    while waiting:
        unknown = waiting.pop()
        if unknown in seen:
            continue
        seen.add(unknown)
        roots = tuple(factors((unknown,)))
        waiting += [part for term in unknown.terms or () for part in term]
        halves = unknown.parts is not None and len(unknown.parts) == 2 and len(roots) == 2
        if halves and (roots[0].rejoined or roots[1].rejoined):
            cut.setdefault(roots, []).append(unknown)
        elif unknown.parts is not None:
            waiting += unknown.parts
        else:
            elsewhere.add(unknown)
    for (one, other), (first, *others) in cut.items():
        if (one if other.rejoined else other) not in elsewhere:
            first.parts = None
            for unknown in others:
                unknown.parts = (first,)


def fresh(shape: Sequence[int]) -> list[Dims]:
    """An unknown for every dimension."""
    return [(Unknown(n),) for n in shape]


def all_meet(first: Sequence[Sequence[Dims]], second: Sequence[Sequence[Dims]]) -> None:
    """Arrays one by one have the same dimensions."""
    for one, other in zip(first, second, strict=False):
        for a, b in zip(one, other, strict=False):
            meet(a, b)


def chain(dim: Dims) -> set[Unknown]:
    """The unknowns that a dimension is, and those that it was found to be."""
    out, waiting = set(), list(dim)
    while waiting:
        unknown = waiting.pop()
        out.add(unknown)
        waiting += unknown.parts or ()
    return out

"""Indices of tensors whose axes have names, not numbers.

A *range* is the tuple of the sizes that an axis has in the traces read together; two axes are the same range when they
agree in all of them. An *index* is a tagged tuple, so that indices compare and sort:

    (0, place, range)      free: one factor of one dimension of the tensor at hand
    (1, number, range)     bound: summed over its range
    (2, value, range)      a fixed position
    (3, outer, inner)      `outer * size(inner) + inner`: one index that is a pair
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Range = tuple[int, ...]
Index = tuple

FREE, BOUND, FIXED, PAIR = 0, 1, 2, 3


def free(place: int, extent: Range) -> Index:
    """The free index at a place."""
    return (FREE, place, extent)


def bound(number: int, extent: Range) -> Index:
    """A summed index."""
    return (BOUND, number, extent)


def fixed(value: int, extent: Range) -> Index:
    """A fixed position."""
    return (FIXED, value, extent)


def pair(outer: Index, inner: Index) -> Index:
    """The joint index of two; two fixed positions are one when the inner range is the same in all traces."""
    if outer[0] == FIXED == inner[0] and constant(inner[2]):
        return fixed(outer[1] * inner[2][0] + inner[1], times(outer[2], inner[2]))
    return (PAIR, outer, inner)


def extent(index: Index) -> Range:
    """The range that an index runs over."""
    return times(extent(index[1]), extent(index[2])) if index[0] == PAIR else index[2]


def atoms(index: Index) -> Iterator[Index]:
    """The indices that a joint index is made of."""
    if index[0] == PAIR:
        yield from atoms(index[1])
        yield from atoms(index[2])
    else:
        yield index


def replaced(index: Index, mapping: Mapping[Index, Index]) -> Index:
    """`index` with indices replaced, also inside pairs."""
    if index in mapping:
        return mapping[index]
    if index[0] == PAIR:
        return pair(replaced(index[1], mapping), replaced(index[2], mapping))
    return index


def has(index: Index, kind: int) -> bool:
    """Whether an index of this kind occurs in it."""
    return any(part[0] == kind for part in atoms(index))


def times(left: Range, right: Range) -> Range:
    """The range of a pair."""
    return tuple(a * b for a, b in zip(left, right, strict=True))


def over(left: Range, right: Range) -> Range | None:
    """The range that makes `left` with `right`, if there is one."""
    if any(a % b for a, b in zip(left, right, strict=True)):
        return None
    return tuple(a // b for a, b in zip(left, right, strict=True))


def constant(extent: Range) -> bool:
    """Whether a range has one size in all traces."""
    return all(size == extent[0] for size in extent)


def trivial(extent: Range) -> bool:
    """Whether a range has one value: then no index is kept for it."""
    return all(size == 1 for size in extent)

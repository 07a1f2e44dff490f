"""Indices of tensors whose axes have names, not numbers.

An index is a position in a dimension, given by what it is made of:

    Free(place, extent)              one factor of one dimension of the tensor at hand
    Bound(number, extent)            summed over its extent
    Fixed(position, extent)          one position, an integer or an expression in the sizes
    Pair(outer, inner)               outer * |inner| + inner
    Affine(start, stride, of, extent)   start + stride * of: a slice, a reversal

Every index is within its extent: who makes one has to know that.

They are NamedTuples because a proof spends its time hashing and comparing them, which tuples do in C: as frozen
dataclasses, the proof about queries and keys in a decoder took 10 to 19 % longer. Tuples of two classes may be equal,
so `kind` is part of the value; who asks what an index is asks for its class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from quotax.kernel.sizes import ONE, ZERO, Size

OPENED, WRITTEN, CLAIMED = -1, -2, -3
"""Dimensions that no tensor has, for free indices with names of their own: of a sum that is taken apart by a proof, of
what a rule makes while a trace is written out, of a sum in an action. Numbers there count up; none of them meet."""


class Free(NamedTuple):
    """One factor of one dimension: `place` is (dimension, factor)."""

    place: tuple[int, int]
    extent: Size
    kind: str = "free"


class Bound(NamedTuple):
    """A summed index."""

    number: int
    extent: Size
    kind: str = "bound"


class Fixed(NamedTuple):
    """One position."""

    position: Size
    extent: Size
    kind: str = "fixed"


class Pair(NamedTuple):
    """A joint index: the position of `inner` within the block `outer`."""

    outer: Index
    inner: Index
    kind: str = "pair"

    @property
    def extent(self) -> Size:
        """All positions."""
        return self.outer.extent.times(self.inner.extent)


class Affine(NamedTuple):
    """Every `stride`-th position from `start`."""

    start: Size
    stride: int
    of: Index
    extent: Size
    kind: str = "affine"


Index = Free | Bound | Fixed | Pair | Affine


def fixed(position: Size | int, extent: Size) -> Fixed:
    """A fixed position."""
    return Fixed(Size.of(position), extent)


def pair(outer: Index, inner: Index) -> Index:
    """The joint index of two; two fixed positions are one, the leading and trailing parts of one index are it."""
    if outer.extent == ONE:
        return inner
    if inner.extent == ONE:
        return outer
    if isinstance(outer, Fixed) and isinstance(inner, Fixed):
        extent = outer.extent.times(inner.extent)
        return Fixed(outer.position.times(inner.extent).plus(inner.position), extent)
    return Pair(outer, inner)


def affine(start: Size | int, stride: int, of: Index, extent: Size) -> Index:
    """`start + stride * of` in `extent`, in its simplest form."""
    start, stride = Size.of(start), int(stride)
    if isinstance(of, Fixed):
        return Fixed(start.plus(of.position, stride), extent)
    if isinstance(of, Affine):
        return affine(start.plus(of.start, stride), stride * of.stride, of.of, extent)
    if of.extent == extent and stride == 1 and start == ZERO:
        return of
    if stride == 1:
        # block number q of the equal blocks that make up the extent
        many, number = extent.over(of.extent), start.over(of.extent)
        if many is not None and number is not None and many.minus(number).positive and number.nonnegative:
            return pair(Fixed(number, many), of)
    elif stride > 1 and of.extent.times(stride) == extent and start.value is not None and 0 <= start.value < stride:
        return pair(of, Fixed(start, Size.of(stride)))
    return Affine(start, stride, of, extent)


def parts(index: Index) -> Iterator[Index]:
    """The free, bound and fixed indices that an index is made of."""
    if isinstance(index, Pair):
        yield from parts(index.outer)
        yield from parts(index.inner)
    elif isinstance(index, Affine):
        yield from parts(index.of)
    else:
        yield index


def inside(index: Index) -> Iterator[Index]:
    """The index and every index in it."""
    yield index
    if isinstance(index, Pair):
        yield from inside(index.outer)
        yield from inside(index.inner)
    elif isinstance(index, Affine):
        yield from inside(index.of)


def replaced(index: Index, mapping: Mapping[Index, Index]) -> Index:
    """`index` with indices replaced, wherever they are."""
    if index in mapping:
        return mapping[index]
    if isinstance(index, Pair):
        return pair(replaced(index.outer, mapping), replaced(index.inner, mapping))
    if isinstance(index, Affine):
        return affine(index.start, index.stride, replaced(index.of, mapping), index.extent)
    return index


def has(index: Index, kind: type) -> bool:
    """Whether an index of this kind occurs in it."""
    return any(isinstance(part, kind) for part in parts(index))


_KINDS = {"free": 0, "bound": 1, "fixed": 2, "pair": 3, "affine": 4}


def order(index: Index) -> tuple[object, ...]:
    """A key by which all indices can be sorted."""
    if isinstance(index, Pair):
        return (3, order(index.outer), order(index.inner))
    if isinstance(index, Affine):
        return (4, index.start, index.stride, order(index.of), index.extent)
    return (_KINDS[index.kind], index[0], index[1])

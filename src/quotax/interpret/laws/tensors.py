"""Tensors as polynomials in named indices: what a value is while a trace is written out as a sheet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import jax
import numpy as np
import sympy as sp
from jax.core import ShapedArray

from quotax.kernel import indices as ix
from quotax.kernel.atoms import Factor, NamedSum
from quotax.kernel.indices import Free, Index
from quotax.kernel.polynomials import Algebra, Key, Poly, rational
from quotax.kernel.sheet import Guard, named_sum
from quotax.kernel.sizes import ONE, Size, read
from quotax.trees import Dim

Dims = tuple[tuple[Size, ...], ...]
"""For each dimension, the sizes whose product it is; none for a dimension of size one."""


class NoLaw(Exception):
    """A primitive, or a way to use it, that is not read; the message says which and why."""


@dataclass(frozen=True)
class Known:
    """A constant: an array of numbers, or a random key of JAX's."""

    array: np.ndarray | jax.Array


@dataclass(frozen=True)
class Source:
    """A SymPy expression in symbols, and the polynomials that they stand for: see `sources`.

    `of` is the value that it is the source of: what is made of that value does not inherit it.
    """

    expression: sp.Expr
    symbols: tuple[sp.Symbol, ...]
    leaves: tuple[Poly, ...]
    of: tuple[Key, Dims]


@dataclass(frozen=True)
class Tensor:
    """A polynomial in the free indices of `dims`.

    Attributes:
        assumed: conditions without which an entry has no value: a denominator that is not zero.
        guards: conditions of which something is made that has a value all the same.
        compared: for a truth value, the polynomials that it compares.
        inherited: for a truth value, the guards that what it compares had already.
        source: for a value with conditions, the function that it is of values without.
        lost: for a value with conditions, whether an infinity that they are about may not stand in it any more.
        freed: conditions of what it is made of that it has not itself.
    """

    dims: Dims
    poly: Poly
    assumed: frozenset[str] = frozenset()
    guards: frozenset[Guard] = frozenset()
    compared: tuple[Poly, ...] = ()
    inherited: frozenset[Guard] = frozenset()
    source: Source | None = None
    lost: bool = False
    freed: frozenset[str] = frozenset()

    def assuming(self, *conditions: str) -> Tensor:
        """The same, with more conditions."""
        return replace(self, assumed=self.assumed | frozenset(conditions))


Item = TypeVar("Item")

Value = Tensor | Known
"""What a rule is given and gives back."""


def extent(dim: Dim) -> Size:
    """A dimension of a shape as a size."""
    return Size.of(dim) if isinstance(dim, (int, np.integer)) else _read(str(dim))


@lru_cache(maxsize=4096)
def _read(text: str) -> Size:
    return read(text)


def shape_of(aval: ShapedArray) -> tuple[Size, ...]:
    """The sizes of the dimensions of an array."""
    return tuple(extent(d) for d in aval.shape)


def place(dimension: int, factor: int, size: Size) -> Free:
    """The free index of one factor of one dimension."""
    return Free((int(dimension), int(factor)), size)


def labels(dims: Dims) -> list[list[Free]]:
    """The free indices of each dimension."""
    return [[place(d, f, size) for f, size in enumerate(factors)] for d, factors in enumerate(dims)]


def flat(nested: Sequence[Sequence[Item]]) -> list[Item]:
    """One list of all."""
    return [item for items in nested for item in items]


def dims_of(shape: Sequence[Size]) -> Dims:
    """One factor for each dimension that is not of size one."""
    return tuple(() if size == ONE else (size,) for size in shape)


def whole(factors: Sequence[Size]) -> Size:
    """The size of a dimension with these factors."""
    out = ONE
    for size in factors:
        out = out.times(size)
    return out


def joint(indices: Sequence[Index]) -> Index:
    """One index of several, outermost first."""
    out = indices[0]
    for index in indices[1:]:
        out = ix.pair(out, index)
    return out


def relabelled(algebra: Algebra, value: Tensor, mapping: dict[Index, Index], dims: Dims) -> Tensor:
    """The same tensor with other free indices."""
    compared = tuple(algebra.substitute(p, mapping) for p in value.compared)
    return replace(value, dims=dims, poly=algebra.substitute(value.poly, mapping), compared=compared)


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
        for f, size in enumerate(mine):
            parts = [place(d, position + k, made[position + k]) for k in range(pieces[f])]
            position += pieces[f]
            mapping[place(d, f, size)] = joint(parts)
    out = relabelled(algebra, value, mapping, tuple(dims))
    return replace(out, poly=_looked_into(algebra, out.poly))


def _looked_into(algebra: Algebra, poly: Poly) -> Poly:
    """The polynomial with sums that do not have a part of a joint index, said without it: a table that repeats itself.

    Cosines of rotary positions are the same in both halves; so is what is looked up in their table.
    """
    out: Poly = {}
    for term, coefficient in poly.items():
        factors: list[Factor] = []
        for factor in term:
            what = algebra.atoms[factor.atom].what
            pairs = any(isinstance(i, ix.Pair) for i in factor.at) and not algebra.bound_in([factor])
            if isinstance(what, NamedSum) and pairs and factor.power == 1:
                inner = algebra.at(what.poly, factor.at)
                if len(algebra.free_in(inner)) < len(algebra.free_in({(factor,): coefficient})):
                    made = inner if rational(inner) is not None else named_sum(algebra, inner)
                    coefficient *= sum(made.values())
                    factors += [f for t in made for f in t]
                    continue
            factors.append(factor)
        out = algebra.add(out, algebra.normal(coefficient, factors))
    return out


def common_factors(mine: Sequence[Size], theirs: Sequence[Size]) -> tuple[list[int], list[Size]]:
    """The coarsest common refinement of two factorings: how many pieces each of `mine` has, and the pieces."""
    pieces: list[int] = []
    made: list[Size] = []
    waiting = [list(mine), list(theirs)]
    heads: list[Size | None] = [None, None]
    count = 0
    while True:
        for k in (0, 1):
            if heads[k] is None and waiting[k]:
                heads[k] = waiting[k].pop(0)
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
        rest = b.over(a)
        if rest is not None:
            made.append(a)
            heads = [None, rest]
        else:
            rest = a.over(b)
            if rest is None:
                raise NoLaw(f"sizes {a} and {b} do not factor alike")
            made.append(b)
            heads = [rest, None]
        count += 1
        if heads[0] is None:
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


def regrouped(algebra: Algebra, value: Tensor, shape: Sequence[Size]) -> Tensor:
    """The tensor with dimensions of these sizes, entries in the same order.

    Factors are regrouped in their order; a factor that falls into two dimensions becomes a pair.
    """
    mine = flat([list(d) for d in value.dims])
    pieces, made = common_factors(mine, [s for s in shape if s != ONE])
    dims: list[tuple[Size, ...]] = []
    places: list[Index] = []
    position = 0
    for d, target in enumerate(shape):
        factors: list[Size] = []
        while whole(factors) != target:
            size = made[position]
            places.append(place(d, len(factors), size))
            factors.append(size)
            position += 1
        dims.append(tuple(factors))
    mapping: dict[Index, Index] = {}
    position = 0
    for label, count in zip(flat(labels(value.dims)), pieces, strict=True):
        mapping[label] = joint(places[position : position + count])
        position += count
    return relabelled(algebra, value, mapping, tuple(dims))


def parted(algebra: Algebra, poly: Poly, chosen: Callable[[Factor], bool]) -> tuple[list[Factor], Poly]:
    """The chosen factors that every term has and no sum is over, and the polynomial without them; none of a product."""
    if len(poly) == 1 and not algebra.bound_in(next(iter(poly))):
        return [], poly
    unsummed = lambda f: not any(ix.has(i, ix.Bound) for i in f.at)
    first = next(iter(poly), ())
    common = [f for f in first if chosen(f) and unsummed(f) and all(f in term for term in poly)]
    rest: Poly = {tuple(f for f in term if f not in common): c for term, c in poly.items()}
    return common, rest


def simple(algebra: Algebra, poly: Poly) -> bool:
    """Whether a polynomial is a product of a few entries, nothing summed."""
    return len(poly) <= 1 and all(len(term) <= 4 and not algebra.bound_in(term) for term in poly)

"""Parts read and written at positions: gathers, scatters, slices whose place is given by a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from quotax.interpret.laws import indices as ix
from quotax.interpret.laws import tensors
from quotax.interpret.laws.algebra import Poly
from quotax.interpret.laws.arithmetic import token_of, token_selection
from quotax.interpret.laws.indices import Index, Range
from quotax.interpret.laws.reading import Joint
from quotax.interpret.laws.structure import mapped_along, picked_along
from quotax.interpret.laws.tensors import Constant, NoLaw, Tensor, flat, place, relabelled, settled


def gather(step: Joint, args: list[Any]) -> list[Any]:
    """A gather is linear in its operand: a selection by the positions, which nothing may move."""
    operand, where = args
    laws, algebra = step.domain, step.domain.algebra
    params = step.params[0]
    dims = params["dimension_numbers"]
    if params["mode"] == GatherScatterMode.FILL_OR_DROP and not isinstance(where, Constant):
        strict = False
    else:
        strict = params["mode"] != GatherScatterMode.FILL_OR_DROP
    sizes = step.shapes(0)
    operand = laws.tensor(operand)
    rank = len(sizes[0])
    mapped = list(dims.start_index_map)
    batched = list(dims.operand_batching_dims)
    out_rank = len(step.out_shapes[0])
    batch_out = [d for d in range(out_rank) if d not in dims.offset_dims]
    kept = [d for d in range(rank) if d not in dims.collapsed_slice_dims and d not in batched]
    for d in range(rank):
        whole = all(p["slice_sizes"][d] == s[d] for p, s in zip(step.params, sizes, strict=True))
        if d in mapped:
            if any(p["slice_sizes"][d] != 1 for p in step.params):
                raise NoLaw("it gathers slices at variable positions")
        elif d not in batched and not whole:
            raise NoLaw("it gathers part of a dimension")
    index_rank = len(step.shapes(1)[0])
    vector = index_rank - 1  # jaxprs keep the index vector last
    if isinstance(where, Constant):
        index_dims = tensors.dims_of(step.shapes(1))
    else:
        index_dims = where.dims
        if not where.invariant:
            raise NoLaw("its positions move with the parameters")
    # output batch dimension number k is index dimension number k
    away = 20_000
    moves = {place(d, f, e): place(away + d, f, e) for d in range(rank) for f, e in enumerate(operand.dims[d])}
    for position, d in zip([d for d in range(out_rank) if d in dims.offset_dims], kept, strict=True):
        if d not in mapped:
            moves |= {place(d, f, e): place(position, f, e) for f, e in enumerate(operand.dims[d])}
    out_dims: list[tuple[Range, ...]] = [()] * out_rank
    for position, d in zip([d for d in range(out_rank) if d in dims.offset_dims], kept, strict=True):
        out_dims[position] = () if d in mapped else operand.dims[d]
    for k, position in enumerate(batch_out):
        out_dims[position] = index_dims[k]
    for d, k in zip(batched, dims.start_indices_batching_dims, strict=True):
        position = batch_out[k]
        pieces = operand.dims[d]
        if pieces != out_dims[position]:
            raise NoLaw("its batch dimensions do not factor alike")
        moves |= {place(d, f, e): place(position, f, e) for f, e in enumerate(pieces)}
    shifted = relabelled(algebra, operand, moves, operand.dims)
    selection: Poly = {(): Fraction(1)}
    summed: list[Index] = []
    rows = flat([[place(batch_out[k], f, e) for f, e in enumerate(index_dims[k])] for k in range(index_rank - 1)])
    for component, d in enumerate(mapped):
        if len(operand.dims[d]) > 1:
            raise NoLaw("it gathers along a dimension made of several axes")
        if not operand.dims[d]:
            continue
        column = place(away + d, 0, operand.dims[d][0])
        summed.append(column)
        selection = algebra.multiply(
            selection, _positions(step, where, component, vector, index_dims, batch_out, rows, column, strict)
        )
    plain = algebra.multiply(selection, shifted.plain, summed)
    moved = plain if operand.invariant else algebra.multiply(selection, shifted.moved, summed)
    return [settled(algebra, Tensor(tuple(out_dims), plain, moved))]


def _positions(
    step: Joint,
    where: Any,
    component: int,
    vector: int,
    index_dims: tensors.Dims,
    batch_out: Sequence[int],
    rows: Sequence[Index],
    column: Index,
    strict: bool,
) -> Poly:
    """`[position = column]` for one component of the index vectors."""
    algebra = step.domain.algebra
    size = ix.extent(column)
    if isinstance(where, Constant):
        arrays = []
        for k, a in enumerate(where.arrays):
            spots = np.asarray(a)[..., component]
            if np.any(spots < 0) or np.any(spots >= size[k]):
                raise NoLaw("it gathers out of bounds")
            hot = np.eye(size[k])[spots]
            arrays.append(hot.reshape([r[2][k] for r in rows] + [size[k]]))
        return algebra.constant(arrays, [*rows, column])
    mapping: dict[Index, Index] = {}
    for k, position in enumerate(batch_out):
        for f, e in enumerate(index_dims[k]):
            mapping[place(k, f, e)] = place(position, f, e)
    for f, e in enumerate(index_dims[vector]):
        if f or not ix.constant(e):
            raise NoLaw("its index vectors have a variable length")
        mapping[place(vector, 0, e)] = ix.fixed(component, e)
    poly = algebra.substitute(where.plain, mapping)
    factor = token_of(algebra, poly)
    if factor is not None:
        if algebra.atoms[factor[0]].data != size:
            raise NoLaw("its tokens do not run over the gathered axis")
        found = token_selection(algebra, factor, column)
        assert found is not None
        return found
    if not strict:
        raise NoLaw("its positions may be out of bounds")
    labels = algebra.free_in(poly)
    slots = {label: ix.free(k, label[2]) for k, label in enumerate(labels)}
    key = ("positions", frozenset(algebra.substitute(poly, slots).items()), size)
    made = algebra.atom(
        key,
        "selection",
        "[position=·]",
        [*(label[2] for label in labels), size],
        sign="boolean",
        rows=((tuple(range(len(labels))), (len(labels),), True),),
    )
    return {((made.number, (*labels, column), 1),): Fraction(1)}


def dynamic_slice(step: Joint, args: list[Any]) -> list[Any]:
    """A slice at constant positions; at positions that are values, only of size one."""
    value, *starts = args
    sizes, shapes = step.shapes(0), step.out_shapes
    value = step.domain.tensor(value)
    algebra = step.domain.algebra
    for d, start in enumerate(starts):
        size, new = tuple(s[d] for s in sizes), tuple(s[d] for s in shapes)
        if size == new:
            continue
        if isinstance(start, Constant):
            at = [int(np.clip(int(a), 0, n - m)) for a, n, m in zip(start.arrays, size, new, strict=True)]
            value = picked_along(step, value, d, size, [a + np.arange(m) for a, m in zip(at, new, strict=True)])
            continue
        if not ix.trivial(new) or len(value.dims[d]) != 1 or not start.invariant:
            raise NoLaw("it slices at a position that moves, or more than one entry at a variable position")
        column = place(30_000 + d, 0, size)
        selection = _positions(step, Tensor(((),), start.plain, start.moved), 0, 0, ((),), [], [], column, True)
        dims = tuple(() if k == d else f for k, f in enumerate(value.dims))
        shifted = relabelled(algebra, value, {place(d, 0, size): column}, dims)
        plain = algebra.multiply(selection, shifted.plain, [column])
        moved = plain if value.invariant else algebra.multiply(selection, shifted.moved, [column])
        value = Tensor(dims, plain, moved)
    return [value]


def update_slice(step: Joint, args: list[Any]) -> list[Any]:
    """A slice replaced at constant positions: two selections with disjoint columns."""
    value, update, *starts = args
    if not all(isinstance(s, Constant) for s in starts):
        raise NoLaw("its position is a value")
    sizes, counts = step.shapes(0), step.shapes(1)
    at = [
        [int(np.clip(int(start.arrays[k]), 0, n - m)) for start, n, m in zip(starts, size, count, strict=True)]
        for k, (size, count) in enumerate(zip(sizes, counts, strict=True))
    ]
    return [_placed(step, step.domain.tensor(value), step.domain.tensor(update), counts, at, keep=False)]


def _placed(
    step: Joint, old: Tensor, new: Tensor, counts: Sequence[Sequence[int]], at: Sequence[Sequence[int]], keep: bool
) -> Tensor:
    """`new`, of shape `counts`, put into `old` at `at` in each trace: added to what is there, or in its stead."""
    algebra = step.domain.algebra
    inside = Tensor(new.dims, {(): Fraction(1)}, {(): Fraction(1)})
    for d in range(len(new.dims)):
        size, count = tuple(s[d] for s in step.shapes(0)), tuple(c[d] for c in counts)
        if size == count:
            continue
        embeds = [np.eye(n, m, k=-a[d]) for n, m, a in zip(size, count, at, strict=True)]
        new, inside = mapped_along(step, new, d, size, embeds), mapped_along(step, inside, d, size, embeds)
    old, new, inside = tensors.unified(algebra, [old, new, inside])
    outside = {(): Fraction(1)} if keep else algebra.add({(): Fraction(1)}, inside.plain, -1)
    plain = algebra.add(new.plain, algebra.multiply(outside, old.plain))
    moved = algebra.add(new.moved, algebra.multiply(outside, old.moved))
    return settled(algebra, Tensor(old.dims, plain, moved))


def scatter(keep: bool) -> Callable[[Joint, list[Any]], list[Any]]:
    """One block written at constant positions (`x.at[0].set`), or added to what is there (`keep`)."""

    def rule(step: Joint, args: list[Any]) -> list[Any]:
        value, where, update = args
        numbers = step.params[0]["dimension_numbers"]
        if not isinstance(where, Constant) or where.arrays[0].ndim != 1:
            raise NoLaw("it scatters to several places, or to places that are values")
        old, new = step.domain.tensor(value), step.domain.tensor(update)
        sizes = step.shapes(0)
        kept = [d for d in range(len(sizes[0])) if d not in numbers.inserted_window_dims]
        counts = [[1] * len(sizes[0]) for _ in sizes]
        at = [[0] * len(sizes[0]) for _ in sizes]
        for k, (size, shape) in enumerate(zip(sizes, step.shapes(2), strict=True)):
            for source, d in enumerate(kept):
                counts[k][d] = shape[source]
            for component, d in enumerate(numbers.scatter_dims_to_operand_dims):
                at[k][d] = int(where.arrays[k][component])
            if any(a < 0 or a + c > n for a, c, n in zip(at[k], counts[k], size, strict=True)):
                raise NoLaw("it scatters out of bounds")
        mapping: dict[Index, Index] = {}
        dims: list[tuple[Range, ...]] = [()] * len(sizes[0])
        for source, d in enumerate(kept):
            dims[d] = new.dims[source]
            mapping |= {place(source, f, e): place(d, f, e) for f, e in enumerate(dims[d])}
        new = relabelled(step.domain.algebra, new, mapping, tuple(dims))
        return [_placed(step, old, new, counts, at, keep)]

    return rule

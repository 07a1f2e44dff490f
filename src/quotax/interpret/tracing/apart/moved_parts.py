"""Operations that put entries elsewhere, on values by their parts."""

from __future__ import annotations

import math
from dataclasses import replace

import jax.numpy as jnp

from quotax.interpret.tracing.apart.concatenation import (
    Concatenation,
    Divided,
    dtype_of,
    part,
    quotient,
    segment,
    shape_of,
)
from quotax.interpret.tracing.apart.known_positions import positions_of
from quotax.interpret.tracing.apart.stepping import Operation, Rule, applied, each, only, step


def _broadcast(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    value = only(arguments)
    if value is None or len(arguments) > 1:
        return None
    shape, places = list(operation.params["shape"]), operation.params["broadcast_dimensions"]
    axis, made = places[value.axis], []
    for piece in value.pieces:
        shape[axis] = shape_of(piece)[value.axis]
        made.append(step(operation.but(shape=tuple(shape)), [piece])[0])
    return [value.like(made, axis)]


def _reshape(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    value, sizes = only(arguments), tuple(operation.params["new_sizes"])
    if value is None or len(arguments) > 1 or operation.params.get("dimensions") is not None:
        return None
    slower = math.prod(value.shape[: value.axis]) * value.before
    faster = value.after * math.prod(value.shape[value.axis + 1 :])
    for axis in range(len(sizes)):
        before = quotient(slower, math.prod(sizes[:axis]))
        after = quotient(faster, math.prod(sizes[axis + 1 :]))
        if before is None or after is None or before * value.total * after != sizes[axis]:
            continue
        made = []
        for piece, length in zip(value.pieces, value.lengths, strict=True):
            shape = (*sizes[:axis], before * length * after, *sizes[axis + 1 :])
            made.append(step(operation.but(new_sizes=shape), [piece])[0])
        return [replace(value, before=before, after=after).like(made, axis)]
    return None


def _transpose(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    (value,) = arguments
    axis = tuple(operation.params["permutation"]).index(value.axis)
    return each(operation, value, axis, [[piece] for piece in value.pieces])


def _squeeze(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    (value,), gone = arguments, operation.params["dimensions"]
    if value.axis in gone:
        return None
    axis = value.axis - sum(d < value.axis for d in gone)
    return each(operation, value, axis, [[piece] for piece in value.pieces])


def _slice(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    (value,), params = arguments, operation.params
    starts, stops = list(params["start_indices"]), list(params["limit_indices"])
    strides = list(params["strides"] or (1,) * len(starts))
    axis = value.axis
    kept = part(value, starts[axis], stops[axis], strides[axis])
    if kept is None:
        return None
    starts[axis], strides[axis] = 0, 1

    def rest(piece: Divided) -> Divided:
        if isinstance(piece, Concatenation) and piece.axis == axis:
            return piece.like([rest(p) for p in piece.pieces], axis)
        stops[axis] = shape_of(piece)[axis]
        if all(
            a == 0 and b == n and s == 1 for a, b, n, s in zip(starts, stops, shape_of(piece), strides, strict=True)
        ):
            return piece
        own = {"start_indices": tuple(starts), "limit_indices": tuple(stops), "strides": tuple(strides)}
        return step(operation.but(**own), [piece])[0]

    return [rest(kept)]


def _split(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    (value,), axis, sizes = arguments, operation.params["axis"], operation.params["sizes"]
    if axis != value.axis:
        return each(operation, value, value.axis, [[piece] for piece in value.pieces])
    made = [part(value, sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(len(sizes))]
    return None if any(m is None for m in made) else made


def _unstack(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    (value,), axis = arguments, operation.params["axis"]
    if axis != value.axis:
        return each(operation, value, value.axis - (axis < value.axis), [[piece] for piece in value.pieces])
    if not (value.before == 1 and value.after == 1 and all(n == 1 for n in value.lengths)):
        return None
    return [applied(lambda a: jnp.squeeze(a, axis), piece) for piece in value.pieces]


def _gather(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    value, indices = only(arguments), arguments[1]
    if value is None:
        return None
    numbers, axis = operation.params["dimension_numbers"], value.axis
    if numbers.operand_batching_dims:
        return None
    sizes, mapped, collapsed = operation.params["slice_sizes"], numbers.start_index_map, numbers.collapsed_slice_dims
    offset = [d for d in range(len(sizes)) if d not in collapsed]
    if axis not in mapped:  # rows of all parts
        if axis in collapsed or sizes[axis] != value.shape[axis]:
            return None
        made = []
        for piece in value.pieces:
            own = (*sizes[:axis], shape_of(piece)[axis], *sizes[axis + 1 :])
            made.append(step(operation.but(slice_sizes=own), [piece, indices])[0])
        return [value.like(made, numbers.offset_dims[offset.index(axis)])]
    starts = positions_of(indices)
    if starts is None or starts.shape != (len(mapped),) or len(numbers.offset_dims) != len(offset):
        return None
    others = [d for d in mapped if d != axis]
    if any(not (starts[mapped.index(d)] == 0 and sizes[d] == value.shape[d]) for d in others):
        return None
    start = starts[mapped.index(axis)]
    kept = part(value, start, start + sizes[axis])
    if kept is None or (axis in collapsed and isinstance(kept, Concatenation) and kept.axis == axis):
        return None
    return [applied(lambda a: jnp.squeeze(a, tuple(collapsed)), kept) if collapsed else kept]


def _dynamic_slice(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    value = only(arguments)
    if value is None:
        return None
    sizes, axis = operation.params["slice_sizes"], value.axis
    start = positions_of(arguments[1 + axis])
    kept = None if start is None else part(value, start[()], start[()] + sizes[axis])
    if kept is None:
        return None
    zero = jnp.zeros((), dtype_of(arguments[1 + axis]))
    starts = [*arguments[1 : 1 + axis], zero, *arguments[2 + axis :]]

    def rest(piece: Divided) -> Divided:
        if isinstance(piece, Concatenation) and piece.axis == axis:
            return piece.like([rest(p) for p in piece.pieces], axis)
        own = (*sizes[:axis], shape_of(piece)[axis], *sizes[axis + 1 :])
        return step(operation.but(slice_sizes=own), [piece, *starts])[0]

    return [rest(kept)]


def _concatenate(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    frame = next(a for a in arguments if isinstance(a, Concatenation))
    if frame.axis == operation.params["dimension"]:
        return None
    numbers = range(len(frame.pieces))
    return each(operation, frame, frame.axis, [[segment(a, frame, frame.axis, n) for a in arguments] for n in numbers])


MOVES: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "squeeze": _squeeze,
    "slice": _slice,
    "split": _split,
    "unstack": _unstack,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "concatenate": _concatenate,
}
"""A rule for each."""

"""Entries at places that are numbers: gathers, scatters and slices that begin where an array says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.lax import GatherScatterMode

from quotax.programs.hosted.makers import Arrays, Kernel, Maker, Params, Unhosted
from quotax.programs.jaxprs import Setting
from quotax.trees import AnyArray


def _places(
    numbers: AnyArray,
    sizes: Sequence[int],
    shape: Sequence[int],
    starts: np.ndarray,
    window: Sequence[int],
    mode: Setting,
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """For each position of a gather's result the entry of its operand, and whether there is one.

    `numbers` are the dimensions as a gather names them: the same ones place the updates of a scatter.
    """
    offset, collapsed, indexed, batch, index_batch = numbers
    grid = np.indices(shape, sparse=True)
    rows = [grid[k] for k in range(len(shape)) if k not in offset]
    columns = iter([grid[k] for k in offset])
    inside: AnyArray = np.ones((1,) * len(shape), bool)
    found = []
    for axis, size in enumerate(sizes):
        place: AnyArray = 0
        if axis in indexed:
            start = starts[(*rows, indexed.index(axis))].astype(np.int64)
            last = size - window[axis]
            if mode in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
                start = np.clip(start, 0, last)
            else:
                inside = inside & (start >= 0) & (start <= last)
                start = np.clip(start, 0, last)
            place = place + start
        if axis in batch:
            place = place + rows[index_batch[batch.index(axis)]]
        elif axis not in collapsed:
            place = place + next(columns)
        found.append(np.asarray(place))
    return tuple(found), inside


def _lone_axis(
    numbers: AnyArray, sizes: Sequence[int], window: Sequence[int], places: int, mode: Setting
) -> int | None:
    """The axis of `x[:, places, :]`, if that is all that a gather does and indices are in bounds."""
    offset, collapsed, indexed, batch, _ = numbers
    if batch or len(indexed) != 1 or tuple(indexed) != tuple(collapsed) or places != 1:
        return None
    axis, rank = indexed[0], len(sizes)
    whole = all(window[k] == sizes[k] for k in range(rank) if k != axis)
    alone = tuple(offset) == tuple(k for k in range(rank) if k != axis)
    return int(axis) if whole and alone and mode == GatherScatterMode.PROMISE_IN_BOUNDS else None


def _gather(params: Params, avals: Arrays, out: AnyArray) -> Kernel:
    d, mode = params["dimension_numbers"], GatherScatterMode.from_any(params["mode"])
    numbers = (
        d.offset_dims, d.collapsed_slice_dims, d.start_index_map, d.operand_batching_dims, d.start_indices_batching_dims
    )  # fmt: skip
    fill = params["fill_value"]
    if fill is None:
        fill = np.nan if out.dtype.kind == "f" else None
    if mode == GatherScatterMode.FILL_OR_DROP and fill is None:
        raise Unhosted("gather")
    axis = _lone_axis(numbers, avals[0].shape, params["slice_sizes"], len(avals[1].shape) - 1, mode)
    if axis is not None:
        return lambda x, starts: np.take(x, starts[:, 0], axis, mode="clip")

    def run(x: np.ndarray, starts: np.ndarray) -> np.ndarray:
        places, inside = _places(numbers, x.shape, out.shape, starts, params["slice_sizes"], mode)
        found = np.broadcast_to(x[places], out.shape)
        return found if inside.all() else np.where(inside, found, np.asarray(fill, x.dtype))

    return run


def _scatter(put: Kernel, apart: Kernel) -> Kernel:
    def made(params: Params, avals: Arrays, out: AnyArray) -> Kernel:
        d, mode = params["dimension_numbers"], GatherScatterMode.from_any(params["mode"])
        numbers = (
            d.update_window_dims, d.inserted_window_dims, d.scatter_dims_to_operand_dims,
            d.operand_batching_dims, d.scatter_indices_batching_dims,
        )  # fmt: skip
        shape = avals[2].shape
        taken = iter([shape[k] for k in d.update_window_dims])
        alone = (*d.inserted_window_dims, *d.operand_batching_dims)
        window = [1 if axis in alone else next(taken) for axis in range(len(out.shape))]
        lone = _lone_axis(numbers, out.shape, window, len(avals[1].shape) - 1, mode)
        if lone is not None and params["unique_indices"]:
            before = (slice(None),) * lone

            if shape[lone] == out.shape[lone]:  # all places, each once

                def reordered(x: np.ndarray, starts: np.ndarray, updates: np.ndarray) -> np.ndarray:
                    return apart(x, np.take(updates, np.argsort(starts[:, 0]), lone))

                return reordered

            def set_apart(x: np.ndarray, starts: np.ndarray, updates: np.ndarray) -> np.ndarray:
                result, place = x.copy(), (*before, starts[:, 0])
                result[place] = apart(result[place], updates)
                return result

            return set_apart

        def run(x: np.ndarray, starts: np.ndarray, updates: np.ndarray) -> np.ndarray:
            places, inside = _places(numbers, x.shape, shape, starts, window, mode)
            result, inside = x.copy(), np.broadcast_to(inside, shape)
            put(result, tuple(np.broadcast_to(p, shape)[inside] for p in places), updates[inside])
            return result

        return run

    return made


def _dynamic_slice(params: Params, avals: Arrays, out: AnyArray) -> Kernel:
    def run(x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        ends = zip(starts, x.shape, out.shape, strict=True)
        first = [int(np.clip(start, 0, size - n)) for start, size, n in ends]
        return x[tuple(slice(k, k + n) for k, n in zip(first, out.shape, strict=True))]

    return run


def _dynamic_update_slice(params: Params, avals: Arrays, out: AnyArray) -> Kernel:
    def run(x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        ends = zip(starts, x.shape, update.shape, strict=True)
        first = [int(np.clip(start, 0, size - n)) for start, size, n in ends]
        result = x.copy()
        result[tuple(slice(k, k + n) for k, n in zip(first, update.shape, strict=True))] = update
        return result

    return run


def _replaced(result: np.ndarray, places: AnyArray, values: np.ndarray) -> None:
    result[places] = values


ADDRESSING: dict[str, Maker] = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter(_replaced, lambda old, new: new),
    "scatter-add": _scatter(np.add.at, np.add),
    "scatter_add": _scatter(np.add.at, np.add),
}
"""These primitives, by name."""

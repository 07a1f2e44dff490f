"""Products summed over shared axes, for every domain whose values are arrays: dot_general, convolutions, scatter-add.

Each is a move into batches of matrices, one batched matrix product, and a move back.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from quotax.interpret.domain import POSITIONS, AnyValue, ArrayDomain, Eqn, Rule, Unreadable, concrete


def positions(shape: tuple[int, ...]) -> np.ndarray:
    """The array of this shape whose entries are 0, 1, 2, ... in order."""
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


def dot_general(eqn: Eqn[ArrayDomain], args: list[AnyValue]) -> list[AnyValue]:
    """Batched contraction: move to `(batch, left, sum)` and `(batch, sum, right)`.

    JAX's output has the batch axes first, then the left's free axes, then the right's.
    """
    (left_sum, right_sum), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    domain = eqn.domain

    def arrange(index: np.ndarray, batch: Sequence[int], summed: Sequence[int], transpose: bool) -> np.ndarray:
        free = [axis for axis in range(index.ndim) if axis not in batch and axis not in summed]
        sizes = [int(np.prod([index.shape[axis] for axis in axes], dtype=np.int64)) for axes in (batch, free, summed)]
        out = index.transpose([*batch, *free, *summed]).reshape(sizes)
        return out.swapaxes(1, 2) if transpose else out

    left = domain.take([args[0]], arrange(positions(eqn.inputs[0].shape), left_batch, left_sum, False))
    right = domain.take([args[1]], arrange(positions(eqn.inputs[1].shape), right_batch, right_sum, True))
    return [domain.take([domain.matmul(left, right)], positions(eqn.shape))]


def windows(
    index: np.ndarray,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
    fill: int,
) -> np.ndarray:
    """Every position of a sliding window over all axes of `index`: shape `(*places, *window)`.

    Dilating the base puts `fill` between entries; padding puts it outside, and negative padding cuts, after dilation.
    """
    for axis, (step, (low, high)) in enumerate(zip(base_dilation, padding, strict=True)):
        size = index.shape[axis]
        spread = np.full([*index.shape[:axis], max(0, (size - 1) * step + 1), *index.shape[axis + 1 :]], fill)
        spread[(slice(None),) * axis + (slice(None, None, step),)] = index
        widths = [(0, 0)] * index.ndim
        widths[axis] = (max(low, 0), max(high, 0))
        spread = np.pad(spread, widths, constant_values=fill)
        cut = slice(max(-low, 0), spread.shape[axis] - max(-high, 0))
        index = spread[(slice(None),) * axis + (cut,)]
    extents = [(size - 1) * dilation + 1 for size, dilation in zip(window, window_dilation, strict=True)]
    if any(extent > size for extent, size in zip(extents, index.shape, strict=True)):
        places = [max(0, (n - e) // s + 1) for n, e, s in zip(index.shape, extents, strides, strict=True)]
        return np.zeros([*places, *window], dtype=index.dtype)
    views = np.lib.stride_tricks.sliding_window_view(index, extents)
    return views[(*(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in window_dilation))]


def conv_general_dilated(eqn: Eqn[ArrayDomain], args: list[AnyValue]) -> list[AnyValue]:
    """Convolution (a correlation: the kernel is not flipped) as the product of patches with kernels, group by group.

    Feature groups split the input's channels, batch groups split the batch; both split the output's channels.
    """
    p, domain = eqn.params, eqn.domain
    spec = p["dimension_numbers"]
    features, batches = p["feature_group_count"], p["batch_group_count"]
    image = positions(eqn.inputs[0].shape).transpose(spec.lhs_spec)
    kernel = positions(eqn.inputs[1].shape).transpose(spec.rhs_spec)
    n, channels, *_ = image.shape
    outputs, per_group, *taps = kernel.shape
    spatial = len(taps)
    zero = image.size
    patches = windows(
        image,
        (1, 1, *taps),
        (1, 1, *p["window_strides"]),
        ((0, 0), (0, 0), *p["padding"]),
        (1, 1, *p["lhs_dilation"]),
        (1, 1, *p["rhs_dilation"]),
        zero,
    )
    places = patches.shape[2 : 2 + spatial]
    patches = patches.reshape(n, channels, int(np.prod(places, dtype=np.int64)), int(np.prod(taps, dtype=np.int64)))
    # (batch group, n, feature group, channel, place, tap) -> (group, (n, place), (channel, tap)); one count is 1
    patches = patches.reshape(batches, n // batches, features, per_group, *patches.shape[2:])
    patches = patches.transpose(0, 2, 1, 4, 3, 5).reshape(batches * features, -1, per_group * patches.shape[-1])
    kernels = kernel.reshape(batches * features, outputs // (batches * features), -1).swapaxes(1, 2)
    product = domain.matmul(
        domain.take([args[0], np.zeros(())], patches),
        domain.take([args[1]], kernels),
    )
    # product: (group, (n, place), output in group) -> (n, (group, output), *places) -> the output's own order of axes
    index = positions((batches * features, n // batches, int(np.prod(places, dtype=np.int64)), kernels.shape[2]))
    index = index.transpose(1, 0, 3, 2).reshape(n // batches, outputs, *places)
    return [domain.take([product], index.transpose(np.argsort(spec.out_spec)))]


def scatter(operation: str, unit: float | None, finish: str) -> Rule[ArrayDomain]:
    """Scatter that combines: `finish(operand, fold of the updates that land on it)`.

    Which updates land where is asked of JAX: scatter-add each unit update into zeros. Where `unit` is None, the
    operand's own entry stands for "no update".
    """

    def rule(eqn: Eqn[ArrayDomain], args: list[AnyValue]) -> list[AnyValue]:
        operand, where, updates = args
        known = concrete(eqn.domain, where)
        if known is None:
            raise Unreadable(*POSITIONS)
        shape, update_shape = eqn.inputs[0].shape, eqn.inputs[2].shape
        count = int(np.prod(update_shape, dtype=np.int64))
        zeros, units = np.zeros(shape), np.eye(count).reshape(count, *update_shape)
        dims = eqn.params["dimension_numbers"]

        def land(update: AnyValue) -> AnyValue:
            return jax.lax.scatter_add(zeros, known, update, dims, mode=eqn.params["mode"])

        lands = np.asarray(jax.vmap(land)(units)).reshape(count, -1).T != 0
        depth = max(1, int(lands.sum(axis=1).max(initial=0)))
        pool = [updates, np.asarray(unit)] if unit is not None else [updates, operand]
        index = np.full((lands.shape[0], depth), count)
        if unit is None:
            index += np.arange(lands.shape[0])[:, None]
        for place, hits in enumerate(lands):
            found = np.flatnonzero(hits)
            index[place, : len(found)] = found
        folded = eqn.domain.fold(operation, eqn.domain.take(pool, index.reshape(*shape, depth)))
        return [eqn.domain.combine(finish, operand, folded)]

    return rule

"""What each primitive asks of the dimensions of its operands, and which dimensions its outputs have."""

from __future__ import annotations

import itertools
import math

from quotax.declare.brought.unknowns import Dims, Unknown, chain, factors, fresh, length, meet, reshaped, run_of
from quotax.programs.jaxprs import Settings
from quotax.trees import Tree

MOVES = ("broadcast_in_dim", "reshape", "squeeze", "transpose", "concatenate", "slice", "expand_dims", "rev")
CHOICES = ("argmax", "argmin", "top_k")
"""Primitives whose last output holds places of a dimension."""


def elementwise(dims: list[Tree], shapes: list[Tree], given: list[Tree]) -> list[Tree]:
    """Operands of one rank have the same dimensions, but for those of length 1, which are repeated."""
    out = []
    for shape in shapes:
        row = fresh(shape)
        for place, size in enumerate(shape):
            same = [d[place] for d, s in zip(dims, given, strict=True) if len(s) == len(shape) and s[place] == size]
            for one, other in itertools.pairwise(same):
                meet(one, other)
            joined = [d for d in same if len(d) == 1 and d[0].joined is not None]
            for (made,) in joined:
                if any(made.joined in chain(d) for d in same if d[0] is not made):
                    factors((made,))[0].rejoined = True
            row[place] = next(iter(joined or same), row[place])
        out.append(row)
    return out


def _dot(settings: Settings, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    (left, right), (left_batch, right_batch) = settings["dimension_numbers"]
    for a, b in (*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)):
        meet(dims[0][a], dims[1][b])
    free = lambda k, used: [d for place, d in enumerate(dims[k]) if place not in used]
    batch = [dims[0][a] for a in left_batch]
    return [[*batch, *free(0, (*left, *left_batch)), *free(1, (*right, *right_batch))]]


def _broadcast(settings: Settings, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    out = fresh(shapes[0])
    for place, dim in zip(settings["broadcast_dimensions"], dims[0], strict=True):
        if length(dim) == shapes[0][place]:
            out[place] = dim
    return [out]


def _reduce(settings: Settings, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    return [[d for k, d in enumerate(dims[0]) if k not in settings["axes"]]] * len(shapes)


def _joined(settings: Settings, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    out = list(dims[0])
    roots = [factors(other[settings["dimension"]]) for other in dims]
    for other in dims[1:]:
        for k, (a, b) in enumerate(zip(out, other, strict=True)):
            if k != settings["dimension"]:
                meet(a, b)
    size = shapes[0][settings["dimension"]]
    whole = roots[0][0].whole if len(roots[0]) == 1 and all(r == roots[0] for r in roots) else None
    made = Unknown(size)
    if whole is not None and whole.size == size:
        made.parts, made.joined = whole.parts, whole
    elif len(set(map(tuple, roots))) > 1:
        made.terms = tuple(other[settings["dimension"]] for other in dims)
    else:
        made.copies = (len(dims), dims[0][settings["dimension"]])
    out[settings["dimension"]] = (made,)
    return [out]


def _where_whole(settings: Settings, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    """Dimensions of the first operand that keep their size."""
    return [[d if length(d) == n else (Unknown(n),) for d, n in zip(dims[0], shape, strict=True)] for shape in shapes]


def _parts(dim: Dims, count: int) -> Dims:
    """One of so many equal parts; their number is what it is."""
    size = math.prod(u.size for u in dim)
    roots = factors(dim)
    counted, part = reshaped([dim], (count, size // count))
    for unknown in factors(counted):
        unknown.number = True
    own = factors(part)
    if len(roots) == len(own) == 1 and roots[0].size == size and own[0].whole is None:
        own[0].whole = roots[0]
    return part


def _split(settings: Settings, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    """Parts of a dimension: it is the product of their number and of their length, or, of unequal ones, their sum."""
    axis, sizes = settings["axis"], settings["sizes"]
    whole, starts = dims[0][axis], [0, *itertools.accumulate(sizes)]
    found = [run_of(whole, start, size) for start, size in zip(starts, sizes, strict=False)]
    if None in found and len(set(sizes)) == 1:
        found = [_parts(whole, len(sizes))] * len(sizes)
    elif None in found and min(sizes) > 0:
        cut = Unknown(length(whole))
        cut.terms = tuple((Unknown(size),) for size in sizes)
        meet(whole, (cut,))
        found = [run_of((cut,), start, size) for start, size in zip(starts, sizes, strict=False)]
    return [
        [*dims[0][:axis], part or (Unknown(shape[axis]),), *dims[0][axis + 1 :]]
        for part, shape in zip(found, shapes, strict=True)
    ]


def _unstacked(settings: Settings, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    """The entries of a dimension, each a thing of its own."""
    axis = settings["axis"]
    _parts(dims[0][axis], len(shapes))
    return [[*dims[0][:axis], *dims[0][axis + 1 :]] for _ in shapes]


def _tiled(settings: Settings, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    """A dimension put beside itself is so many copies of it."""
    out = fresh(shapes[0])
    for place, (count, dim) in enumerate(zip(settings["reps"], dims[0], strict=True)):
        if count == 1:
            out[place] = dim
        else:
            out[place][0].copies = (count, dim)
    return [out]


def _slice(settings: Settings, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    """A half, third or fourth of a dimension, cut where such parts meet, is taken for one of its equal parts."""
    out = []
    for dim, size, start in zip(dims[0], shapes[0], settings["start_indices"], strict=True):
        whole = length(dim)
        run = None if settings["strides"] else run_of(dim, start, size)
        if size == whole:
            out.append(dim)
        elif run is not None:
            out.append(run)
        elif size == 1:
            own = factors(dim)
            if len(own) == 1:
                own[0].read.add(int(start))
                own[0].number |= len(own[0].read) == whole
            out.append((Unknown(1),))
        elif size > 1 and whole in (2 * size, 3 * size, 4 * size) and start % size == 0 and not settings["strides"]:
            out.append(_parts(dim, whole // size))
        else:
            out.append((Unknown(size),))
            out[-1][0].thinned = settings["strides"] is not None
    return [out]


def _convolution(settings: Settings, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    numbers = settings["dimension_numbers"]
    out = fresh(shapes[0])
    features, made, read = (
        dims[k][at] for k, at in ((0, numbers.lhs_spec[1]), (1, numbers.rhs_spec[0]), (1, numbers.rhs_spec[1]))
    )
    groups, outputs = settings["feature_group_count"], math.prod(unknown.size for unknown in made)
    if groups == settings["batch_group_count"] == 1:
        meet(features, read)
    elif settings["batch_group_count"] == 1 and outputs:  # each group of channels makes as many
        group = Unknown(groups)
        meet(features, [group, *read])
        meet(made, [group, Unknown(outputs // groups)])
    for dim in (*(dims[1][k] for k in numbers.rhs_spec[2:]), *(dims[0][k] for k in numbers.lhs_spec[2:])):
        for unknown in factors(dim):
            unknown.number = True
    out[numbers.out_spec[0]] = dims[0][numbers.lhs_spec[0]]
    out[numbers.out_spec[1]] = dims[1][numbers.rhs_spec[0]]
    return [out]


RULES = {
    "dot_general": _dot,
    "broadcast_in_dim": _broadcast,
    "transpose": lambda s, d, _: [[d[0][k] for k in s["permutation"]]],
    "squeeze": lambda s, d, _: [[x for k, x in enumerate(d[0]) if k not in s["dimensions"]]],
    "reshape": lambda s, d, shapes: [reshaped(d[0], shapes[0])],
    "concatenate": _joined,
    "conv_general_dilated": _convolution,
    "split": _split,
    "unstack": _unstacked,
    "tile": _tiled,
    "slice": _slice,
    "iota": lambda s, d, shapes: [fresh(shapes[0])],
    **dict.fromkeys(("dynamic_slice", "pad", "dynamic_update_slice", "sort"), _where_whole),
    **dict.fromkeys(("reduce_window_sum", "reduce_window_max", "reduce_window_min"), _where_whole),
    **{
        f"reduce_{what}": _reduce
        for what in ("sum", "max", "min", "prod", "and", "or", "xor")
    },
    "argmax": _reduce,
    "argmin": _reduce,
}  # fmt: skip

"""Moves: transposes, reshapes, slices, concatenations, all of them changes of indices or selections."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from quotax.interpret.laws import indices as ix
from quotax.interpret.laws import tensors
from quotax.interpret.laws.algebra import Poly
from quotax.interpret.laws.indices import Index, Range
from quotax.interpret.laws.reading import Joint
from quotax.interpret.laws.tensors import Constant, NoLaw, Tensor, flat, free_indices, place, relabelled, settled


def _renumbered(step: Joint, value: Tensor, sources: Sequence[int | None]) -> Tensor:
    """The tensor whose dimension `d` is dimension `sources[d]` of `value` (None: of size one, or repeated)."""
    mapping: dict[Index, Index] = {}
    dims = []
    shapes = step.out_shapes
    for d, source in enumerate(sources):
        if source is None or (not value.dims[source] and shapes[0][d] != 1):
            extent = tuple(s[d] for s in shapes)
            dims.append(() if ix.trivial(extent) else (extent,))
            continue
        dims.append(value.dims[source])
        for f, extent in enumerate(value.dims[source]):
            mapping[place(source, f, extent)] = place(d, f, extent)
    return relabelled(step.domain.algebra, value, mapping, tuple(dims))


def transpose(step: Joint, args: list[Any]) -> list[Any]:
    """Dimensions in another order."""
    return [_renumbered(step, args[0], list(step.params[0]["permutation"]))]


def broadcast(step: Joint, args: list[Any]) -> list[Any]:
    """A new dimension is an index that does not occur."""
    sources: list[int | None] = [None] * len(step.out_shapes[0])
    for source, d in enumerate(step.params[0]["broadcast_dimensions"]):
        sources[d] = source
    return [_renumbered(step, args[0], sources)]


def squeeze(step: Joint, args: list[Any]) -> list[Any]:
    """Dimensions of size one dropped."""
    rank = len(step.shapes(0)[0])
    gone = {d % rank for d in step.params[0]["dimensions"]}
    return [_renumbered(step, args[0], [d for d in range(rank) if d not in gone])]


def reshape(step: Joint, args: list[Any]) -> list[Any]:
    """Factors regrouped in their order; a factor that falls into two dimensions becomes a pair."""
    value: Tensor = args[0]
    shapes = step.out_shapes
    targets = [tuple(s[d] for s in shapes) for d in range(len(shapes[0]))]
    return [regrouped(step, value, targets)]


def regrouped(step: Joint, value: Tensor, targets: Sequence[Range]) -> Tensor:
    """The tensor with dimensions of these sizes, entries in the same order."""
    mine = flat([list(d) for d in value.dims])
    wanted = [t for t in targets if not ix.trivial(t)]
    pieces, made = tensors.common_factors(mine, wanted)
    # which pieces each target takes
    dims: list[tuple[Range, ...]] = []
    places: list[Index] = []
    position = 0
    for d, target in enumerate(targets):
        factors: list[Range] = []
        while tensors.whole(factors, len(target)) != target:
            extent = made[position]
            places.append(place(d, len(factors), extent))
            factors.append(extent)
            position += 1
        dims.append(tuple(factors))
    mapping: dict[Index, Index] = {}
    position = 0
    for label, count in zip(flat(free_indices(value.dims)), pieces, strict=True):
        joint = places[position]
        for part in places[position + 1 : position + count]:
            joint = ix.pair(joint, part)
        position += count
        mapping[label] = joint
    return relabelled(step.domain.algebra, value, mapping, tuple(dims))


def _ramp(step: Joint, extent: Range) -> list[np.ndarray]:
    return [np.arange(n) for n in extent]


def sliced(step: Joint, args: list[Any]) -> list[Any]:
    """Slices: a fixed position, one part of equal parts, every m-th entry, or else a selection."""
    value: Tensor = args[0]
    sizes = step.shapes(0)
    for d in range(len(sizes[0])):
        size = tuple(s[d] for s in sizes)
        starts = tuple(p["start_indices"][d] for p in step.params)
        stops = tuple(p["limit_indices"][d] for p in step.params)
        strides = tuple((p["strides"] or (1,) * len(sizes[0]))[d] for p in step.params)
        picked = [np.arange(a, b, c) for a, b, c in zip(starts, stops, strides, strict=True)]
        value = picked_along(step, value, d, size, picked)
    return [value]


def picked_along(step: Joint, value: Tensor, d: int, size: Range, picked: Sequence[np.ndarray]) -> Tensor:
    """The entries at these constant positions along dimension `d`."""
    algebra = step.domain.algebra
    count = tuple(len(p) for p in picked)
    if count == size and all(np.array_equal(p, np.arange(n)) for p, n in zip(picked, size, strict=True)):
        return value
    parts = ix.over(size, count) if all(count) else None
    first = {int(p[0]) for p in picked}
    same = parts is not None and ix.constant(parts)
    if same and parts is not None and not ix.trivial(size):
        m = parts[0]
        # contiguous: part number j of m equal parts; strided: entry j of every m
        numbers = {int(p[0]) // n if p[0] % n == 0 else -1 for p, n in zip(picked, count, strict=True)}
        block = all(np.array_equal(p, p[0] + np.arange(len(p))) for p in picked)
        stride = all(np.array_equal(p, p[0] + m * np.arange(len(p))) for p in picked)
        many: Range = (m,) * len(size)
        if block and len(numbers) == 1 and -1 not in numbers:
            shape: list[Range] = [many, count]
            return _fixed_part(step, value, d, shape, 0, numbers.pop())
        if stride and len(first) == 1 and next(iter(first)) < m:
            return _fixed_part(step, value, d, [count, many], 1, next(iter(first)))
    if ix.trivial(count) and len(first) == 1 and len(value.dims[d]) == 1:
        at = ix.fixed(next(iter(first)), size)
        dims = tuple(() if k == d else f for k, f in enumerate(value.dims))
        return relabelled(algebra, value, {place(d, 0, size): at}, dims)
    selection = [np.zeros((c, n)) for c, n in zip(count, size, strict=True)]
    for s, p in zip(selection, picked, strict=True):
        s[np.arange(len(p)), p] = 1
    return mapped_along(step, value, d, count, selection)


def _fixed_part(step: Joint, value: Tensor, d: int, shape: list[Range], fixed: int, number: int) -> Tensor:
    """Dimension `d` as a pair of which one half has a fixed position."""
    wanted = tuple(tuple(e for e in shape if not ix.trivial(e)) if k == d else f for k, f in enumerate(value.dims))
    value = tensors.refined(step.domain.algebra, value, wanted)
    factors = list(value.dims[d])
    # the pieces of the fixed half: leading ones for a block, trailing ones for a stride
    extent = shape[fixed]
    pieces: list[int] = []
    order = range(len(factors)) if fixed == 0 else reversed(range(len(factors)))
    total: Range = (1,) * len(extent)
    for f in order:
        if total == extent:
            break
        total = ix.times(total, factors[f])
        pieces.append(f)
    if total != extent:
        raise NoLaw("it cuts across the factors of a dimension")
    pieces.sort()
    mapping: dict[Index, Index] = {}
    rest = number
    for f in reversed(pieces):
        size = factors[f]
        if not ix.constant(size):
            raise NoLaw("it fixes a position on an axis of variable size")
        mapping[place(d, f, size)] = ix.fixed(rest % size[0], size)
        rest //= size[0]
    left = [f for f in range(len(factors)) if f not in pieces]
    for new, f in enumerate(left):
        mapping[place(d, f, factors[f])] = place(d, new, factors[f])
    dims = tuple(tuple(factors[f] for f in left) if k == d else e for k, e in enumerate(value.dims))
    return relabelled(step.domain.algebra, value, mapping, dims)


def mapped_along(step: Joint, value: Tensor, d: int, size: Range, matrices: Sequence[np.ndarray]) -> Tensor:
    """Dimension `d` multiplied by a constant matrix (new size, old size) in each trace."""
    algebra = step.domain.algebra
    away = 10_000
    old = [(place(d, f, e), place(away + d, f, e)) for f, e in enumerate(value.dims[d])]
    dims = tuple((() if ix.trivial(size) else (size,)) if k == d else f for k, f in enumerate(value.dims))
    shifted = relabelled(algebra, value, dict(old), value.dims)
    new = [place(d, 0, size)] if dims[d] else []
    summed = [b for _, b in old]
    shape = [i[2] for i in (*new, *summed)]
    arrays = [np.asarray(m).reshape([e[k] for e in shape]) for k, m in enumerate(matrices)]
    constant = algebra.constant(arrays, [*new, *summed])
    plain = algebra.multiply(constant, shifted.plain, summed)
    moved = plain if value.invariant else algebra.multiply(constant, shifted.moved, summed)
    return settled(algebra, Tensor(dims, plain, moved))


def reverse(step: Joint, args: list[Any]) -> list[Any]:
    """Dimensions read backwards."""
    value = args[0]
    sizes = step.shapes(0)
    for d in step.params[0]["dimensions"]:
        size = tuple(s[d] for s in sizes)
        value = picked_along(step, value, d, size, [np.arange(n)[::-1] for n in size])
    return [value]


def concatenate(step: Joint, args: list[Any]) -> list[Any]:
    """Parts of one size: an index for the part; other parts: each embedded by a constant selection."""
    d = step.params[0]["dimension"]
    sizes = [tuple(s[d] for s in step.shapes(k)) for k in range(len(args))]
    values = _alike(step, args, d)
    algebra = step.domain.algebra
    if len(set(sizes)) == 1:
        return [joined(step, values, d, sizes[0])]
    total = tuple(s[d] for s in step.out_shapes)
    out: Tensor | None = None
    start = (0,) * len(total)
    for value, size in zip(values, sizes, strict=True):
        embeds = [np.eye(n, m, k=-a) for n, m, a in zip(total, size, start, strict=True)]
        part = mapped_along(step, value, d, total, embeds)
        start = tuple(a + b for a, b in zip(start, size, strict=True))
        if out is None:
            out = part
            continue
        one, two = tensors.unified(algebra, [out, part])
        out = Tensor(one.dims, algebra.add(one.plain, two.plain), algebra.add(one.moved, two.moved))
    assert out is not None
    return [settled(algebra, out)]


def _alike(step: Joint, args: Sequence[Any], d: int) -> list[Tensor]:
    """Operands of one rank as tensors whose dimensions other than `d` factor alike."""
    tensor = next((a for a in args if isinstance(a, Tensor)), None)
    values = []
    for arg in args:
        if isinstance(arg, Constant):
            own = tensors.dims_of([a.shape for a in arg.arrays])
            dims = own if tensor is None else tuple(own[k] if k == d else f for k, f in enumerate(tensor.dims))
            values.append(step.domain.tensor(arg, dims))
        else:
            values.append(arg)
    for _ in range(2):
        first = values[0]
        for k in range(1, len(values)):
            wanted = tuple(values[k].dims[j] if j == d else f for j, f in enumerate(first.dims))
            values[k] = tensors.refined(step.domain.algebra, values[k], wanted)
            back = tuple(first.dims[j] if j == d else f for j, f in enumerate(values[k].dims))
            first = values[0] = tensors.refined(step.domain.algebra, first, back)
    return values


def joined(step: Joint, values: Sequence[Tensor], d: int, size: Range, new: bool = False) -> Tensor:
    """Equal parts side by side: `sum_l [part = l] value_l`. With `new`, along a dimension of its own."""
    algebra = step.domain.algebra
    values = list(values)
    if not new:
        wanted = values[0].dims[d]
        for other in values[1:]:
            wanted = tuple(tensors.common_factors(wanted, other.dims[d])[1])
        values = [
            tensors.refined(algebra, v, tuple(wanted if k == d else f for k, f in enumerate(v.dims))) for v in values
        ]
    many: Range = (len(values),) * step.domain.traces
    label = place(d, 0, many)
    inside = () if new else values[0].dims[d]
    mapping = {}
    for k, factors in enumerate(values[0].dims):
        for f, extent in enumerate(factors):
            if new and k >= d:
                mapping[place(k, f, extent)] = place(k + 1, f, extent)
            elif not new and k == d and len(values) > 1:
                mapping[place(k, f, extent)] = place(k, f + 1, extent)
    own: tuple[Range, ...] = (many, *inside) if len(values) > 1 else inside
    rest = values[0].dims
    dims = (*rest[:d], own, *rest[d:]) if new else (*rest[:d], own, *rest[d + 1 :])
    plain: Poly = {}
    moved: Poly = {}
    for number, value in enumerate(values):
        part = relabelled(algebra, value, mapping, dims)
        if len(values) == 1:
            return part
        indicator = algebra.normal(1, [algebra.delta(label, ix.fixed(number, many))])
        plain = algebra.add(plain, algebra.multiply(indicator, part.plain))
        moved = algebra.add(moved, algebra.multiply(indicator, part.moved))
    # not settled: the parts are told apart by their deltas until the dimension is summed or cut
    return Tensor(dims, plain, plain if plain == moved else moved)


def stack(step: Joint, args: list[Any]) -> list[Any]:
    """Equal parts along a new dimension."""
    d = step.params[0].get("axis", step.params[0].get("dimension", 0))
    values = _alike(step, args, -1)
    return [joined(step, values, d, (1,), new=True)]


def split(step: Joint, args: list[Any]) -> list[Any]:
    """Parts along one dimension."""
    d = step.params[0]["axis"]
    size = tuple(s[d] for s in step.shapes(0))
    bounds = [np.cumsum([0, *p["sizes"]]) for p in step.params]
    out = []
    for k in range(len(step.params[0]["sizes"])):
        picked = [np.arange(b[k], b[k + 1]) for b in bounds]
        out.append(picked_along(step, args[0], d, size, picked))
    return out


def unstack(step: Joint, args: list[Any]) -> list[Any]:
    """The entries of one dimension, each at a fixed position."""
    d = step.params[0]["axis"]
    size = tuple(s[d] for s in step.shapes(0))
    rest = [k for k in range(len(step.shapes(0)[0])) if k != d]
    parts = (picked_along(step, args[0], d, size, [np.array([k])] * len(size)) for k in range(size[0]))
    return [_renumbered(step, part, rest) for part in parts]


def pad(step: Joint, args: list[Any]) -> list[Any]:
    """The operand embedded by a constant selection, and the padding value elsewhere."""
    value, fill = args
    algebra = step.domain.algebra
    sizes, shapes = step.shapes(0), step.out_shapes
    inside = Tensor(value.dims, {(): Fraction(1)}, {(): Fraction(1)})
    for d in range(len(sizes[0])):
        size, new = tuple(s[d] for s in sizes), tuple(s[d] for s in shapes)
        config = [p["padding_config"][d] for p in step.params]
        if all(c == (0, 0, 0) for c in config):
            continue
        matrices = []
        for n, m, (low, _, gap) in zip(size, new, config, strict=True):
            matrix = np.zeros((m, n))
            for k in range(n):
                target = low + k * (gap + 1)
                if 0 <= target < m:
                    matrix[target, k] = 1
            matrices.append(matrix)
        value = mapped_along(step, value, d, new, matrices)
        inside = mapped_along(step, inside, d, new, matrices)
    level = step.domain.tensor(fill)
    if not level.plain and not level.moved:
        return [value]
    value, inside = tensors.unified(algebra, [value, inside])
    outside = algebra.add({(): Fraction(1)}, inside.plain, -1)
    plain = algebra.add(value.plain, algebra.multiply(outside, level.plain))
    return [Tensor(value.dims, plain, algebra.add(value.moved, algebra.multiply(outside, level.moved)))]


def tile(step: Joint, args: list[Any]) -> list[Any]:
    """Copies side by side: an index that does not occur."""
    value: Tensor = args[0]
    mapping: dict[Index, Index] = {}
    dims = []
    for d, factors in enumerate(value.dims):
        copies = tuple(int(p["reps"][d]) for p in step.params)
        if ix.trivial(copies):
            dims.append(factors)
            continue
        dims.append((copies, *factors))
        for f, extent in enumerate(factors):
            mapping[place(d, f, extent)] = place(d, f + 1, extent)
    return [relabelled(step.domain.algebra, value, mapping, tuple(dims))]

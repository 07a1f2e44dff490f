"""Moves: transposes, reshapes, slices and concatenations are changes of indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy as sp

from quotax.interpret.laws import tensors
from quotax.interpret.laws.rules.pointwise import applied, variables
from quotax.interpret.laws.tensors import Dims, Known, NoLaw, Tensor, Value, place, relabelled
from quotax.interpret.laws.writing import Eqn
from quotax.kernel import indices as ix
from quotax.kernel.indices import Fixed, Index, Pair
from quotax.kernel.polynomials import UNIT, Poly
from quotax.kernel.rewriting import position
from quotax.kernel.sheet import Function
from quotax.kernel.sizes import ONE, Size


def renumbered(eqn: Eqn, value: Tensor, sources: Sequence[int | None], shape: Sequence[Size]) -> Tensor:
    """The tensor whose dimension `d` is dimension `sources[d]` of `value` (None: of size one, or repeated)."""
    mapping: dict[Index, Index] = {}
    dims = []
    for d, source in enumerate(sources):
        if source is None or (not value.dims[source] and shape[d] != ONE):
            dims.append(() if shape[d] == ONE else (shape[d],))
            continue
        dims.append(value.dims[source])
        for f, size in enumerate(value.dims[source]):
            mapping[place(source, f, size)] = place(d, f, size)
    return relabelled(eqn.algebra, value, mapping, tuple(dims))


def transpose(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Dimensions in another order."""
    return [renumbered(eqn, eqn.writer.tensor(args[0]), list(eqn.params["permutation"]), eqn.out_shape)]


def broadcast(eqn: Eqn, args: list[Value]) -> list[Value]:
    """A new dimension is an index that does not occur."""
    value = args[0]
    if isinstance(value, Known):
        # the dimensions of an array of numbers are integers; only new ones may be symbols
        value = eqn.writer.tensor(value)
    sources: list[int | None] = [None] * len(eqn.out_shape)
    for source, d in enumerate(eqn.params["broadcast_dimensions"]):
        sources[d] = source
    return [renumbered(eqn, value, sources, eqn.out_shape)]


def squeeze(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Dimensions of size one dropped."""
    rank = len(eqn.shape(0))
    gone = {d % rank for d in eqn.params["dimensions"]}
    kept = [d for d in range(rank) if d not in gone]
    return [renumbered(eqn, eqn.writer.tensor(args[0]), kept, eqn.out_shape)]


def reshape(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Factors regrouped in their order: entry `i n + j` of the whole is entry (i, j), whatever the dimensions are."""
    if eqn.params.get("dimensions") is not None:
        raise NoLaw("it permutes dimensions while it reshapes")
    return [tensors.regrouped(eqn.algebra, eqn.writer.tensor(args[0]), eqn.out_shape)]


def without(eqn: Eqn, value: Tensor, d: int) -> Tensor:
    """The tensor without dimension `d`, which has size one."""
    rest = [k for k in range(len(value.dims)) if k != d]
    return renumbered(eqn, value, rest, [tensors.whole(value.dims[k]) for k in rest])


# --- parts of a dimension


def sliced(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Every `stride`-th entry from a start."""
    value = eqn.writer.tensor(args[0])
    shape, new = eqn.shape(0), eqn.out_shape
    strides = eqn.params["strides"] or (1,) * len(shape)
    for d in range(len(shape)):
        value = picked(eqn, value, d, tensors.extent(eqn.params["start_indices"][d]), int(strides[d]), new[d])
    return [value]


def picked(eqn: Eqn, value: Tensor, d: int, start: Size, stride: int, count: Size) -> Tensor:
    """The entries at `start + stride * i` along dimension `d`, for i below `count`: all of them exist."""
    size = tensors.whole(value.dims[d])
    if count == size and stride == 1 and start == Size.of(0):
        return value
    of: Index = Fixed(Size.of(0), ONE) if count == ONE else place(d, 0, count)
    return at_index(eqn, value, d, ix.affine(start, stride, of, size), () if count == ONE else (count,))


def at_index(eqn: Eqn, value: Tensor, d: int, index: Index, factors: tuple[Size, ...]) -> Tensor:
    """Dimension `d` read at an index in its new free indices, whose sizes are `factors`.

    Where the dimension is made of several factors and the index does not fall apart into them, it is a sum over
    them with a delta: exactly one of their values is the index.
    """
    algebra = eqn.algebra
    dims = tuple(factors if k == d else f for k, f in enumerate(value.dims))
    old = [place(d, f, size) for f, size in enumerate(value.dims[d])]
    if not old:
        return replace(value, dims=dims)
    split = _fitted(index, value.dims[d])
    if split is not None:
        mapping: dict[Index, Index] = dict(zip(old, split, strict=True))
        return relabelled(algebra, value, mapping, dims)
    away = [eqn.writer.fresh(size) for size in value.dims[d]]
    shifted = relabelled(algebra, value, dict(zip(old, away, strict=True)), value.dims)
    hit = algebra.normal(1, [algebra.delta(tensors.joint(away), index)])
    poly = algebra.multiply(hit, shifted.poly, away)
    return eqn.writer.settled(replace(value, dims=dims, poly=poly, compared=()))


def _fitted(index: Index, factors: Sequence[Size]) -> list[Index] | None:
    """The index as one index for each factor of a dimension, outermost first."""
    if len(factors) == 1:
        return [index]
    if isinstance(index, Pair):
        for k in range(1, len(factors)):
            if tensors.whole(factors[k:]) == index.inner.extent:
                outer, inner = _fitted(index.outer, factors[:k]), _fitted(index.inner, factors[k:])
                return None if outer is None or inner is None else [*outer, *inner]
    if isinstance(index, Fixed):
        inner = tensors.whole(factors[1:])
        if index.position.value is not None and inner.value is not None:
            digits = Size.of(index.position.value // inner.value), Size.of(index.position.value % inner.value)
        else:
            block = index.position.over(inner)
            if block is None:
                return None
            digits = block, Size.of(0)
        rest = _fitted(Fixed(digits[1], inner), factors[1:])
        return None if rest is None else [Fixed(digits[0], factors[0]), *rest]
    return None


def embedded(eqn: Eqn, value: Tensor, d: int, start: Size, stride: int, size: Size) -> Tensor:
    """Dimension `d` put into one of this size, which is zero elsewhere: `y_p = sum_i [p = start + stride i] x_i`."""
    algebra = eqn.algebra
    if size == tensors.whole(value.dims[d]) and start == Size.of(0) and stride == 1:
        return value
    old = [place(d, f, n) for f, n in enumerate(value.dims[d])]
    away = [eqn.writer.fresh(n) for n in value.dims[d]]
    dims = tuple((size,) if k == d else f for k, f in enumerate(value.dims))
    shifted = relabelled(algebra, value, dict(zip(old, away, strict=True)), value.dims)
    inner = tensors.joint(away) if away else Fixed(Size.of(0), ONE)
    hit = algebra.normal(1, [algebra.delta(place(d, 0, size), ix.affine(start, stride, inner, size))])
    return replace(value, dims=dims, poly=algebra.multiply(hit, shifted.poly, away), compared=())


def reverse(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Dimensions read backwards: `y_i = x_(n - 1 - i)`."""
    value = eqn.writer.tensor(args[0])
    for d in eqn.params["dimensions"]:
        size = eqn.shape(0)[d]
        value = picked(eqn, value, d, size.minus(1), -1, size) if size != ONE else value
    return [value]


def split(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Parts along one dimension."""
    value, d = eqn.writer.tensor(args[0]), eqn.params["axis"]
    start, out = Size.of(0), []
    for dim in eqn.params["sizes"]:
        count = tensors.extent(dim)
        out.append(picked(eqn, value, d, start, 1, count))
        start = start.plus(count)
    return out


def unstack(eqn: Eqn, args: list[Value]) -> list[Value]:
    """The entries of one dimension, each at a fixed position."""
    value, d = eqn.writer.tensor(args[0]), eqn.params["axis"]
    count = eqn.shape(0)[d].value
    assert count is not None
    return [without(eqn, picked(eqn, value, d, Size.of(k), 1, ONE), d) for k in range(count)]


# --- parts put together


def concatenate(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Parts of one size: an index for the part; other parts: each put at its place."""
    d = eqn.params["dimension"]
    sizes = [eqn.shape(k)[d] for k in range(len(args))]
    if any(s == Size.of(0) for s in sizes):
        args = [a for a, s in zip(args, sizes, strict=True) if s != Size.of(0)]
        sizes = [s for s in sizes if s != Size.of(0)]
    if not args:
        raise NoLaw("all that it puts together is empty")
    values = _alike(eqn, args, d)
    if len(set(sizes)) == 1:
        return [joined(eqn, values, d)]
    start, parts = Size.of(0), []
    for value, size in zip(values, sizes, strict=True):
        parts.append(embedded(eqn, value, d, start, 1, eqn.out_shape[d]))
        start = start.plus(size)
    out = parts[0]
    for part in parts[1:]:
        one, two = tensors.unified(eqn.algebra, [out, part])
        out = replace(one, poly=eqn.algebra.add(one.poly, two.poly))
    # not named: the parts are told apart by their deltas until the dimension is summed or cut
    return [out]


def _alike(eqn: Eqn, args: Sequence[Value], d: int) -> list[Tensor]:
    """Operands of one rank as tensors whose dimensions other than `d` factor alike."""
    tensor = next((a for a in args if isinstance(a, Tensor)), None)
    values: list[Tensor] = []
    for arg in args:
        if isinstance(arg, Known):
            own = tensors.dims_of([Size.of(n) for n in arg.array.shape])
            dims = own if tensor is None else tuple(own[k] if k == d else f for k, f in enumerate(tensor.dims))
            values.append(eqn.writer.tensor(arg, dims))
        else:
            values.append(arg)
    for _ in range(2):
        first = values[0]
        for k in range(1, len(values)):
            values[k] = tensors.refined(eqn.algebra, values[k], _but(first.dims, values[k].dims, d))
            first = values[0] = tensors.refined(eqn.algebra, first, _but(values[k].dims, first.dims, d))
    return values


def _but(dims: Dims, own: Dims, d: int) -> Dims:
    return tuple(own[j] if j == d else f for j, f in enumerate(dims))


def joined(eqn: Eqn, values: Sequence[Tensor], d: int, new: bool = False) -> Tensor:
    """Equal parts side by side: `sum_l [part = l] value_l`. With `new`, along a dimension of its own.

    The part is one of them, so `sum_l [part = l] = 1`: copies of one value are an index that does not occur.
    """
    algebra = eqn.algebra
    values = list(values)
    if len(values) == 1 and not new:
        return values[0]
    if not new:
        wanted = values[0].dims[d]
        for other in values[1:]:
            wanted = tuple(tensors.common_factors(wanted, other.dims[d])[1])
        values = [tensors.refined(algebra, v, _but(v.dims, (*v.dims[:d], wanted, *v.dims[d + 1 :]), d)) for v in values]
    many = Size.of(len(values))
    label: Index = place(d, 0, many) if len(values) > 1 else Fixed(Size.of(0), ONE)
    rest = values[0].dims
    inside = () if new else rest[d]
    own = (many, *inside) if len(values) > 1 else inside
    dims = (*rest[:d], own, *rest[d:]) if new else (*rest[:d], own, *rest[d + 1 :])
    mapping: dict[Index, Index] = {}
    for k, factors in enumerate(rest):
        for f, size in enumerate(factors):
            if new and k >= d:
                mapping[place(k, f, size)] = place(k + 1, f, size)
            elif not new and k == d:
                mapping[place(k, f, size)] = place(k, f + 1, size)
    if all(value.poly == values[0].poly for value in values):
        return merged(values, replace(relabelled(algebra, values[0], mapping, dims), compared=(), source=None))
    out: Poly = {}
    for number, value in enumerate(values):
        part = relabelled(algebra, value, mapping, dims)
        hit = algebra.normal(1, [algebra.delta(label, ix.fixed(number, many))]) if len(values) > 1 else UNIT
        out = algebra.add(out, algebra.multiply(hit, part.poly))
    # not named: the parts are told apart by their deltas until the dimension is summed or cut
    return merged(values, Tensor(dims, out))


def merged(values: Sequence[Tensor], made: Tensor) -> Tensor:
    """With the conditions of all values."""
    assumed = made.assumed.union(*(v.assumed for v in values))
    return replace(made, assumed=assumed, guards=made.guards.union(*(v.guards for v in values)))


def stack(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Equal parts along a new dimension."""
    d = eqn.params.get("axis", eqn.params.get("dimension", 0))
    return [joined(eqn, _alike(eqn, args, -1), d, new=True)]


def pad(eqn: Eqn, args: list[Value]) -> list[Value]:
    """`sum_i [p = low + (gap + 1) i] x_i + (1 - sum_i [p = low + (gap + 1) i]) fill`; a negative low or high cuts."""
    value, fill = eqn.writer.tensor(args[0]), eqn.writer.tensor(args[1])
    algebra = eqn.algebra
    inside = Tensor(value.dims, UNIT)
    for d, (low, high, gap) in enumerate(eqn.params["padding_config"]):
        start, end, size = tensors.extent(low), tensors.extent(high), eqn.out_shape[d]
        if not (start.nonnegative and end.nonnegative):
            if gap:
                raise NoLaw("it pads by a negative number between entries")
            # negative padding cuts off
            before = start if start.nonnegative else Size.of(0)
            cut = Size.of(0) if start.nonnegative else Size.of(0).minus(start)
            if not (cut.nonnegative and (end.nonnegative or Size.of(0).minus(end).nonnegative)):
                raise NoLaw("the sign of its padding depends on a size")
            kept = eqn.shape(0)[d].minus(cut).plus(end if not end.nonnegative else Size.of(0))
            value, inside = (picked(eqn, v, d, cut, 1, kept) for v in (value, inside))
            start = before
        value, inside = (embedded(eqn, v, d, start, int(gap) + 1, size) for v in (value, inside))
    if not fill.poly:
        return [value]
    value, inside = tensors.unified(algebra, [value, inside])
    outside = algebra.add(UNIT, inside.poly, -1)
    return [merged([fill], replace(value, poly=algebra.add(value.poly, algebra.multiply(outside, fill.poly))))]


def tile(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Copies side by side: an index that does not occur."""
    value = eqn.writer.tensor(args[0])
    mapping: dict[Index, Index] = {}
    dims = []
    for d, factors in enumerate(value.dims):
        copies = tensors.extent(eqn.params["reps"][d])
        if copies == ONE:
            dims.append(factors)
            continue
        dims.append((copies, *factors))
        mapping |= {place(d, f, size): place(d, f + 1, size) for f, size in enumerate(factors)}
    return [relabelled(eqn.algebra, value, mapping, tuple(dims))]


def iota(eqn: Eqn, args: list[Value]) -> list[Value]:
    """A ramp along one dimension: its position, as a number."""
    shape, d = eqn.out_shape, eqn.params["dimension"]
    size = shape[d]
    dims = tensors.dims_of(shape)
    label: Index = place(d, 0, size) if dims[d] else Fixed(Size.of(0), ONE)
    ramp = Tensor(dims, eqn.algebra.substituted(position(eqn.algebra, label)))
    return [narrowed(eqn, ramp, size)]


_LARGEST = {"int8": 127, "uint8": 255, "int16": 32767, "uint16": 65535, "bfloat16": 256, "float16": 2048}


def narrowed(eqn: Eqn, ramp: Tensor, size: Size) -> Tensor:
    """A ramp in a type that may be too small for it: then nothing is known of its values."""
    dtype = str(eqn.outputs[0].dtype)
    if dtype not in _LARGEST:
        return ramp
    if size.value is not None and size.value <= _LARGEST[dtype]:
        return ramp
    (z,) = variables(1)
    return applied(eqn, Function(sp.Function(f"ramp_{dtype}")(z), (z,), f"ramp in {dtype}"), [ramp], ramp.dims)


def size_value(eqn: Eqn, args: list[Value]) -> list[Value]:
    """A size as a number."""
    return [Tensor((), eqn.algebra.size(tensors.extent(eqn.params["dim"])))]

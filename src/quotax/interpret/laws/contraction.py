"""Sums of products and reductions: contractions, convolutions, sums, and what a maximum does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from quotax.interpret.laws import indices as ix
from quotax.interpret.laws import pointwise, tensors
from quotax.interpret.laws.indices import Index, Range
from quotax.interpret.laws.lemmas import Effect
from quotax.interpret.laws.reading import Break, Joint
from quotax.interpret.laws.structure import mapped_along
from quotax.interpret.laws.tensors import (
    Constant,
    NoLaw,
    Tensor,
    atomised,
    common_factors,
    place,
    refined,
    relabelled,
    settled,
)

_AWAY = 40_000
_Z = sp.Symbol("z0", real=True)


def dot_general(step: Joint, args: list[Any]) -> list[Any]:
    """A contraction: common indices multiplied, the summed ones summed."""
    (left_sum, right_sum), (left_batch, right_batch) = step.params[0]["dimension_numbers"]
    shared = [*zip(left_sum, right_sum, strict=True), *zip(left_batch, right_batch, strict=True)]
    left, right = _matched(step, args, shared)
    algebra = step.domain.algebra
    left_free = [d for d in range(len(left.dims)) if d not in left_sum and d not in left_batch]
    right_free = [d for d in range(len(right.dims)) if d not in right_sum and d not in right_batch]
    dims: list[tuple[Range, ...]] = []
    one: dict[Index, Index] = {}
    two: dict[Index, Index] = {}
    summed: list[Index] = []
    for k, (a, b) in enumerate(zip(left_sum, right_sum, strict=True)):
        for f, e in enumerate(left.dims[a]):
            label = place(_AWAY + k, f, e)
            one[place(a, f, e)] = two[place(b, f, e)] = label
            summed.append(label)
    for a, b in zip(left_batch, right_batch, strict=True):
        for f, e in enumerate(left.dims[a]):
            one[place(a, f, e)] = two[place(b, f, e)] = place(len(dims), f, e)
        dims.append(left.dims[a])
    for side, mapping, kept in ((left, one, left_free), (right, two, right_free)):
        for d in kept:
            for f, e in enumerate(side.dims[d]):
                mapping[place(d, f, e)] = place(len(dims), f, e)
            dims.append(side.dims[d])
    a, b = relabelled(algebra, left, one, tuple(dims)), relabelled(algebra, right, two, tuple(dims))
    plain = algebra.multiply(a.plain, b.plain, summed)
    moved = plain if a.invariant and b.invariant else algebra.multiply(a.moved, b.moved, summed)
    return [settled(algebra, Tensor(tuple(dims), plain, moved))]


def _matched(step: Joint, args: Sequence[Any], shared: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """Both operands as tensors whose shared dimensions factor alike."""
    algebra = step.domain.algebra
    left, right = args
    if isinstance(left, Constant):
        own = list(tensors.dims_of([a.shape for a in left.arrays]))
        for a, b in shared:
            own[a] = right.dims[b]
        left = step.domain.tensor(left, tuple(own))
    if isinstance(right, Constant):
        own = list(tensors.dims_of([a.shape for a in right.arrays]))
        for a, b in shared:
            own[b] = left.dims[a]
        right = step.domain.tensor(right, tuple(own))
    wanted_left, wanted_right = list(left.dims), list(right.dims)
    for a, b in shared:
        made = tuple(common_factors(left.dims[a], right.dims[b])[1])
        wanted_left[a] = wanted_right[b] = made
    return refined(algebra, left, tuple(wanted_left)), refined(algebra, right, tuple(wanted_right))


def reduce_sum(step: Joint, args: list[Any]) -> list[Any]:
    """The sum over some dimensions."""
    value, algebra = args[0], step.domain.algebra
    axes = {int(a) for a in step.params[0]["axes"]}
    summed, mapping, dims = _reduced(value, axes)
    plain = algebra.substitute(algebra.total(value.plain, summed), mapping)
    moved = plain if value.invariant else algebra.substitute(algebra.total(value.moved, summed), mapping)
    return [settled(algebra, Tensor(dims, plain, moved))]


def _reduced(value: Tensor, axes: set[int]) -> tuple[list[Index], dict[Index, Index], tuple[tuple[Range, ...], ...]]:
    """The indices of reduced dimensions, the new names of the others, and the dimensions that stay."""
    kept = [d for d in range(len(value.dims)) if d not in axes]
    summed = [place(d, f, e) for d in sorted(axes) for f, e in enumerate(value.dims[d])]
    mapping = {place(d, f, e): place(new, f, e) for new, d in enumerate(kept) for f, e in enumerate(value.dims[d])}
    return summed, mapping, tuple(value.dims[d] for d in kept)


def _whole_effects(
    name: str, scale: str | None, shift: bool | None
) -> Callable[[str, Sequence[sp.Symbol]], Effect | None]:
    """Lemmas of a maximum and its relatives: `scale` "same" or "none" of the value, `shift` whether it moves along."""

    def effects(kind: str, chosen: Sequence[sp.Symbol]) -> Effect | None:
        if kind == "shift":
            if shift is None:
                return None
            words = f"{name}(z + s) = {name}(z) + s" if shift else f"{name}(z + s) = {name}(z)"
            return Effect(shift=sp.Integer(int(shift)), words=words)
        if kind != "positive" or scale is None:
            return None
        if scale == "same":
            return Effect(power=sp.Integer(1), words=f"{name}(αz) = α {name}(z) for α > 0")
        return Effect(words=f"{name}(αz) = {name}(z) for α > 0")

    return effects


def reduction(name: str, scale: str | None = "same", shift: bool | None = True, ordered: bool = False) -> Any:
    """A reduction that is no sum: its lemmas, and whether the order of the reduced entries matters."""

    def rule(step: Joint, args: list[Any]) -> list[Any]:
        value = args[0]
        axes = {int(a) for a in step.params[0]["axes"]}
        reduced, mapping, dims = _reduced(value, axes)
        if not reduced and not ordered:
            return [relabelled(step.domain.algebra, value, mapping, dims)]
        plain, moved = _local(step, value, reduced, [], (name,), _whole_effects(name, scale, shift), not ordered)
        return [relabelled(step.domain.algebra, Tensor(value.dims, plain, moved), mapping, dims)]

    return rule


def _local(
    step: Joint,
    value: Tensor,
    touched: Sequence[Index],
    new: Sequence[Index],
    key: tuple[Any, ...],
    effects: Callable[[str, Sequence[sp.Symbol]], Effect | None],
    unordered: bool,
) -> tuple[Any, Any]:
    """A function of all entries along `touched` indices, with `new` ones in their place."""
    laws, algebra = step.domain, step.domain.algebra

    def node(poly: Any) -> Any:
        body = atomised(algebra, poly) if len(poly) > 40 else poly
        others = [i for i in algebra.free_in(body) if i not in touched]
        slots = {i: ix.free(k, i[2]) for k, i in enumerate(others)}
        slots |= {i: ix.free(_AWAY + k, i[2]) for k, i in enumerate(touched)}
        definition = algebra.substitute(body, slots)
        made = algebra.atom(
            (*key, tuple(i[2] for i in touched), tuple(i[2] for i in new), frozenset(definition.items())),
            "reduction",
            str(key[0]),
            [i[2] for i in (*others, *new)],
            sign="boolean" if step.out_kind == "b" else "real",
            moved=any(algebra.moved(f) for term in definition for f in term),
            data=definition,
        )
        return {((made.number, (*others, *new), 1),): Fraction(1)}

    plain = node(value.plain)
    if value.invariant:
        algebra.remember(plain, plain)
        return plain, plain
    merged, fixed = (touched, ()) if unordered else ((), touched)
    moved = pointwise.transformed(step, plain, [value], (_Z,), effects, str(key[0]), merged, fixed)
    if moved is None:
        words = pointwise._words(algebra, [value])
        laws.breaks.append(Break(step.place, f"{key[0]} of a tensor that becomes {words}"))
        moved = node(value.moved)
    algebra.remember(plain, moved)
    return plain, moved


def running_sum(step: Joint, args: list[Any]) -> list[Any]:
    """A running sum: a triangular constant matrix."""
    d = int(step.params[0]["axis"])
    size = tuple(s[d] for s in step.shapes(0))
    matrices = [np.triu(np.ones((n, n))) if step.params[0]["reverse"] else np.tril(np.ones((n, n))) for n in size]
    return [mapped_along(step, args[0], d, size, matrices)]


def running(name: str, scale: str | None = "same", shift: bool | None = True) -> Any:
    """A running reduction that is no sum."""

    def rule(step: Joint, args: list[Any]) -> list[Any]:
        value, d = args[0], int(step.params[0]["axis"])
        touched = [place(d, f, e) for f, e in enumerate(value.dims[d])]
        away = [place(_AWAY + d, f, e) for f, e in enumerate(value.dims[d])]
        key = (name, bool(step.params[0]["reverse"]))
        plain, moved = _local(step, value, touched, away, key, _whole_effects(name, scale, shift), False)
        back = dict(zip(away, touched, strict=True))
        return [relabelled(step.domain.algebra, Tensor(value.dims, plain, moved), back, value.dims)]

    return rule


def _window(p: Any, d: int, size: int, new: int, window: int | None = None, rhs: int = 1) -> np.ndarray:
    """`[place, tap, entry]`: which entry a tap of the window at a place reads."""
    strides = p.get("window_strides")
    pads = p["padding"]
    base = p.get("base_dilation") or p.get("lhs_dilation") or (1,) * (d + 1)
    count = p["window_dimensions"][d] if window is None else window
    out = np.zeros((new, count, size))
    for at in range(new):
        for tap in range(count):
            spot = at * (strides[d] if strides else 1) + tap * rhs - pads[d][0]
            if spot % base[d] == 0 and 0 <= spot // base[d] < size:
                out[at, tap, spot // base[d]] = 1
    return out


def window_sum(step: Joint, args: list[Any]) -> list[Any]:
    """Sums over a sliding window: a constant matrix for each dimension."""
    value = args[0]
    sizes, shapes = step.shapes(0), step.out_shapes
    for d in range(len(sizes[0])):
        size, new = tuple(s[d] for s in sizes), tuple(s[d] for s in shapes)
        matrices = []
        for k, p in enumerate(step.params):
            rhs = (p.get("window_dilation") or (1,) * len(sizes[0]))[d]
            matrices.append(_window(p, d, size[k], new[k], rhs=rhs).sum(1))
        if size == new and all(np.array_equal(m, np.eye(len(m))) for m in matrices):
            continue
        value = mapped_along(step, value, d, new, matrices)
    return [value]


def window_extreme(name: str) -> Any:
    """The extreme over a sliding window."""

    def rule(step: Joint, args: list[Any]) -> list[Any]:
        value = args[0]
        sizes, shapes = step.shapes(0), step.out_shapes
        p = step.params[0]
        names = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
        touched, new, mapping = [], [], {}
        dims = []
        for d in range(len(sizes[0])):
            if p["window_dimensions"][d] == 1 and all(s[d] == t[d] for s, t in zip(sizes, shapes, strict=True)):
                dims.append(value.dims[d])
                continue
            touched += [place(d, f, e) for f, e in enumerate(value.dims[d])]
            extent = tuple(t[d] for t in shapes)
            dims.append(() if ix.trivial(extent) else (extent,))
            if dims[-1]:
                new.append(place(_AWAY + d, 0, extent))
                mapping[new[-1]] = place(d, 0, extent)
        key = (name, repr([[q.get(n) for n in names] for q in step.params]))
        plain, moved = _local(step, value, touched, new, key, _whole_effects(name, "same", True), False)
        return [relabelled(step.domain.algebra, Tensor(tuple(dims), plain, moved), mapping, tuple(dims))]

    return rule


def convolution(step: Joint, args: list[Any]) -> list[Any]:
    """A convolution: the input read through constant windows, contracted with the kernel."""
    algebra = step.domain.algebra
    p = step.params[0]
    if p["batch_group_count"] != 1:
        raise NoLaw("it groups the batch")
    spec = p["dimension_numbers"]
    groups = tuple(int(q["feature_group_count"]) for q in step.params)
    image, kernel = (step.domain.tensor(a) for a in args)
    sizes, taps, shapes = step.shapes(0), step.shapes(1), step.out_shapes
    spatial = len(spec.lhs_spec) - 2
    n, c = spec.lhs_spec[0], spec.lhs_spec[1]
    o, i = spec.rhs_spec[0], spec.rhs_spec[1]
    if not ix.trivial(groups):
        image = _split_groups(step, image, c, groups)
        kernel = _split_groups(step, kernel, o, groups)
    inside = image.dims[c] if ix.trivial(groups) else image.dims[c][1:]
    made = tuple(common_factors(inside, kernel.dims[i])[1])
    lead = () if ix.trivial(groups) else image.dims[c][:1]
    image = refined(algebra, image, tuple((*lead, *made) if d == c else f for d, f in enumerate(image.dims)))
    kernel = refined(algebra, kernel, tuple(made if d == i else f for d, f in enumerate(kernel.dims)))
    out_n, out_c = spec.out_spec[0], spec.out_spec[1]
    one: dict[Index, Index] = {}
    two: dict[Index, Index] = {}
    summed: list[Index] = []
    dims: list[tuple[Range, ...]] = [()] * len(shapes[0])
    dims[out_n], dims[out_c] = image.dims[n], kernel.dims[o]
    one |= {place(n, f, e): place(out_n, f, e) for f, e in enumerate(image.dims[n])}
    two |= {place(o, f, e): place(out_c, f, e) for f, e in enumerate(kernel.dims[o])}
    if lead:
        one[place(c, 0, lead[0])] = place(out_c, 0, lead[0])
    for f, e in enumerate(made):
        label = place(_AWAY, f, e)
        one[place(c, f + len(lead), e)] = two[place(i, f, e)] = label
        summed.append(label)
    windows = {(): Fraction(1)}
    for k in range(spatial):
        a, b, out = spec.lhs_spec[2 + k], spec.rhs_spec[2 + k], spec.out_spec[2 + k]
        size, tap, new = (tuple(s[d] for s in group) for group, d in ((sizes, a), (taps, b), (shapes, out)))
        arrays = []
        for t, q in enumerate(step.params):
            shown = {
                "window_strides": q["window_strides"],
                "padding": q["padding"],
                "lhs_dilation": q["lhs_dilation"],
            }
            arrays.append(_window(shown, k, size[t], new[t], tap[t], q["rhs_dilation"][k]))
        dims[out] = () if ix.trivial(new) else (new,)
        labels: list[Index] = [place(out, 0, new)] if dims[out] else []
        for side, d, mapping, away in ((kernel, b, two, 1), (image, a, one, 2)):
            for f, e in enumerate(side.dims[d]):
                label = place(_AWAY + 3 * k + away, f, e)
                mapping[place(d, f, e)] = label
                labels.append(label)
                summed.append(label)
        arrays = [w.reshape([label[2][t] for label in labels]) for t, w in enumerate(arrays)]
        windows = algebra.multiply(windows, algebra.constant(arrays, labels))
    x, w = relabelled(algebra, image, one, image.dims), relabelled(algebra, kernel, two, kernel.dims)
    # windows first: they have no index of the channels, so a law of the channels stays in sight
    plain = algebra.multiply(algebra.multiply(windows, w.plain), x.plain, summed)
    same = x.invariant and w.invariant
    moved = plain if same else algebra.multiply(algebra.multiply(windows, w.moved), x.moved, summed)
    return [settled(algebra, Tensor(tuple(dims), plain, moved))]


def _split_groups(step: Joint, value: Tensor, d: int, groups: Range) -> Tensor:
    """Dimension `d` as (group, rest)."""
    size = tensors.whole(value.dims[d], len(groups))
    rest = ix.over(size, groups)
    if rest is None:
        raise NoLaw("its feature groups do not divide its channels")
    wanted = (groups,) if ix.trivial(rest) else (groups, rest)
    out = refined(step.domain.algebra, value, tuple(wanted if k == d else f for k, f in enumerate(value.dims)))
    if not out.dims[d] or out.dims[d][0] != groups:
        raise NoLaw("its feature groups are made of several axes")
    return out

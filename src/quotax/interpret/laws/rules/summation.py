"""Sums of products and reductions: contractions, convolutions, sums, and what a maximum does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from quotax.interpret.laws import tensors
from quotax.interpret.laws.rules.algebraic import counts, result
from quotax.interpret.laws.tensors import Dims, Known, NoLaw, Tensor, Value, common_factors, place, refined, relabelled
from quotax.interpret.laws.writing import Eqn, Rule
from quotax.kernel.atoms import Extreme, Window
from quotax.kernel.indices import Fixed, Free, Index
from quotax.kernel.polynomials import UNIT, Poly
from quotax.kernel.rewriting import before
from quotax.kernel.sheet import Guard, reduced
from quotax.kernel.sizes import ONE, ZERO, Size
from quotax.programs.jaxprs import Settings


def dot_general(eqn: Eqn, args: list[Value]) -> list[Value]:
    """A contraction: `C[b,i,j] = sum_k A[b,k,i] B[b,k,j]`, batch dimensions first, then those left of A and of B."""
    (left_sum, right_sum), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    if eqn.out_kind == "i" and not counts(eqn, args):
        raise NoLaw("its integers may overflow")
    shared = [*zip(left_sum, right_sum, strict=True), *zip(left_batch, right_batch, strict=True)]
    left, right = _matched(eqn, args, shared)
    algebra = eqn.algebra
    dims: list[tuple[Size, ...]] = []
    one: dict[Index, Index] = {}
    two: dict[Index, Index] = {}
    summed: list[Index] = []
    for a, b in zip(left_sum, right_sum, strict=True):
        for f, size in enumerate(left.dims[a]):
            label = eqn.writer.fresh(size)
            one[place(a, f, size)] = two[place(b, f, size)] = label
            summed.append(label)
    for a, b in zip(left_batch, right_batch, strict=True):
        for f, size in enumerate(left.dims[a]):
            one[place(a, f, size)] = two[place(b, f, size)] = place(len(dims), f, size)
        dims.append(left.dims[a])
    for side, mapping, used in ((left, one, (*left_sum, *left_batch)), (right, two, (*right_sum, *right_batch))):
        for d in range(len(side.dims)):
            if d not in used:
                mapping |= {place(d, f, s): place(len(dims), f, s) for f, s in enumerate(side.dims[d])}
                dims.append(side.dims[d])
    a, b = relabelled(algebra, left, one, tuple(dims)), relabelled(algebra, right, two, tuple(dims))
    return [eqn.writer.settled(Tensor(tuple(dims), algebra.multiply(a.poly, b.poly, summed)))]


def _matched(eqn: Eqn, args: Sequence[Value], shared: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """Both operands as tensors whose shared dimensions factor alike."""
    left, right = args
    if isinstance(left, Known):
        right = eqn.writer.tensor(right)
        own = list(tensors.dims_of(eqn.shape(0)))
        for a, b in shared:
            own[a] = right.dims[b]
        left = eqn.writer.tensor(left, tuple(own))
    if isinstance(right, Known):
        own = list(tensors.dims_of(eqn.shape(1)))
        for a, b in shared:
            own[b] = left.dims[a]
        right = eqn.writer.tensor(right, tuple(own))
    wanted_left, wanted_right = list(left.dims), list(right.dims)
    for a, b in shared:
        wanted_left[a] = wanted_right[b] = tuple(common_factors(left.dims[a], right.dims[b])[1])
    return refined(eqn.algebra, left, tuple(wanted_left)), refined(eqn.algebra, right, tuple(wanted_right))


def reduce_sum(eqn: Eqn, args: list[Value]) -> list[Value]:
    """The sum over some dimensions."""
    value = eqn.writer.tensor(args[0])
    if not counts(eqn, [value]):
        raise NoLaw("its integers may overflow")
    summed, mapping, dims = _reduced(value, {int(a) for a in eqn.params["axes"]})
    poly = eqn.algebra.substitute(eqn.algebra.total(value.poly, summed), mapping)
    return [eqn.writer.settled(Tensor(dims, poly))]


def _reduced(value: Tensor, axes: set[int]) -> tuple[list[Free], dict[Index, Index], Dims]:
    """The indices of reduced dimensions, the new names of the others, and the dimensions that stay."""
    kept = [d for d in range(len(value.dims)) if d not in axes]
    summed = [place(d, f, s) for d in sorted(axes) for f, s in enumerate(value.dims[d])]
    mapping: dict[Index, Index] = {
        place(d, f, s): place(new, f, s) for new, d in enumerate(kept) for f, s in enumerate(value.dims[d])
    }
    return summed, mapping, tuple(value.dims[d] for d in kept)


def reduction(name: str, law: Extreme) -> Rule:
    """A reduction that is no sum."""

    def rule(eqn: Eqn, args: list[Value]) -> list[Value]:
        value = eqn.writer.tensor(args[0])
        touched, mapping, dims = _reduced(value, {int(a) for a in eqn.params["axes"]})
        if not touched and not law.ordered:
            return [relabelled(eqn.algebra, value, mapping, dims)]
        if eqn.kind(0) == "i" and law.scale == "same":
            raise NoLaw("it reduces integers")
        if law.scale == "none" and np.iinfo(eqn.outputs[0].dtype).bits < 32:
            raise NoLaw("places need more bits than it has")
        for index in touched:
            if not eqn.writer.at_least(index.extent, ONE):
                raise NoLaw("what it reduces may be empty")
        poly = reduced(eqn.algebra, value.poly, touched, (), law, name, (), eqn.out_kind == "b")
        return [relabelled(eqn.algebra, Tensor(value.dims, poly), mapping, dims)]

    return rule


def running_sum(eqn: Eqn, args: list[Value]) -> list[Value]:
    """A running sum: `y_i = sum_j [j <= i] x_j`; in reverse, `[i <= j]`."""
    value, d = eqn.writer.tensor(args[0]), int(eqn.params["axis"])
    if not counts(eqn, [value]):
        raise NoLaw("its integers may overflow")
    algebra, size = eqn.algebra, eqn.shape(0)[d]
    if size == ONE:
        return [value]
    wanted = tuple((size,) if k == d else f for k, f in enumerate(value.dims))
    if value.dims != wanted:
        raise NoLaw("it runs along a dimension made of several axes")
    here, there = place(d, 0, size), eqn.writer.fresh(size)
    low, high = (here, there) if eqn.params["reverse"] else (there, here)
    shifted = relabelled(algebra, value, {here: there}, value.dims)
    total = algebra.multiply(before(algebra, low, high), shifted.poly, [there])
    return [result(eqn, Tensor(value.dims, value.poly), total)]


def running(name: str, law: Extreme) -> Rule:
    """A running reduction that is no sum."""

    def rule(eqn: Eqn, args: list[Value]) -> list[Value]:
        value, d = eqn.writer.tensor(args[0]), int(eqn.params["axis"])
        touched = [place(d, f, s) for f, s in enumerate(value.dims[d])]
        away = [eqn.writer.fresh(i.extent) for i in touched]
        settings = bool(eqn.params["reverse"])
        poly = reduced(eqn.algebra, value.poly, touched, away, law, name, settings)
        back: dict[Index, Index] = dict(zip(away, touched, strict=True))
        return [Tensor(value.dims, eqn.algebra.substitute(poly, back))]

    return rule


def sort(eqn: Eqn, args: list[Value]) -> list[Value]:
    """One array sorted along a dimension: any order of what it reads gives the same."""
    if len(args) != 1:
        raise NoLaw("it sorts several arrays by one")
    value, d = eqn.writer.tensor(args[0]), int(eqn.params["dimension"])
    return [_ordered(eqn, value, d, value.dims[d], "sort")]


def top_k(eqn: Eqn, args: list[Value]) -> list[Value]:
    """The largest entries along a dimension, in their order, and where they stand."""
    value = eqn.writer.tensor(args[0])
    d = int(eqn.params.get("axis", len(value.dims) - 1)) % len(value.dims)
    k = eqn.out_shape[d]
    factors = () if k == ONE else (k,)
    values = _ordered(eqn, value, d, factors, "top k")
    places = _ordered(eqn, value, d, factors, "top k places", Extreme("none", False, ordered=True))
    return [values, places]


def _ordered(
    eqn: Eqn, value: Tensor, d: int, factors: tuple[Size, ...], name: str, law: Extreme | None = None
) -> Tensor:
    touched = [place(d, f, s) for f, s in enumerate(value.dims[d])]
    away = [eqn.writer.fresh(s) for s in factors]
    poly = reduced(eqn.algebra, value.poly, touched, away, law or Extreme(), name, ())
    back: dict[Index, Index] = {a: place(d, f, a.extent) for f, a in enumerate(away)}
    dims = tuple(factors if j == d else f for j, f in enumerate(value.dims))
    # what is no number is sorted to an end, and the others have places all the same
    guards = frozenset(Guard(c, None) for c in value.assumed)
    return Tensor(dims, eqn.algebra.substitute(poly, back), guards=guards)


# --- windows


def _window(eqn: Eqn, at: Index, tap: Index, entry: Index, window: Window) -> Poly:
    """`[entry = stride * at + dilation * tap - low]`: which entry a tap of the window at a place reads."""
    if window.whole and tap.extent == ONE and at.extent == entry.extent:
        return eqn.algebra.normal(1, [eqn.algebra.delta(at, entry)])
    slots = (at.extent, tap.extent, entry.extent)
    made = eqn.algebra.atoms.make(
        ("window", window, slots), window, "[window]", slots, sign="boolean", rows=(((0, 1), (2,), False),)
    )
    return eqn.algebra.entry(made, (at, tap, entry))


def window_sum(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Sums over a sliding window: `y_i = sum_t sum_q [base q = stride i + dilation t - low] x_q`."""
    value = eqn.writer.tensor(args[0])
    p, algebra = eqn.params, eqn.algebra
    for d, (size, new) in enumerate(zip(eqn.shape(0), eqn.out_shape, strict=True)):
        taps = tensors.extent(p["window_dimensions"][d])
        window = _settings(p, d, "window_dilation")
        if taps == ONE and window.whole:
            continue
        if value.dims[d] != (size,):
            raise NoLaw("its window slides along a dimension made of several axes")
        entry, tap = eqn.writer.fresh(size), eqn.writer.fresh(taps)
        at: Index = Fixed(Size.of(0), ONE) if new == ONE else place(d, 0, new)
        dims = tuple((() if new == ONE else (new,)) if k == d else f for k, f in enumerate(value.dims))
        shifted = relabelled(algebra, value, {place(d, 0, size): entry}, dims)
        poly = algebra.multiply(_window(eqn, at, tap, entry, window), shifted.poly, [entry, tap])
        value = eqn.writer.settled(replace(shifted, poly=poly))
    return [value]


def _settings(p: Settings, d: int, dilation: str) -> Window:
    low = tensors.extent(p["padding"][d][0])
    base = (p.get("base_dilation") or p.get("lhs_dilation") or (1,) * (d + 1))[d]
    spread = (p.get(dilation) or (1,) * (d + 1))[d]
    stride = (p.get("window_strides") or (1,) * (d + 1))[d]
    return Window(int(stride), int(spread), low, int(base))


def window_extreme(name: str) -> Rule:
    """The extreme over a sliding window."""

    def rule(eqn: Eqn, args: list[Value]) -> list[Value]:
        value, p = eqn.writer.tensor(args[0]), eqn.params
        touched: list[Free] = []
        away: list[Free] = []
        back: dict[Index, Index] = {}
        dims: list[tuple[Size, ...]] = []
        for d, (size, new) in enumerate(zip(eqn.shape(0), eqn.out_shape, strict=True)):
            window = _settings(p, d, "window_dilation")
            if p["window_dimensions"][d] == 1 and size == new and (window.stride, window.low) == (1, ZERO):
                dims.append(value.dims[d])
                continue
            touched += [place(d, f, s) for f, s in enumerate(value.dims[d])]
            dims.append(() if new == ONE else (new,))
            if dims[-1]:
                away.append(eqn.writer.fresh(new))
                back[away[-1]] = place(d, 0, new)
        names = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
        settings = repr([p.get(n) for n in names])
        poly = reduced(eqn.algebra, value.poly, touched, away, Extreme(ordered=True), name, settings)
        return [Tensor(tuple(dims), eqn.algebra.substitute(poly, back))]

    return rule


def convolution(eqn: Eqn, args: list[Value]) -> list[Value]:
    """A convolution: the input read through windows, contracted with the kernel.

    `y[n,o,p] = sum_c sum_t sum_q [base q = stride p + dilation t - low] x[n,c,q] w[o,c,t]`, for each spatial dimension
    a p, a t and a q; with groups, o and c have the group as their leading factor in common.
    """
    algebra, p = eqn.algebra, eqn.params
    if p["batch_group_count"] != 1:
        raise NoLaw("it groups the batch")
    spec = p["dimension_numbers"]
    groups = tensors.extent(p["feature_group_count"])
    image, kernel = eqn.writer.tensor(args[0]), eqn.writer.tensor(args[1])
    n, c = spec.lhs_spec[0], spec.lhs_spec[1]
    o, i = spec.rhs_spec[0], spec.rhs_spec[1]
    if groups != ONE:
        image, kernel = _grouped(eqn, image, c, groups), _grouped(eqn, kernel, o, groups)
    lead = () if groups == ONE else image.dims[c][:1]
    made = tuple(common_factors(image.dims[c][len(lead) :], kernel.dims[i])[1])
    image = refined(algebra, image, tuple((*lead, *made) if d == c else f for d, f in enumerate(image.dims)))
    kernel = refined(algebra, kernel, tuple(made if d == i else f for d, f in enumerate(kernel.dims)))
    out_n, out_c = spec.out_spec[0], spec.out_spec[1]
    dims: list[tuple[Size, ...]] = [()] * len(eqn.out_shape)
    dims[out_n], dims[out_c] = image.dims[n], kernel.dims[o]
    one: dict[Index, Index] = {place(n, f, s): place(out_n, f, s) for f, s in enumerate(image.dims[n])}
    two: dict[Index, Index] = {place(o, f, s): place(out_c, f, s) for f, s in enumerate(kernel.dims[o])}
    if lead:
        one[place(c, 0, lead[0])] = place(out_c, 0, lead[0])
    summed: list[Index] = []
    for f, size in enumerate(made):
        label = eqn.writer.fresh(size)
        one[place(c, f + len(lead), size)] = two[place(i, f, size)] = label
        summed.append(label)
    windows = UNIT
    for k in range(len(spec.lhs_spec) - 2):
        a, b, out = spec.lhs_spec[2 + k], spec.rhs_spec[2 + k], spec.out_spec[2 + k]
        new = eqn.out_shape[out]
        dims[out] = () if new == ONE else (new,)
        at: Index = place(out, 0, new) if dims[out] else Fixed(Size.of(0), ONE)
        ends = []
        for side, d, mapping in ((kernel, b, two), (image, a, one)):
            own = [eqn.writer.fresh(s) for s in side.dims[d]]
            mapping |= {place(d, f, s): label for (f, s), label in zip(enumerate(side.dims[d]), own, strict=True)}
            summed += own
            ends.append(tensors.joint(own) if own else Fixed(Size.of(0), ONE))
        window = _window(eqn, at, ends[0], ends[1], _settings(p, k, "rhs_dilation"))
        windows = algebra.multiply(windows, window)
    x, w = relabelled(algebra, image, one, image.dims), relabelled(algebra, kernel, two, kernel.dims)
    # windows first: they have no index of the channels, so a law of the channels stays in sight
    poly = algebra.multiply(algebra.multiply(windows, w.poly), x.poly, summed)
    return [eqn.writer.settled(Tensor(tuple(dims), poly))]


def _grouped(eqn: Eqn, value: Tensor, d: int, groups: Size) -> Tensor:
    """Dimension `d` as (group, rest)."""
    rest = tensors.whole(value.dims[d]).over(groups)
    if rest is None:
        raise NoLaw("its feature groups do not divide its channels")
    wanted = (groups,) if rest == ONE else (groups, rest)
    out = refined(eqn.algebra, value, tuple(wanted if k == d else f for k, f in enumerate(value.dims)))
    if not out.dims[d] or out.dims[d][0] != groups:
        raise NoLaw("its feature groups are made of several axes")
    return out

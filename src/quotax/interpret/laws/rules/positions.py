"""Positions: what a polynomial in ramps and tokens says of an entry's place, and reading and writing there."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import sympy as sp
from jax.lax import GatherScatterMode

from quotax.interpret.laws import tensors
from quotax.interpret.laws.rules.reindexing import at_index, embedded, merged, picked, renumbered
from quotax.interpret.laws.tensors import NoLaw, Tensor, Value, place, relabelled
from quotax.interpret.laws.writing import Eqn, Rule
from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Atom, Extreme, Factor
from quotax.kernel.indices import Fixed, Index
from quotax.kernel.polynomials import UNIT, Algebra, Poly, single
from quotax.kernel.sheet import made_of, reduced
from quotax.kernel.sizes import ONE, ZERO, Size


def bounds(algebra: Algebra, poly: Poly) -> tuple[Size, Size] | None:
    """The least and the largest value that a polynomial in ramps, tokens and sizes may have; None for any other.

    A ramp or a token is at least 0 and at most its reach, alone in its term: a term adds its reach to the high end
    where its coefficient is not negative for any size, to the low end where it is not positive.
    """
    low, high = ZERO, ZERO
    for term, coefficient in poly.items():
        if coefficient.denominator != 1:
            return None
        size, last, varies = Size.of(int(coefficient)), ONE, False
        for number, at, power in term:
            atom = algebra.atoms[number]
            if power != int(power) or power < 1:
                return None
            if isinstance(atom.what, kinds.Extent):
                for _ in range(int(power)):
                    size = size.times(Size.of(atom.what.symbol))
            elif (reach := _reach(atom, at)) is not None and power == 1 and not varies:
                varies, last = True, reach
            else:
                return None
        reach = size.times(last) if varies else size
        if not varies:
            low, high = low.plus(size), high.plus(size)
        elif size.nonnegative:
            high = high.plus(reach)
        elif ZERO.minus(size).nonnegative:
            low = low.plus(reach)
        else:
            return None
    return low, high


def decided(algebra: Algebra, name: str, left: Poly, right: Poly) -> bool | None:
    """What a comparison of positions and sizes is for all of them: `low <= left - right <= high` decides it, or not."""
    found = bounds(algebra, algebra.add(left, right, -1))
    if found is None:
        return None
    low, high = found
    below, above = ZERO.minus(high), low
    if name in ("lt", "ge") and (below.positive or above.nonnegative):
        return below.positive if name == "lt" else above.nonnegative
    if name in ("le", "gt") and (below.nonnegative or above.positive):
        return below.nonnegative if name == "le" else above.positive
    if name in ("eq", "ne"):
        if below.positive or above.positive:
            return name == "ne"
        if low == high == ZERO:
            return name == "eq"
    return None


def _reach(atom: Atom, at: Sequence[Index]) -> Size | None:
    """The largest value of a ramp, of tokens or of the place of a maximum; the least is zero."""
    match atom.what:
        case kinds.Ramp():
            return at[0].extent.minus(1)
        case kinds.TokenInput(below):
            return below.minus(1)
        case kinds.Reduction(name=name, touched=touched) if name in PLACES:
            return tensors.whole([i.extent for i in touched]).minus(1)
        case _:
            return None


def as_size(algebra: Algebra, poly: Poly) -> Size | None:
    """The size that a polynomial is, if it is one."""
    found = bounds(algebra, poly)
    return found[0] if found is not None and found[0] == found[1] else None


def as_index(algebra: Algebra, poly: Poly, size: Size) -> Index | None:
    """The position in a dimension that a polynomial in one ramp is: `start + stride * i`, within the dimension."""
    found = bounds(algebra, poly)
    if found is None or not found[0].nonnegative or not size.minus(found[1]).positive:
        return None
    start: Poly = {}
    ramp: tuple[int, Index] | None = None
    for term, coefficient in poly.items():
        own = [
            f for f in term if isinstance(algebra.atoms[f.atom].what, kinds.Ramp | kinds.TokenInput | kinds.Reduction)
        ]
        if not own:
            start[term] = coefficient
        elif len(term) > 1 or not isinstance(algebra.atoms[own[0].atom].what, kinds.Ramp) or ramp is not None:
            return None
        else:
            ramp = (int(coefficient), own[0].at[0])
    first = as_size(algebra, start)
    if first is None:
        return None
    return Fixed(first, size) if ramp is None else ix.affine(first, ramp[0], ramp[1], size)


def token_of(algebra: Algebra, poly: Poly) -> Factor | None:
    """The factor when a polynomial is one entry of a token input."""
    factor = single(poly)
    return factor if factor is not None and isinstance(algebra.atoms[factor.atom].what, kinds.TokenInput) else None


def token_selection(algebra: Algebra, factor: Factor, column: Index) -> Poly:
    """`[token = column]`: a selection whose rows are the token's indices, total when the extent is the token's own."""
    number, at, _ = factor
    atom = algebra.atoms[number]
    assert isinstance(atom.what, kinds.TokenInput)
    poly: Poly = {(Factor(number, tuple(place(0, k, s) for k, s in enumerate(atom.slots)), 1),): UNIT[()]}
    made = selection(algebra, ("one hot", number, column.extent), f"[{atom.name}=·]", atom.slots, column.extent, poly,
                     total=atom.what.below == column.extent)  # fmt: skip
    return algebra.entry(made, (*at, column))


def selection(
    algebra: Algebra, key: Hashable, name: str, rows: Sequence[Size], size: Size, poly: Poly, total: bool
) -> Atom:
    """`[poly = column]`: for each value of the rows at most one column."""
    count = len(rows)
    ends = ((tuple(range(count)), (count,), total),)
    return algebra.atoms.make(key, kinds.Selection(poly), name, [*rows, size], sign="boolean", rows=ends)


def hit(eqn: Eqn, poly: Poly, column: Index, strict: bool, dropped: bool = False) -> Poly:
    """`[poly = column]`, whatever the polynomial is.

    `strict` says that it is clipped, or promised to be in bounds, `dropped` that what is out of bounds is no column.
    Where it may be out of bounds these are two functions of one polynomial.
    """
    algebra = eqn.algebra
    factor = token_of(algebra, poly)
    if factor is not None:
        own = algebra.atoms[factor.atom].what == kinds.TokenInput(column.extent)
        if not own and not dropped and not _in_bounds(algebra, poly, column.extent):
            raise NoLaw("its tokens do not run over the axis that is read")
        return token_selection(algebra, factor, column)
    place_of = top_place(eqn, poly, column)
    if place_of is not None:
        return place_of
    inside = _in_bounds(algebra, poly, column.extent)
    if not (strict or dropped or inside):
        raise NoLaw("its positions may be out of bounds")
    labels = algebra.free_in(poly)
    definition = algebra.in_slots(poly, labels)
    beyond = "" if inside else "dropped" if dropped else "clipped"
    key = ("positions", beyond, frozenset(definition.items()), column.extent)
    rows = [i.extent for i in labels]
    made = selection(algebra, key, "[position=·]", rows, column.extent, definition, total=False)
    return algebra.entry(made, (*labels, column))


def _in_bounds(algebra: Algebra, poly: Poly, size: Size) -> bool:
    """Whether there are positions of a dimension wherever a polynomial is evaluated: tokens and two more, of eight."""
    found = bounds(algebra, poly)
    return found is not None and found[0].nonnegative and size.minus(found[1]).positive


PLACES = ("argmax", "argmin", "top k places")
"""Reductions that say where something stands among what they read; the last one for each of the first `k`."""


def top_place(eqn: Eqn, poly: Poly, column: Index) -> Poly | None:
    """`[argmax z = column]` where a polynomial is such a position: it moves with what it is the place of."""
    algebra = eqn.algebra
    factor = single(poly)
    made = None if factor is None else algebra.atoms[factor.atom].what
    if (
        factor is None
        or not isinstance(made, kinds.Reduction)
        or made.name not in PLACES
        or len(made.touched) != 1
        or made.touched[0].extent != column.extent
    ):
        return None
    if not _without_ties(algebra, made.definition, made.touched[0]):
        return None
    writer = eqn.writer
    alone = (
        "all of which the largest are taken at {} differ"
        if made.new
        else f"the {made.name[3:]}imum at {{}} is attained at one place"
    )
    writer.notes[alone.format(eqn.place)] = None
    read, new = writer.fresh(column.extent), writer.fresh(column.extent)
    mapping: dict[Index, Index] = {place(0, k, i.extent): i for k, i in enumerate(factor.at)}
    body = algebra.substitute(made.definition, {**mapping, made.touched[0]: read})
    which = [writer.fresh(size) for size in made.new]  # the first, the second: of several the place of each
    law = Extreme("none", False, follows=True)
    found = reduced(algebra, body, [read], [*which, new], law, f"{made.name} place", (), True)
    own = factor.at[len(factor.at) - len(which) :]
    return algebra.substitute(found, {new: column, **dict(zip(which, own, strict=True))})


def _without_ties(algebra: Algebra, poly: Poly, along: Index) -> bool:
    """Whether entries differ along an index at almost every point.

    They do where they are polynomials in parameters and inputs there, or functions of them that are nowhere flat.
    What all entries add, or have for a positive factor, is left out first: softmax(z) has the ties of z.
    """
    poly = {term: c for term, c in poly.items() if along in algebra.free_in({term: c})}
    if not poly:
        return False
    if len(poly) == 1:
        (term,) = poly
        left = [f for f in term if along in f.at or algebra.atoms[f.atom].sign != "positive"]
        poly = {tuple(left): poly[term]}
        inner = _within(algebra, left[0]) if len(left) == 1 else None
        if inner is not None:
            return _without_ties(algebra, inner, along)
    smooth = kinds.Parameter | kinds.Input | kinds.NamedSum | kinds.Real | kinds.Extent | kinds.Rational
    for atom in made_of(algebra, [poly]):
        if isinstance(atom.what, kinds.Application):
            function = atom.what.function
            if not all(sp.diff(function.expression, z).is_positive for z in function.symbols):
                return False
        elif not isinstance(atom.what, smooth) or atom.sign == "boolean":
            return False
    return True


def _within(algebra: Algebra, factor: Factor) -> Poly | None:
    """What an entry is a sum of, or an increasing function of, where it is one."""
    made = algebra.atoms[factor.atom]
    mapping: dict[Index, Index] = {
        place(0, k, size): i for k, (size, i) in enumerate(zip(made.slots, factor.at, strict=True))
    }
    match made.what:
        case kinds.NamedSum(poly) if factor.power == 1:
            return algebra.substitute(poly, mapping)
        case kinds.Application(function=function, arguments=(argument,)) if (
            made.sign == "positive" or factor.power == 1
        ):
            (z,) = function.symbols
            if function.law is None and sp.diff(function.expression, z).is_positive:
                return algebra.substitute(argument, mapping)
    return None


def read_at(eqn: Eqn, value: Tensor, d: int, poly: Poly, strict: bool) -> Tensor:
    """Dimension `d`, of size one then, read at the position that a polynomial says: `sum_c [position = c] x_c`."""
    size = tensors.whole(value.dims[d])
    if size == ONE:
        return value
    known = as_size(eqn.algebra, poly)
    if known is not None and known.nonnegative:
        index: Index | None = Fixed(known, size) if eqn.writer.at_least(size, known.plus(1)) else None
    else:
        index = as_index(eqn.algebra, poly, size)
    if index is not None:
        return at_index(eqn, value, d, index, ())
    algebra = eqn.algebra
    column = eqn.writer.fresh(size)
    if len(value.dims[d]) > 1:
        raise NoLaw("it reads at a value along a dimension made of several axes")
    dims = tuple(() if k == d else f for k, f in enumerate(value.dims))
    shifted = relabelled(algebra, value, {place(d, 0, size): column}, dims)
    poly = algebra.multiply(hit(eqn, poly, column, strict), shifted.poly, [column])
    return eqn.writer.settled(replace(shifted, poly=poly, compared=()))


def gather(eqn: Eqn, args: list[Value]) -> list[Value]:
    """A gather is linear in its operand: it reads at positions, whole windows where they start at a known place."""
    writer, algebra = eqn.writer, eqn.algebra
    operand, where = writer.tensor(args[0]), writer.tensor(args[1])
    numbers = eqn.params["dimension_numbers"]
    strict = eqn.params["mode"] != GatherScatterMode.FILL_OR_DROP
    shape, counts = eqn.shape(0), [tensors.extent(n) for n in eqn.params["slice_sizes"]]
    out_rank, rank = len(eqn.out_shape), len(shape)
    mapped, batching = list(numbers.start_index_map), list(numbers.operand_batching_dims)
    batch_out = [d for d in range(out_rank) if d not in numbers.offset_dims]
    kept = [d for d in range(rank) if d not in numbers.collapsed_slice_dims and d not in batching]
    offset = dict(zip(kept, [d for d in range(out_rank) if d in numbers.offset_dims], strict=True))
    vector = len(where.dims) - 1
    # the operand keeps its dimensions; those of the positions stand behind them
    behind: dict[Index, Index] = {
        place(k, f, s): place(rank + k, f, s) for k in range(vector) for f, s in enumerate(where.dims[k])
    }
    value = replace(operand, dims=(*operand.dims, *where.dims[:vector]))
    for component, d in enumerate(mapped):
        if counts[d] == shape[d]:
            continue  # a window of the whole dimension starts at zero
        here = _component(eqn, where, component, vector)
        poly = algebra.substitute(here, behind)
        if counts[d] == ONE:
            value = read_at(eqn, value, d, _clipped(eqn, poly, shape[d]), strict)
        else:
            start = as_size(algebra, poly)
            fits = start is not None and eqn.writer.at_least(shape[d], start.plus(counts[d]))
            if start is None or not start.nonnegative or not fits:
                raise NoLaw("it reads windows at positions that are values")
            value = picked(eqn, value, d, start, 1, counts[d])
    for d in range(rank):
        if d not in mapped and d not in batching and counts[d] != shape[d]:
            value = picked(eqn, value, d, ZERO, 1, counts[d])
    for d, k in zip(batching, numbers.start_indices_batching_dims, strict=True):
        if value.dims[d] != value.dims[rank + k]:
            raise NoLaw("its batch dimensions do not factor alike")
        same: dict[Index, Index] = {place(d, f, s): place(rank + k, f, s) for f, s in enumerate(value.dims[d])}
        value = relabelled(algebra, value, same, tuple(() if j == d else f for j, f in enumerate(value.dims)))
    sources: list[int | None] = [None] * out_rank
    for d, position in offset.items():
        sources[position] = d
    for k, position in enumerate(batch_out):
        sources[position] = rank + k
    out = renumbered(eqn, value, sources, eqn.out_shape)
    return [merged([where], writer.settled(replace(out, compared=())))]


def _component(eqn: Eqn, where: Tensor, component: int, vector: int) -> Poly:
    """One component of the vectors of positions."""
    mapping: dict[Index, Index] = {}
    for f, size in enumerate(where.dims[vector]):
        if f or size.value is None:
            raise NoLaw("its vectors of positions have a variable length")
        mapping[place(vector, 0, size)] = ix.fixed(component, size)
    return eqn.algebra.substitute(where.poly, mapping)


def _clipped(eqn: Eqn, poly: Poly, size: Size) -> Poly:
    """A constant position that is clipped to the dimension, where the mode says so."""
    start = as_size(eqn.algebra, poly)
    if start is None or eqn.params.get("mode") not in (GatherScatterMode.CLIP, None):
        return poly
    if not start.nonnegative and ZERO.minus(start).positive:
        return {}
    if start.minus(size).nonnegative:
        return eqn.algebra.size(size.minus(1))
    return poly


def dynamic_slice(eqn: Eqn, args: list[Value]) -> list[Value]:
    """A slice at a known position; at positions that are values, only of size one. Positions are clipped."""
    value, starts = eqn.writer.tensor(args[0]), args[1:]
    shape, new = eqn.shape(0), eqn.out_shape
    used = []
    for d, start in enumerate(starts):
        if shape[d] == new[d]:
            continue
        poly = eqn.writer.tensor(start).poly
        known = as_size(eqn.algebra, poly)
        if known is not None:
            value = picked(eqn, value, d, _clamped(eqn, known, shape[d].minus(new[d])), 1, new[d])
        elif new[d] == ONE:
            value = read_at(eqn, value, d, poly, True)
            used.append(start)
        else:
            raise NoLaw("it slices more than one entry at a position that is a value")
    return [merged([u for u in used if isinstance(u, Tensor)], value)]


def _clamped(eqn: Eqn, start: Size, last: Size) -> Size:
    if start.nonnegative and eqn.writer.at_least(last, start):
        return start
    if ZERO.minus(start).nonnegative:
        return ZERO
    if start.minus(last).nonnegative and last.nonnegative:
        return last
    raise NoLaw(f"whether its position {start} is in bounds depends on the sizes")


def update_slice(eqn: Eqn, args: list[Value]) -> list[Value]:
    """A slice replaced at a known position."""
    old, new, *starts = args
    shape, counts = eqn.shape(0), eqn.shape(1)
    at = []
    for d, start in enumerate(starts):
        known = as_size(eqn.algebra, eqn.writer.tensor(start).poly)
        if known is None:
            raise NoLaw("its position is a value")
        at.append(_clamped(eqn, known, shape[d].minus(counts[d])))
    return [_placed(eqn, eqn.writer.tensor(old), eqn.writer.tensor(new), at, keep=False)]


def _placed(eqn: Eqn, old: Tensor, new: Tensor, at: Sequence[Size], keep: bool) -> Tensor:
    """`new` put into `old` at `at`: added to what is there, or in its stead: `new + (1 - [inside]) old`."""
    algebra, shape = eqn.algebra, eqn.shape(0)
    inside = Tensor(new.dims, UNIT)
    for d, start in enumerate(at):
        new, inside = (embedded(eqn, v, d, start, 1, shape[d]) for v in (new, inside))
    old, new, inside = tensors.unified(algebra, [old, new, inside])
    outside = UNIT if keep else algebra.add(UNIT, inside.poly, -1)
    poly = algebra.add(new.poly, algebra.multiply(outside, old.poly))
    return merged([old, new], Tensor(old.dims, poly))


def scatter(keep: bool) -> Rule:
    """One block written at a known position (`x.at[0].set`), or added to what is there (`keep`).

    At positions that are values `sum_r [position_r = c] new_r` is added (`jax.ops.segment_sum`), or one entry replaced.
    """

    def rule(eqn: Eqn, args: list[Value]) -> list[Value]:
        old, where, new = (eqn.writer.tensor(a) for a in args)
        numbers = eqn.params["dimension_numbers"]
        if len(where.dims) != 1 or numbers.operand_batching_dims:
            return [_written_at_values(eqn, old, where, new, keep)]
        shape = eqn.shape(0)
        kept = [d for d in range(len(shape)) if d not in numbers.inserted_window_dims]
        counts = [ONE] * len(shape)
        for source, d in enumerate(kept):
            counts[d] = eqn.shape(2)[source]
        at = [ZERO] * len(shape)
        for component, d in enumerate(numbers.scatter_dims_to_operand_dims):
            start = as_size(eqn.algebra, _component(eqn, where, component, 0))
            if start is None:
                return [_written_at_values(eqn, old, where, new, keep)]
            beyond = start.plus(counts[d]).minus(shape[d]).positive
            if beyond and eqn.params["mode"] == GatherScatterMode.FILL_OR_DROP:
                return [old]  # what lies beyond the end is dropped
            if not (start.nonnegative and eqn.writer.at_least(shape[d], start.plus(counts[d]))):
                raise NoLaw("it may write out of bounds")
            at[d] = start
        mapping: dict[Index, Index] = {}
        dims: list[tuple[Size, ...]] = [()] * len(shape)
        for source, d in enumerate(kept):
            dims[d] = new.dims[source]
            mapping |= {place(source, f, s): place(d, f, s) for f, s in enumerate(dims[d])}
        moved = relabelled(eqn.algebra, new, mapping, tuple(dims))
        return [_placed(eqn, old, moved, at, keep)]

    return rule


def _written_at_values(eqn: Eqn, old: Tensor, where: Tensor, new: Tensor, keep: bool) -> Tensor:
    """`old_c + sum_r [position_r = c] new_r`, or one entry replaced: `(1 - [position = c]) old_c + [position = c] new`.

    A position beyond the end is that of no entry, as JAX drops what is written there.
    """
    algebra, numbers, shape = eqn.algebra, eqn.params["dimension_numbers"], eqn.shape(0)
    vector = len(where.dims) - 1
    windows, batch = list(numbers.update_window_dims), list(numbers.operand_batching_dims)
    written = list(numbers.scatter_dims_to_operand_dims)
    kept = [d for d in range(len(shape)) if d not in numbers.inserted_window_dims and d not in batch]
    rows = [k for k in range(len(new.dims)) if k not in windows]
    whole_windows = all(eqn.shape(2)[k] == shape[d] for k, d in zip(windows, kept, strict=True))
    if not whole_windows or not set(written) <= set(numbers.inserted_window_dims):
        raise NoLaw("it writes windows at positions that are values")
    if [new.dims[k] for k in rows] != list(where.dims[:vector]):
        raise NoLaw("its positions and what it writes do not factor alike")
    dims: list[tuple[Size, ...]] = [() if size == ONE else (size,) for size in shape]
    here: dict[Index, Index] = {}
    what: dict[Index, Index] = {}
    for k, d in zip(windows, kept, strict=True):
        dims[d] = new.dims[k]
        what |= {place(k, f, s): place(d, f, s) for f, s in enumerate(dims[d])}
    same = dict(zip(numbers.scatter_indices_batching_dims, batch, strict=True))
    summed: list[Index] = []
    for k, row in enumerate(rows):
        if k in same:
            dims[same[k]] = new.dims[row]
        for f, s in enumerate(new.dims[row]):
            at = place(same[k], f, s) if k in same else eqn.writer.fresh(s)
            summed += [] if k in same else [at]
            here[place(k, f, s)] = what[place(row, f, s)] = at
    if summed and not keep:
        raise NoLaw("it writes to several places, and which is the last is not said")
    hits = UNIT
    mode = eqn.params["mode"]
    promised, dropped = mode == GatherScatterMode.PROMISE_IN_BOUNDS, mode != GatherScatterMode.CLIP
    for component, d in enumerate(written):
        column: Index = Fixed(ZERO, ONE) if shape[d] == ONE else place(d, 0, shape[d])
        position = algebra.substitute(_component(eqn, where, component, vector), here)
        hits = algebra.multiply(hits, hit(eqn, position, column, promised, dropped))
    added = algebra.multiply(hits, algebra.substitute(new.poly, what), summed)
    made = replace(new, dims=tuple(dims), poly=added, compared=())
    old, made, inside = tensors.unified(algebra, [old, made, Tensor(tuple(dims), UNIT if keep else hits)])
    outside = UNIT if keep else algebra.add(UNIT, inside.poly, -1)
    poly = algebra.add(made.poly, algebra.multiply(outside, old.poly))
    return eqn.writer.settled(merged([old, made], Tensor(old.dims, poly)))

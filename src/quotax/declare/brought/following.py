"""Following dimensions through a trace: which must be equal, which are products of others, which are numbers.

Every dimension of a parameter or input begins as an unknown of its own. An equation of the trace says what it asks of
shapes: a contraction that two dimensions are one, an elementwise operation that all of them are, a reshape that one is
the product of others, which takes the unknown apart. What an equation makes of nothing (`iota`, a broadcast to a
number) is an unknown too, until it meets another one. Sizes are known throughout, and unknowns of different sizes never
meet; two of the same size are one only where an equation says so.

A dimension that is cut into equal parts is their number times their length, but for one whose parts are put together
again and meet it uncut, as those of a rotary embedding do, `x * cos + concatenate(-x2, x1) * sin`: it stays one. So
does one of pairs that are mixed and stacked again, `stack([a * cos - b * sin, a * sin + b * cos])`.

A dimension that others are put together to is their sum, `concatenate([x, h])`, and so is one that is cut into unequal
parts. Two sums that meet are one, term by term, larger terms being sums of smaller ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from quotax.programs.jaxprs import CALLS, bare, shaped
from quotax.trees import Tree

Dims = tuple["Unknown", ...]
"""A dimension: a product of unknowns."""


class Unknown:
    """A size that is followed; `parts` once it is known to be another one, or a product.

    `number` says that it is what it is: heights and widths of a convolution's kernel and image. `whole` is what a part
    was cut out of, `joined` what parts that are put together were; `rejoined` says of a number of parts that these met.
    `thinned` says that it counts every second entry of something, or every third.
    `terms` are the dimensions that it is the sum of, one after another, `copies` the number of copies of which one.
    """

    __slots__ = ("copies", "joined", "number", "parts", "read", "rejoined", "size", "terms", "thinned", "whole")

    def __init__(self, size: int) -> None:
        self.size = int(size)
        self.parts: Dims | None = None
        self.number = self.rejoined = self.thinned = False
        self.whole: Unknown | None = None
        self.joined: Unknown | None = None
        self.terms: tuple[Dims, ...] | None = None
        self.copies: tuple[int, Dims] | None = None
        self.read: set[int] = set()
        """The entries that are read alone: all of them, and they are things of their own, `q, k, v = qkv`."""


def factors(dim: Sequence[Unknown]) -> list[Unknown]:
    """The unknowns that a dimension is the product of, as far as is known; ones are left out."""
    out: list[Unknown] = []
    for unknown in dim:
        if unknown.parts is not None:
            out += factors(unknown.parts)
        elif unknown.size != 1:
            out.append(unknown)
    return out


def meet(first: Sequence[Unknown], second: Sequence[Unknown]) -> None:
    """Two dimensions are one: their factors meet from the left, larger ones taken apart by smaller ones."""
    a, b = factors(first), factors(second)
    if length(a) != length(b):
        return
    while a and b:
        if a[0] is b[0]:
            a, b = a[1:], b[1:]
        elif a[0].size == b[0].size:
            b[0].parts = (a[0],)
            a[0].number |= b[0].number
            a[0].rejoined |= b[0].rejoined
            a[0].thinned |= b[0].thinned
            a[0].copies = a[0].copies or b[0].copies
            one, other = a[0].terms, b[0].terms
            a[0].terms = one or other
            if one is not None and other is not None:
                _sums_meet(one, other)
            a, b = factors(a[1:]), factors(b[1:])
        else:
            if a[0].size < b[0].size:
                a, b = b, a
            if a[0].size % b[0].size:
                return
            a[0].parts = (b[0], Unknown(a[0].size // b[0].size))
            a, b = factors(a), factors(b)


def length(dim: Sequence[Unknown]) -> int:
    """The size of a dimension."""
    return math.prod(unknown.size for unknown in dim)


def summed(dim: Sequence[Unknown]) -> list[Dims]:
    """The terms of a dimension that is a sum, sums among them taken apart; itself where it is none."""
    roots = factors(dim)
    if len(roots) != 1 or roots[0].terms is None:
        return [tuple(dim)]
    return [part for term in roots[0].terms for part in summed(term)]


def _sums_meet(first: Sequence[Dims], second: Sequence[Dims]) -> None:
    """Two sums are one: their terms meet from the left, larger ones the sums of smaller ones."""
    a, b = [part for term in first for part in summed(term)], [part for term in second for part in summed(term)]
    while a and b:
        if length(a[0]) == length(b[0]):
            meet(a.pop(0), b.pop(0))
            continue
        if length(a[0]) < length(b[0]):
            a, b = b, a
        roots = factors(a[0])
        if len(roots) != 1 or roots[0].number:
            return
        roots[0].terms = (b[0], (Unknown(length(a[0]) - length(b[0])),))
        a = [*roots[0].terms, *a[1:]]


def _run_of(dim: Dims, start: int, size: int) -> Dims | None:
    """Terms of a sum that make up what is between two places of it; nothing where a term would be cut."""
    found: list[Dims] = []
    terms, place = summed(dim), 0
    for term in terms:
        if start <= place and place + length(term) <= start + size:
            found.append(term)
        place += length(term)
    if len(terms) < 2 or not found or sum(map(length, found)) != size:
        return None
    if len(found) == 1:
        return found[0]
    whole = Unknown(size)
    whole.terms = tuple(found)
    return (whole,)


def reshaped(dims: Sequence[Dims], shape: Sequence[int]) -> list[Dims]:
    """The dimensions after a reshape: each output takes the next factors, the last of them taken apart if need be."""
    left = [u for dim in dims for u in factors(dim)]
    out: list[Dims] = []
    for size in shape:
        took: list[Unknown] = []
        while (have := math.prod(u.size for u in took)) != size:
            if not left:
                return [*out, *((Unknown(n),) for n in shape[len(out) :])]
            missing = size // have
            if size % have or (left[0].size > missing and left[0].size % missing):
                return [*out, *((Unknown(n),) for n in shape[len(out) :])]
            if left[0].size > missing:
                left[0].parts = (Unknown(missing), Unknown(left[0].size // missing))
                left = [u for v in left for u in factors((v,))]
            took.append(left.pop(0))
        out.append(tuple(took) or (Unknown(1),))
    return out


Sources = frozenset[Any]
"""What a value is made of: inputs, choices (below zero), and `(unknown, k)` for entry `k` of a dimension."""


def _only_token(sources: Sources) -> int | None:
    """The input whose numbers these are, if there is one."""
    places = [source for source in sources if isinstance(source, int)]
    return places[0] if len(places) == 1 else None


def _entries(equation: Any, dims: list[Any]) -> list[Sources]:
    """The entries of dimensions that the outputs of an equation are."""
    name, settings = equation.primitive.name, equation.params
    if name == "unstack":
        own = factors(dims[0][settings["axis"]])
        return [frozenset((unknown, k) for unknown in own if len(own) == 1) for k in range(len(equation.outvars))]
    if name != "slice":
        return [frozenset()] * len(equation.outvars)
    starts = zip(dims[0], settings["start_indices"], equation.outvars[0].aval.shape, strict=True)
    rows = [(factors(dim), start) for dim, start, size in starts if size == 1]
    return [frozenset((own[0], int(start)) for own, start in rows if len(own) == 1)]


def _mixes(name: str, origin: Sequence[Sources]) -> bool:
    """Whether an operation entry by entry is linear in what its operands are made of."""
    carrying = [any(not isinstance(source, int) for source in each) for each in origin]
    if name == "mul":
        return sum(carrying) < 2
    return name in _LINEAR and (name != "div" or not carrying[1])


def _stacked(settings: Any, dims: list[Any], origin: list[Sources]) -> list[Dims]:
    """A new dimension of as many entries as there are operands.

    Where each of them is a sum of multiples of all entries of one dimension, it is that one: pairs are pairs again.
    """
    for first, second in itertools.pairwise(dims):
        _all_meet([first], [second])
    made = Unknown(len(dims))
    for unknown, _ in frozenset.intersection(
        *(frozenset(s for s in each if not isinstance(s, int)) for each in origin)
    ):
        if unknown.size == len(dims) and all((unknown, k) in each for each in origin for k in range(len(dims))):
            made = unknown
            factors((unknown,))[0].rejoined = True
    out = list(dims[0])
    out.insert(settings["axis"], (made,))
    return out


class Followed:
    """The dimensions of everything in a trace, and which tokens are looked up along which of them."""

    def __init__(self, jaxpr: ClosedJaxpr, arguments: Sequence[Sequence[Dims]]) -> None:
        """Follow `arguments`, the dimensions of the trace's inputs, to its outputs."""
        self.looked_up: dict[int, Dims] = {}
        self._chosen: dict[int, Dims] = {}
        """By a number below zero, a dimension of which integers are places: those of its largest entries."""
        sources: list[Sources] = [frozenset([place]) for place in range(len(arguments))]
        self.outputs = self._run(bare(jaxpr), list(arguments), sources)[0]
        _take_copies_apart([dim for dims in arguments for dim in dims])
        _undo_cuts([dim for dims in arguments for dim in dims])

    def _run(self, jaxpr: Any, arguments: list[Any], sources: list[Sources]) -> tuple[list[Any], list[Any]]:
        known: dict[Any, Any] = {}
        made: dict[Any, Sources] = {}
        for variable in jaxpr.constvars:
            known[variable], made[variable] = _fresh(getattr(variable.aval, "shape", ())), frozenset()
        known.update(zip(jaxpr.invars, arguments, strict=True))
        made.update(zip(jaxpr.invars, sources, strict=True))
        read = lambda atom: _fresh(np.shape(atom.val)) if isinstance(atom, Literal) else known[atom]
        whose = lambda atom: frozenset() if isinstance(atom, Literal) else made[atom]
        for equation in jaxpr.eqns:
            dims, origin = [read(v) for v in equation.invars], [whose(v) for v in equation.invars]
            out, kept = self._step(equation, dims, origin)
            for variable, dim in zip(equation.outvars, out, strict=True):
                shape = getattr(variable.aval, "shape", ())
                known[variable] = dim if len(dim) == len(shape) else _fresh(shape)
            made.update(zip(equation.outvars, kept, strict=True))
        return [read(v) for v in jaxpr.outvars], [whose(v) for v in jaxpr.outvars]

    def _step(self, equation: Any, dims: list[Any], origin: list[Sources]) -> tuple[list[Any], list[Any]]:
        name, settings = equation.primitive.name, equation.params
        together = frozenset().union(*origin)
        kept = [together] * len(equation.outvars)
        if name == "stack":
            return [_stacked(settings, dims, origin)], kept
        if name in CALLS:
            inner = bare(settings[CALLS[name]])
            skipped = len(dims) - len(inner.invars)
            return self._run(inner, dims[skipped:], origin[skipped:])
        if name == "scan":
            return self._scan(settings, dims, origin, kept), kept
        if name == "while":
            consts = settings["body_nconsts"]
            at = settings["cond_nconsts"]
            carry = dims[at + consts :]
            out, _ = self._run(bare(settings["body_jaxpr"]), dims[at:], origin[at:])
            _all_meet(carry, out)
            return carry, kept
        if name == "cond":
            outs = [self._run(bare(branch), dims[1:], origin[1:])[0] for branch in settings["branches"]]
            for other in outs[1:]:
                _all_meet(outs[0], other)
            return outs[0], kept
        if name == "gather":
            return [self._gather(equation, dims, origin)], [frozenset()]
        if name in _CHOICES:
            among = -1 - len(self._chosen)
            self._chosen[among] = dims[0][-1 if name == "top_k" else settings["axes"][0]]
            kept = [frozenset(), frozenset([among])][-len(kept) :]
        if name in _SCATTERS:
            return [self._scatter(equation, dims, origin)], [frozenset()]
        if name == "dynamic_slice":
            starts = zip(origin[1:], dims[0], settings["slice_sizes"], strict=False)
            for sources, dim, size in starts:
                if size == 1:
                    self._along(sources, dim)
        rule = _RULES.get(name)
        shapes = [shaped(v).shape for v in equation.outvars]
        if rule is not None:
            moved = kept if name in (*_MOVES, *_CHOICES) else [frozenset()] * len(kept)
            return rule(settings, dims, shapes), [a | b for a, b in zip(moved, _entries(equation, dims), strict=True)]
        if name not in _CHOICES and not _mixes(name, origin):
            kept = [frozenset(source for source in together if isinstance(source, int))] * len(kept)
        return _elementwise(dims, shapes, [v.aval.shape for v in equation.invars]), kept

    def _scan(self, settings: Any, dims: list[Tree], origin: list[Tree], kept: list[Tree]) -> list[Tree]:
        consts, carried = settings["num_consts"], settings["num_carry"]
        body = bare(settings["jaxpr"])
        across = dims[consts + carried :]
        for first, second in itertools.pairwise(across):
            meet(first[0], second[0])
        length = across[0][0] if across else (Unknown(settings["length"]),)
        out, _ = self._run(body, [*dims[: consts + carried], *(d[1:] for d in across)], origin)
        carry = dims[consts : consts + carried]
        _all_meet(carry, out[:carried])
        return [*carry, *([length, *d] for d in out[carried:])]

    def _gather(self, equation: Any, dims: list[Any], origin: list[Sources]) -> list[Dims]:
        """Rows by number: what the numbers count is the dimension that they are looked up along."""
        settings, (operand, indices) = equation.params["dimension_numbers"], dims
        sizes, shape = equation.params["slice_sizes"], shaped(equation.outvars[0]).shape
        own = shaped(equation.invars[0]).shape
        counted = [k for k in settings.start_index_map if sizes[k] != own[k] or own[k] == 1]  # others begin at 0
        if len(counted) == 1:
            self._along(origin[1], operand[counted[0]])
        batching = getattr(settings, "operand_batching_dims", ())
        inner = [k for k in range(len(own)) if k not in settings.collapsed_slice_dims and k not in batching]
        offsets = dict(zip(settings.offset_dims, inner, strict=True))
        outer = iter(indices[:-1])
        out: list[Dims] = []
        for place, size in enumerate(shape):
            if place in offsets:
                k = offsets[place]
                out.append(operand[k] if sizes[k] == own[k] else (Unknown(size),))
            else:
                out.append(next(outer, (Unknown(size),)))
        return out

    def _scatter(self, equation: Any, dims: list[Any], origin: list[Sources]) -> list[Dims]:
        """Rows written by number, into the dimension that the numbers count."""
        settings, (operand, indices, new) = equation.params["dimension_numbers"], dims
        own, made = equation.invars[0].aval.shape, equation.invars[2].aval.shape
        batching = getattr(settings, "operand_batching_dims", ())
        inner = [k for k in range(len(own)) if k not in settings.inserted_window_dims and k not in batching]
        windows = dict(zip(settings.update_window_dims, inner, strict=True))
        outer = iter(indices[:-1])
        for place, size in enumerate(made):
            if place not in windows:
                meet(new[place], next(outer, new[place]))
            elif own[windows[place]] == size:
                meet(new[place], operand[windows[place]])
        for k, at in zip(batching, getattr(settings, "scatter_indices_batching_dims", ()), strict=True):
            meet(operand[k], indices[at])
        counted = [k for k in settings.scatter_dims_to_operand_dims if k in settings.inserted_window_dims]
        if len(counted) == 1:
            self._along(origin[1], operand[counted[0]])
        return operand

    def _along(self, sources: Sources, dim: Dims) -> None:
        """Tokens of one input, or places that were chosen, count a dimension; all that they count are one."""
        if (place := _only_token(sources)) is not None:
            counted = self._chosen if place in self._chosen else self.looked_up
            meet(counted.setdefault(place, dim), dim)


def _take_copies_apart(dims: Sequence[Dims]) -> None:
    """What reads an axis put beside itself, `concatenate([sin(z), cos(z)])`, has that axis so many times.

    Copies of what is no axis of an argument, as the tables of a rotary embedding are, are as long as they are.
    """
    own = {unknown for dim in dims for unknown in factors(dim)}
    for whole in list(own):
        if whole.copies is None or whole.parts is not None or whole.number or whole.rejoined:
            continue
        count, dim = whole.copies
        if factors(dim) and own.issuperset(factors(dim)) and count * length(dim) == whole.size:
            number = Unknown(count)
            number.number = True
            whole.parts = (number, *dim)


def _undo_cuts(dims: Sequence[Dims]) -> None:
    """Dimensions whose parts were put together again are one unknown, unless something else is as long as a part."""
    cut: dict[tuple[Unknown, ...], list[Unknown]] = {}
    elsewhere: set[Unknown] = set()
    waiting = [unknown for dim in dims for unknown in dim]
    seen: set[Unknown] = set()
    while waiting:
        unknown = waiting.pop()
        if unknown in seen:
            continue
        seen.add(unknown)
        roots = tuple(factors((unknown,)))
        waiting += [part for term in unknown.terms or () for part in term]
        halves = unknown.parts is not None and len(unknown.parts) == 2 and len(roots) == 2
        if halves and (roots[0].rejoined or roots[1].rejoined):
            cut.setdefault(roots, []).append(unknown)
        elif unknown.parts is not None:
            waiting += unknown.parts
        else:
            elsewhere.add(unknown)
    for (one, other), (first, *others) in cut.items():
        if (one if other.rejoined else other) not in elsewhere:
            first.parts = None
            for unknown in others:
                unknown.parts = (first,)


def _fresh(shape: Sequence[int]) -> list[Dims]:
    return [(Unknown(n),) for n in shape]


def _all_meet(first: Sequence[Sequence[Dims]], second: Sequence[Sequence[Dims]]) -> None:
    for one, other in zip(first, second, strict=False):
        for a, b in zip(one, other, strict=False):
            meet(a, b)


def _chain(dim: Dims) -> set[Unknown]:
    """The unknowns that a dimension is, and those that it was found to be."""
    out, waiting = set(), list(dim)
    while waiting:
        unknown = waiting.pop()
        out.add(unknown)
        waiting += unknown.parts or ()
    return out


def _elementwise(dims: list[Tree], shapes: list[Tree], given: list[Tree]) -> list[Tree]:
    """Operands of one rank have the same dimensions, but for those of length 1, which are repeated."""
    out = []
    for shape in shapes:
        row = _fresh(shape)
        for place, size in enumerate(shape):
            same = [d[place] for d, s in zip(dims, given, strict=True) if len(s) == len(shape) and s[place] == size]
            for one, other in itertools.pairwise(same):
                meet(one, other)
            joined = [d for d in same if len(d) == 1 and d[0].joined is not None]
            for (made,) in joined:
                if any(made.joined in _chain(d) for d in same if d[0] is not made):
                    factors((made,))[0].rejoined = True
            row[place] = next(iter(joined or same), row[place])
        out.append(row)
    return out


def _dot(settings: Any, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    (left, right), (left_batch, right_batch) = settings["dimension_numbers"]
    for a, b in (*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)):
        meet(dims[0][a], dims[1][b])
    free = lambda k, used: [d for place, d in enumerate(dims[k]) if place not in used]
    batch = [dims[0][a] for a in left_batch]
    return [[*batch, *free(0, (*left, *left_batch)), *free(1, (*right, *right_batch))]]


def _broadcast(settings: Any, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    out = _fresh(shapes[0])
    for place, dim in zip(settings["broadcast_dimensions"], dims[0], strict=True):
        if length(dim) == shapes[0][place]:
            out[place] = dim
    return [out]


def _reduce(settings: Any, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    return [[d for k, d in enumerate(dims[0]) if k not in settings["axes"]]] * len(shapes)


def _joined(settings: Any, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
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


def _where_whole(settings: Any, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
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


def _split(settings: Any, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    """Parts of a dimension: it is the product of their number and of their length, or, of unequal ones, their sum."""
    axis, sizes = settings["axis"], settings["sizes"]
    whole, starts = dims[0][axis], [0, *itertools.accumulate(sizes)]
    found = [_run_of(whole, start, size) for start, size in zip(starts, sizes, strict=False)]
    if None in found and len(set(sizes)) == 1:
        found = [_parts(whole, len(sizes))] * len(sizes)
    elif None in found and min(sizes) > 0:
        cut = Unknown(length(whole))
        cut.terms = tuple((Unknown(size),) for size in sizes)
        meet(whole, (cut,))
        found = [_run_of((cut,), start, size) for start, size in zip(starts, sizes, strict=False)]
    return [
        [*dims[0][:axis], part or (Unknown(shape[axis]),), *dims[0][axis + 1 :]]
        for part, shape in zip(found, shapes, strict=True)
    ]


def _unstacked(settings: Any, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    """The entries of a dimension, each a thing of its own."""
    axis = settings["axis"]
    _parts(dims[0][axis], len(shapes))
    return [[*dims[0][:axis], *dims[0][axis + 1 :]] for _ in shapes]


def _tiled(settings: Any, dims: list[Any], shapes: list[Any]) -> list[Any]:
    """A dimension put beside itself is so many copies of it."""
    out = _fresh(shapes[0])
    for place, (count, dim) in enumerate(zip(settings["reps"], dims[0], strict=True)):
        if count == 1:
            out[place] = dim
        else:
            out[place][0].copies = (count, dim)
    return [out]


def _slice(settings: Any, dims: list[Any], shapes: list[Any]) -> list[Any]:
    """A half, third or fourth of a dimension, cut where such parts meet, is taken for one of its equal parts."""
    out = []
    for dim, size, start in zip(dims[0], shapes[0], settings["start_indices"], strict=True):
        whole = length(dim)
        run = None if settings["strides"] else _run_of(dim, start, size)
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


def _convolution(settings: Any, dims: list[Tree], shapes: list[Tree]) -> list[Tree]:
    numbers = settings["dimension_numbers"]
    out = _fresh(shapes[0])
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


_LINEAR = ("add", "sub", "add_any", "neg", "div", "complex", "real", "imag", "conj", "convert_element_type", "copy")
_SCATTERS = ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-max", "scatter-min")
_MOVES = ("broadcast_in_dim", "reshape", "squeeze", "transpose", "concatenate", "slice", "expand_dims", "rev")
_CHOICES = ("argmax", "argmin", "top_k")
"""Primitives whose last output holds places of a dimension."""
_RULES = {
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
    "iota": lambda s, d, shapes: [_fresh(shapes[0])],
    **dict.fromkeys(("dynamic_slice", "pad", "dynamic_update_slice", "sort"), _where_whole),
    **dict.fromkeys(("reduce_window_sum", "reduce_window_max", "reduce_window_min"), _where_whole),
    **{
        f"reduce_{what}": _reduce
        for what in ("sum", "max", "min", "prod", "and", "or", "xor")
    },
    "argmax": _reduce,
    "argmin": _reduce,
}  # fmt: skip

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
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from quotax.declare.brought.primitive_dimensions import CHOICES, MOVES, RULES, elementwise
from quotax.declare.brought.unknowns import (
    Dims,
    Unknown,
    all_meet,
    factors,
    fresh,
    meet,
    take_copies_apart,
    undo_cuts,
)
from quotax.programs.jaxprs import CALLS, bare, shaped
from quotax.trees import Tree

_LINEAR = ("add", "sub", "add_any", "neg", "div", "complex", "real", "imag", "conj", "convert_element_type", "copy")
_SCATTERS = ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-max", "scatter-min")
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
        all_meet([first], [second])
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
        take_copies_apart([dim for dims in arguments for dim in dims])
        undo_cuts([dim for dims in arguments for dim in dims])

    def _run(self, jaxpr: Any, arguments: list[Any], sources: list[Sources]) -> tuple[list[Any], list[Any]]:
        known: dict[Any, Any] = {}
        made: dict[Any, Sources] = {}
        for variable in jaxpr.constvars:
            known[variable], made[variable] = fresh(getattr(variable.aval, "shape", ())), frozenset()
        known.update(zip(jaxpr.invars, arguments, strict=True))
        made.update(zip(jaxpr.invars, sources, strict=True))
        read = lambda atom: fresh(np.shape(atom.val)) if isinstance(atom, Literal) else known[atom]
        whose = lambda atom: frozenset() if isinstance(atom, Literal) else made[atom]
        for equation in jaxpr.eqns:
            dims, origin = [read(v) for v in equation.invars], [whose(v) for v in equation.invars]
            out, kept = self._step(equation, dims, origin)
            for variable, dim in zip(equation.outvars, out, strict=True):
                shape = getattr(variable.aval, "shape", ())
                known[variable] = dim if len(dim) == len(shape) else fresh(shape)
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
            all_meet(carry, out)
            return carry, kept
        if name == "cond":
            outs = [self._run(bare(branch), dims[1:], origin[1:])[0] for branch in settings["branches"]]
            for other in outs[1:]:
                all_meet(outs[0], other)
            return outs[0], kept
        if name == "gather":
            return [self._gather(equation, dims, origin)], [frozenset()]
        if name in CHOICES:
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
        rule = RULES.get(name)
        shapes = [shaped(v).shape for v in equation.outvars]
        if rule is not None:
            moved = kept if name in (*MOVES, *CHOICES) else [frozenset()] * len(kept)
            return rule(settings, dims, shapes), [a | b for a, b in zip(moved, _entries(equation, dims), strict=True)]
        if name not in CHOICES and not _mixes(name, origin):
            kept = [frozenset(source for source in together if isinstance(source, int))] * len(kept)
        return elementwise(dims, shapes, [v.aval.shape for v in equation.invars]), kept

    def _scan(self, settings: Any, dims: list[Tree], origin: list[Tree], kept: list[Tree]) -> list[Tree]:
        consts, carried = settings["num_consts"], settings["num_carry"]
        body = bare(settings["jaxpr"])
        across = dims[consts + carried :]
        for first, second in itertools.pairwise(across):
            meet(first[0], second[0])
        length = across[0][0] if across else (Unknown(settings["length"]),)
        out, _ = self._run(body, [*dims[: consts + carried], *(d[1:] for d in across)], origin)
        carry = dims[consts : consts + carried]
        all_meet(carry, out[:carried])
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

r"""A trace of whole arrays as a trace of their parts: what is done to all is done to each, and what takes one takes it.

A fused array is its parts along an axis, and most operations go through: $f([a, b]) = [f(a), f(b)]$ entry by entry,
$x [A, B] = [x A, x B]$, $[x, y] \binom{A}{B} = x A + y B$, and a reshape that keeps the parts whole is one of each.
A `split`, a `slice` or an index at the parts' borders then gives a part back as if it had never been with the others.
So the program is run again on values of which some are a `Concatenation`: a list of parts, and how they lie in their
axis. Where an operation mixes parts, or nothing is known of it, they are concatenated and it runs as it was.

Parameters may also be fused by the model itself, `x @ concatenate([Q, K, V])`: what it concatenates of parameters
alone, no input among it, is a list of parts from there on.

Every rule is an identity of arrays at these sizes, symbols or not, and knows no model. Sizes are compared with `==`,
which holds of symbols only where it holds for every size; what is not known to fit is concatenated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from quotax.artifacts import ArraySpec, Cut
from quotax.elementwise import FUNCTIONS
from quotax.interpret.tracing.provenance import written_at
from quotax.jaxprs import CALLS, IDENTITIES, as_closed, bare
from quotax.parts import groups, layout

_MOST = 64
"""Integers that are followed as positions, in one array."""


@dataclass(frozen=True)
class Concatenation:
    """An array by its parts: along `axis` it is `before * (lengths one after another) * after`."""

    shape: tuple[Any, ...]
    axis: int
    before: Any
    lengths: tuple[Any, ...]
    after: Any
    pieces: tuple[Any, ...]

    @property
    def total(self) -> Any:
        """How long the parts are together."""
        return sum(self.lengths)

    def like(self, pieces: Sequence[Any], axis: int) -> Concatenation:
        """Other parts that lie in the same way along an axis of theirs."""
        shape = list(_shape(pieces[0]))
        shape[axis] = self.before * self.total * self.after
        return replace(self, shape=tuple(shape), axis=axis, pieces=tuple(pieces))

    def alike(self, other: Concatenation) -> bool:
        """Whether another array's axis is divided in the same way."""
        return (
            len(other.lengths) == len(self.lengths)
            and bool(other.before == self.before and other.after == self.after)
            and all(a == b for a, b in zip(self.lengths, other.lengths, strict=True))
        )

    def borders(self) -> list[Any]:
        """Where parts begin, and where the last one ends."""
        return [sum(self.lengths[:i]) for i in range(len(self.lengths) + 1)]


@dataclass(frozen=True)
class Positions:
    """Integers that are known while tracing: positions, as numbers or as sizes that stay symbols."""

    value: Any
    known: np.ndarray


@dataclass(frozen=True)
class Operation:
    """A primitive with its settings."""

    primitive: Any
    params: Mapping[str, Any]

    @property
    def name(self) -> str:
        """JAX's name of it."""
        return self.primitive.name

    def but(self, **params: Any) -> Operation:
        """The same with other settings."""
        return Operation(self.primitive, {**self.params, **params})


def program_of_parts(closed: ClosedJaxpr, specs: Sequence[ArraySpec], sizes: Mapping[str, Any]) -> ClosedJaxpr:
    """The program whose first arguments are the arrays of `specs`, where those of `closed` are the arrays they make.

    A program that fuses nothing is returned as it is.
    """
    own = groups(specs)
    fused, apart = set(), set()
    kinds = [_WEIGHT if i < len(own) else _DATA for i in range(len(closed.jaxpr.invars))]
    _fusions(closed.jaxpr, kinds, fused, apart)
    if not (fused - apart or any(spec.cuts for spec in specs)):
        return closed
    kinds = [v.aval.dtype for v, members in zip(closed.jaxpr.invars, own.values(), strict=False) for _ in members]
    parts = [jax.ShapeDtypeStruct(spec.shape(sizes), kind) for spec, kind in zip(specs, kinds, strict=True)]
    rest = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars[len(own) :]]

    def run(*leaves: Any) -> list[Any]:
        given = iter(leaves)
        wholes = [_made([(spec.cuts, next(given)) for spec in members], sizes) for members in own.values()]
        return [whole(value) for value in _run(closed.jaxpr, closed.consts, [*wholes, *given])]

    token = _FUSED.set(frozenset(fused - apart))
    try:
        return jax.make_jaxpr(run)(*parts, *rest)
    finally:
        _FUSED.reset(token)


_CONSTANT, _WEIGHT, _DATA = range(3)
"""What a value is made of, at most: constants, parameters, inputs."""

_FUSED: ContextVar[frozenset[int]] = ContextVar("fused", default=frozenset())
"""The equations, by `id`, that concatenate parameters, in the program that is run."""


def _fusions(jaxpr: Jaxpr, kinds: Sequence[int], fused: set[int], apart: set[int]) -> list[int]:
    """The kinds of the outputs; `fused` and `apart` collect concatenations of parameters alone and all others."""
    known = dict.fromkeys(jaxpr.constvars, _CONSTANT) | dict(zip(jaxpr.invars, kinds, strict=True))
    read = lambda atom: _CONSTANT if isinstance(atom, Literal) else known[atom]
    for equation in jaxpr.eqns:
        name, own = equation.primitive.name, [read(atom) for atom in equation.invars]
        most = max(own, default=_CONSTANT)
        made = [most] * len(equation.outvars)
        if name in CALLS:
            made = _fusions(bare(equation.params[CALLS[name]]), own, fused, apart)
        elif name == "scan":
            held, carried = equation.params["num_consts"], equation.params["num_carry"]
            own[held : held + carried] = [_DATA] * carried
            made = _fusions(bare(equation.params["jaxpr"]), own, fused, apart)
            made[:carried] = [_DATA] * carried
        elif name in ("concatenate", "stack"):
            (fused if most == _WEIGHT and len(own) > 1 else apart).add(id(equation))
        known.update(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _fused(operation: Operation, arguments: Sequence[Any]) -> list[Any]:
    """Parameters that the model concatenates or stacks, as the parts of one value."""
    axis = operation.params["axis" if operation.name == "stack" else "dimension"]
    if operation.name == "stack":
        arguments = [_apply(lambda a: jnp.expand_dims(a, axis), a) for a in arguments]
    lengths = tuple(_shape(a)[axis] for a in arguments)
    return [Concatenation((), axis, 1, lengths, 1, ()).like(arguments, axis)]


def _made(members: Sequence[tuple[tuple[Cut, ...], Any]], sizes: Mapping[str, Any]) -> Any:
    """The value that the parts of one array make."""
    cuts, array = members[0]
    if not cuts:
        return array
    within: dict[int, list[Any]] = {}
    for own, value in members:
        within.setdefault(own[0].index, []).append((own[1:], value))
    pieces = [_made(own, sizes) for own in within.values()]
    cut, rank = cuts[0], len(_shape(pieces[0]))
    if cut.stacked:
        axis = rank + 1 + cut.axis
        pieces = [_apply(lambda a: jnp.expand_dims(a, axis), piece) for piece in pieces]
        return Concatenation((), axis, 1, (1,) * len(pieces), 1, ()).like(pieces, axis)
    before, lengths, after = layout(cut, sizes)
    return Concatenation((), 0, before, tuple(lengths), after, ()).like(pieces, rank + cut.axis)


# --- values


def _shape(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Concatenation):
        return value.shape
    return value.known.shape if isinstance(value, Positions) else np.shape(value)


def whole(value: Any) -> Any:
    """A value as one array."""
    if isinstance(value, Positions):
        return value.value
    if not isinstance(value, Concatenation):
        return value
    pieces = [jnp.asarray(whole(piece)) for piece in value.pieces]
    if value.before == 1:
        return jnp.concatenate(pieces, value.axis)
    at = value.axis
    opened = [
        p.reshape(*p.shape[:at], value.before, n, value.after, *p.shape[at + 1 :])
        for p, n in zip(pieces, value.lengths, strict=True)
    ]
    return jnp.concatenate(opened, at + 1).reshape(value.shape)


def segment(value: Any, frame: Concatenation, axis: int, number: int) -> Any:
    """What of an array meets this part of another along an axis."""
    if _shape(value)[axis] == 1:
        return value
    if isinstance(value, Concatenation):
        if value.axis == axis and frame.alike(value):
            return value.pieces[number]
        if value.axis != axis:
            return value.like([segment(piece, frame, axis, number) for piece in value.pieces], value.axis)
    array = jnp.asarray(whole(value))
    borders = frame.borders()
    start, stop = borders[number], borders[number + 1]
    if frame.before == 1:
        return jax.lax.slice_in_dim(array, start * frame.after, stop * frame.after, axis=axis)
    lead, trail = array.shape[:axis], array.shape[axis + 1 :]
    opened = array.reshape(*lead, frame.before, frame.total, frame.after, *trail)
    kept = jax.lax.slice_in_dim(opened, start, stop, axis=axis + 1)
    return kept.reshape(*lead, frame.before * (stop - start) * frame.after, *trail)


def part(value: Concatenation, start: Any, stop: Any, stride: Any = 1) -> Any:
    """What lies between two places of the divided axis, where these are borders of parts; None elsewhere."""
    if stride == 1 and start == 0 and stop == value.shape[value.axis]:
        return value
    borders = value.borders()
    if stride != 1:  # every n-th place of an axis in which n parts take turns
        turns = value.after == 1 and value.total == stride and all(n == 1 for n in value.lengths)
        places = [i for i in range(len(value.lengths)) if start == i]
        last = start + value.before * value.total - stride  # the last one that is taken
        return value.pieces[places[0]] if turns and places and _before(last, stop) else None
    if value.before != 1:
        return None
    first = [i for i, b in enumerate(borders) if b * value.after == start]
    last = [i for i, b in enumerate(borders) if b * value.after == stop]
    if not first or not last or not first[0] < last[-1]:
        return None
    kept = slice(first[0], last[-1])
    if last[-1] == first[0] + 1:
        return value.pieces[first[0]]
    return replace(value, lengths=value.lengths[kept]).like(value.pieces[kept], value.axis)


def _before(one: Any, other: Any) -> bool:
    """Whether one place comes before another for every size; an order that sizes leave open raises in JAX."""
    try:
        return bool(one < other)
    except Exception:
        return False


def _quotient(a: Any, b: Any) -> Any:
    """`a / b` where that is a size, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    found = a // b
    return found if found * b == a else None


def _apply(function: Callable[..., Any], value: Any) -> Any:
    """A JAX function of one array on a value, equation by equation."""
    if not isinstance(value, Concatenation):
        return function(whole(value))
    closed = jax.make_jaxpr(function)(jax.ShapeDtypeStruct(value.shape, _dtype(value)))
    return _run(closed.jaxpr, closed.consts, [value])[0]


def _dtype(value: Any) -> Any:
    return _dtype(value.pieces[0]) if isinstance(value, Concatenation) else jnp.result_type(whole(value))


# --- running


def _run(jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    values: dict[Any, Any] = {}

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    values.update(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    for equation in jaxpr.eqns:
        operation, given = Operation(equation.primitive, equation.params), [read(atom) for atom in equation.invars]
        with written_at(equation):
            made = _fused(operation, given) if id(equation) in _FUSED.get() else step(operation, given)
        values.update(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def step(operation: Operation, arguments: Sequence[Any]) -> list[Any]:
    """The outputs of one operation on values."""
    if operation.name in CALLS:
        body = as_closed(operation.params[CALLS[operation.name]])
        return _run(body.jaxpr, body.consts, arguments)
    looks = operation.name == "scan" and bool(_FUSED.get())  # its body may concatenate parameters
    if looks or any(isinstance(a, Concatenation) for a in arguments):
        rule = _RULES.get(operation.name)
        made = rule(operation, list(arguments)) if rule is not None else None
        if made is not None:
            return made
    return _as_it_was(operation, arguments)


def _as_it_was(operation: Operation, arguments: Sequence[Any]) -> list[Any]:
    primitive = operation.primitive
    made = primitive.bind(*map(whole, arguments), **operation.params)
    made = list(made) if primitive.multiple_results else [made]
    known = _known(operation, arguments)
    return made if known is None else [Positions(made[0], known)]


def _each(operation: Operation, frame: Concatenation, axis: int, pieces: Sequence[Sequence[Any]]) -> list[Any]:
    """The operation on the arguments of every part, joined along an axis of the outputs."""
    made = [step(operation, arguments) for arguments in pieces]
    return [frame.like(outputs, axis) for outputs in zip(*made, strict=True)]


def _only(arguments: Sequence[Any]) -> Concatenation | None:
    """The first argument where it is the only one that is joined."""
    first, *others = arguments
    return first if isinstance(first, Concatenation) and not any(isinstance(a, Concatenation) for a in others) else None


# --- rules


Rule = Callable[[Operation, list[Any]], list[Any] | None]


def _entrywise(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    frame = next(a for a in arguments if isinstance(a, Concatenation))
    pieces = []
    for number in range(len(frame.pieces)):
        of = lambda a, n=number: a if _shape(a) == () else segment(a, frame, frame.axis, n)
        pieces.append([of(a) for a in arguments])
    return _each(operation, frame, frame.axis, pieces)


def _identity(operation: Operation, arguments: list[Any]) -> list[Any]:
    return arguments


def _broadcast(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    value = _only(arguments)
    if value is None or len(arguments) > 1:
        return None
    shape, places = list(operation.params["shape"]), operation.params["broadcast_dimensions"]
    axis, made = places[value.axis], []
    for piece in value.pieces:
        shape[axis] = _shape(piece)[value.axis]
        made.append(step(operation.but(shape=tuple(shape)), [piece])[0])
    return [value.like(made, axis)]


def _reshape(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    value, sizes = _only(arguments), tuple(operation.params["new_sizes"])
    if value is None or len(arguments) > 1 or operation.params.get("dimensions") is not None:
        return None
    slower = math.prod(value.shape[: value.axis]) * value.before
    faster = value.after * math.prod(value.shape[value.axis + 1 :])
    for axis in range(len(sizes)):
        before = _quotient(slower, math.prod(sizes[:axis]))
        after = _quotient(faster, math.prod(sizes[axis + 1 :]))
        if before is None or after is None or before * value.total * after != sizes[axis]:
            continue
        made = []
        for piece, length in zip(value.pieces, value.lengths, strict=True):
            shape = (*sizes[:axis], before * length * after, *sizes[axis + 1 :])
            made.append(step(operation.but(new_sizes=shape), [piece])[0])
        return [replace(value, before=before, after=after).like(made, axis)]
    return None


def _transpose(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    (value,) = arguments
    axis = tuple(operation.params["permutation"]).index(value.axis)
    return _each(operation, value, axis, [[piece] for piece in value.pieces])


def _squeeze(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    (value,), gone = arguments, operation.params["dimensions"]
    if value.axis in gone:
        return None
    axis = value.axis - sum(d < value.axis for d in gone)
    return _each(operation, value, axis, [[piece] for piece in value.pieces])


def _slice(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    (value,), params = arguments, operation.params
    starts, stops = list(params["start_indices"]), list(params["limit_indices"])
    strides = list(params["strides"] or (1,) * len(starts))
    axis = value.axis
    kept = part(value, starts[axis], stops[axis], strides[axis])
    if kept is None:
        return None
    starts[axis], strides[axis] = 0, 1

    def rest(piece: Any) -> Any:
        if isinstance(piece, Concatenation) and piece.axis == axis:
            return piece.like([rest(p) for p in piece.pieces], axis)
        stops[axis] = _shape(piece)[axis]
        if all(a == 0 and b == n and s == 1 for a, b, n, s in zip(starts, stops, _shape(piece), strides, strict=True)):
            return piece
        own = {"start_indices": tuple(starts), "limit_indices": tuple(stops), "strides": tuple(strides)}
        return step(operation.but(**own), [piece])[0]

    return [rest(kept)]


def _split(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    (value,), axis, sizes = arguments, operation.params["axis"], operation.params["sizes"]
    if axis != value.axis:
        return _each(operation, value, value.axis, [[piece] for piece in value.pieces])
    made = [part(value, sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(len(sizes))]
    return None if any(m is None for m in made) else made


def _unstack(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    (value,), axis = arguments, operation.params["axis"]
    if axis != value.axis:
        return _each(operation, value, value.axis - (axis < value.axis), [[piece] for piece in value.pieces])
    if not (value.before == 1 and value.after == 1 and all(n == 1 for n in value.lengths)):
        return None
    return [_apply(lambda a: jnp.squeeze(a, axis), piece) for piece in value.pieces]


def _gather(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    value, indices = _only(arguments), arguments[1]
    if value is None:
        return None
    numbers, axis = operation.params["dimension_numbers"], value.axis
    if numbers.operand_batching_dims:
        return None
    sizes, mapped, collapsed = operation.params["slice_sizes"], numbers.start_index_map, numbers.collapsed_slice_dims
    offset = [d for d in range(len(sizes)) if d not in collapsed]
    if axis not in mapped:  # rows of all parts
        if axis in collapsed or sizes[axis] != value.shape[axis]:
            return None
        made = []
        for piece in value.pieces:
            own = (*sizes[:axis], _shape(piece)[axis], *sizes[axis + 1 :])
            made.append(step(operation.but(slice_sizes=own), [piece, indices])[0])
        return [value.like(made, numbers.offset_dims[offset.index(axis)])]
    starts = _numbers(indices)
    if starts is None or starts.shape != (len(mapped),) or len(numbers.offset_dims) != len(offset):
        return None
    others = [d for d in mapped if d != axis]
    if any(not (starts[mapped.index(d)] == 0 and sizes[d] == value.shape[d]) for d in others):
        return None
    start = starts[mapped.index(axis)]
    kept = part(value, start, start + sizes[axis])
    if kept is None or (axis in collapsed and isinstance(kept, Concatenation) and kept.axis == axis):
        return None
    return [_apply(lambda a: jnp.squeeze(a, tuple(collapsed)), kept) if collapsed else kept]


def _dynamic_slice(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    value = _only(arguments)
    if value is None:
        return None
    sizes, axis = operation.params["slice_sizes"], value.axis
    start = _numbers(arguments[1 + axis])
    kept = None if start is None else part(value, start[()], start[()] + sizes[axis])
    if kept is None:
        return None
    zero = jnp.zeros((), _dtype(arguments[1 + axis]))
    starts = [*arguments[1 : 1 + axis], zero, *arguments[2 + axis :]]

    def rest(piece: Any) -> Any:
        if isinstance(piece, Concatenation) and piece.axis == axis:
            return piece.like([rest(p) for p in piece.pieces], axis)
        own = (*sizes[:axis], _shape(piece)[axis], *sizes[axis + 1 :])
        return step(operation.but(slice_sizes=own), [piece, *starts])[0]

    return [rest(kept)]


def _dot(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    (contracted, batched) = operation.params["dimension_numbers"]
    side = 0 if isinstance(arguments[0], Concatenation) else 1
    frame = arguments[side]
    own, other = (contracted[side], contracted[1 - side]), (batched[side], batched[1 - side])
    pair = lambda a, b: [a, b] if side == 0 else [b, a]
    for mine, theirs in (own, other):
        if frame.axis in mine:
            meets = theirs[tuple(mine).index(frame.axis)]
            cut = [segment(arguments[1 - side], frame, meets, i) for i in range(len(frame.pieces))]
            pieces = [pair(a, b) for a, b in zip(frame.pieces, cut, strict=True)]
            if mine is other[0]:
                return _each(operation, frame, tuple(mine).index(frame.axis), pieces)
            return [_sum([step(operation, one)[0] for one in pieces])]
    free = [d for d in range(len(frame.shape)) if d not in own[0] and d not in other[0]]
    before = len(batched[0]) if side == 0 else len(_shape(arguments[0])) - len(contracted[0])
    return _each(
        operation, frame, before + free.index(frame.axis), [pair(p, arguments[1 - side]) for p in frame.pieces]
    )


def _sum(values: Sequence[Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total = step(Operation(jax.lax.add_p, {}), [total, value])[0]
    return total


def _reduction(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    (value,), gone = arguments, operation.params["axes"]
    if value.axis not in gone:
        axis = value.axis - sum(d < value.axis for d in gone)
        return _each(operation, value, axis, [[piece] for piece in value.pieces])
    if operation.name != "reduce_sum":
        return None
    return [_sum([step(operation, [piece])[0] for piece in value.pieces])]


def _along(setting: str) -> Rule:
    """An operation along one axis, or some, on parts of another."""

    def rule(operation: Operation, arguments: list[Any]) -> list[Any] | None:
        value, axes = arguments[0], operation.params[setting]
        if len(arguments) > 1 or value.axis in np.ravel(axes):
            return None
        return _each(operation, value, value.axis, [[piece] for piece in value.pieces])

    return rule


def _concatenate(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    frame = next(a for a in arguments if isinstance(a, Concatenation))
    if frame.axis == operation.params["dimension"]:
        return None
    numbers = range(len(frame.pieces))
    return _each(operation, frame, frame.axis, [[segment(a, frame, frame.axis, n) for a in arguments] for n in numbers])


def _convolution(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    """Parts of a kernel's outputs."""
    image, kernel = arguments
    params = operation.params
    if isinstance(image, Concatenation) or params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return None
    numbers = params["dimension_numbers"]
    if kernel.axis != numbers.rhs_spec[0]:
        return None
    return _each(operation, kernel, numbers.out_spec[1], [[image, piece] for piece in kernel.pieces])


def _scan(operation: Operation, arguments: list[Any]) -> list[Any] | None:
    params = operation.params
    held, carried, body = params["num_consts"], params["num_carry"], params["jaxpr"]
    consts, start, xs = arguments[:held], arguments[held : held + carried], arguments[held + carried :]
    xs = [whole(x) if isinstance(x, Concatenation) and x.axis == 0 else x for x in xs]
    made: list[Any] = []

    def turn(carry: Any, leaves: Any) -> Any:
        given = iter(leaves)
        now = [_rebuilt(x, given, 1) for x in xs]
        found = _run(body.jaxpr, body.consts, [*consts, *carry, *now])
        made[:] = found[carried:]
        return [whole(v) for v in found[:carried]], [leaf for y in found[carried:] for leaf in _leaves(y)]

    arrays = [leaf for x in xs for leaf in _leaves(x)]
    settings = {key: params[key] for key in ("reverse", "unroll", "_split_transpose") if key in params}
    settings |= {} if arrays else {"length": params["length"]}  # which is no symbol then
    kinds = [v.aval.dtype for v in body.jaxpr.invars[held : held + carried]]
    begin = [jnp.asarray(whole(v), kind) for v, kind in zip(start, kinds, strict=True)]
    last, leaves = jax.lax.scan(turn, begin, arrays, **settings)
    given = iter(leaves)
    return [*last, *(_rebuilt(y, given, -1) for y in made)]


def _leaves(value: Any) -> list[Any]:
    return (
        [leaf for piece in value.pieces for leaf in _leaves(piece)]
        if isinstance(value, Concatenation)
        else [whole(value)]
    )


def _rebuilt(value: Any, leaves: Iterator[Any], fewer: int) -> Any:
    """A value like this one of these arrays, which have one axis less in front, or one more."""
    if not isinstance(value, Concatenation):
        return next(leaves)
    pieces = [_rebuilt(piece, leaves, fewer) for piece in value.pieces]
    return value.like(pieces, value.axis - fewer)


_ENTRYWISE = (
    *("add", "add_any", "sub", "mul", "max", "min", "neg", "div", "rem", "abs", "sign", "floor", "ceil", "round"),
    *("clamp", "convert_element_type", "square", "integer_pow", "pow", "sqrt", "rsqrt", "cbrt", "exp", "log", "atan2"),
    *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "is_finite", "select_n", "reduce_precision"),
    *FUNCTIONS,
)

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ENTRYWISE, _entrywise),
    **dict.fromkeys(IDENTITIES, _identity),
    **dict.fromkeys(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"), _reduction),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), _along("axis")),
    "rev": _along("dimensions"),
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "squeeze": _squeeze,
    "slice": _slice,
    "split": _split,
    "unstack": _unstack,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dot_general": _dot,
    "concatenate": _concatenate,
    "conv_general_dilated": _convolution,
    "scan": _scan,
}


# --- positions


def _numbers(value: Any) -> np.ndarray | None:
    """An array of integers as it is known while tracing, or None."""
    if isinstance(value, Positions):
        return value.known
    if isinstance(value, (Concatenation, Tracer)) or not jnp.issubdtype(jnp.result_type(value), jnp.integer):
        return None
    return np.asarray(value).astype(object) if np.size(value) <= _MOST else None


def _known(operation: Operation, arguments: Sequence[Any]) -> np.ndarray | None:
    """What an operation makes of positions."""
    function, params = _ON_PLACES.get(operation.name), operation.params
    if operation.name == "dim_as_value":
        return _scalar(params["dim"])
    if operation.name == "convert_element_type" and not jnp.issubdtype(params["new_dtype"], jnp.integer):
        return None
    found = [_numbers(a) for a in arguments]
    if function is None or not found or any(f is None for f in found):
        return None
    try:
        return np.asarray(function(params, *found), dtype=object)
    except Exception:  # an order that sizes leave open, a shape that is a symbol
        return None


def _scalar(value: Any) -> np.ndarray:
    out = np.empty((), object)
    out[()] = value
    return out


def _spread(params: Mapping[str, Any], value: np.ndarray) -> np.ndarray:
    shape = params["shape"]
    if math.prod(shape) > _MOST:
        raise ValueError
    opened = [1] * len(shape)
    for axis, length in zip(params["broadcast_dimensions"], value.shape, strict=True):
        opened[axis] = length
    return np.broadcast_to(value.reshape(opened), shape)


_ON_PLACES: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": _spread,
    "convert_element_type": lambda params, a: a,
    "reshape": lambda params, a: a.reshape(params["new_sizes"]),
    "squeeze": lambda params, a: a.squeeze(tuple(params["dimensions"])),
    "concatenate": lambda params, *all_: np.concatenate(all_, params["dimension"]),
    "add": lambda params, a, b: a + b,
    "sub": lambda params, a, b: a - b,
    "mul": lambda params, a, b: a * b,
    "neg": lambda params, a: -a,
    "lt": lambda params, a, b: a < b,
    "select_n": lambda params, which, *cases: np.choose(which.astype(int), cases),
}

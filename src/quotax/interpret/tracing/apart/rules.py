"""Operations that compute, on values by their parts; and the table of all rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from quotax.elementwise import FUNCTIONS
from quotax.interpret.tracing.apart.concatenation import Concatenation, Divided, segment, shape_of, whole
from quotax.interpret.tracing.apart.moved_parts import MOVES
from quotax.interpret.tracing.apart.stepping import RULES, Operation, Rule, each, run, step
from quotax.programs.jaxprs import IDENTITIES
from quotax.trees import AnyArray


def _entrywise(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    frame = next(a for a in arguments if isinstance(a, Concatenation))
    pieces = []
    for number in range(len(frame.pieces)):
        of = lambda a, n=number: a if shape_of(a) == () else segment(a, frame, frame.axis, n)
        pieces.append([of(a) for a in arguments])
    return each(operation, frame, frame.axis, pieces)


def _dot(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
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
                return each(operation, frame, tuple(mine).index(frame.axis), pieces)
            return [_sum([step(operation, one)[0] for one in pieces])]
    free = [d for d in range(len(frame.shape)) if d not in own[0] and d not in other[0]]
    before = len(batched[0]) if side == 0 else len(shape_of(arguments[0])) - len(contracted[0])
    return each(operation, frame, before + free.index(frame.axis), [pair(p, arguments[1 - side]) for p in frame.pieces])


def _sum(values: Sequence[Divided]) -> Divided:
    total = values[0]
    for value in values[1:]:
        total = step(Operation(jax.lax.add_p, {}), [total, value])[0]
    return total


def _reduction(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    (value,), gone = arguments, operation.params["axes"]
    if value.axis not in gone:
        axis = value.axis - sum(d < value.axis for d in gone)
        return each(operation, value, axis, [[piece] for piece in value.pieces])
    if operation.name != "reduce_sum":
        return None
    return [_sum([step(operation, [piece])[0] for piece in value.pieces])]


def _along(setting: str) -> Rule:
    """An operation along one axis, or some, on parts of another."""

    def rule(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
        value, axes = arguments[0], operation.params[setting]
        if len(arguments) > 1 or value.axis in np.ravel(axes):
            return None
        return each(operation, value, value.axis, [[piece] for piece in value.pieces])

    return rule


def _convolution(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    """Parts of a kernel's outputs."""
    image, kernel = arguments
    params = operation.params
    if isinstance(image, Concatenation) or params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return None
    numbers = params["dimension_numbers"]
    if kernel.axis != numbers.rhs_spec[0]:
        return None
    return each(operation, kernel, numbers.out_spec[1], [[image, piece] for piece in kernel.pieces])


def _scan(operation: Operation, arguments: list[Divided]) -> list[Divided] | None:
    params = operation.params
    held, carried, body = params["num_consts"], params["num_carry"], params["jaxpr"]
    consts, start, xs = arguments[:held], arguments[held : held + carried], arguments[held + carried :]
    xs = [whole(x) if isinstance(x, Concatenation) and x.axis == 0 else x for x in xs]
    made: list[Divided] = []

    def turn(carry: list[AnyArray], leaves: list[AnyArray]) -> Divided:
        given = iter(leaves)
        now = [_rebuilt(x, given, 1) for x in xs]
        found = run(body.jaxpr, body.consts, [*consts, *carry, *now])
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


def _leaves(value: Divided) -> list[Divided]:
    return (
        [leaf for piece in value.pieces for leaf in _leaves(piece)]
        if isinstance(value, Concatenation)
        else [whole(value)]
    )


def _rebuilt(value: Divided, leaves: Iterator[AnyArray], fewer: int) -> Divided:
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

RULES |= {
    **MOVES,
    **dict.fromkeys(_ENTRYWISE, _entrywise),
    **dict.fromkeys(IDENTITIES, lambda operation, arguments: arguments),
    **dict.fromkeys(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"), _reduction),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), _along("axis")),
    "rev": _along("dimensions"),
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "scan": _scan,
}

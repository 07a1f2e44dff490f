"""Programs run again on values of which some are a concatenation of parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, Literal, Primitive, Var

from quotax.interpret.tracing.apart.concatenation import Concatenation, Divided, Positions, dtype_of, shape_of, whole
from quotax.interpret.tracing.apart.known_positions import known
from quotax.interpret.tracing.provenance import written_at
from quotax.programs.jaxprs import CALLS, Atom, Setting, Settings, as_closed
from quotax.trees import AnyArray


@dataclass(frozen=True)
class Operation:
    """A primitive with its settings."""

    primitive: Primitive
    params: Settings

    @property
    def name(self) -> str:
        """JAX's name of it."""
        return self.primitive.name

    def but(self, **params: Setting) -> Operation:
        """The same with other settings."""
        return Operation(self.primitive, {**self.params, **params})


Rule = Callable[[Operation, list[Divided]], list[Divided] | None]
"""What an operation makes of values, some of them by their parts; nothing where they must be joined first."""

RULES: dict[str, Rule] = {}
"""By the names of primitives; `rules` fills it."""

FUSED: ContextVar[frozenset[int]] = ContextVar("fused", default=frozenset())
"""The equations, by `id`, that concatenate parameters, in the program that is run."""


def run(jaxpr: Jaxpr, consts: Sequence[AnyArray], arguments: Sequence[Divided]) -> list[Divided]:
    """The outputs of a program on values."""
    values: dict[Var, Divided] = {}

    def read(atom: Atom) -> Divided:
        return atom.val if isinstance(atom, Literal) else values[atom]

    values.update(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    for equation in jaxpr.eqns:
        operation, given = Operation(equation.primitive, equation.params), [read(atom) for atom in equation.invars]
        with written_at(equation):
            made = fused_parameters(operation, given) if id(equation) in FUSED.get() else step(operation, given)
        values.update(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def step(operation: Operation, arguments: Sequence[Divided]) -> list[Divided]:
    """The outputs of one operation on values."""
    if operation.name in CALLS:
        body = as_closed(operation.params[CALLS[operation.name]])
        return run(body.jaxpr, body.consts, arguments)
    looks = operation.name == "scan" and bool(FUSED.get())  # its body may concatenate parameters
    if looks or any(isinstance(a, Concatenation) for a in arguments):
        rule = RULES.get(operation.name)
        made = rule(operation, list(arguments)) if rule is not None else None
        if made is not None:
            return made
    return _as_it_was(operation, arguments)


def _as_it_was(operation: Operation, arguments: Sequence[Divided]) -> list[Divided]:
    primitive = operation.primitive
    made = primitive.bind(*map(whole, arguments), **operation.params)
    made = list(made) if primitive.multiple_results else [made]
    positions = known(operation.name, operation.params, arguments)
    return made if positions is None else [Positions(made[0], positions)]


def applied(function: Callable[..., AnyArray], value: Divided) -> Divided:
    """A JAX function of one array on a value, equation by equation."""
    if not isinstance(value, Concatenation):
        return function(whole(value))
    closed = jax.make_jaxpr(function)(jax.ShapeDtypeStruct(value.shape, dtype_of(value)))
    return run(closed.jaxpr, closed.consts, [value])[0]


def fused_parameters(operation: Operation, arguments: Sequence[Divided]) -> list[Divided]:
    """Parameters that the model concatenates or stacks, as the parts of one value."""
    axis = operation.params["axis" if operation.name == "stack" else "dimension"]
    if operation.name == "stack":
        arguments = [applied(lambda a: jnp.expand_dims(a, axis), a) for a in arguments]
    lengths = tuple(shape_of(a)[axis] for a in arguments)
    return [Concatenation((), axis, 1, lengths, 1, ()).like(arguments, axis)]


def each(operation: Operation, frame: Concatenation, axis: int, pieces: Sequence[Sequence[Divided]]) -> list[Divided]:
    """The operation on the arguments of every part, joined along an axis of the outputs."""
    made = [step(operation, arguments) for arguments in pieces]
    return [frame.like(outputs, axis) for outputs in zip(*made, strict=True)]


def only(arguments: Sequence[Divided]) -> Concatenation | None:
    """The first argument where it is the only one that is joined."""
    first, *others = arguments
    return first if isinstance(first, Concatenation) and not any(isinstance(a, Concatenation) for a in others) else None

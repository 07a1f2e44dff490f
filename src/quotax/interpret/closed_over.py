"""Arrays of numbers that a model closes over, running statistics, handed in beside its parameters.

A claim about the model that is handed them is one for whatever numbers they hold, so it holds of those that the model
has. What follows from numbers alone, `rsqrt(var + eps)`, is an array of numbers too; where it is only moved about
(broadcast, reshaped), it is the array that it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, Var

from quotax.artifacts import ArraySpec, HeldArray, Model, OpenTrace, Trace
from quotax.interpret.constants import simplest_rational
from quotax.interpret.domain import AnyValue
from quotax.interpret.shared.folding import fold
from quotax.programs.jaxprs import CALLS, IDENTITIES, as_closed, is_key, needed

_MOVES = frozenset((*IDENTITIES, "broadcast_in_dim", "reshape", "squeeze"))
"""Primitives that say the same numbers in another shape."""


LONGEST = 64
"""Fractions with a larger numerator or denominator stand for other numbers."""


class _Held(NamedTuple):
    """A variable that holds numbers alone, and these without dimensions of size one."""

    variable: Any
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class Handed:
    """A model that is handed these arrays after its parameters; nothing but numbers differs.

    Where they are `settled` they are what they were: constants of the model, in float64.
    """

    of: Model
    held: tuple[HeldArray, ...]
    settled: bool = False

    @property
    def name(self) -> str:
        """That of the model."""
        return self.of.name

    @property
    def params(self) -> tuple[ArraySpec, ...]:
        """Its parameters, then the arrays."""
        return self.of.params if self.settled else (*self.of.params, *(one.spec for one in self.held))

    @property
    def inputs(self) -> tuple[ArraySpec, ...]:
        """Those of the model."""
        return self.of.inputs

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Those of the model."""
        return self.of.axis_names

    @property
    def fixed(self) -> Mapping[str, int | str]:
        """Those of the model, and those along which it has numbers."""
        pairs = [(f, n) for one in self.held for f, n in zip(one.spec.factors, one.shape, strict=True)]
        return {**self.of.fixed, **{f: n for f, n in pairs if self.settled and isinstance(f, str)}}

    @property
    def own(self) -> Any:
        """The sizes of the parameters that it was brought with, if it was."""
        return getattr(self.of, "own", None)

    def trace(self, sizes: Mapping[str, int]) -> Trace:
        """The model's jaxpr at these sizes, with more arguments."""
        return _handed(self.of.trace(sizes), self.held, self.settled)

    def open(self, axes: Mapping[str, int | str]) -> OpenTrace:
        """The model's jaxpr at sizes some of which stay symbols, with more arguments."""
        return _handed(self.of.open(axes), self.held, self.settled)


_KEPT: dict[tuple[int, tuple[HeldArray, ...], bool], Handed] = {}
"""The last ones, by the identity of the model: several claims are made about one, and it is written out once."""


def handed_over(model: Model, held: tuple[HeldArray, ...], settled: bool = False) -> Handed:
    """The model that is handed these arrays."""
    key = id(model), held, settled
    if key not in _KEPT or _KEPT[key].of is not model:
        while len(_KEPT) >= 8:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[key] = Handed(model, held, settled)
    return _KEPT[key]


def closed_over(trace: Trace) -> list[np.ndarray]:
    """The arrays of numbers that something of the parameters or inputs meets, in the order in which it does.

    What is made of zeros and ones alone, a mask, is none; nor is what is infinite somewhere. Of single numbers it is
    those that multiply, and are no small fractions.
    """
    found: dict[bytes, np.ndarray] = {}
    for one in _held(_opened(trace)):
        found.setdefault(one.values.tobytes(), one.values)
    return [a for a in found.values() if np.isfinite(a).all() and not np.isin(a, (-1, 0, 1)).all()]


def _held(closed: Any) -> Iterator[_Held]:
    """The variables that hold numbers alone and are met by what does not, as they were before they were moved about."""
    jaxpr, values, origin = closed.jaxpr, dict[Any, Any](), dict[Any, Any]()
    for variable, value in zip(jaxpr.constvars, closed.consts, strict=True):
        if not is_key(value):
            values[variable] = np.asarray(value)
    alone = set(values)
    """What may be handed in without anything else being lost that one equation makes."""
    seen: dict[Any, None] = {}
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        for equation in jaxpr.eqns:
            known = [isinstance(a, Literal) or a in values for a in equation.invars]
            plain = all(isinstance(n, int) for v in equation.outvars for n in v.aval.shape)
            if known and all(known) and plain and not any(map(is_key, equation.outvars)) and not equation.effects:
                given = [np.asarray(a.val) if isinstance(a, Literal) else values[a] for a in equation.invars]
                try:
                    made = fold(equation.primitive, equation, given)
                except Exception:  # whatever JAX says of what it cannot compute outside of a program
                    made = []
                values.update(zip(equation.outvars, made, strict=False))
                alone |= set(equation.outvars if len(equation.outvars) == 1 else ())
                if equation.primitive.name in _MOVES and made and not isinstance(equation.invars[0], Literal):
                    (out,), source = equation.outvars, equation.invars[0]
                    origin[out] = origin.get(source, source)
                continue
            met = [a for a, sure in zip(equation.invars, known, strict=True) if sure and not isinstance(a, Literal)]
            factors = equation.primitive.name in ("mul", "div")
            seen |= dict.fromkeys(o for v in met if values[o := origin.get(v, v)].size > 1 or factors)
    for variable in seen:
        array = np.asarray(values[variable])
        if array.dtype != np.float64 or variable not in alone or not array.size:
            continue
        if (array == array.flat[0]).all():  # one number, however often it stands there
            if _arbitrary(array):
                yield _Held(variable, array.reshape(-1)[0].reshape(()))
        else:
            yield _Held(variable, array.reshape([n for n in array.shape if n != 1]))


def _opened(trace: Trace | OpenTrace) -> ClosedJaxpr:
    """The program with the bodies of its calls in their place, and with its numbers among its constants.

    Numbers that are floats of a size stay where they are.
    """
    closed, sized = trace.jaxpr, getattr(trace, "numbers", {})
    jaxpr, constants = closed.jaxpr, dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    equations: list[Any] = []
    numbers: dict[float, Any] = {}

    def number(atom: Literal) -> Any:
        value = np.asarray(atom.val)
        if value.shape or value.dtype != np.float64 or id(atom) in sized or not _arbitrary(value):
            return atom
        variable = numbers.setdefault(float(value), Var(atom.aval))
        constants.setdefault(variable, value)
        return variable

    def run(body: Any, given: Sequence[Any], fresh: bool) -> list[AnyValue]:
        own = dict(zip(body.invars, given, strict=True))
        read = lambda atom: atom if isinstance(atom, Literal) else own.get(atom, atom)
        for equation in body.eqns:
            inside = [read(atom) for atom in equation.invars]
            if _is_call(equation):
                called = as_closed(equation.params[CALLS[equation.primitive.name]])
                renamed = {v: Var(v.aval) for v in called.jaxpr.constvars}
                constants.update(zip(renamed.values(), called.consts, strict=True))
                inner = called.jaxpr.replace(invars=[*called.jaxpr.constvars, *called.jaxpr.invars], constvars=[])
                own.update(zip(equation.outvars, run(inner, [*renamed.values(), *inside], True), strict=True))
                continue
            inside = [number(atom) if isinstance(atom, Literal) else atom for atom in inside]
            outside = [Var(v.aval) if fresh else v for v in equation.outvars]
            own.update(zip(equation.outvars, outside, strict=True))
            equations.append(equation.replace(invars=inside, outvars=outside))
        return [read(atom) for atom in body.outvars]

    outputs = run(jaxpr, jaxpr.invars, False)
    whole = jaxpr.replace(
        constvars=list(constants), eqns=equations, outvars=outputs,
        debug_info=jaxpr.debug_info._replace(result_paths=None),
    )  # fmt: skip
    return ClosedJaxpr(whole, list(constants.values()))


def _arbitrary(value: np.ndarray) -> bool:
    """Whether one number is no small fraction: a root, a mean that was measured."""
    number = value.reshape(-1)[0]
    exact = simplest_rational(float(number)) if np.isfinite(number) else Fraction(0)
    return max(abs(exact.numerator), exact.denominator) > LONGEST


def _is_call(equation: Any) -> bool:
    return equation.primitive.name in ("jit", "closed_call", "call")


def _handed(trace: Any, held: Sequence[HeldArray], settled: bool) -> Any:
    """The trace with these arrays among its arguments, or its constants; an array that it does not hold is not read."""
    closed = _opened(trace)
    own: dict[Any, list[Any]] = {one: [] for one in held}
    for found in _held(closed):
        for one in held:
            if one.shape == found.values.shape and one.data == found.values.tobytes():
                own[one].append(found.variable)
    jaxpr, handed, first = closed.jaxpr, [], []
    replaced = {variable for variables in own.values() for variable in variables}
    for one, variables in own.items():
        argument = None if variables else _reshaped(one.shape, one.shape).invars[0]
        for variable in variables:
            made = _reshaped(one.shape, variable.aval.shape)
            argument = argument or made.invars[0]
            first += [e.replace(invars=[argument], outvars=[variable]) for e in made.eqns]
        handed.append(argument)
    constants = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True) if v not in replaced]
    equations = [e for e in jaxpr.eqns if not replaced.intersection(e.outvars)]
    at, specs = len(trace.params), tuple(one.spec for one in held)
    if settled:
        constants += [(v, one.values) for v, one in zip(handed, held, strict=True)]
        handed, specs = [], ()
    other = jaxpr.replace(
        constvars=[v for v, _ in constants],
        invars=[*jaxpr.invars[:at], *handed, *jaxpr.invars[at:]],
        eqns=[*first, *equations],
        debug_info=jaxpr.debug_info._replace(arg_names=None, result_paths=None),
    )
    program = needed(ClosedJaxpr(other, [c for _, c in constants]))
    changes: dict[str, Any] = {"jaxpr": program, "params": (*trace.params, *specs)}
    return replace(trace, **changes, **({"_written": None} if isinstance(trace, Trace) else {}))


def _reshaped(shape: tuple[int, ...], wanted: tuple[int, ...]) -> Any:
    """The equation that says an array in another shape, or a number in any."""
    if shape == wanted:
        said: Any = lambda a: jnp.array(a, copy=True)
    else:
        said = lambda a: jax.lax.broadcast(a, wanted) if not shape else jax.lax.reshape(a, wanted)
    with jax.enable_x64(True):
        return jax.make_jaxpr(said)(jax.ShapeDtypeStruct(shape, jnp.float64)).jaxpr

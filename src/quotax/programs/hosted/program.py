"""A jaxpr whose equations are called one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

from quotax.programs.hosted.control_flow import CONTROL
from quotax.programs.hosted.kernels import KERNELS
from quotax.programs.hosted.makers import Kernel, Unhosted
from quotax.programs.jaxprs import CALLS, Atom, as_closed, live, needed, shaped
from quotax.trees import AnyArray

_LARGEST = 2**23
"""Arrays of more numbers are worth compiling for."""

_BRIEF = 100
"""NumPy makes so many calls while a compiled program is called and waited for."""


class Call(NamedTuple):
    """A call: where its arguments are, where its outputs go and of what types, whether it returns one by itself.

    And whether it is a loop, which is many calls.
    """

    run: Kernel
    reads: list[int]
    writes: list[tuple[int, Any]]
    alone: bool
    loops: bool


class Hosted:
    """A jaxpr as a list of calls, made once and run on NumPy arrays."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        """Every equation finds its function now, so that what cannot be hosted is known before anything runs."""
        self._arguments = len(closed.jaxpr.invars)
        self._start: list[AnyArray] = [None] * self._arguments
        self._steps: list[Call] = []
        self._results = self._inlined(needed(closed), list(range(self._arguments)))
        self._ends = _ends(self._steps, self._results)

    def __call__(self, *arrays: AnyArray) -> list[AnyArray]:
        """The outputs; types are those of the trace."""
        return self._finished(self._steps, self._ends, [*arrays, *self._start[len(arrays) :]])

    def given(self, *arrays: AnyArray) -> tuple[Callable[..., list[AnyArray]], bool]:
        """The program of the last arguments, with everything done that depends on these first ones alone.

        And whether it is brief: no loops, and so few calls that a compiled program is no sooner done.
        """
        start, rest = [*arrays, *self._start[len(arrays) :]], []
        later = set(range(len(arrays), self._arguments))
        for step in self._steps:
            if later.intersection(step.reads):
                later.update(slot for slot, _ in step.writes)
                rest.append(step)
            else:
                _take(step, start)
        ends = _ends(rest, self._results)
        brief = len(rest) <= _BRIEF and not any(step.loops for step in rest)
        return lambda *last: self._finished(rest, ends, [*arrays, *last, *start[self._arguments :]]), brief

    def _finished(self, steps: list[Call], ends: list[list[int]], values: list[AnyArray]) -> list[AnyArray]:
        for step, over in zip(steps, ends, strict=True):
            _take(step, values)
            for slot in over:
                values[slot] = None
        return [np.asarray(values[slot]) for slot in self._results]

    def _new(self, value: AnyArray = None) -> int:
        self._start.append(value)
        return len(self._start) - 1

    def _inlined(self, closed: ClosedJaxpr, arguments: list[int]) -> list[int]:
        """Add a jaxpr's calls, and those of what it calls; where its outputs are."""
        jaxpr = closed.jaxpr
        slots = dict(zip(jaxpr.invars, arguments, strict=True))
        for variable, value in zip(jaxpr.constvars, closed.consts, strict=True):
            slots[variable] = self._new(_array(value))

        def read(atom: Atom) -> int:
            if not isinstance(atom, Literal):
                return slots[atom]
            return self._new(np.asarray(atom.val, shaped(atom).dtype))

        for equation in live(jaxpr):
            name, params = equation.primitive.name, equation.params
            reads = [read(atom) for atom in equation.invars]
            if name in CALLS:
                outputs = self._inlined(as_closed(params[CALLS[name]]), reads)
            else:
                outputs = [self._new() for _ in equation.outvars]
                self._steps.append(_step(equation, reads, outputs))
            slots.update(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]


def _ends(steps: list[Call], results: list[int]) -> list[list[int]]:
    """For each step the places that nobody reads after it."""
    kept, ends = set(results), []
    for step in reversed(steps):
        places = {*step.reads, *(slot for slot, _ in step.writes)}
        ends.append(sorted(places - kept))
        kept |= places
    return ends[::-1]


def _take(step: Call, values: list[AnyArray]) -> None:
    outputs = step.run(*[values[slot] for slot in step.reads])
    for (slot, dtype), value in zip(step.writes, (outputs,) if step.alone else outputs, strict=True):
        values[slot] = value if value.dtype is dtype else value.astype(dtype)


def _step(equation: JaxprEqn, reads: list[int], outputs: list[int]) -> Call:
    name, params = equation.primitive.name, equation.params
    types = [shaped(variable) for variable in equation.outvars]
    writes = [(slot, aval.dtype) for slot, aval in zip(outputs, types, strict=True)]
    if any(jnp.issubdtype(dtype, jax.dtypes.extended) for _, dtype in writes):
        raise Unhosted(name)
    if any(math.prod(aval.shape) > _LARGEST for aval in types):
        raise Unhosted(f"{name} of {max(math.prod(aval.shape) for aval in types)} numbers")
    if name in CONTROL:
        run = CONTROL[name](params, Hosted)
    elif name in KERNELS:
        run = KERNELS[name](params, [shaped(a) for a in equation.invars], types[0])
    else:
        raise Unhosted(name)
    return Call(run, reads, writes, not equation.primitive.multiple_results, name in ("scan", "while"))


def _array(value: AnyArray) -> np.ndarray:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.extended):
        raise Unhosted("a key of random numbers")
    return np.asarray(value)

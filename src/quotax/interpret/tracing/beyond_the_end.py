"""Sizes at which a model reads beyond the end of an array, and so returns no numbers.

`jnp.take(table, jnp.arange(t), 0)` has NaN where t is larger than the table: JAX fills in what is not there. Nothing is
learned of a model at such sizes. Reads at positions that are constants are found in the trace; only where one is out of
bounds is the model run once, to see whether what was filled in comes out, for it may be masked.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from jax.lax import GatherScatterMode

from quotax.interpret.tracing.provenance import place
from quotax.programs.hosted import Hosted, Unhosted
from quotax.programs.jaxprs import CALLS, Atom, as_closed, equations, is_key, shaped


def read_beyond_the_end(closed: ClosedJaxpr) -> str | None:
    """Where a model reads positions that are not there, when that makes entries of its outputs no numbers."""
    if not any(map(_fills, equations(closed))):
        return None
    found = next(_beyond(closed, [None] * len(closed.jaxpr.invars)), None)
    return found if found is not None and _is_seen(closed) else None


def tokens_read(closed: ClosedJaxpr, place: int, below: int) -> int:
    """How many tokens an input may hold, at most `below`, of which no read makes NaN: 6 if row i + 2 of 8 is read."""
    shape = closed.in_avals[place].shape
    for count in range(below, max(0, below - _SHIFTS), -1):
        given: list[np.ndarray | None] = [None] * len(closed.jaxpr.invars)
        given[place] = np.full(shape, count - 1, closed.in_avals[place].dtype)
        if next(_beyond(closed, given), None) is None:
            return count
    return below


_SHIFTS = 64
"""Tables have at most so many rows for other things than tokens."""
_LARGEST = 2**22
"""Programs of more numbers are not run to see what comes out."""


def _fills(equation: JaxprEqn) -> bool:
    """Whether a gather puts NaN where it finds nothing."""
    if equation.primitive.name != "gather" or equation.params["mode"] != GatherScatterMode.FILL_OR_DROP:
        return False
    fill = equation.params["fill_value"]
    return np.issubdtype(shaped(equation.invars[0]).dtype, np.inexact) and (fill is None or bool(np.isnan(fill)))


@functools.cache
def _nothing() -> Jaxpr:
    """A jaxpr without arguments and with one output, which others are made of."""
    return jax.make_jaxpr(lambda: 0)().jaxpr


def _beyond(closed: ClosedJaxpr, given: Sequence[np.ndarray | None]) -> Iterator[str]:
    """The reads that are out of bounds; `given` are the arguments that are known, computed when they are asked for."""
    jaxpr = closed.jaxpr
    values = [*zip(jaxpr.constvars, closed.consts, strict=True), *zip(jaxpr.invars, given, strict=True)]
    known: dict[Var, np.ndarray] = {
        v: np.asarray(value) for v, value in values if value is not None and not is_key(value)
    }
    made, makers = set(known), []

    def value(atom: Atom) -> np.ndarray | None:
        if isinstance(atom, Literal):
            return np.asarray(atom.val)
        if atom in made and atom not in known:
            short = _nothing().replace(constvars=list(known), outvars=[atom], eqns=makers)
            with contextlib.suppress(Unhosted):
                (known[atom],) = Hosted(ClosedJaxpr(short, list(known.values())))()
        return known.get(atom)

    for equation in jaxpr.eqns:
        name, atoms = equation.primitive.name, equation.invars
        if any(map(is_key, (*atoms, *equation.outvars))):
            continue
        if _fills(equation) and _out_of_bounds(equation, value(atoms[1])):
            yield place(equation) or "a place that JAX did not record"
        if name in CALLS and any(map(_fills, equations(equation.params[CALLS[name]]))):
            yield from _beyond(as_closed(equation.params[CALLS[name]]), [value(atom) for atom in atoms])
        if all(isinstance(atom, Literal) or atom in made for atom in atoms):
            made.update(equation.outvars)
            makers.append(equation)


def _out_of_bounds(equation: JaxprEqn, positions: np.ndarray | None) -> bool:
    if positions is None:
        return False
    numbers, window = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    last = [shaped(equation.invars[0]).shape[d] - window[d] for d in numbers.start_index_map]
    return bool(((positions < 0) | (positions > np.asarray(last, np.int64))).any())


def _is_seen(closed: ClosedJaxpr) -> bool:
    """Whether outputs are NaN at numbers between 1/2 and 3/2, where every token is the first and nothing is masked.

    Where that is too much to try, they are taken to be.
    """
    made = (v.aval for e in equations(closed) for v in e.outvars)
    if sum(math.prod(aval.shape) for aval in (*closed.in_avals, *made)) > _LARGEST:
        return True
    draw = np.random.default_rng(0)
    real = lambda aval: np.issubdtype(aval.dtype, np.inexact)
    arrays = [
        draw.uniform(0.5, 1.5, aval.shape).astype(aval.dtype) if real(aval) else np.zeros(aval.shape, aval.dtype)
        for aval in closed.in_avals
    ]
    try:
        outputs = Hosted(closed)(*arrays)
    except Unhosted:
        outputs = jax.jit(jaxpr_as_fun(closed))(*arrays)
    return any(bool(np.isnan(out).any()) for out in outputs if np.issubdtype(out.dtype, np.inexact))

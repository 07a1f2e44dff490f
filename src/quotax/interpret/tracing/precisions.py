"""Whether a function takes the same steps in single precision as in double precision, in which models are read.

What is proved of the program in float64 is said of the user's, which runs in float32. They are one function of real
numbers unless Python code looks at types: `0.0 if x.dtype == jnp.float64 else 1e-6`. So both are traced, once for each
model, and compared step by step; casts may differ, and constants as far as rounding and the limits of a type make them.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from quotax.interpret.tracing.provenance import place
from quotax.jaxprs import CALLS, as_closed, bodies, is_key, live

CASTS = frozenset(("convert_element_type", "reduce_precision", "copy", "stop_gradient"))
"""Steps that change no number but by rounding."""

TYPES = frozenset(
    ("dtype", "new_dtype", "index_dtype", "preferred_element_type", "weak_type", "fill_value", "sharding")
)
"""Settings of a step that are types, or follow from one."""

HUGE, TINY, CLOSE = 1e30, 1e-3, 1e-5
"""Constants beyond the first stand for infinity and those below the second for an epsilon; others agree to the last."""


class Taken(NamedTuple):
    """An equation without its types: its primitive with its settings, the shapes that it makes, and what it reads.

    That is the number of the step that made it, counted from the start, or a constant.
    """

    name: str
    settings: tuple[Any, ...]
    shapes: tuple[Any, ...]
    reads: tuple[Any, ...]
    where: str


def other_steps(double: ClosedJaxpr, single: ClosedJaxpr) -> str | None:
    """The first step in which two traces of a function differ by more than types; nothing where there is none."""
    # as one of them returns sooner, "return" meets another step
    for one, other in zip(_steps(double), _steps(single), strict=False):
        if (one.name, one.shapes) != (other.name, other.shapes):
            return f"`{one.name}` at {one.where} is `{other.name}` at {other.where} in single precision"
        if one.settings != other.settings:
            changed = ", ".join(f"{k}={v}" for k, v in other.settings if (k, v) not in one.settings)
            return f"`{one.name}` at {one.where} has {changed} in single precision"
        if len(one.reads) != len(other.reads) or not all(map(_same, one.reads, other.reads)):
            return f"`{one.name}` at {one.where} reads something else in single precision"
    return None


def _steps(closed: ClosedJaxpr) -> Generator[Taken]:
    fresh = itertools.count()
    places = [next(fresh) for _ in closed.jaxpr.invars]
    ends = yield from _inner(closed, places, fresh, "the start")
    yield Taken("return", (), (), tuple(ends), "the end")


def _inner(closed: ClosedJaxpr, places: Sequence[Any], fresh: Any, origin: str) -> Generator[Taken, None, list[Any]]:
    """The steps of a jaxpr whose arguments stand there; where its outputs do."""
    at: dict[Any, Any] = dict(zip(closed.jaxpr.invars, places, strict=True))
    at |= {v: c if is_key(c) else np.asarray(c) for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True)}
    read = lambda atom: np.asarray(atom.val) if isinstance(atom, Literal) else at[atom]
    for equation in live(closed.jaxpr):
        name, where = equation.primitive.name, place(equation) or origin
        reads = [read(atom) for atom in equation.invars]
        if name in CASTS:
            ends = reads
        elif name in CALLS:
            ends = yield from _inner(as_closed(equation.params[CALLS[name]]), reads, fresh, where)
        else:
            shapes = tuple(getattr(v.aval, "shape", ()) for v in equation.outvars)
            yield Taken(name, _settings(equation.params), shapes, tuple(reads), where)
            for body in (body for value in equation.params.values() for body in bodies(value)):
                inner = as_closed(body)
                own = yield from _inner(inner, [next(fresh) for _ in inner.jaxpr.invars], fresh, where)
                yield Taken(f"end of {name}", (), (), tuple(own), where)
            ends = [next(fresh) for _ in equation.outvars]
        at.update(zip(equation.outvars, ends, strict=True))
    return [read(atom) for atom in closed.jaxpr.outvars]


def _settings(params: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    plain = lambda value: not callable(value) and not bodies(value)
    return tuple((k, repr(v)) for k, v in sorted(params.items()) if k not in TYPES and plain(v))


def _same(left: Any, right: Any) -> bool:
    if not (isinstance(left, np.ndarray) and isinstance(right, np.ndarray)):
        return type(left) is type(right) and (not isinstance(left, int) or left == right)
    if left.shape != right.shape or left.dtype.kind not in "fiub" or right.dtype.kind not in "fiub":
        return left.shape == right.shape
    a, b = left.astype(np.float64), right.astype(np.float64)
    close = np.isclose(a, b, rtol=CLOSE, atol=0.0, equal_nan=True)
    huge, tiny = (np.minimum(abs(a), abs(b)) >= HUGE), (np.maximum(abs(a), abs(b)) <= TINY) & (a != 0) & (b != 0)
    return bool(np.all(close | (huge | tiny) & (np.sign(a) == np.sign(b))))


def in_single_precision(function: Any, arguments: Sequence[Any]) -> ClosedJaxpr | None:
    """The function's trace of float32 arrays; nothing where it has none, or where JAX is set to double precision."""
    if jax.dtypes.canonicalize_dtype(np.float64) == np.float64:
        return None
    narrow = lambda a: jax.ShapeDtypeStruct(a.shape, np.float32 if a.dtype == np.float64 else a.dtype)
    try:
        return jax.make_jaxpr(function)(*map(narrow, arguments))
    except Exception:  # whatever the function raises: it does not run there
        return None

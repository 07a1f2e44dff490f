"""Whether a function takes the same steps in single precision as in double precision, in which models are read.

What is proved of the program in float64 is said of the user's, which runs in float32. They are one function of real
numbers unless Python code looks at types: `0.0 if x.dtype == jnp.float64 else 1e-6`. So both are traced, once for each
model, and compared step by step; casts may differ, and constants as far as rounding and the limits of a type make them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var

from quotax.errors import ArchitectureError
from quotax.interpret.tracing.provenance import place
from quotax.interpret.tracing.sign_bits import comparing
from quotax.programs.jaxprs import CALLS, Settings, as_closed, bodies, is_key, live, needed, shaped
from quotax.trees import Dim, Tree

SAME = frozenset(("reduce_precision", "copy", "stop_gradient"))
"""Steps that change no number but by rounding, beside the casts that do not."""

TYPES = frozenset(
    ("dtype", "new_dtype", "index_dtype", "preferred_element_type", "result_avals", "weak_type", "sharding")
)
"""Settings of a step that are types, or follow from one."""

HUGE, EPSILON, CLOSE = 1e30, (1e-7, 1e-3), 1e-5
"""Constants beyond the first stand for infinity in both precisions. What is below 1e-7 in double precision and larger,
but below 1e-3, in single precision stands for an epsilon. Others agree to the last."""


Read: TypeAlias = int | np.ndarray | jax.Array
"""What a step reads: the number of the step that made it, a constant, or a random key."""


class Taken(NamedTuple):
    """An equation without its types: its primitive with its settings, the shapes that it makes, and what it reads.

    That is the number of the step that made it, counted from the start, or a constant.
    """

    name: str
    settings: tuple[tuple[str, str], ...]
    shapes: tuple[tuple[Dim, ...], ...]
    reads: tuple[Read, ...]
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


def _inner(
    closed: ClosedJaxpr, places: Sequence[Read], fresh: Iterator[int], origin: str
) -> Generator[Taken, None, list[Read]]:
    """The steps of a jaxpr whose arguments stand there; where its outputs do."""
    at: dict[Var, Read] = dict(zip(closed.jaxpr.invars, places, strict=True))
    at |= {v: c if is_key(c) else np.asarray(c) for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True)}
    read = lambda atom: np.asarray(atom.val) if isinstance(atom, Literal) else at[atom]
    for equation in live(closed.jaxpr):
        name, where = equation.primitive.name, place(equation) or origin
        reads = [read(atom) for atom in equation.invars]
        if name in SAME or (name == "convert_element_type" and _keeps(equation)):
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


def _keeps(cast: JaxprEqn) -> bool:
    """Whether a cast rounds at most: not one of reals to whole numbers, or of numbers to truth values."""
    before, after = (_kind(shaped(v).dtype) for v in (cast.invars[0], cast.outvars[0]))
    return after == "f" or before == after or (before in "biu" and after in "iu")


def _kind(dtype: np.dtype) -> str:
    return "f" if jax.numpy.issubdtype(dtype, np.floating) else dtype.kind  # bfloat16 is no float to NumPy


def _settings(params: Settings) -> tuple[tuple[str, str], ...]:
    plain = lambda value: not callable(value) and not bodies(value)
    return tuple((k, repr(v)) for k, v in sorted(params.items()) if k not in TYPES and plain(v))


def _same(left: Read, right: Read) -> bool:
    """Whether two steps read the same: one step, one key, or constants that differ as the types do."""
    if is_key(left) or is_key(right):
        return is_key(left) and is_key(right) and _same(*(np.asarray(jax.random.key_data(k)) for k in (left, right)))
    if not (isinstance(left, np.ndarray) and isinstance(right, np.ndarray)):
        return type(left) is type(right) and bool(left == right)
    if left.shape != right.shape or not all(
        jax.numpy.issubdtype(x.dtype, np.number) or x.dtype == bool for x in (left, right)
    ):
        return False
    if left.dtype.kind == right.dtype.kind == "c":
        return _same(np.real(left), np.real(right)) and _same(np.imag(left), np.imag(right))
    a, b = left.astype(np.float64), right.astype(np.float64)
    close = np.isclose(a, b, rtol=CLOSE, atol=0.0, equal_nan=True)
    huge = np.minimum(abs(a), abs(b)) >= HUGE
    epsilon = (abs(a) > 0) & (abs(a) <= EPSILON[0]) & (abs(a) < abs(b)) & (abs(b) <= EPSILON[1])
    return bool(np.all(close | (huge | epsilon) & (np.sign(a) == np.sign(b))))


def compared(
    function: Callable[..., Tree], name: str, arguments: Sequence[jax.ShapeDtypeStruct], double: ClosedJaxpr
) -> None:
    """Refuse a function whose trace of float32 arrays takes other steps than `double`, that of these in float64.

    Nothing is compared where JAX is set to double precision: that is what the user runs. What the function raises in
    single precision is raised.
    """
    if jax.dtypes.canonicalize_dtype(np.float64) == np.float64:
        return
    narrow = lambda a: jax.ShapeDtypeStruct(a.shape, np.float32 if a.dtype == np.float64 else a.dtype)
    single = jax.make_jaxpr(function)(*map(narrow, arguments))
    if why := other_steps(comparing(double), comparing(needed(single))):
        raise ArchitectureError(
            f"`{name}` is another function in float32 than in float64, in which models are read: {why}. Write it "
            f"without looking at types (random numbers: pass them, or draw them in a type of your own), or set "
            f"`jax_enable_x64`."
        )

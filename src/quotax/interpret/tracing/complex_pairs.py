r"""A program with complex numbers as one with pairs of reals, and a Fourier transform as what it is: sums of cosines.

A model of reals may compute with complex numbers on the way: rotary positions as products with $e^{i t \omega}$, state
spaces with complex eigenvalues, layers in the frequency domain. $z = a + ib$ becomes the pair $(a, b)$, every primitive
what it does to pairs, and of $n$ values in a row

$$\hat x_k = \sum_j (\cos \tfrac{2 \pi j k}{n} - i \sin \tfrac{2 \pi j k}{n})\, x_j.$$

What is computed with complex numbers and has no rule here stays, on complex numbers: who reads it says what to do.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from quotax.interpret.domain import AnyValue
from quotax.interpret.tracing.provenance import place, written_at
from quotax.programs.jaxprs import CALLS, as_closed, bare, bodies, needed
from quotax.trees import AnyArray


class ComplexPair(NamedTuple):
    """A complex number; `imag` is None where it is a real one for sure."""

    real: Any
    imag: Any

    @property
    def parts(self) -> tuple[Any, Any]:
        """Both, with zeros where there is none."""
        return self.real, jnp.zeros_like(self.real) if self.imag is None else self.imag


Value = Any
"""A pair where the program has a complex number, an array of reals elsewhere."""


def as_pairs(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with pairs of reals in the place of complex numbers; itself where it has none.

    A complex output has its parts along a last axis.
    """
    if not _has_complex(closed.jaxpr):
        return closed

    def run(*arguments: AnyArray) -> list[AnyValue]:
        outputs = _run(closed, arguments)
        return [jnp.stack(v.parts, -1) if isinstance(v, ComplexPair) else v for v in outputs]

    arguments = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in closed.in_avals]
    return needed(jax.make_jaxpr(run)(*arguments))


def _is_complex(atom: Any) -> bool:
    dtype = getattr(getattr(atom, "aval", atom), "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jnp.complexfloating)


def _has_complex(jaxpr: Jaxpr) -> bool:
    return any(
        any(map(_is_complex, (*e.invars, *e.outvars)))
        or any(_has_complex(bare(b)) for v in e.params.values() for b in bodies(v))
        for e in jaxpr.eqns
    )


def _touches(equation: Any) -> bool:
    inner = any(_has_complex(bare(b)) for v in equation.params.values() for b in bodies(v))
    return inner or any(map(_is_complex, (*equation.invars, *equation.outvars)))


def _split(value: AnyValue) -> Value:
    """A constant as a pair if it is complex."""
    if not (_is_complex(value) or isinstance(value, complex)):
        return value
    array = np.asarray(value)
    real, imaginary = np.real(array), np.imag(array)
    return ComplexPair(real, imaginary if np.any(imaginary) else None)


def _run(closed: ClosedJaxpr, arguments: Sequence[Value]) -> list[Value]:
    """The outputs of a program at pairs and reals."""
    jaxpr = closed.jaxpr
    values: dict[Any, Value] = dict(zip(jaxpr.constvars, map(_split, closed.consts), strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    read = lambda atom: _split(atom.val) if isinstance(atom, Literal) else values[atom]
    for equation in jaxpr.eqns:
        with written_at(equation) if place(equation) else contextlib.nullcontext():
            if _touches(equation):
                outputs = _pairwise(equation, [read(atom) for atom in equation.invars])
            else:
                outputs = _bound(equation, [read(atom) for atom in equation.invars])
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _bound(equation: Any, arguments: Sequence[Any], **other: Any) -> list[AnyValue]:
    """The primitive of an equation at reals, with its own settings but for those given here."""
    settings = equation.primitive.get_bind_params({**equation.params, **other})
    outputs = equation.primitive.bind(*arguments, **settings)
    return list(outputs) if equation.primitive.multiple_results else [outputs]


def _pairwise(equation: Any, arguments: list[Value]) -> list[Value]:
    name = equation.primitive.name
    if name in CALLS:
        return _run(as_closed(equation.params[CALLS[name]]), arguments)
    if name in _BODIES:
        return _BODIES[name](equation, arguments)
    if name in _PARTWISE:
        return _partwise(equation, arguments)
    if name in _RULES and (found := _RULES[name](equation, *arguments)) is not None:
        return [found]
    joined = _bound(equation, [lax.complex(*a.parts) if isinstance(a, ComplexPair) else a for a in arguments])
    return [ComplexPair(lax.real(z), lax.imag(z)) if _is_complex(z) else z for z in joined]


def _float_of(dtype: Any) -> Any:
    return np.finfo(dtype).dtype


# --- what is done to each part

_PARTWISE = frozenset((
    "add", "sub", "add_any", "neg", "broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "slice",
    "concatenate", "stack", "unstack", "pad", "rev", "gather", "dynamic_slice", "dynamic_update_slice", "select_n",
    "copy", "copy_p", "stop_gradient", "optimization_barrier", "split", "tile", "reduce_sum", "cumsum", "name",
))  # fmt: skip
"""Primitives that are linear over the reals in all of their complex arguments together."""


def _partwise(equation: Any, arguments: Sequence[Value]) -> list[Value]:
    real = _bound(equation, [a.real if isinstance(a, ComplexPair) else a for a in arguments])
    if all(a.imag is None for a in arguments if isinstance(a, ComplexPair)):
        imaginary = [None] * len(real)
    else:
        imaginary = _bound(equation, [a.parts[1] if isinstance(a, ComplexPair) else a for a in arguments])
    return [ComplexPair(*both) for both in zip(real, imaginary, strict=True)]


def _scatter(scatter: Callable[..., Any], equation: Any, operand: Value, indices: Any, updates: Value) -> Value:
    names = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
    settings = {name: equation.params[name] for name in names}
    if operand.imag is None and updates.imag is None:
        return ComplexPair(scatter(operand.real, indices, updates.real, **settings), None)
    pairs = zip(operand.parts, updates.parts, strict=True)
    return ComplexPair(*(scatter(a, indices, b, **settings) for a, b in pairs))


# --- arithmetic


def _product(times: Callable[[Any, Any], Any], x: ComplexPair, y: ComplexPair) -> ComplexPair:
    """`x y` for a product that is linear in both."""
    if x.imag is None or y.imag is None:
        a, b = (x.real, y.imag) if x.imag is None else (x.imag, y.real)
        return ComplexPair(times(x.real, y.real), None if b is None else times(a, b))
    real = times(x.real, y.real) - times(x.imag, y.imag)
    return ComplexPair(real, times(x.real, y.imag) + times(x.imag, y.real))


def _bilinear(equation: Any, x: Value, y: Value) -> Value:
    """A contraction or a convolution."""
    other = {}
    if (dtype := equation.params.get("preferred_element_type")) is not None:
        other["preferred_element_type"] = _float_of(dtype)
    return _product(lambda a, b: _bound(equation, [a, b], **other)[0], x, y)


def _times(x: ComplexPair, y: ComplexPair) -> ComplexPair:
    return _product(lax.mul, x, y)


def _squared(z: ComplexPair) -> Any:
    """`|z|^2`."""
    return z.real * z.real if z.imag is None else z.real * z.real + z.imag * z.imag


def _over(x: ComplexPair, y: ComplexPair) -> ComplexPair:
    if y.imag is None:
        return ComplexPair(x.real / y.real, None if x.imag is None else x.imag / y.real)
    size, above = _squared(y), _times(x, _conjugate(y))
    return ComplexPair(above.real / size, above.parts[1] / size)


def _conjugate(z: ComplexPair) -> ComplexPair:
    return ComplexPair(z.real, None if z.imag is None else -z.imag)


def _size(z: ComplexPair) -> Any:
    return jnp.abs(z.real) if z.imag is None else jnp.sqrt(_squared(z))


def _power(z: ComplexPair, exponent: int) -> ComplexPair:
    """`z^n` by squaring."""
    if exponent < 0:
        return _over(ComplexPair(jnp.ones_like(z.real), None), _power(z, -exponent))
    out = ComplexPair(jnp.ones_like(z.real), None) if not exponent else z
    for digit in bin(exponent)[3:]:
        out = _times(out, out)
        out = _times(out, z) if digit == "1" else out
    return out


# --- functions of one complex number


def _exponential(z: ComplexPair) -> ComplexPair:
    size = jnp.exp(z.real)
    return ComplexPair(size, None) if z.imag is None else ComplexPair(size * jnp.cos(z.imag), size * jnp.sin(z.imag))


def _logarithm(z: ComplexPair) -> ComplexPair:
    a, b = z.parts
    return ComplexPair(jnp.log(_squared(z)) / 2, jnp.arctan2(b, a))


def _root(z: ComplexPair) -> ComplexPair:
    """The root with a real part that is not negative."""
    a, b = z.parts
    size = _size(z)
    return ComplexPair(
        jnp.sqrt(jnp.maximum(size + a, 0) / 2), jnp.where(b < 0, -1, 1) * jnp.sqrt(jnp.maximum(size - a, 0) / 2)
    )


def _sine(z: ComplexPair) -> ComplexPair:
    a, b = z.parts
    return ComplexPair(jnp.sin(a) * jnp.cosh(b), jnp.cos(a) * jnp.sinh(b))


def _cosine(z: ComplexPair) -> ComplexPair:
    a, b = z.parts
    return ComplexPair(jnp.cos(a) * jnp.cosh(b), -jnp.sin(a) * jnp.sinh(b))


def _phase(z: ComplexPair) -> ComplexPair:
    """`z / |z|`, and 0 of 0."""
    size = _size(z)
    unit = lambda part: jnp.where(size == 0, 0, part / size)
    return ComplexPair(unit(z.real), None if z.imag is None else unit(z.imag))


# --- between reals and complex numbers


def _cast(equation: Any, value: Value) -> Value:
    dtype = np.dtype(equation.params["new_dtype"])
    if not _is_complex(equation.outvars[0]):
        return lax.convert_element_type(value.real, dtype)  # as JAX does, without the imaginary part
    to = functools.partial(lax.convert_element_type, new_dtype=_float_of(dtype))
    if not isinstance(value, ComplexPair):
        return ComplexPair(to(value), None)
    return ComplexPair(to(value.real), None if value.imag is None else to(value.imag))


def _compared(equal: bool, x: ComplexPair, y: ComplexPair) -> Any:
    (a, b), (c, d) = x.parts, y.parts
    return (a == c) & (b == d) if equal else (a != c) | (b != d)


# --- Fourier transforms


def _transformed(equation: Any, value: Value) -> Value:
    kind = getattr(equation.params["fft_type"], "name", str(equation.params["fft_type"])).rpartition(".")[2]
    lengths = tuple(equation.params["fft_lengths"])
    rank = len(value.real.shape if isinstance(value, ComplexPair) else value.shape)
    last, first = rank - 1, [(rank - 2 - k, n) for k, n in enumerate(lengths[:-1][::-1])]
    if kind == "RFFT":
        whole = _along(ComplexPair(value, None), last, lengths[-1], lengths[-1] // 2 + 1, -1)
        return functools.reduce(lambda z, each: _along(z, each[0], each[1], each[1], -1), first, whole)
    sign = -1 if kind == "FFT" else 1
    if kind in ("FFT", "IFFT"):
        z = functools.reduce(lambda z, each: _along(z, each[0], each[1], each[1], sign), first, value)
        z = _along(z, last, lengths[-1], lengths[-1], sign)
        return z if kind == "FFT" else _shared(z, math.prod(lengths))
    z = functools.reduce(lambda z, each: _along(z, each[0], each[1], each[1], 1), first, value)
    half = lax.broadcasted_iota(int, z.real.shape, last)
    once = (half == 0) | (2 * half == lengths[-1])
    z = _times(z, ComplexPair(jnp.where(once, 1.0, 2.0).astype(z.real.dtype), None))
    return _shared(_along(z, last, lengths[-1], lengths[-1], 1, imaginary=False), math.prod(lengths)).real


def _shared(z: ComplexPair, count: Any) -> ComplexPair:
    count = jnp.asarray(count, z.real.dtype)
    return ComplexPair(z.real / count, None if z.imag is None else z.imag / count)


def _along(z: ComplexPair, axis: int, length: Any, count: Any, sign: int, *, imaginary: bool = True) -> ComplexPair:
    """The first `count` of `sum_j exp(sign 2 pi i j k / n) z_j` along an axis."""
    shape, dtype = (z.real.shape[axis], count), z.real.dtype
    j, k = (lax.broadcasted_iota(dtype, shape, d) for d in (0, 1))
    angle = 2 * np.pi * (j * k / jnp.asarray(length, dtype))

    def through(part: Any, waves: Any) -> Any:
        return jnp.moveaxis(lax.dot_general(part, waves, (((axis,), (0,)), ((), ()))), -1, axis)

    cosine, sine = jnp.cos(angle), sign * jnp.sin(angle)
    real = through(z.real, cosine)
    if z.imag is not None:
        real = real - through(z.imag, sine)
    if not imaginary:
        return ComplexPair(real, None)
    across = through(z.real, sine)
    return ComplexPair(real, across if z.imag is None else across + through(z.imag, cosine))


_RULES: Mapping[str, Callable[..., Value]] = {
    "complex": lambda _, a, b: ComplexPair(a, b),
    "real": lambda _, z: z.real,
    "imag": lambda _, z: z.parts[1],
    "conj": lambda _, z: _conjugate(z if isinstance(z, ComplexPair) else ComplexPair(z, None)),
    "abs": lambda _, z: _size(z),
    "mul": lambda _, x, y: _times(x, y),
    "div": lambda _, x, y: _over(x, y),
    "square": lambda _, z: _times(z, z),
    "integer_pow": lambda equation, z: _power(z, equation.params["y"]),
    "exp": lambda _, z: _exponential(z),
    "log": lambda _, z: _logarithm(z),
    "sqrt": lambda _, z: _root(z),
    "rsqrt": lambda _, z: _over(ComplexPair(jnp.ones_like(z.real), None), _root(z)),
    "pow": lambda _, x, y: _exponential(
        _times(_logarithm(x), y if isinstance(y, ComplexPair) else ComplexPair(y, None))
    ),
    "reduce_prod": lambda equation, z: ComplexPair(_bound(equation, [z.real])[0], None) if z.imag is None else None,
    "sin": lambda _, z: _sine(z),
    "cos": lambda _, z: _cosine(z),
    "sign": lambda _, z: _phase(z),
    "convert_element_type": _cast,
    "eq": lambda _, x, y: _compared(True, x, y),
    "ne": lambda _, x, y: _compared(False, x, y),
    "is_finite": lambda _, z: jnp.isfinite(z.real) & jnp.isfinite(z.parts[1]),
    "dot_general": _bilinear,
    "conv_general_dilated": _bilinear,
    "scatter": functools.partial(_scatter, lax.scatter),
    "scatter-add": functools.partial(_scatter, lax.scatter_add),
    "fft": _transformed,
}


# --- bodies


def _whole(values: Sequence[Value]) -> list[Value]:
    """Pairs with both parts, so that what goes around a loop has one structure."""
    return [ComplexPair(*v.parts) if isinstance(v, ComplexPair) else v for v in values]


def _scanned(equation: Any, arguments: list[Value]) -> list[Value]:
    p = equation.params
    fixed, carried = p["num_consts"], p["num_consts"] + p["num_carry"]
    held, arguments = arguments[:fixed], _whole(arguments)

    def step(carry: Any, entries: Any) -> Any:
        outputs = _whole(_run(as_closed(p["jaxpr"]), [*held, *carry, *entries]))
        return outputs[: p["num_carry"]], outputs[p["num_carry"] :]

    start, entries = arguments[fixed:carried], arguments[carried:]
    length = None if entries else p["length"]
    carry, made = lax.scan(step, start, entries, length, p["reverse"], p["unroll"])
    return [*carry, *made]


def _repeated(equation: Any, arguments: list[Value]) -> list[Value]:
    p = equation.params
    ends = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    asked, held, start = arguments[: ends[0]], arguments[ends[0] : ends[1]], _whole(arguments[ends[1] :])
    goes_on = lambda carry: _run(as_closed(p["cond_jaxpr"]), [*asked, *carry])[0]
    return lax.while_loop(goes_on, lambda carry: _whole(_run(as_closed(p["body_jaxpr"]), [*held, *carry])), start)


def _branched(equation: Any, arguments: list[Value]) -> list[Value]:
    which, *rest = arguments
    branches = [lambda *a, body=body: _whole(_run(as_closed(body), a)) for body in equation.params["branches"]]
    return lax.switch(which, branches, *_whole(rest))


_BODIES = {"scan": _scanned, "while": _repeated, "cond": _branched}

"""The real function that a model means: its jaxpr run in float64, whatever precision the code asks for.

A symmetry is a statement about functions of real numbers. Models round on the way: a softmax is taken in float32, a
matrix product in bfloat16, and `f(g . theta, x)` and `f(theta, x)` then differ by that rounding. So rounding is read
away: with `rho` the change of type from one float to another, `rho(x) = x`, and every operation between floats is the
same operation in float64. Two more things that a jaxpr holds are about derivatives and not about values:

- `stop_gradient(x) = x` has the derivative of `x`;
- a function with a rule of its own for derivatives (`jax.custom_jvp`, `jax.custom_vjp`) is its body. A straight-through
  estimator `round` is constant almost everywhere, so its derivative here is 0, which is that of the function. (The
  exceptions are ours: `max` and `min` of two arrays have the derivative of the one that is taken.)

What is discrete keeps its meaning to the bit: float to integer truncates, `int32 -> int8` wraps, random bits and the
words that floats are made of are computed in the types that the code names. Of a loop, a branch or a solver the bodies
are rewritten by the same rules. What no output depends on is not run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.typing import DTypeLike

from quotax.artifacts import Trace
from quotax.interpret.tracing.provenance import written_at
from quotax.programs.hosted import MOVES
from quotax.programs.jaxprs import CALLS, IDENTITIES, Atom, Setting, Settings, as_closed, equations, live, shaped
from quotax.trees import AnyArray

_IDENTITIES = {
    *IDENTITIES, "reduce_precision", "copy_p", "device_put", "sharding_constraint", "layout_constraint", "reshard"
}  # fmt: skip
"""Primitives whose outputs are their inputs, as real numbers."""

_BITS = ("bitcast_convert_type", "nextafter", "random_", "rng_", "threefry", "philox", "pure_callback", "io_callback")
"""Primitives (by how they begin) that depend on the types themselves, or that code elsewhere computes."""

DIGITS = 52
"""Binary digits of a float64 after its first."""

TINY = 2.0**-960
"""Smaller numbers are not far from those that float64 has fewer digits for, or none."""

_LEVEL = ("tanh", "logistic", "erf", "erfc", "erf_inv", "atan", "expm1", "exp")
"""Functions that are level far out: their values there are equal in float64 where those of real numbers are not."""

FAR = 4.0
"""Arguments beyond this are far out."""

_IGNORED = ("precision", "accuracy")
"""Settings that say how exactly to compute; some are refused in float64."""


def real_function(program: ClosedJaxpr | Trace, bits: int = DIGITS) -> Callable[..., list[AnyArray]]:
    """The function that a jaxpr computes on real numbers: arrays in the jaxpr's order to the list of its outputs.

    It is made of JAX operations, so `jax.jit`, `jax.vmap`, `jax.jvp` and `jax.make_jaxpr` apply, also at sizes that are
    symbols. Call it with 64-bit types enabled (`jax.enable_x64(True)`): without them float64 does not exist. A `while`
    loop has no reverse mode; where it stood in a function with a rule for derivatives, differentiate forwards.

    With fewer `bits` every result is rounded to so many binary digits, is NaN where finite numbers gave an infinite
    one, and 0 where it is smaller than `TINY`. The same numbers twice, at two precisions, tell how much of them is
    rounding or overflow: where nothing is rounded, as among small fractions, nothing changes. Values of functions that
    are level far out, which float64 cannot tell apart there, differ in their last digit.

    >>> import jax, jax.numpy as jnp
    >>> rounded = jax.make_jaxpr(lambda x: x.astype(jnp.bfloat16) / 3)(jax.ShapeDtypeStruct((), "float32"))
    >>> with jax.enable_x64(True):
    ...     print(real_function(rounded)(1.0)[0], real_function(rounded, bits=10)(1.0)[0])
    0.3333333333333333 0.333251953125
    """
    closed = program.jaxpr if isinstance(program, Trace) else program

    def run(*arrays: AnyArray) -> list[AnyArray]:
        if jnp.result_type(float) != np.float64:
            raise ValueError("`real_function(jaxpr)` computes in float64: call it under `jax.enable_x64(True)`.")
        return _Reading(bits).run(closed.jaxpr, closed.consts, arrays)

    return run


def casts_removed(program: ClosedJaxpr | Jaxpr | Trace) -> int:
    """How many roundings to a narrower float are read away: what `real_function` computes differs by them."""
    closed = program.jaxpr if isinstance(program, Trace) else program
    return sum(map(_rounds, equations(closed)))


def _rounds(equation: JaxprEqn) -> bool:
    name = equation.primitive.name
    if name not in ("convert_element_type", "reduce_precision"):
        return False
    before, after = shaped(equation.invars[0]).dtype, shaped(equation.outvars[0]).dtype
    if not (_is_float(before) and _is_float(after)):
        return False
    return name == "reduce_precision" or jnp.finfo(after).bits < jnp.finfo(before).bits


# --- running


@dataclass(frozen=True)
class _Reading:
    """The interpreter; results have so many binary digits."""

    bits: int

    def run(self, jaxpr: Jaxpr, consts: Sequence[AnyArray], arrays: Sequence[AnyArray]) -> list[AnyArray]:
        values: dict[Var, AnyArray] = {}

        def read(atom: Atom) -> AnyArray:
            dtype = shaped(atom).dtype
            return _as(atom.val, dtype) if isinstance(atom, Literal) else values[atom]

        for variables, given in ((jaxpr.constvars, consts), (jaxpr.invars, arrays)):
            values.update((v, _as(x, shaped(v).dtype)) for v, x in zip(variables, given, strict=True))
        for equation in live(jaxpr):
            with written_at(equation):
                outputs = self.step(equation, [read(atom) for atom in equation.invars])
                values.update((v, _as(x, shaped(v).dtype)) for v, x in zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def step(self, equation: JaxprEqn, arguments: list[AnyArray]) -> Sequence[AnyArray]:
        """The outputs of one equation."""
        primitive, params = equation.primitive, equation.params
        name = primitive.name
        if name in _IDENTITIES:
            return arguments
        if name in CALLS:
            body = as_closed(params[CALLS[name]])
            return self.run(body.jaxpr, body.consts, arguments)
        if name == "convert_element_type" and _is_float(params["new_dtype"]) and _is_float(arguments[0].dtype):
            return arguments
        if name in _EXTREMES and _is_float(arguments[0].dtype):
            return [_EXTREMES[name](*arguments)]
        if name.startswith(_BITS):
            settings = params
            arguments = [_exactly(x, shaped(atom).dtype) for x, atom in zip(arguments, equation.invars, strict=True)]
        else:
            # A loop that runs until a tolerance is met might never meet it in fewer digits.
            settings = (_Reading(DIGITS) if name == "while" else self).widened(params)
        outputs = primitive.bind(*arguments, **settings)
        outputs = outputs if primitive.multiple_results else [outputs]
        if self.bits == DIGITS or name in MOVES:
            return outputs
        outputs = [self.rounded(x, arguments) for x in outputs]
        return [self.told_apart(x, arguments[0]) for x in outputs] if name in _LEVEL else outputs

    def rounded(self, value: AnyArray, arguments: Sequence[AnyArray]) -> AnyArray:
        """A result in fewer digits; NaN where it left the range of floats, 0 where it is about to."""
        if not _is_float(value.dtype):
            return value
        short = jax.lax.reduce_precision(_exactly(value, np.float64), exponent_bits=11, mantissa_bits=self.bits)
        given = jnp.asarray(False)
        for x in arguments:
            if _is_float(x.dtype):
                infinite = jnp.isinf(x)
                given |= infinite if x.shape in ((), value.shape) else jnp.any(infinite)
        short = jnp.where(jnp.isinf(value) & ~given, jnp.nan, short)
        return jnp.where(jnp.abs(short) < TINY, 0.0, short)

    def told_apart(self, value: AnyArray, argument: AnyArray) -> AnyArray:
        """A value far out, in whose last digit another argument is seen: what is chosen among such is rounding."""
        if not _is_float(value.dtype):
            return value
        seen = jnp.sin(argument * 2.0 ** (self.bits + 4)) * 2.0**-self.bits
        return jnp.where((jnp.abs(argument) > FAR) & jnp.isfinite(argument), value * (1 + seen), value)

    def widened(self, params: Settings) -> dict[str, Setting]:
        """An equation's settings with float64 for every float, and rewritten bodies."""
        return {key: None if key in _IGNORED else self.setting(key, value) for key, value in params.items()}

    def setting(self, key: str, value: Setting) -> Setting:
        """One setting."""
        if isinstance(value, ClosedJaxpr):
            return self.body(value)
        if isinstance(value, Jaxpr):
            return self.body(ClosedJaxpr(value, ())).jaxpr
        if isinstance(value, tuple) and any(isinstance(v, ClosedJaxpr) for v in value):
            made = [self.setting(key, v) for v in value]
            return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
        if isinstance(value, np.dtype) or key.endswith(("dtype", "element_type")):
            return value if value is None else _wide(cast(np.dtype, value))
        return False if key == "weak_type" else value

    def body(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """A body of a loop, branch, solver or reduction, on wide types."""
        arguments = [jax.ShapeDtypeStruct(shaped(v).shape, _wide(shaped(v).dtype)) for v in closed.jaxpr.invars]
        return jax.make_jaxpr(lambda *arrays: self.run(closed.jaxpr, closed.consts, arrays))(*arguments)


# --- derivatives


Pair: TypeAlias = tuple[AnyArray, AnyArray]


@jax.custom_jvp
def _larger(x: AnyArray, y: AnyArray) -> AnyArray:
    """The derivative of a maximum is one argument's: JAX's shares it out among equals, which hides what it is."""
    return jax.lax.max(x, y)


@_larger.defjvp
def _slope_of_larger(point: Pair, change: Pair) -> Pair:
    return _larger(*point), jnp.where(point[0] > point[1], *change)


@jax.custom_jvp
def _smaller(x: AnyArray, y: AnyArray) -> AnyArray:
    """The same of a minimum."""
    return jax.lax.min(x, y)


@_smaller.defjvp
def _slope_of_smaller(point: Pair, change: Pair) -> Pair:
    return _smaller(*point), jnp.where(point[0] < point[1], *change)


_EXTREMES = {"max": _larger, "min": _smaller}


# --- types


def _is_float(dtype: DTypeLike) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def _wide(dtype: np.dtype) -> np.dtype:
    """The type that stands for this one: float64 for floats, complex128 for complex numbers, else the same."""
    if _is_float(dtype):
        return np.dtype(np.float64)
    return np.dtype(np.complex128) if jnp.issubdtype(dtype, jnp.complexfloating) else dtype


def _as(value: AnyArray, dtype: np.dtype) -> AnyArray:
    """A value of the wide type that stands for `dtype`; keys of random numbers as they are."""
    return value if jnp.issubdtype(dtype, jax.dtypes.extended) else _exactly(value, _wide(dtype))


def _exactly(value: AnyArray, dtype: DTypeLike) -> AnyArray:
    """A value of this type, and not weakly so: a branch and its twin must agree on that too."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return value
    if not isinstance(value, jax.Array):
        return jnp.asarray(value, dtype)
    return value if value.dtype == dtype and not value.weak_type else jax.lax.convert_element_type(value, dtype)

"""Default dtypes, conversion to JAX arrays, and the difference between values and tracers.

Arrays keep the dtype they have; what Python writes without a dtype (numbers, lists) takes the default one. The default
follows JAX's `jax_enable_x64` at the time of each call. `set_default_dtype("float32")` pins it to float32,
`set_default_dtype("float64")` (which geomstats calls when it loads) lets it follow the flag again.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

_pinned: list[Any] = [None]


def canonical(dtype: Any) -> np.dtype:
    """The dtype that JAX uses for `dtype` at present: float64 is float32 when x64 is off."""
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))


def set_default_dtype(value: Any) -> np.dtype:
    """Pin the default to float32, or let it follow JAX's x64 flag with float64."""
    dtype = np.dtype(value)
    if dtype not in (np.dtype("float32"), np.dtype("float64")):
        raise ValueError(f"`gs.set_default_dtype({value!r})`: the default is 'float32' or 'float64'.")
    _pinned[0] = dtype if dtype == np.float32 else None
    return get_default_dtype()


def get_default_dtype() -> np.dtype:
    """The real dtype of numbers that carry none."""
    return canonical(_pinned[0] or np.float64)


def get_default_cdtype() -> np.dtype:
    """The complex dtype of numbers that carry none."""
    return np.dtype(np.complex64 if get_default_dtype() == np.float32 else np.complex128)


def as_dtype(value: Any) -> np.dtype:
    """The dtype that a string names, as JAX uses it at present."""
    return canonical(value)


def default_of(dtype: Any) -> Any:
    """`dtype` as JAX uses it, or the default real one for None."""
    return get_default_dtype() if dtype is None else canonical(dtype)


def is_traced(*values: Any) -> bool:
    """Whether any leaf is a tracer, so that its value may not be looked at."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


def is_array(x: Any) -> bool:
    """Whether `x` is an array: JAX's (tracers included) or numpy's."""
    return isinstance(x, jax.Array | np.ndarray)


def is_floating(x: Any) -> bool:
    """Whether the entries of `x` are real floats."""
    return jnp.issubdtype(jnp.result_type(x), jnp.floating)


def is_complex(x: Any) -> bool:
    """Whether the entries of `x` are complex."""
    return jnp.issubdtype(jnp.result_type(x), jnp.complexfloating)


def is_bool(x: Any) -> bool:
    """Whether the entries of `x` are booleans."""
    return jnp.result_type(x) == np.bool_


def cast(x: ArrayLike, dtype: Any) -> jax.Array:
    """`x` with another dtype; from complex to real it is the real part."""
    x, dtype = jnp.asarray(x), canonical(dtype)
    if is_complex(x) and not jnp.issubdtype(dtype, jnp.complexfloating):
        x = jnp.real(x)
    return x.astype(dtype)


def array(val: Any, dtype: Any = None) -> jax.Array:
    """A JAX array from numbers, nested lists, numpy or JAX arrays, also when some leaves are tracers."""
    out = jnp.asarray(val)
    if dtype is not None:
        return cast(out, dtype)
    if _pinned[0] is not None and not is_array(val) and not any(map(is_array, jax.tree.leaves(val))):
        if is_floating(out):
            return out.astype(get_default_dtype())
        if is_complex(out):
            return out.astype(get_default_cdtype())
    return out


def operand(x: Any) -> Any:
    """What a `jnp` function accepts for `x`: lists become arrays, Python numbers stay weakly typed."""
    if isinstance(x, list | tuple) or (_pinned[0] is not None and isinstance(x, float | complex)):
        return array(x)
    return x


def inexact(x: Any) -> jax.Array:
    """An array of floats: integers and booleans take the default dtype."""
    x = array(x)
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(get_default_dtype())


def lifted(function: Callable[..., Any], operands: int = 1) -> Callable[..., Any]:
    """`function` taking lists and numbers for its first `operands` arguments, as numpy's functions do."""

    def lifted_function(*args: Any, **kwargs: Any) -> Any:
        return function(*map(operand, args[:operands]), *args[operands:], **kwargs)

    # Not `functools.wraps`: the annotations of the original, which refuse lists, would be taken for this function's.
    lifted_function.__name__, lifted_function.__doc__ = function.__name__, function.__doc__
    return lifted_function


def arrays(sequence: Sequence[Any] | jax.Array) -> list[jax.Array]:
    """The members of a sequence (or of an array, along its first axis) as arrays."""
    return [array(member) for member in sequence]


def convert_to_wider_dtype(tensor_list: Sequence[Any]) -> list[jax.Array]:
    """All members with the dtype that holds them all."""
    members = arrays(tensor_list)
    return [member.astype(jnp.result_type(*members)) for member in members]

"""What several rooms ask of the arguments of a call, before anything is traced or compiled."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from quotax.errors import ParameterError, QuotaxError
from quotax.trees import AnyArray, Tree

LOOKED_AT = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""What JAX raises where Python or NumPy code looks at the value of an array that is traced."""


def first_words(error: Exception) -> str:
    """What an error says before JAX goes on about where it was tracing; no full stop at the end."""
    return str(error).strip().partition("\nThe error occurred")[0].partition("\nSee http")[0].rstrip(".")


def finite_params(call: str, params: Tree) -> Tree:
    """The parameters as finite floating-point JAX arrays."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(params)
    if not leaves:
        raise ParameterError(f"`{call}` needs parameters, got {params!r}, which holds no array.")
    traced = any(isinstance(leaf, Tracer) for _, leaf in leaves)
    if not traced and isinstance(jnp.zeros(()), Tracer):  # inside jit, whatever is computed is traced
        raise ParameterError(
            f"`{call}` was called inside jit: it compiles its own programs, so call it outside, "
            f"with a loss that closes over arrays that are numbers."
        )
    checked = []
    for path, leaf in leaves:
        name = f"params{jax.tree_util.keystr(path)}"
        if isinstance(leaf, Tracer):
            raise ParameterError(
                f"`{call}` was called inside jit, grad or vmap ({name} is a tracer): it compiles its "
                f"own programs, so call it outside."
            )
        try:
            array = jnp.asarray(leaf)
        except (TypeError, ValueError):
            raise ParameterError(
                f"`{call}` needs arrays, and {name} is {leaf!r}; a model that was brought has its own in `.parameters`."
            ) from None
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise ParameterError(
                f"`{call}` moves every parameter, and {name} is {array.dtype}: "
                f"make it floating-point, or close the function over it."
            )
        bad = unfinite(array)
        if bad:
            kind = "NaN" if bool(jnp.isnan(array).any()) else "infinity"
            raise ParameterError(
                f"`{call}` needs finite parameters, and {bad} of the {array.size} entries of {name} are not ({kind})."
            )
        checked.append(array)
    if sum(array.size for array in checked) == 0:
        raise ParameterError(f"`{call}` needs parameters, and every array in params is empty.")
    return jax.tree.unflatten(tree, checked)


def example_array(error: type[QuotaxError], call: str, name: str, value: ArrayLike) -> jax.Array:
    """Examples along a leading axis, all of them numbers."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError):
        raise error(f"`{call}` needs {name} to be an array of examples, got {value!r}.") from None
    if array.ndim == 0 or array.shape[0] == 0:
        raise error(f"`{call}` needs a leading axis of at least one example in {name}, got the shape {array.shape}.")
    if jnp.issubdtype(array.dtype, jnp.inexact) and not np.isfinite(np.asarray(array)).all():
        raise error(f"`{call}`: {name} holds NaN or infinity.")
    return array


def one_output(
    refusal: type[QuotaxError],
    call: str,
    name: str,
    net: Callable[..., Tree],
    params: Tree,
    inputs: Sequence[jax.Array],
) -> jax.ShapeDtypeStruct:
    """Shape and type of one example's output, which has to be an array of real numbers."""
    one = tuple(jax.ShapeDtypeStruct(array.shape[1:], array.dtype) for array in inputs)
    try:
        out = jax.eval_shape(net, params, *one)
    except ParameterError:
        raise
    except (TypeError, ValueError) as error:
        shapes = ", ".join(str(array.shape) for array in inputs)
        raise refusal(
            f"`{call}` calls the network on one example after another, along the first axis of {name} "
            f"(shape {shapes}), and the network refuses one: {error}"
        ) from error
    if not isinstance(out, jax.ShapeDtypeStruct) or not jnp.issubdtype(out.dtype, jnp.floating):
        shown = type(out).__name__ if not isinstance(out, jax.ShapeDtypeStruct) else str(out.dtype)
        raise refusal(f"`{call}` needs a network that returns one array of real numbers, got {shown}.")
    if not math.prod(out.shape):
        raise refusal(f"`{call}` needs outputs, and the network's have the shape {out.shape}.")
    return out


def unfinite(array: AnyArray) -> int:
    """How many entries are NaN or infinite; an array is looked at where it lies, which may be in several processes."""
    there = isinstance(array, jax.Array) and (len(array.sharding.device_set) > 1 or not on_host(array))
    fine = jnp.isfinite(array) if there else np.isfinite(np.asarray(array))  # NumPy compiles nothing for it
    return int(np.size(array) - fine.sum())


def on_host(params: Tree) -> bool:
    """Whether the devices of all arrays are processors."""
    return all(device.platform == "cpu" for leaf in jax.tree.leaves(params) for device in leaf.devices())


def whole_number(error: type[QuotaxError], call: str, name: str, value: object, least: int) -> int:
    """An integer argument, at least `least`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise error(f"`{call}` needs {name}= a whole number, at least {least}, got {value!r}.")
    return int(value)


def random_key(error: type[QuotaxError], call: str, key: Any) -> jax.Array:
    """A JAX key, typed or as two words; an integer seeds one, and None is 0."""
    if key is None:
        return jax.random.key(0)
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        return jax.random.key(int(key))
    if isinstance(key, jax.Array | np.ndarray):
        array = jnp.asarray(key)
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) and array.shape == ():
            return array
        if array.dtype == jnp.uint32 and array.shape == (2,):
            return array
    raise error(f"`{call}` needs key= a JAX key or an integer, got {key!r}; try jax.random.key(0).")

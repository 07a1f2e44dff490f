"""Refusals of bad input, before anything is compiled."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from quotax.checks import example_array, finite_params, whole_number
from quotax.errors import FunctionSpaceError
from quotax.trees import AnyArray, AnySpace, Tree

Arrays = tuple[jax.Array, ...]


def params_of(call: str, net: Any, params: Tree) -> Tree:
    """The parameters of a network as finite floating-point arrays."""
    if not callable(net):
        raise FunctionSpaceError(f"`{call}` needs a network or a function `net(params, x)`, got {net!r}.")
    check = getattr(net, "check_params", None)
    if check is not None:
        check(params, call=call, finite=True)
    return finite_params(call, params)


def examples(call: str, name: str, inputs: Tree) -> Arrays:
    """One array, or a tuple of one for each input of the network, that share a leading axis of examples."""
    arrays = []
    for place, value in enumerate(inputs if isinstance(inputs, tuple) else (inputs,)):
        label = f"{name}[{place}]" if isinstance(inputs, tuple) else name
        arrays.append(example_array(FunctionSpaceError, call, label, value))
    if not arrays:
        raise FunctionSpaceError(f"`{call}` needs examples, and {name} is an empty tuple.")
    counts = [array.shape[0] for array in arrays]
    if len(set(counts)) > 1:
        raise FunctionSpaceError(f"`{call}` needs as many examples in every array of {name}, got {counts}.")
    return tuple(arrays)


def like_outputs(call: str, name: str, value: AnyArray, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    """An array of finite numbers, one for each output of each example."""
    try:
        array = jnp.asarray(value, dtype)
    except (TypeError, ValueError):
        raise FunctionSpaceError(f"`{call}` needs {name} to be an array of shape {shape}, got {value!r}.") from None
    if array.shape != shape:
        raise FunctionSpaceError(
            f"`{call}` needs {name} of the shape of the outputs, {shape}, examples first; got {array.shape}."
        )
    if not np.isfinite(np.asarray(array)).all():
        raise FunctionSpaceError(f"`{call}`: {name} holds NaN or infinity.")
    return array


whole = functools.partial(whole_number, FunctionSpaceError)
"""A whole number, at least so much."""


def point_of(call: str, space: AnySpace, params: Tree) -> Tree:
    """The factored point of a quotient at these parameters."""
    if not callable(getattr(space, "at", None)):
        raise FunctionSpaceError(
            f"`{call}` needs space= a quotient, got {type(space).__name__}; `quotax.quotient(...)` makes one, and no "
            f"space means the Euclidean metric on all parameters."
        )
    return space.at(params)

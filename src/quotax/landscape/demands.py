"""What the calls of this room demand of their arguments, before anything is compiled."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Callable

import jax
import jax.numpy as jnp

from quotax.checks import random_key, whole_number
from quotax.errors import LandscapeError
from quotax.trees import AnyArray, AnySpace, Tree

whole = functools.partial(whole_number, LandscapeError)
"""A whole number, at least so much."""
key_of = functools.partial(random_key, LandscapeError)
"""A JAX key."""


def quotient_of(call: str, space: AnySpace) -> Tree:
    """A quotient, or a refusal that says what was passed."""
    if not callable(getattr(space, "at", None)) or not hasattr(space, "families"):
        raise LandscapeError(
            f"`{call}` needs space= a quotient, got {type(space).__name__}; `quotax.quotient(...)` makes one."
        )
    return space


def positive(call: str, name: str, value: AnyArray) -> float:
    """A positive finite number."""
    real = isinstance(value, numbers.Real) or (hasattr(value, "shape") and value.shape == ())
    if not real or isinstance(value, bool) or not 0 < float(value) < math.inf:
        raise LandscapeError(f"`{call}` needs {name}= a positive number, got {value!r}.")
    return float(value)


def scalar(call: str, name: str, function: Callable[[Tree], Tree], params: Tree) -> None:
    """Refuse what is no function of the parameters with one real number as its value; nothing is computed."""
    if not callable(function):
        raise LandscapeError(f"`{call}` needs {name}= a function of the parameters, got {function!r}.")
    found = jax.eval_shape(function, params)
    if getattr(found, "shape", None) != () or not jnp.issubdtype(found.dtype, jnp.floating):
        raise LandscapeError(
            f"`{call}` needs {name}= a function with one real number as its value; it returns {found}."
        )


def one_number(call: str, name: str, function: Callable[[Tree], Tree], params: Tree) -> float:
    """The value there, which has to be finite."""
    scalar(call, name, function, params)
    value = float(function(params))
    if not math.isfinite(value):
        raise LandscapeError(f"`{call}` needs a finite {name} at params, and it is {value}.")
    return value

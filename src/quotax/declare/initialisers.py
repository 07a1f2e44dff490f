"""How parameters start: LeCun normal for weights, zeros for biases, ones for gains, or as the user says."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from quotax.declare.fused_axes import DeclaredArray
from quotax.errors import ArchitectureError
from quotax.programs.draws import normal
from quotax.trees import Tree

Initialiser = Callable[[jax.Array, tuple[int, ...], Any], jax.Array]
"""`(key, shape, dtype) -> array`, the signature of `jax.nn.initializers`."""

_GAIN = re.compile(r"(g|gain|gains|gamma|scale)_?\d*|\w+_(g|gain|gamma|scale)")
_BIAS = re.compile(r"b[a-z]?_?\d*|b_\w+|(bias|biases|beta|shift|offset)(_?\w+)?|\w+_(b|bias|beta|shift)")


def zeros(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    """All zeros."""
    return jnp.zeros(shape, dtype)


def ones(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    """All ones."""
    return jnp.ones(shape, dtype)


def constant(value: float) -> Initialiser:
    """One number everywhere."""
    return functools.partial(_full, value)


def _full(value: float, key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    return jnp.full(shape, value, dtype)


def constant_of(initialise: Initialiser) -> float | None:
    """The number that an initialiser puts everywhere, if it is of that kind."""
    if isinstance(initialise, functools.partial) and initialise.func is _full:
        return initialise.args[0]
    return None


def lecun_normal(fan_in: int) -> Initialiser:
    """Normal of variance `1 / fan_in`, so that a contraction over `fan_in` entries keeps the scale of its input."""

    def initialise(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
        return jnp.asarray(normal(key, shape, dtype) / np.asarray(math.sqrt(fan_in), dtype))

    return initialise


def default_initialiser(spec: DeclaredArray, sizes: Mapping[str, int]) -> Initialiser:
    """The initialiser of a parameter that the user says nothing about.

    Scalars and arrays of one axis are gains or biases when their names say so (`gain`, `gamma`, `scale`, `g`;
    `b`, `b1`, `bias`, `beta`, `shift`). Every other array is a weight: LeCun normal. Weights are declared output
    first (`"h x"` is applied as `W @ x`, `"o c 3 3"` convolves), so the fan-in is the last axis and, for
    kernels with fixed sizes, everything but the first axis.
    """
    shape = spec.shape(sizes)
    name = spec.name.rpartition("/")[2]
    if len(shape) <= 1:
        if _GAIN.fullmatch(name):
            return ones
        if _BIAS.fullmatch(name):
            return zeros
    if not shape:
        return lecun_normal(1)
    kernel = len(shape) > 2 and spec.kernel
    return lecun_normal(math.prod(shape[1:]) if kernel else shape[-1])


def check_overrides(overrides: object, arrays: tuple[DeclaredArray, ...]) -> dict[str, Initialiser]:
    """The user's own initialisers by parameter name; a number stands for a constant."""
    if overrides is None:
        return {}
    if not isinstance(overrides, Mapping):
        raise ArchitectureError(
            f"`architecture`: init must be a dict of parameter name -> initialiser, got {overrides!r}."
        )
    names = [array.name for array in arrays]
    checked: dict[str, Tree] = {}
    for name, value in overrides.items():
        if name not in names:
            raise ArchitectureError(
                f"`architecture`: init names {name!r}, which is no parameter; they are {', '.join(names)}."
            )
        if callable(value):
            checked[name] = value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            checked[name] = constant(value)
        else:
            raise ArchitectureError(
                f"`architecture`: init[{name!r}] must be a number or a function (key, shape, dtype) -> array "
                f"such as jax.nn.initializers.orthogonal(), got {value!r}."
            )
    return checked

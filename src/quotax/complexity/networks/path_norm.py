r"""The path norm: the sum over all paths from inputs to outputs of products of absolute weights, by one evaluation.

A network of positive factors, sums and $\max(\cdot, 0)$ is, for weights and inputs that are not negative, a
polynomial with coefficients that are not negative: its monomials are the paths. With $|\theta|^p$ for weights and
ones for inputs it is

$$\|\theta\|_{path,p}^p = \sum_{paths} \prod_{edges} |w|^p,
\qquad |f_\theta(x)| \le f_{|\theta|}(1) \, \max(|x|_\infty, 1),$$

biases being paths that begin at a one. The bound holds because $|f_\theta(x)| \le f_{|\theta|}(|x|)$ entry by entry,
a statement about each equation of the trace, which is checked here; what is not positively homogeneous is refused by
its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn

from quotax.complexity.networks.measured_network import MeasuredNetwork
from quotax.errors import ComplexityError
from quotax.programs.jaxprs import CALLS, IDENTITIES, as_closed, bare, live
from quotax.trees import Tree

_LINEAR = {
    "add", "add_any", "dot_general", "conv_general_dilated", "reduce_sum", "reduce_window_sum", "cumsum", "reshape",
    "transpose", "squeeze", "stack", "unstack", "expand_dims", "broadcast_in_dim", "slice", "dynamic_slice",
    "concatenate", "rev", "gather", "pad", "convert_element_type", "reduce_precision", "split", *IDENTITIES,
}  # fmt: skip
"""Sums of products of what goes in, or rearrangements; of positive numbers, if these are."""
_POWERS = {"square", "integer_pow", "mul"}
_LARGEST = {"max", "reduce_max", "reduce_window_max"}


@dataclass(frozen=True)
class _Path:
    """A polynomial of weights and inputs."""


_PATH = _Path()


def check_paths(subject: MeasuredNetwork, power: int) -> None:
    """Refuse a network whose output is no sum over paths, or that multiplies by what a power changes."""
    for one in subject.one:
        if not jnp.issubdtype(one.dtype, jnp.floating):
            raise _refusal(f"an input is {one.dtype}")
    traced = jax.make_jaxpr(subject.net)(subject.params, *subject.one)
    given: list[Tree] = [_PATH for _ in traced.jaxpr.invars]
    out = _run(traced, given, list(traced.consts), power)
    if any(value is not _PATH for value in out):
        raise _refusal("its output depends on neither weights nor inputs")


def path_power(net: Callable[..., Tree], params: Tree, ones: tuple[Tree, ...], power: int) -> Tree:
    """`f` at the powers of the absolute weights and at ones, summed over outputs."""
    weights = jax.tree.map(jnp.abs if power == 1 else jnp.square, params)
    return jnp.sum(net(weights, *ones))


def _refusal(why: str) -> ComplexityError:
    return ComplexityError(f"the network is no sum over paths: {why}.")


def _run(closed: ClosedJaxpr, given: list[Tree], constants: list[Tree], power: int) -> list[Tree]:
    """Which outputs are polynomials of weights and inputs, and what the others are."""
    jaxpr = bare(closed)
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
    known |= dict(zip(jaxpr.invars, given, strict=True))
    read = lambda atom: atom.val if hasattr(atom, "val") else known[atom]
    for equation in live(jaxpr):
        values = [read(atom) for atom in equation.invars]
        known |= dict(zip(equation.outvars, _step(equation, values, power), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _step(equation: JaxprEqn, values: list[Tree], power: int) -> list[Tree]:
    name = equation.primitive.name
    if name in CALLS:
        inner = as_closed(equation.params[CALLS[name]])
        return _run(inner, values, list(inner.consts), power)
    if not any(value is _PATH for value in values):
        found = equation.primitive.bind(*map(jnp.asarray, values), **equation.params)
        return list(found) if equation.primitive.multiple_results else [found]
    numbers = [np.asarray(v) for v in values if v is not _PATH]
    numbers = [n for n in numbers if not np.issubdtype(n.dtype, np.integer)]  # places that are read
    if name in _LARGEST:
        if all((n <= 0).all() for n in numbers):
            return [_PATH]
        raise _refusal("it takes the maximum with a positive number")
    if name == "div" and values[0] is _PATH and values[1] is not _PATH:
        numbers = [1 / numbers[0]]
    elif name == "integer_pow" and equation.params["y"] < 1:
        raise _refusal("it divides by what depends on the parameters or the input")
    elif name not in _LINEAR | _POWERS:
        raise _refusal(f"{name} is not positively homogeneous, or it subtracts")
    if any((n < 0).any() for n in numbers):
        raise _refusal(f"{name} is of a negative constant")
    if power != 1 and any(not np.isin(n, (0, 1)).all() for n in numbers):
        raise _refusal(f"{name} is of a constant other than 1, which is no weight, so paths have no powers here")
    return [_PATH for _ in equation.outvars]

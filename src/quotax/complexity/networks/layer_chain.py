r"""A network as a chain $x \mapsto \phi_L(A_L \cdots \phi_1(A_1 x) \cdots)$, read off its trace.

Measures that multiply norms of layers mean such a chain. It is read here, not declared: from the input to the output
every equation has to be a matrix product with one parameter, the addition of a bias, a factor, a rearrangement or a
function of single numbers whose Lipschitz constant is known. What branches, mixes or normalises is refused by the
name of its primitive. A matrix that acts along one of several axes is a chain too: $1 \otimes A$ has A's norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn

from quotax.complexity.networks.measured_network import MeasuredNetwork, by_name
from quotax.errors import ComplexityError
from quotax.programs.jaxprs import CALLS, IDENTITIES, as_closed, bare, live, shaped
from quotax.trees import Tree

LIPSCHITZ = {
    "tanh": 1.0, "sin": 1.0, "cos": 1.0, "abs": 1.0, "neg": 1.0, "atan": 1.0, "asinh": 1.0, "logistic": 0.25,
    "erf": 2 / math.sqrt(math.pi), "round": math.inf,
}  # fmt: skip
"""The Lipschitz constants of functions of one number."""
ZERO_AT_ZERO = {"tanh", "sin", "abs", "neg", "atan", "asinh", "erf"}
_MOVES = {"reshape", "transpose", "squeeze", "expand_dims", "rev"}
_SAME = {"convert_element_type", "reduce_precision", *IDENTITIES}


@dataclass(frozen=True)
class Layer:
    """One matrix of the chain, and what is done to its output before the next.

    Attributes:
        name: the parameter.
        rows: the axis of the array that counts its outputs.
        lipschitz: the Lipschitz constant of what follows.
    """

    name: str
    rows: int
    lipschitz: float = 1.0

    def matrix(self, arrays: dict[str, Tree]) -> Tree:
        """The matrix, outputs first."""
        return arrays[self.name] if self.rows == 0 else arrays[self.name].T


@dataclass(frozen=True)
class Chain:
    """The layers in order.

    Attributes:
        layers: in the order in which an input meets them.
        biases: parameters that are added.
        scale: the Lipschitz constant of what is done to the input before the first layer.
        plain: whether inputs are single vectors, and every function is zero at zero.
    """

    layers: tuple[Layer, ...]
    biases: tuple[str, ...]
    scale: float
    plain: bool

    def matrices(self, tree: Tree) -> list[Tree]:
        """The matrices, outputs first, of parameters shaped like those that the chain was read of."""
        arrays = by_name(tree)
        return [layer.matrix(arrays) for layer in self.layers]

    @property
    def lipschitz(self) -> float:
        """The product of the Lipschitz constants that are not the layers' own."""
        return self.scale * math.prod(layer.lipschitz for layer in self.layers)


def layer_chain(subject: MeasuredNetwork) -> Chain:
    """The chain of a network; refused where it is none."""
    traced = jax.make_jaxpr(subject.net)(subject.params, *subject.one)
    names = list(by_name(subject.params))
    if len(subject.one) != 1 or not jnp.issubdtype(subject.one[0].dtype, jnp.floating):
        raise _no_chain(f"it has {len(subject.one)} inputs, or one that is not of real numbers")
    reader = _Reader()
    given: list[Tree] = [_Parameter(name, False) for name in names]
    (out,) = reader.run(traced, [*given, _ON_CHAIN], list(traced.consts))
    if out is not _ON_CHAIN or not reader.layers:
        raise _no_chain("its output is not what the last matrix gives")
    return Chain(
        tuple(reader.layers), tuple(reader.biases), reader.scale, reader.plain and len(subject.one[0].shape) == 1
    )


def _no_chain(why: str) -> ComplexityError:
    return ComplexityError(f"the network is no chain of matrices and functions of single numbers: {why}.")


@dataclass(frozen=True)
class _Parameter:
    """An array made of one parameter by rearranging it; `turned` if it is its transpose, None if it is neither."""

    name: str
    turned: bool | None


class _OnChain:
    """What the input has become."""


_ON_CHAIN = _OnChain()


class _Reader:
    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.biases: list[str] = []
        self.scale = 1.0
        self.plain = True

    def run(self, closed: ClosedJaxpr, given: list[Tree], constants: list[Tree]) -> list[Tree]:
        """What the outputs of a jaxpr are: `_ON_CHAIN`, a `_Parameter`, or an array that is known."""
        jaxpr = bare(closed)
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
        known |= dict(zip(jaxpr.invars, given, strict=True))
        read = lambda atom: known[atom] if not hasattr(atom, "val") else atom.val
        equations = live(jaxpr)
        uses: dict[Any, int] = {}
        for atom in [a for e in equations for a in e.invars] + list(jaxpr.outvars):
            if not hasattr(atom, "val"):
                uses[atom] = uses.get(atom, 0) + 1
        for equation in equations:
            values = [read(atom) for atom in equation.invars]
            for atom, value in zip(equation.invars, values, strict=True):
                if value is _ON_CHAIN and uses[atom] > 1:
                    raise _no_chain(f"what {equation.primitive.name} reads is read elsewhere too")
            known |= dict(zip(equation.outvars, self._step(equation, values), strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _step(self, equation: JaxprEqn, values: list[Tree]) -> list[Tree]:
        name = equation.primitive.name
        if name in CALLS:
            inner = as_closed(equation.params[CALLS[name]])
            return self.run(inner, values, list(inner.consts))
        chained = [value is _ON_CHAIN for value in values]
        held = [isinstance(value, _Parameter) for value in values]
        if not any(chained) and not any(held):
            found = equation.primitive.bind(*map(jnp.asarray, values), **equation.params)
            return list(found) if equation.primitive.multiple_results else [found]
        if not any(chained):
            return [self._rearranged(equation, values)]
        if sum(chained) > 1:
            raise _no_chain(f"{name} joins two branches")
        self._on_chain(equation, values, chained.index(True))
        return [_ON_CHAIN]

    def _rearranged(self, equation: JaxprEqn, values: list[Tree]) -> _Parameter:
        name = equation.primitive.name
        own = next(value for value in values if isinstance(value, _Parameter))
        if name in _SAME:
            return own
        if name == "transpose" and own.turned is not None and tuple(equation.params["permutation"]) == (1, 0):
            return replace(own, turned=not own.turned)
        if name in _MOVES | {"broadcast_in_dim"}:
            return replace(own, turned=None)
        raise _no_chain(f"{name} changes the parameter {own.name!r} before it is used")

    def _on_chain(self, equation: JaxprEqn, values: list[Tree], place: int) -> None:
        """What one equation does to the chain."""
        name, shapes = equation.primitive.name, [shaped(atom).shape for atom in equation.invars]
        other = values[1 - place] if len(values) == 2 else None
        if name in _SAME | _MOVES:
            return None
        if name == "broadcast_in_dim" and math.prod(shapes[0]) == math.prod(shaped(equation.outvars[0]).shape):
            return None
        if name == "dot_general" and isinstance(other, _Parameter) and other.turned is not None:
            contracted, batch = equation.params["dimension_numbers"]
            if not any(batch) and len(contracted[0]) == 1 and len(shapes[1 - place]) == 2:
                columns = contracted[1 - place][0]
                self.layers.append(Layer(other.name, (1 - columns) ^ int(other.turned)))
                return None
        if name in ("add", "sub") and isinstance(other, _Parameter):
            self.biases.append(other.name)
            return None
        if name in ("mul", "div") and len(values) == 2 and not isinstance(other, _Parameter):
            sizes = np.abs(np.asarray(other, float))
            if name == "mul" or (place == 0 and sizes.all()):
                return self._followed(float(sizes.max() if name == "mul" else 1 / sizes.min()))
        if name in ("max", "min") and not isinstance(other, _Parameter):
            return self._followed(1.0, bool(np.all(np.asarray(other) == 0)))
        if name in ("add", "sub") and not isinstance(other, _Parameter):
            return self._followed(1.0, bool(np.all(np.asarray(other) == 0)))
        if name in LIPSCHITZ and math.isfinite(LIPSCHITZ[name]):
            return self._followed(LIPSCHITZ[name], name in ZERO_AT_ZERO)
        raise _no_chain(f"{name} is none of these")

    def _followed(self, lipschitz: float, plain: bool = True) -> None:
        self.plain = self.plain and plain
        if self.layers:
            self.layers[-1] = replace(self.layers[-1], lipschitz=lipschitz * self.layers[-1].lipschitz)
        else:
            self.scale *= lipschitz

r"""What a measure measures: a network at parameters, and examples with labels.

Labels say which loss is meant: whole numbers that of classes, $\log \sum_j e^{f_j} - f_y$; signs of a single output
that of two classes, $\log(1 + e^{-y f})$; arrays like the outputs that of squared errors, $\tfrac12 |f - y|^2$.
Losses are means over examples. Margins are $f_y - \max_{j \ne y} f_j$, or $y f$.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.checks import example_array, finite_params, one_output
from quotax.errors import ComplexityError
from quotax.programs.compiling import beside
from quotax.trees import AnyArray, AnySpace, Tree

Arrays = tuple[jax.Array, ...]

TOGETHER = 512
"""Examples that run at once."""

LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "classes": lambda f, y: jax.nn.logsumexp(f) - f[y],
    "signs": lambda f, y: jax.nn.softplus(-y.reshape(()).astype(f.dtype) * f.reshape(())),
    "values": lambda f, y: 0.5 * jnp.sum((f - y) ** 2),
}
"""The loss of one example, by the kind of its label."""


@dataclass(frozen=True, eq=False)
class MeasuredNetwork:
    """A network at parameters, with examples if there are any.

    Attributes:
        call: who asks, for messages.
        net: a function of parameters and one example.
        inputs: arrays that share the leading axis of examples.
        labels: one for each example.
        start: parameters that others are compared with: where training began.
        space: a quotient.
        seed: of what is drawn.
    """

    call: str
    net: Callable[..., Tree] = field(repr=False)
    params: Tree = field(repr=False)
    inputs: Arrays | None = field(default=None, repr=False)
    labels: jax.Array | None = field(default=None, repr=False)
    start: Tree = field(default=None, repr=False)
    space: AnySpace = field(default=None, repr=False)
    seed: int = 0

    def at(self, params: Tree) -> MeasuredNetwork:
        """The same examples at other parameters."""
        return dataclasses.replace(self, params=params)

    @functools.cached_property
    def arrays(self) -> dict[str, jax.Array]:
        """The parameters by name."""
        return by_name(self.params)

    # --- examples

    @property
    def examples(self) -> Arrays:
        """The inputs, which have to be there."""
        if self.inputs is None:
            raise ComplexityError(f"`{self.call}`: this measure looks at examples: pass inputs=.")
        return self.inputs

    @property
    def count(self) -> int:
        """How many examples there are."""
        return self.examples[0].shape[0]

    @property
    def batch(self) -> tuple[Arrays, jax.Array]:
        """Inputs and labels."""
        if self.labels is None:
            raise ComplexityError(f"`{self.call}`: this measure looks at labelled examples: pass labels=.")
        return self.examples, self.labels

    @functools.cached_property
    def one(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Shapes and types of one example."""
        return tuple(jax.ShapeDtypeStruct(array.shape[1:], array.dtype) for array in self.examples)

    @functools.cached_property
    def output(self) -> jax.ShapeDtypeStruct:
        """Shape and type of one example's output."""
        return one_output(ComplexityError, self.call, "inputs", self.net, self.params, self.examples)

    @functools.cached_property
    def kind(self) -> str:
        """What labels are: `"classes"`, `"signs"` or `"values"`."""
        _, labels = self.batch
        shape = self.output.shape
        if labels.shape == (self.count,) and jnp.issubdtype(labels.dtype, jnp.integer) and math.prod(shape) > 1:
            classes = shape[-1] if len(shape) == 1 else 0
            if classes and int(labels.min()) >= 0 and int(labels.max()) < classes:
                return "classes"
            raise ComplexityError(
                f"`{self.call}`: labels are whole numbers from {int(labels.min())} to {int(labels.max())}, and the "
                f"outputs of shape {shape} tell {f'classes 0 to {classes - 1}' if classes else 'no classes'}."
            )
        if math.prod(shape) == 1 and labels.size == self.count and bool((jnp.abs(labels) == 1).all()):
            return "signs"
        if labels.shape == (self.count, *shape) and jnp.issubdtype(labels.dtype, jnp.floating):
            return "values"
        raise ComplexityError(
            f"`{self.call}`: labels of shape {labels.shape} and type {labels.dtype} do not go with {self.count} "
            f"outputs of shape {shape}: pass whole numbers (classes), signs for a single output, or target values."
        )

    @property
    def loss(self) -> Callable[[Tree, Any], Any]:
        """`loss(params, (inputs, labels))`, the mean over examples; one function for each network and kind."""
        return self._programs.loss[self.kind]

    @functools.cached_property
    def outputs(self) -> jax.Array:
        """The outputs on all examples."""
        _ = self.output
        return self._programs.outputs(self.params, self.examples)

    @functools.cached_property
    def margins(self) -> np.ndarray:
        """The margin of every example."""
        return np.asarray(margins_of(self.call, self.kind, self.outputs, self.batch[1]))

    @functools.cached_property
    def euler(self) -> jax.Array:
        """The derivative of all outputs along the parameters themselves: `J theta`."""
        _ = self.output
        return self._programs.euler(self.params, self.examples)

    def forms(self, stack: Tree) -> np.ndarray:
        """The second derivatives of the mean loss along a stack of tangent vectors."""
        return np.asarray(self._programs.forms[self.kind](self.params, self.batch, stack), float)

    @property
    def _programs(self) -> _Programs:
        return beside(self.net, "complexity", _Programs)


def margins_of(call: str, kind: str, outputs: jax.Array, labels: jax.Array) -> jax.Array:
    """The margin of every example."""
    if kind == "values":
        raise ComplexityError(f"`{call}`: a margin is one of classes or signs, and the labels are values.")
    if kind == "signs":
        return labels.reshape(-1).astype(outputs.dtype) * outputs.reshape(-1)
    own = jnp.take_along_axis(outputs, labels[:, None], 1)[:, 0]
    others = jnp.where(jax.nn.one_hot(labels, outputs.shape[1], dtype=bool), -jnp.inf, outputs)
    return own - others.max(1)


class _Programs:
    """What is compiled for a network, each program once."""

    def __init__(self, net: Callable[[], Callable[..., Tree]]) -> None:
        """`net` returns the network, which is not held here."""
        each = lambda function, arrays: jax.lax.map(function, arrays, batch_size=min(TOGETHER, len(arrays[0])))
        self.outputs = jax.jit(lambda params, inputs: each(lambda one: net()(params, *one), inputs))
        along = lambda params, one: jax.jvp(lambda p: net()(p, *one), (params,), (params,))[1]
        self.euler = jax.jit(lambda params, inputs: each(lambda one: along(params, one), inputs))
        self.loss = {kind: self._mean(net, one) for kind, one in LOSSES.items()}
        self.forms = {kind: self._second(net, one) for kind, one in LOSSES.items()}

    @staticmethod
    def _mean(net: Callable[[], Callable[..., Tree]], one: Callable[[Any, Any], Any]) -> Callable[[Tree, Any], Any]:
        def loss(params: Tree, batch: Tree) -> Tree:
            inputs, labels = batch
            return jnp.mean(jax.vmap(lambda x, y: one(net()(params, *x), y))(inputs, labels))

        return loss

    @staticmethod
    def _second(net: Callable[[], Callable[..., Tree]], one: Callable[[Any, Any], Any]) -> Callable[..., Tree]:
        """`H[v, v]` of the mean loss for a stack of tangent vectors: forwards twice, in the memory of some examples."""

        def form(params: Tree, batch: Tree, v: Tree) -> Tree:
            def bend(example: Any) -> Tree:
                loss = lambda p: one(net()(p, *example[0]), example[1])
                slope = lambda p: jax.jvp(loss, (p,), (v,))[1]
                return jax.jvp(slope, (params,), (v,))[1]

            return jnp.mean(jax.lax.map(bend, batch, batch_size=min(TOGETHER, len(batch[1]))))

        return jax.jit(lambda params, batch, stack: jax.lax.map(lambda v: form(params, batch, v), stack))


def by_name(tree: Tree) -> dict[str, Tree]:
    """The leaves of a tree by where they stand."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def with_leaves(tree: Tree, leaves: dict[str, Tree]) -> Tree:
    """A tree with other leaves in some places."""
    return jax.tree.unflatten(jax.tree.structure(tree), list((by_name(tree) | leaves).values()))


def measured(
    call: str,
    net: Any,
    params: Tree,
    inputs: Tree = None,
    labels: AnyArray = None,
    *,
    start: Tree = None,
    space: AnySpace | None = None,
    seed: int = 0,
) -> MeasuredNetwork:
    """What was passed, or a refusal before anything is compiled."""
    if not callable(net):
        raise ComplexityError(f"`{call}` needs a network or a function `net(params, x)`, got {net!r}.")
    check = getattr(net, "check_params", None)
    for tree in (params, start):
        if check is not None and tree is not None:
            check(tree, call=call, finite=True)
    params = finite_params(call, params)
    start = None if start is None else finite_params(call, start)
    if start is not None and jax.tree.map(jnp.shape, start) != jax.tree.map(jnp.shape, params):
        raise ComplexityError(f"`{call}`: start= is not shaped like the parameters.")
    if space is not None and not callable(getattr(space, "canonical", None)):
        raise ComplexityError(
            f"`{call}` needs space= a quotient, got {type(space).__name__}; `quotax.quotient` makes one."
        )
    read = functools.partial(example_array, ComplexityError, call)
    arrays = None if inputs is None else tuple(read("inputs", value) for value in _tuple(inputs))
    marks = None if labels is None else read("labels", labels)
    counts = {array.shape[0] for array in (*(arrays or ()), *(() if marks is None else (marks,)))}
    if len(counts) > 1 or arrays == ():
        raise ComplexityError(f"`{call}` needs as many examples in every array of inputs and labels, got {counts}.")
    found = MeasuredNetwork(call, net, params, arrays, marks, start, space, seed)
    if arrays is not None:
        _ = found.output
        if marks is not None:
            _ = found.kind
    return found


def _tuple(inputs: Tree) -> tuple[Tree, ...]:
    return inputs if isinstance(inputs, tuple) else (inputs,)

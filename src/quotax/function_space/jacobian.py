r"""The Jacobian of a network's outputs on a batch by its parameters, as a linear map; never written out as a whole.

With $f(\theta) \in \mathbb R^{N \times y}$ the outputs on $N$ examples, `push` is $v \mapsto J v$ and `pull` is
$w \mapsto J^T w$, a few passes over the examples each. Products of rows, $J_a G^{-1} J_b^T$, are computed as $J_a V$
for a stack $V = G^{-1} J_b^T$ of as many rows as memory allows: a derivative of the network for each example and row,
where a product of Jacobians that are written out takes as many operations for each of the example's outputs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from quotax.function_space.coordinates import levelled, raised, whitened
from quotax.function_space.refusals import Arrays
from quotax.programs.compiling import beside
from quotax.programs.jaxprs import bare, bodies, shaped
from quotax.trees import AnyPoint, Tree

ROOM = 2**26
"""So many numbers may lie in memory at once, besides parameters and examples."""


@dataclass(frozen=True)
class Jacobian:
    """The derivative of `net(params, x)` by the parameters, at all examples of a batch.

    Attributes:
        net: a function of parameters and one example.
        params: where it is differentiated.
        inputs: arrays that share the leading axis of examples.
        output: shape and type of one example's output.
    """

    net: Callable[..., Tree] = field(repr=False)
    params: Tree = field(repr=False)
    inputs: Arrays = field(repr=False)
    output: jax.ShapeDtypeStruct

    @property
    def examples(self) -> int:
        """How many there are."""
        return self.inputs[0].shape[0]

    @property
    def outputs_each(self) -> int:
        """The outputs of one example."""
        return math.prod(self.output.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all outputs: examples first."""
        return (self.examples, *self.output.shape)

    @property
    def rows(self) -> int:
        """The number of outputs of all examples."""
        return self.examples * self.outputs_each

    @property
    def columns(self) -> int:
        """The number of parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))

    @functools.cached_property
    def eps(self) -> float:
        """The rounding unit: the coarsest of parameters, outputs and whatever is computed on the way."""
        dtypes = {leaf.dtype for leaf in jax.tree.leaves(self.params)} | {self.output.dtype}
        dtypes |= {value.dtype for value in self._computed if jnp.issubdtype(value.dtype, jnp.floating)}
        return max(float(jnp.finfo(dtype).eps) for dtype in dtypes)

    def at(self, params: Tree) -> Jacobian:
        """The same batch at other parameters."""
        return Jacobian(self.net, params, self.inputs, self.output)

    # --- the whole batch

    def outputs(self) -> jax.Array:
        """The outputs themselves."""
        return self._joined(self._programs.outputs(self.params, self._blocks))

    def push(self, v: Tree) -> jax.Array:
        """`J v`, of the shape of the outputs."""
        return self._joined(self._programs.push(self.params, self._blocks, v))

    def pull(self, w: jax.Array) -> Tree:
        """`J^T w`, a covector shaped like the parameters."""
        return self._programs.pull(self.params, self._blocks, self._weights(w))

    def twist(self, w: jax.Array, v: Tree) -> Tree:
        """The derivative of `J^T w` along `v`: how the outputs bend."""
        return self._programs.twist(self.params, self._blocks, self._weights(w), v)

    # --- rows of it

    def pulled(self, start: int, stop: int) -> Tree:
        """Some rows of J, as a stack of covectors: output `i` of all, counted with examples first."""
        flat = np.arange(start, stop)
        example, place = np.divmod(flat, self.outputs_each)
        chosen = np.eye(self.outputs_each, dtype=self.output.dtype)[place].reshape(len(flat), *self.output.shape)
        return self._programs.rows(self.params, tuple(array[example] for array in self.inputs), chosen)

    def coordinates(self, point: AnyPoint = None) -> np.ndarray:
        """All rows, horizontal and whitened, written out in NumPy: where they are few."""
        step = min(self.stack, self.rows)
        found = np.zeros((self.rows, self.columns))
        for begin in range(0, self.rows, step):
            start = min(begin, self.rows - step)
            leaves = jax.tree.leaves(whitened(point, self.pulled(start, start + step)))
            np.concatenate([leaf.reshape(step, -1) for leaf in leaves], axis=1, out=found[start : start + step])
        return found

    def gram(self, other: Jacobian | None = None, point: AnyPoint = None, *, horizontal: bool = False) -> np.ndarray:
        """`J G^-1 J'^T`, with J' of another batch at the same parameters; of itself, only half is computed."""
        right = self if other is None else other
        step = min(right.stack, right.rows)
        found = np.zeros((self.rows, right.rows), self.output.dtype)
        each = self._together(step)
        for begin in range(0, right.rows, step):
            start = min(begin, right.rows - step)  # programs have one shape: the last stack overlaps the one before
            covectors = right.pulled(start, start + step)
            vectors = levelled(point, covectors) if horizontal else raised(point, covectors)
            last = self.examples if other is not None else -(-(start + step) // self.outputs_each)
            for first in range(0, last, each):
                first = min(first, self.examples - each)
                inputs = tuple(array[first : first + each] for array in self.inputs)
                block = self._programs.against(self.params, inputs, vectors)
                top = first * self.outputs_each
                found[top : top + each * self.outputs_each, start : start + step] = np.asarray(block)
        if other is None:
            _mirror(found)
        return found

    # --- sizes

    @functools.cached_property
    def activations(self) -> int:
        """How many numbers the network computes on the way, for one example."""
        return max(sum(math.prod(value.shape) for value in self._computed), self.outputs_each)

    @functools.cached_property
    def _computed(self) -> list[jax.ShapeDtypeStruct]:
        one = [jax.ShapeDtypeStruct(array.shape[1:], array.dtype) for array in self.inputs]
        return _values(jax.make_jaxpr(self.net)(self.params, *one))

    @functools.cached_property
    def stack(self) -> int:
        """How many rows of J are held at once."""
        return max(1, min(512, ROOM // self.columns))

    def _together(self, rows: int) -> int:
        """How many examples a stack of tangent vectors is pushed through at once."""
        return max(1, min(self.examples, 512, ROOM // (rows * self.activations)))

    @functools.cached_property
    def _blocks(self) -> Arrays:
        each = max(1, min(self.examples, ROOM // self.activations))
        count = -(-self.examples // each)
        each = -(-self.examples // count)
        index = np.minimum(np.arange(count * each), self.examples - 1).reshape(count, each)
        return tuple(array[index] for array in self.inputs)

    def _weights(self, w: jax.Array) -> jax.Array:
        count, each = self._blocks[0].shape[:2]
        spare = [(0, count * each - self.examples)] + [(0, 0)] * (w.ndim - 1)
        return jnp.pad(w.astype(self.output.dtype), spare).reshape(count, each, *self.output.shape)

    def _joined(self, blocks: jax.Array) -> jax.Array:
        return blocks.reshape(-1, *self.output.shape)[: self.examples]

    @property
    def _programs(self) -> _Programs:
        return beside(self.net, "jacobian", _Programs)


def _mirror(matrix: np.ndarray, step: int = 1024) -> None:
    """Make a matrix symmetric whose upper half is known, in place."""
    for start in range(0, len(matrix), step):
        stop = start + step
        block = np.triu(matrix[start:stop, start:stop])
        matrix[start:stop, start:stop] = block + np.triu(block, 1).T
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T


def _values(jaxpr: Jaxpr | ClosedJaxpr) -> list[jax.ShapeDtypeStruct]:
    """Shapes and types of all that a jaxpr computes; a loop's body once."""
    found = []
    for equation in bare(jaxpr).eqns:
        for inside in (body for value in equation.params.values() for body in bodies(value)):
            found += _values(inside)
        made = [shaped(v) for v in equation.outvars]
        found += [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in made if hasattr(aval, "dtype")]
    return found


class _Programs:
    """What is compiled for a network, each program once."""

    def __init__(self, net: Callable[[], Callable[..., Tree]]) -> None:
        """`net` returns the network, which is not held here."""
        batch = lambda params, inputs: jax.vmap(lambda *one: net()(params, *one))(*inputs)

        @jax.jit
        def outputs(params: Tree, blocks: Arrays) -> jax.Array:
            return jax.lax.map(lambda inputs: batch(params, inputs), blocks)

        @jax.jit
        def push(params: Tree, blocks: Arrays, v: Tree) -> jax.Array:
            moved = lambda inputs: jax.jvp(lambda p: batch(p, inputs), (params,), (v,))[1]
            return jax.lax.map(moved, blocks)

        @jax.jit
        def pull(params: Tree, blocks: Arrays, w: jax.Array) -> Tree:
            def more(total: Tree, block: tuple[Arrays, jax.Array]) -> tuple[Tree, None]:
                inputs, weights = block
                (found,) = jax.vjp(lambda p: batch(p, inputs), params)[1](weights)
                return jax.tree.map(jnp.add, total, found), None

            return jax.lax.scan(more, jax.tree.map(jnp.zeros_like, params), (blocks, w))[0]

        @jax.jit
        def twist(params: Tree, blocks: Arrays, w: jax.Array, v: Tree) -> Tree:
            return jax.jvp(lambda p: pull(p, blocks, w), (params,), (v,))[1]

        @jax.jit
        def rows(params: Tree, inputs: Arrays, chosen: jax.Array) -> Tree:
            one = lambda weights, *example: jax.vjp(lambda p: net()(p, *example), params)[1](weights)[0]
            return jax.vmap(one)(chosen, *inputs)

        @jax.jit
        def against(params: Tree, inputs: Arrays, vectors: Tree) -> jax.Array:
            _, derivative = jax.linearize(lambda p: batch(p, inputs), params)
            moved = jax.vmap(derivative)(vectors)
            return moved.reshape(moved.shape[0], -1).T

        self.outputs, self.push, self.pull, self.twist = outputs, push, pull, twist
        self.rows, self.against = rows, against

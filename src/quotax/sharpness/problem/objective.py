"""The loss and its derivatives at flat displacements of the parameters: the programs that depend on a loss.

There are four, each compiled when it is first asked for and kept as long as the loss lives: value and gradient, the
value alone, the product of the Hessian with a vector, the value at a share of a tree. Each holds the loss once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from quotax.programs.compiling import beside, once
from quotax.sharpness.problem.devices import RESTARTS, constrain_examples
from quotax.sharpness.problem.vectors import layout
from quotax.trees import Tree

Loss = Callable[..., Tree]


def mean_over_chunks(
    function: Callable[[Tree], Tree],
    batch: Tree,
    microbatch: int | None,
    place: Callable[[Tree], Tree] = lambda part: part,
) -> Tree:
    """`function(batch)` for a function that is a mean over examples, at the memory of one chunk.

    With N = q c + s examples in chunks of c, the mean is `(c sum_i f(chunk_i) + s f(rest)) / N`: the remainder is
    weighted by its own size, so the result depends on c through rounding only. Chunks are cut out of the batch where it
    lies; it is neither padded nor copied. `place` says on which devices a chunk goes.
    """
    count = jax.tree.leaves(batch)[0].shape[0]
    if microbatch is None or microbatch >= count:
        return function(batch)
    whole, rest = divmod(count, microbatch)

    def weighted(start: Tree, size: int) -> Tree:
        part = place(jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, start, size), batch))
        return jax.tree.map(lambda leaf: (size / count) * leaf, function(part))

    out = jax.eval_shape(lambda: weighted(0, microbatch))
    total = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), out)
    starts = microbatch * jnp.arange(whole)
    total, _ = lax.scan(
        lambda sum_, start: (jax.tree.map(jnp.add, sum_, weighted(start, microbatch)), None), total, starts
    )
    return jax.tree.map(jnp.add, total, weighted(whole * microbatch, rest)) if rest else total


class Objective:
    """The compiled programs of a loss, each made when it is first called.

    `function(loss, params, batch)` of a loss is a mean over examples, and so are its derivatives: they are taken chunk
    by chunk. Differentiating the gradient forwards keeps the memory of one chunk.
    """

    def __init__(self, loss: Callable[[], Loss], microbatch: int | None, mesh: Mesh | None) -> None:
        """`loss()` is the loss while it lives: what is kept here must not keep it alive."""
        self._loss, self._microbatch, self._place = loss, microbatch, constrain_examples(mesh)
        # What comes out is the same on all devices, so that every process can read it.
        places = None if mesh is None else NamedSharding(mesh, PartitionSpec())
        compiled = lambda program, **how: jax.jit(program, out_shardings=places, **how)
        self.value = compiled(self._value)
        self.displaced = compiled(self._displaced)
        self.value_and_gradient = compiled(self._value_and_gradient)
        self.along = compiled(self._along)
        self.hessian_vector = compiled(self._hessian_vector)
        self.slope = functools.partial(once(self._slope, out_shardings=places), None)
        self._mesh = mesh
        self.side_by_side = compiled(self._side_by_side)

    def _mean(self, function: Callable[..., Tree], params: Tree, batch: Tree) -> Tree:
        loss = self._loss()
        if batch is None:
            return function(loss, params)
        one = lambda part: function(lambda p: loss(p, part), params)
        return mean_over_chunks(one, batch, self._microbatch, self._place)

    def _value(self, params: Tree, batch: Tree, delta: jax.Array) -> jax.Array:
        flat = layout(params)
        moved = jax.tree.map(jnp.add, params, flat.nested(delta))
        return jnp.asarray(self._mean(lambda loss, p: loss(p), moved, batch)).astype(flat.dtype)

    def _displaced(self, params: Tree, batch: Any, step: Tree, share: jax.Array) -> jax.Array:
        """The value at `params + share * step`, a tree that lies where the parameters do: nothing is made flat."""
        moved = jax.tree.map(lambda a, b: a + share.astype(a.dtype) * b.astype(a.dtype), params, step)
        return jnp.asarray(self._mean(lambda loss, p: loss(p), moved, batch))

    def _value_and_gradient(self, params: Tree, batch: Any, delta: jax.Array) -> tuple[jax.Array, jax.Array]:
        flat = layout(params)
        moved = jax.tree.map(jnp.add, params, flat.nested(delta))
        value, gradient = self._mean(lambda loss, p: jax.value_and_grad(loss)(p), moved, batch)
        return jnp.asarray(value).astype(flat.dtype), flat.flat(gradient)

    def _side_by_side(self, params: Tree, batch: Tree, stack: jax.Array) -> tuple[jax.Array, jax.Array]:
        """At the rows of a stack, each on devices of its own."""
        assert self._mesh is not None
        rows = lax.with_sharding_constraint(stack, NamedSharding(self._mesh, PartitionSpec(RESTARTS)))
        return jax.vmap(self._value_and_gradient, (None, None, 0))(params, batch, rows)

    def _along(
        self, params: Tree, batch: Tree, x: jax.Array, g: jax.Array, step: jax.Array, scale: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """At `scale (x + step g)`, which is written out nowhere but inside the loss."""
        return self._value_and_gradient(params, batch, scale * (x + step * g))

    def _hessian_vector(self, params: Tree, batch: Tree, v: jax.Array) -> jax.Array:
        """The product of the Hessian with a vector; the gradient itself is not computed."""
        flat = layout(params)
        gradient = lambda p: self._mean(lambda loss, p: jax.value_and_grad(loss)(p)[1], p, batch)
        return flat.flat(jax.jvp(gradient, (params,), (flat.nested(v),))[1])

    def _slope(self, _: None, params: Tree, batch: Tree) -> jax.Array:
        """The gradient where the parameters are: asked for once."""
        return layout(params).flat(self._mean(lambda loss, p: jax.value_and_grad(loss)(p)[1], params, batch))


def objective(loss: Loss, microbatch: int | None, mesh: Mesh | None) -> Objective:
    """The programs of a loss, as long as somebody else holds it."""
    return beside(loss, (Objective, microbatch, mesh), lambda alive: Objective(alive, microbatch, mesh))

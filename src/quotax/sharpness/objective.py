"""The loss and its gradient, over a whole batch or in chunks of constant memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from quotax.sharpness.vectors import Tree

Loss = Callable[..., Any]


def mean_over_chunks(
    function: Callable[[Any], Any],
    batch: Any,
    microbatch: int | None,
    place: Callable[[Any], Any] = lambda part: part,
) -> Any:
    """`function(batch)` for a function that is a mean over examples, at the memory of one chunk.

    With N = q c + s examples in chunks of c, the mean is `(c sum_i f(chunk_i) + s f(rest)) / N`: the remainder is
    weighted by its own size, so the result depends on c through rounding only. Chunks are cut out of the batch where it
    lies; it is neither padded nor copied. `place` says on which devices a chunk goes.
    """
    count = jax.tree.leaves(batch)[0].shape[0]
    if microbatch is None or microbatch >= count:
        return function(batch)
    whole, rest = divmod(count, microbatch)

    def weighted(start: Any, size: int) -> Any:
        part = place(jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, start, size), batch))
        return jax.tree.map(lambda leaf: (size / count) * leaf, function(part))

    out = jax.eval_shape(lambda: weighted(0, microbatch))
    total = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), out)
    starts = microbatch * jnp.arange(whole)
    total, _ = lax.scan(
        lambda sum_, start: (jax.tree.map(jnp.add, sum_, weighted(start, microbatch)), None), total, starts
    )
    return jax.tree.map(jnp.add, total, weighted(whole * microbatch, rest)) if rest else total


def value_and_gradient(
    loss: Loss, batch: Any, microbatch: int | None, place: Callable[[Any], Any] = lambda part: part
) -> Callable[[Tree], tuple[jax.Array, Tree]]:
    """The map `params -> (L, dL)`; differentiating it forwards keeps the memory of one chunk."""
    derivative = jax.value_and_grad(loss)
    if batch is None:
        return derivative
    return lambda params: mean_over_chunks(lambda part: derivative(params, part), batch, microbatch, place)

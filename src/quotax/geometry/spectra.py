"""Decompositions of matrices, one matrix after another.

jaxlib's LAPACK kernels hand a batch to the CPU's thread pool and wait for it inside a thread of that pool: two batched
decompositions that XLA runs at the same time wait for each other for ever (jaxlib 0.10.2, two cores). A loop over
single matrices does not, and costs the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def eigh(stack: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eigenvalues and eigenvectors of every matrix in a stack of any number of axes; they have no derivative."""
    if stack.ndim == 2:
        return _one(stack)
    n = stack.shape[-1]
    values, vectors = jax.lax.map(_one, stack.reshape(-1, n, n))
    return values.reshape(stack.shape[:-1]), vectors.reshape(stack.shape)


def each(function: Callable[[jax.Array], Any], stack: jax.Array) -> Any:
    """A decomposition of every matrix in a stack, one after another; with the function's derivatives."""
    if stack.ndim == 2:
        return function(stack)
    found = jax.lax.map(function, stack.reshape(-1, *stack.shape[-2:]))
    return jax.tree.map(lambda a: a.reshape(*stack.shape[:-2], *a.shape[1:]), found)


@jax.custom_batching.sequential_vmap
def _one(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    values, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(matrix))
    return values, vectors

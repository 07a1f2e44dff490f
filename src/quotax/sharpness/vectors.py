"""Parameters as one flat vector: what the search computes with; trees appear at the loss and at the metric only.

A network of many arrays would otherwise be compiled into as many copies of every vector operation: the program for 24
arrays took six times as long to compile as the same one on a flat vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp

Tree = Any
"""A pytree of floating-point arrays."""

SPARING = 2**25
"""Above this many parameters a vector more would be noticed, rather than the time that it saves."""


@dataclass(frozen=True)
class Layout:
    """How a tree lies in a flat vector of `dtype`, the widest of its leaves and at least float32."""

    tree: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    ends: tuple[int, ...]
    dtype: Any

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.ends[-1]

    def flat(self, values: Tree) -> jax.Array:
        """A tree as a vector."""
        leaves = jax.tree.leaves(values)
        # Along the second axis of one row: XLA copies the arrays there, and goes entry by entry along a first axis.
        return jnp.concatenate([leaf.reshape(1, -1).astype(self.dtype) for leaf in leaves], axis=1)[0]

    def nested(self, v: jax.Array) -> Tree:
        """A vector as a tree, each leaf in its own dtype."""
        # The derivative puts the parts together again: in rows, or within what reads it, which is slow but no copy.
        parts = jnp.split(v, self.ends[:-1]) if self.size > SPARING else jnp.split(v[None], self.ends[:-1], axis=1)
        leaves = [part.reshape(s).astype(d) for part, s, d in zip(parts, self.shapes, self.dtypes, strict=True)]
        return jax.tree.unflatten(self.tree, leaves)


def layout(params: Tree) -> Layout:
    """The layout of a tree of arrays."""
    leaves, tree = jax.tree.flatten(params)
    dtypes = tuple(leaf.dtype for leaf in leaves)
    widest = max((*dtypes, jnp.dtype(jnp.float32)), key=lambda dtype: jnp.finfo(dtype).bits)
    ends = tuple(accumulate(leaf.size for leaf in leaves))
    return Layout(tree, tuple(leaf.shape for leaf in leaves), dtypes, ends, widest)


def dot(u: jax.Array, v: jax.Array) -> jax.Array:
    """The Euclidean inner product, never in reduced precision."""
    return jnp.dot(u, v, precision="highest")


def combine(coefficients: jax.Array, stack: jax.Array) -> jax.Array:
    """The linear combination `sum_i c_i v_i` of the rows of a stack."""
    return jnp.dot(coefficients, stack, precision="highest")


def select(condition: jax.Array, u: Any, v: Any) -> Any:
    """`u` if the scalar condition holds, else `v`, through whole records; a NaN on the other side does not leak."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), u, v)


def finite(v: jax.Array) -> jax.Array:
    """Whether every entry is finite."""
    return jnp.all(jnp.isfinite(v))

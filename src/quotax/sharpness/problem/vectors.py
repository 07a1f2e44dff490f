"""Parameters as one flat vector: what the host computes with; trees appear at the loss and at the metric only.

Vectors lie where their algebra is fast: in NumPy where the device is the processor itself, so that nothing has to be
compiled for it, and on the device elsewhere. Both are told apart by their type; numbers are Python's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from quotax.trees import AnyArray, Tree

Vector: TypeAlias = AnyArray
"""A flat vector, or a stack of them: a NumPy array or a JAX array."""

SPARING = 2**25
"""Above this many parameters a vector more would be noticed, rather than the time that it saves."""


@dataclass(frozen=True)
class FlatLayout:
    """How a tree lies in a flat vector of `dtype`, the widest of its leaves and at least float32."""

    tree: Tree
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]
    ends: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.ends[-1]

    @property
    def eps(self) -> float:
        """The rounding unit."""
        return float(jnp.finfo(self.dtype).eps)

    def flat(self, values: Tree) -> jax.Array:
        """A tree as a vector, inside a program."""
        leaves = jax.tree.leaves(values)
        # Along the second axis of one row: XLA copies the arrays there, and goes entry by entry along a first axis.
        return jnp.concatenate([leaf.reshape(1, -1).astype(self.dtype) for leaf in leaves], axis=1)[0]

    def nested(self, v: jax.Array) -> Tree:
        """A vector as a tree, each leaf in its own dtype, inside a program."""
        # The derivative puts the parts together again: in rows, or within what reads it, which is slow but no copy.
        parts = jnp.split(v, self.ends[:-1]) if self.size > SPARING else jnp.split(v[None], self.ends[:-1], axis=1)
        leaves = [part.reshape(s).astype(d) for part, s, d in zip(parts, self.shapes, self.dtypes, strict=True)]
        return jax.tree.unflatten(self.tree, leaves)

    def gathered(self, values: Tree) -> np.ndarray:
        """A tree of concrete arrays as a vector in NumPy."""
        return np.concatenate([np.asarray(leaf, self.dtype).ravel() for leaf in jax.tree.leaves(values)])

    def placed(self, v: Vector, like: Tree) -> Tree:
        """A vector as a tree of arrays that lie where those of `like` do."""
        return self.placed_rows([v], like)[0]

    def placed_rows(self, rows: Iterable[Vector], like: Tree) -> list[Tree]:
        """Several vectors as trees, which are put on their devices together."""
        rows = list(rows)
        if not rows or isinstance(rows[0], jax.Array):
            return [_nested(self, v) for v in rows]
        there = [old.sharding for old in jax.tree.leaves(like)]
        kinds = list(zip(pairwise((0, *self.ends)), self.shapes, self.dtypes, strict=True))
        parts = [v[start:stop].reshape(s).astype(d) for v in rows for (start, stop), s, d in kinds]
        leaves = iter(jax.device_put(parts, there * len(rows)))
        return [jax.tree.unflatten(self.tree, [next(leaves) for _ in kinds]) for _ in rows]


def layout(params: Tree) -> FlatLayout:
    """The layout of a tree of arrays."""
    leaves, tree = jax.tree.flatten(params)
    dtypes = tuple(leaf.dtype for leaf in leaves)
    widest = max((*dtypes, jnp.dtype(jnp.float32)), key=lambda dtype: jnp.finfo(dtype).bits)
    ends = tuple(accumulate(leaf.size for leaf in leaves))
    return FlatLayout(tree, tuple(leaf.shape for leaf in leaves), dtypes, ends, widest)


# --- inside programs


def inner(u: jax.Array, v: jax.Array) -> jax.Array:
    """The Euclidean inner product, never in reduced precision."""
    return jnp.dot(u, v, precision="highest")


# --- on the host: the same words for both kinds of vectors


def dot(u: Vector, v: Vector) -> float:
    """The Euclidean inner product as a number."""
    return float(np.dot(u, v) if isinstance(u, np.ndarray) else inner(u, v))


def dots(stack: Vector, v: Vector) -> np.ndarray:
    """The inner products of the rows of a stack with a vector, or with the rows of another stack."""
    if isinstance(stack, np.ndarray):
        return np.asarray(np.dot(stack, v.T), float)
    return np.asarray(jnp.dot(stack, v.T, precision="highest"), float)


def combine(coefficients: np.ndarray, stack: Vector) -> Vector:
    """The linear combination `sum_i c_i v_i` of the rows of a stack; of a matrix, one for each row of it."""
    weights = np.asarray(coefficients).astype(stack.dtype)
    return np.dot(weights, stack) if isinstance(stack, np.ndarray) else jnp.dot(weights, stack, precision="highest")


def finite(v: Vector) -> bool:
    """Whether every entry is finite."""
    return bool(np.isfinite(v).all() if isinstance(v, np.ndarray) else jnp.isfinite(v).all())


def zeros(count: int, like: Vector) -> Vector:
    """A stack of zeros, of vectors like another."""
    shape = (count, like.shape[-1])
    return np.zeros(shape, like.dtype) if isinstance(like, np.ndarray) else jnp.zeros(shape, like.dtype)


def stacked(vectors: list[Vector]) -> Vector:
    """Vectors as the rows of a stack."""
    return np.stack(vectors) if isinstance(vectors[0], np.ndarray) else jnp.stack(vectors)


def joined(stacks: list[Vector]) -> Vector:
    """Stacks one below the other."""
    if len(stacks) == 1:
        return stacks[0]
    return np.concatenate(stacks) if isinstance(stacks[0], np.ndarray) else jnp.concatenate(stacks)


ROWS, TOGETHER = 16, 2**18
"""So many rows of a stack, and numbers, are mapped together. Longer stacks come a few times in all."""


def put(stack: Vector, row: int, v: Vector) -> Vector:
    """The stack with another row, which uses up the one that it is given."""
    if isinstance(stack, np.ndarray):
        stack[row] = v
        return stack
    return _put(stack, row, v)


def copied(tree: Tree) -> Tree:
    """The same arrays once more, and single numbers as Python's: of a state that the caller keeps."""

    def copy(leaf: Tree) -> Tree:
        if np.ndim(leaf) == 0:
            return leaf.item() if hasattr(leaf, "item") else leaf
        return jnp.array(leaf, copy=True) if isinstance(leaf, jax.Array) else np.array(leaf)

    return jax.tree.map(copy, tree)


@partial(jax.jit, static_argnums=0)
def _nested(layout: FlatLayout, v: jax.Array) -> Tree:
    return layout.nested(v)


@partial(jax.jit, donate_argnums=0)
def _put(stack: jax.Array, row: int, v: jax.Array) -> jax.Array:
    return stack.at[row].set(v)

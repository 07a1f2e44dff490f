"""Linear algebra on parameter trees: a vector is a pytree, a stack of vectors has one more leading axis.

Every operation casts its scalars to the dtype of the leaf it meets, so trees of mixed precision keep their dtypes and
strict dtype promotion is respected.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

Vector = Any
"""A pytree of floating-point arrays."""

Stack = Any
"""A pytree whose leaves carry one more leading axis, the same for all."""


def scalar_dtype(vector: Vector) -> Any:
    """The dtype that scalars about `vector` are computed in: its widest leaf, and at least float32."""
    return jnp.result_type(jnp.float32, *(leaf.dtype for leaf in jax.tree.leaves(vector)))


def scale(a: jax.Array, v: Vector) -> Vector:
    """The product `a v`."""
    return jax.tree.map(lambda leaf: a.astype(leaf.dtype) * leaf, v)


def add(u: Vector, v: Vector) -> Vector:
    """The sum `u + v`."""
    return jax.tree.map(jnp.add, u, v)


def subtract(u: Vector, v: Vector) -> Vector:
    """The difference `u - v`."""
    return jax.tree.map(jnp.subtract, u, v)


def where(condition: jax.Array, u: Any, v: Any) -> Any:
    """`u` if the scalar condition holds, else `v`; a NaN on the side not taken does not leak."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), u, v)


def dot(u: Vector, v: Vector) -> jax.Array:
    """The Euclidean inner product, accumulated in `scalar_dtype`."""
    dtype = scalar_dtype(u)
    terms = [
        jnp.sum(a.astype(dtype) * b.astype(dtype)) for a, b in zip(jax.tree.leaves(u), jax.tree.leaves(v), strict=True)
    ]
    return jnp.sum(jnp.stack(terms))


def zeros(v: Vector) -> Vector:
    """The zero vector of the same shape."""
    return jax.tree.map(jnp.zeros_like, v)


def zero_stack(count: int, v: Vector) -> Stack:
    """`count` zero vectors shaped like `v`."""
    return jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), v)


def combine(coefficients: jax.Array, stack: Stack) -> Vector:
    """The linear combination `sum_i c_i v_i`."""
    return jax.tree.map(lambda leaf: jnp.tensordot(coefficients.astype(leaf.dtype), leaf, axes=1), stack)


def put(stack: Stack, index: jax.Array, v: Vector) -> Stack:
    """The stack with its vector at `index` replaced."""
    return jax.tree.map(lambda leaf, new: leaf.at[index].set(new), stack, v)


def gaussian(key: jax.Array, v: Vector) -> Vector:
    """Independent standard normal entries, shaped like `v`."""
    leaves, tree = jax.tree.flatten(v)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(tree, drawn)


def finite(v: Vector) -> jax.Array:
    """Whether every entry is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(v)]))

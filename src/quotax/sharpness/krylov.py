"""Eigenvalues of a symmetric operator from its products with vectors: block Lanczos with full orthogonalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

Operator = Callable[[jax.Array], jax.Array]

# What is left of a vector after orthogonalisation counts as a new direction above this share of it.
NEW = 1e-6


class Ritz(NamedTuple):
    """Approximate eigenpairs from a basis Q of orthonormal rows, values ascending; missing rows have NaN values.

    `residuals[i] = |A v_i - values[i] v_i|`: within that distance of `values[i]` lies an eigenvalue of A.
    """

    values: jax.Array
    vectors: jax.Array
    residuals: jax.Array
    weights: jax.Array
    products: jax.Array


def orthonormal(basis: jax.Array, v: jax.Array) -> jax.Array:
    """The unit vector of what is left of `v` outside the span of the basis' rows, or zero if that is rounding."""
    size = jnp.linalg.norm(v)
    for _ in range(3):
        v = v - jnp.dot(jnp.dot(basis, v, precision="highest"), basis, precision="highest")
    rest = jnp.linalg.norm(v)
    new = rest > NEW * size
    return jnp.where(new, v / jnp.where(new, rest, 1.0), 0.0)


def block_lanczos(
    operator: Operator,
    project: Operator,
    key: jax.Array,
    size: int,
    dtype: jnp.dtype,
    *,
    block: int,
    basis: int,
    ends: tuple[int, int],
    tolerance: float,
) -> Ritz:
    """The Ritz pairs once `ends = (bottom, top)` of them have residuals below `tolerance |A|`, or the basis is full.

    A block of b vectors finds eigenvalues of multiplicity up to b, of which a single vector sees one. Directions that
    a block lacks are replaced by random ones in the range of `project`; when that is exhausted, the answer is exact.
    """
    blocks = -(-basis // block)
    rows = blocks * block

    def random(i: jax.Array) -> jax.Array:
        return project(jax.random.normal(jax.random.fold_in(key, i), (size,), dtype))

    def ritz(Q: jax.Array, images: jax.Array) -> Ritz:
        T = jnp.dot(Q, images.T, precision="highest")
        present = jnp.linalg.norm(Q, axis=1) > 0.5
        # Rows that do not exist get an eigenvalue above all others, and are marked afterwards.
        wall = 10 * jnp.max(jnp.sum(jnp.abs(T), axis=1)) + 1
        values, W = jnp.linalg.eigh(0.5 * (T + T.T) + jnp.diag(jnp.where(present, 0.0, wall)))
        missing = jnp.arange(rows) >= jnp.sum(present)
        error = jnp.dot(W.T, images, precision="highest") - values[:, None] * jnp.dot(W.T, Q, precision="highest")
        residuals = jnp.linalg.norm(error, axis=1)
        values = jnp.where(missing, jnp.nan, values)
        return Ritz(values, W, jnp.where(missing, 0.0, residuals), W[0] ** 2, jnp.sum(present))

    def settled(Q: jax.Array, images: jax.Array) -> jax.Array:
        found = ritz(Q, images)
        rank = jnp.arange(rows)
        wanted = (rank < ends[0]) | ((rank >= found.products - ends[1]) & (rank < found.products))
        norm = jnp.nanmax(jnp.abs(found.values))
        return jnp.all(jnp.where(wanted, found.residuals, 0.0) <= tolerance * norm) & (found.products >= sum(ends))

    def unfinished(state: tuple) -> jax.Array:
        i, _, _, _, done = state
        return (i < blocks) & ~done

    def extend(state: tuple) -> tuple:
        i, Q, images, candidates, _ = state

        def add(j: jax.Array, Q: jax.Array) -> jax.Array:
            slot = i * block + j
            q, other = orthonormal(Q, candidates[j]), orthonormal(Q, random(slot))
            q = jnp.where(jnp.linalg.norm(q) > 0.5, q, other)
            # Rounding must not lead out of the range.
            return Q.at[slot].set(orthonormal(Q, project(q)))

        Q = lax.fori_loop(0, block, add, Q)
        new = lax.dynamic_slice_in_dim(Q, i * block, block)
        image = lax.map(operator, new, batch_size=block)
        images = lax.dynamic_update_slice_in_dim(images, image, i * block, 0)
        exhausted = jnp.any(jnp.linalg.norm(new, axis=1) < 0.5)
        # Ritz values cost a cube of the basis: looked at in every fourth block.
        look = (i % 4 == 3) | (i == blocks - 1)
        done = lax.cond(look & (tolerance > 0), lambda: settled(Q, images), lambda: jnp.asarray(False))
        return i + 1, Q, images, image, exhausted | done

    Q = jnp.zeros((rows, size), dtype)
    starts = jax.vmap(lambda i: random(rows + i))(jnp.arange(block))
    state = (jnp.zeros((), jnp.int32), Q, Q, starts, jnp.asarray(False))
    _, Q, images, _, _ = lax.while_loop(unfinished, extend, state)
    found = ritz(Q, images)
    return found._replace(vectors=jnp.dot(found.vectors.T, Q, precision="highest"))

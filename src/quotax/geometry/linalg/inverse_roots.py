"""Roots of inverses: `R` with `R^T R` the (pseudo-)inverse of a positive semi-definite matrix; without derivatives.

LAPACK factors and inverts one triangle on a single core; here large matrices are cut into blocks, so that nearly all of
the work is products of matrices. Of a symmetric matrix only the lower triangle is read.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp

from quotax.geometry.linalg.one_by_one import eigh, inverse_cholesky, triangle

_LEAF = 400
"""Triangles of this size are left to LAPACK."""

_STRIPS = 4
"""Products with a triangle are cut into so many strips: 5/8 of the work of a full product."""


def spectral(matrix: jax.Array, before: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
    """The root of the pseudo-inverse by eigenvalues, and the rank.

    Rounding is measured against the diagonal, or the diagonal `before` an elimination left this matrix over.
    """
    matrix, before = jax.lax.stop_gradient((matrix, before))
    scale = _unit_scale(jnp.diagonal(matrix) if before is None else before)
    lower = jnp.tril(matrix) + jnp.tril(matrix, -1).T
    values, vectors = eigh(lower * scale[:, None] * scale[None, :])
    largest = jnp.max(values, initial=0 if before is None else 1)
    weights = reciprocal(values, len(matrix) * float(jnp.finfo(matrix.dtype).eps) * largest)
    return jnp.sqrt(weights)[:, None] * vectors.T * scale[None, :], jnp.sum(weights > 0)


@jax.custom_batching.sequential_vmap
def quickest(matrix: jax.Array) -> jax.Array:
    """A root, of any form: by Cholesky's factorisation, or by eigenvalues where that meets rounding."""
    root, safe = by_cholesky(matrix)
    return jax.lax.cond(safe, lambda: root, lambda: spectral(matrix)[0])


def by_cholesky(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The root by Cholesky's factorisation, and whether that did not meet rounding."""
    matrix = jax.lax.stop_gradient(matrix)
    inverse, safe, alive, scale = _factored(matrix, jnp.diagonal(matrix))
    return alive[:, None] * inverse * scale[None, :], safe


def triangular(root: jax.Array) -> jax.Array:
    """The lower triangular root of the same matrix: `root = Q L`, a QR decomposition of the columns from the last."""
    return triangle(jax.lax.stop_gradient(root)[:, ::-1])[::-1, ::-1]


def regular(matrix: jax.Array, before: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
    """The same, lower triangular, by Cholesky's factorisation; by eigenvalues where it meets rounding."""
    matrix, before = jax.lax.stop_gradient((matrix, before))
    inverse, safe, alive, scale = _factored(matrix, jnp.diagonal(matrix) if before is None else before)
    return jax.lax.cond(
        safe,
        lambda: (alive[:, None] * inverse * scale[None, :], jnp.sum(alive > 0)),
        lambda: (triangular((found := spectral(matrix, before))[0]), found[1]),
    )


def _factored(matrix: jax.Array, diagonal: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The inverse of Cholesky's factor at unit diagonal, whether it can be trusted, what is not zero, and the scale."""
    scale = _unit_scale(diagonal)
    alive = (diagonal > 0).astype(matrix.dtype)
    inverse = _cholesky(matrix * scale[:, None] * scale[None, :] + jnp.diag(1 - alive))
    # The diagonal of the inverse root is 1 over Cholesky's; where the factorisation breaks down it holds NaN.
    safe = jnp.all(jnp.diagonal(inverse) ** -2 > 10 * len(matrix) * float(jnp.finfo(matrix.dtype).eps))
    return inverse, safe, alive, scale


def reciprocal(values: jax.Array, threshold: jax.Array | float) -> jax.Array:
    """`1 / value`, and zero for values up to the threshold."""
    alive = values > threshold
    return jnp.where(alive, 1 / jnp.where(alive, values, 1), 0)


def times(root: jax.Array, matrix: jax.Array) -> jax.Array:
    """The product of a lower triangular matrix with another."""
    return jnp.concatenate([root[i:j, :j] @ matrix[:j] for i, j in _strips(len(root))])


def less_gram(matrix: jax.Array, factor: jax.Array) -> jax.Array:
    """The lower triangle of `matrix - factor^T factor`; what is above it means nothing."""
    n = len(matrix)
    rows = [jnp.pad(matrix[i:j, :j] - factor[:, i:j].T @ factor[:, :j], ((0, 0), (0, n - j))) for i, j in _strips(n)]
    return jnp.concatenate(rows)


def _cholesky(matrix: jax.Array) -> jax.Array:
    """The inverse of Cholesky's factor, by halves.

    With `M = [[A, .], [B, C]]` and `R` the root of `A`, the factor's second row is `B R^T` and the root of
    `C - B R^T R B^T`.
    """
    n, k = len(matrix), len(matrix) // 2
    if n <= _LEAF:
        return inverse_cholesky(matrix)
    first = _cholesky(matrix[:k, :k])
    below = matrix[k:, :k] @ first.T
    second = _cholesky(matrix[k:, k:] - below @ below.T)
    corner = jnp.zeros((k, n - k), matrix.dtype)
    return jnp.block([[first, corner], [-(second @ (below @ first)), second]])


def _strips(n: int) -> list[tuple[int, int]]:
    count = _STRIPS if n > _LEAF else 1
    ends = [n * i // count for i in range(count + 1)]
    return list(itertools.pairwise(ends))


def _unit_scale(diagonal: jax.Array) -> jax.Array:
    return jax.lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1))

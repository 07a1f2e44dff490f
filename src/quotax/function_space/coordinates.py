r"""Covectors as vectors of an orthonormal frame, where a metric is the ordinary inner product.

A metric `G = A^T A` turns a covector `c` (a row of a Jacobian) into the tangent vector `G^-1 c`, of whitened
coordinates `A G^-1 c`: the inner product of two of these is `c^T G^-1 c'`. Horizontal coordinates are those of the part
of `G^-1 c` that leaves the orbit. Without a quotient a covector is its own coordinates.
"""

from __future__ import annotations

import functools

import jax

from quotax.trees import AnyPoint, Tree


def raised(point: AnyPoint, covectors: Tree) -> Tree:
    """The tangent vectors that a stack of covectors stands for."""
    return covectors if point is None or point.euclidean else _each("sharp", point, covectors)


def levelled(point: AnyPoint, covectors: Tree) -> Tree:
    """The horizontal parts of these vectors."""
    return covectors if point is None else _each("gradient", point, covectors)


def whitened(point: AnyPoint, covectors: Tree) -> Tree:
    """A stack of covectors in horizontal coordinates."""
    vectors = levelled(point, covectors)
    return vectors if point is None or point.euclidean else _each("whiten", point, vectors)


def displaced(point: AnyPoint, coordinates: Tree) -> Tree:
    """Horizontal coordinates as a tangent vector."""
    return coordinates if point is None or point.euclidean else point.unwhiten(coordinates)


@functools.partial(jax.jit, static_argnums=0)
def _each(operation: str, point: AnyPoint, stack: Tree) -> Tree:
    return jax.vmap(getattr(point, operation))(stack)

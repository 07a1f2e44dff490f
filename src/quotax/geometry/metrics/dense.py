"""Any inner product, by the Cholesky factor of its matrix."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from quotax.geometry.families.component import components
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named, ravel, unravel
from quotax.geometry.metrics.metric import Metric, vertical_by_matrix
from quotax.parts import tree
from quotax.trees import Tree, nest

InnerProduct = Callable[[Tree, Tree, Tree], jax.Array]
"""Of parameters and two tangent vectors there."""


class Dense(Metric[jax.Array]):
    """An inner product given as a function, by the Cholesky factor of its matrix."""

    def __init__(self, families: Sequence[Family], function: InnerProduct) -> None:
        """Keep the function `(params, tangent, tangent) -> number`."""
        self.name = getattr(function, "__name__", "metric")
        self.function = function
        self.families = tuple(families)
        self.parts = components(families)

    def prepare(self, arrays: Named) -> jax.Array:
        """The upper Cholesky factor of the metric's matrix."""
        return _prepare_dense(self, arrays)

    def whiten(self, data: jax.Array, arrays: Named, v: Named) -> Named:
        """`L^T v` with `G = L L^T`."""
        return unravel(arrays, data @ ravel(v))

    def unwhiten(self, data: jax.Array, arrays: Named, e: Named) -> Named:
        """`L^-T e`."""
        return unravel(arrays, jax.scipy.linalg.solve_triangular(data, ravel(e)))

    def vertical(self, data: jax.Array, arrays: Named, v: Named) -> Named:
        """By the fields' own matrix."""
        return vertical_by_matrix(self.parts, lambda w: self.whiten(data, arrays, w), arrays, v)

    def suspects(self, families: Sequence[Family]) -> list[str]:
        """All: nothing is known of a function."""
        return [family.name for family in families]


@functools.partial(jax.jit, static_argnums=0)
def _prepare_dense(metric: Dense, arrays: Named) -> jax.Array:
    basis = jnp.eye(sum(array.size for array in arrays.values()), dtype=jnp.result_type(*arrays.values()))
    known = metric.families[0] if metric.families else None
    as_given = lambda own: nest(own) if known is None else tree(known.specs, own, known.sizes)
    pair = lambda a, b: metric.function(as_given(arrays), as_given(unravel(arrays, a)), as_given(unravel(arrays, b)))
    matrix = jax.vmap(lambda a: jax.vmap(lambda b: pair(a, b))(basis))(basis)
    return jnp.linalg.cholesky(0.5 * (matrix + matrix.T)).T

"""The dimension of the vertical space at a point, from the data that its projections are factored into."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from quotax.errors import GeometryError
from quotax.geometry.families.component import Component
from quotax.geometry.linalg import inverse_roots
from quotax.geometry.linalg.named import Named
from quotax.geometry.projection import block_elimination, gram, one_family, solver
from quotax.programs.compiling import once

_SMALL = 1024
"""The most coordinates whose Gram matrix is made although its blocks could be eliminated."""

_LARGEST = 4096
"""The most coordinates whose Gram matrix is made for its rank."""


@once
def rank(part: Component, arrays: Mapping[str, jax.Array]) -> jax.Array:
    """The rank of a component's Gram operator."""
    held = gram.data(part, arrays)
    if solver.method(part) == "separate":
        return _own(part, held, arrays, 0)[1]
    if part.dimension > _SMALL and block_elimination.plan(part) is not None:
        return block_elimination.factor(part, held, arrays, accurate=True).rank
    if part.dimension <= _LARGEST:
        return inverse_roots.spectral(gram.matrix(part, held, arrays))[1]
    return _by_complement(part, held, arrays)


def _own(
    part: Component, held: gram.Data, arrays: Mapping[str, jax.Array], index: int
) -> tuple[one_family.Inverse, jax.Array]:
    inverse = one_family.invert(part, held, arrays, one_family.block(part, index))
    assert inverse.rank is not None
    return inverse, inverse.rank.astype(int)


def _by_complement(part: Component, held: gram.Data, arrays: Mapping[str, jax.Array]) -> jax.Array:
    """The rank of the largest family's block, plus that of its Schur complement on the others.

    Ranks add up so for a positive semi-definite matrix, with the pseudo-inverse of a singular block too.
    """
    exact = [i for i in range(len(part.families)) if one_family.block(part, i).exact]
    index = max(exact, key=lambda i: part.families[i].dimension, default=0)
    first = part.families[index]
    others = part.dimension - first.dimension
    if not exact or others > _LARGEST:
        names = ", ".join(repr(family.name) for family in part.families)
        raise GeometryError(
            f"`rank`: {names} are tied to one another, and {others} coordinates are left without a closed form; "
            f"at most {_LARGEST} are counted. Count the rank at smaller widths."
        )
    inverse, alive = _own(part, held, arrays, index)
    start = sum(family.dimension for family in part.families[:index])

    def outside(elements: Named) -> jax.Array:
        image = part.flat(elements)
        return jnp.concatenate([image[:start], image[start + first.dimension :]])

    def column(c: jax.Array) -> tuple[jax.Array, jax.Array]:
        flat = jnp.concatenate([c[:start], jnp.zeros(first.dimension, c.dtype), c[start:]])
        elements: Named = part.elements(flat)
        image = gram.apply(part, held, arrays, elements)
        answer = one_family.solve(inverse, image[first.name])
        left = gram.apply(part, held, arrays, elements | {first.name: -answer})
        return outside(left), jnp.vdot(c, outside(image))

    columns, before = jax.lax.map(column, jnp.eye(others, dtype=jnp.result_type(*arrays.values())))
    return alive + inverse_roots.spectral((columns + columns.T) / 2, before)[1]

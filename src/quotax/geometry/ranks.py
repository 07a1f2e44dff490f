"""The dimension of the vertical space at a point, from the data that its projections are factored into."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import jax

from quotax.geometry import closed_forms, elimination, gram, solver
from quotax.geometry.component import Component


@functools.partial(jax.jit, static_argnums=0)
def rank(part: Component, arrays: Mapping[str, jax.Array]) -> jax.Array:
    """The rank of a component's Gram operator."""
    held = gram.data(part, arrays)
    match solver.method(part):
        case "separate":
            return closed_forms.invert(part, held, arrays, closed_forms.block(part, 0)).rank.astype(int)
        case "elimination":
            return elimination.factor(part, held, arrays, accurate=True).rank
    return closed_forms.spectral_inverse(gram.matrix(part, held, arrays))[1]

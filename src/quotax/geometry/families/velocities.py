"""The linear map of a family, from its algebra to the velocities of the parameters, and its transpose."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from quotax.geometry.families.labelled import SharedSum, SplitPlaces, covelocity, label_sizes, summed_along, velocity
from quotax.geometry.linalg.named import Named
from quotax.symmetry import Family


def velocities(family: Family, arrays: Mapping[str, jax.Array], xi: jax.Array) -> Named:
    """The field of one family along an algebra element, from its terms where it has them."""
    if family.terms is None:
        return family.field(arrays, xi)
    total: Named = {}
    for term in family.terms:
        sizes = label_sizes(term, xi.shape, family.splits)
        value = velocity(term, split(family, arrays, term.source), xi, sizes)
        total[term.target] = total[term.target] + value if term.target in total else value
    return {name: value.reshape(arrays[name].shape) for name, value in total.items()}


def covelocities(
    family: Family,
    arrays: Mapping[str, jax.Array],
    vectors: Mapping[str, jax.Array],
    shared: SplitPlaces | None = None,
) -> jax.Array:
    """The transpose of `velocities`, as a covector on arrays of the algebra's shape."""
    shape = family.group.shape(family.sizes)
    dtype = jnp.result_type(*arrays.values())
    if family.terms is None:
        transpose = jax.linear_transpose(lambda xi: family.field(arrays, xi), jax.ShapeDtypeStruct(shape, dtype))
        return transpose({name: vectors[name] for name in family.moved})[0]
    found = SharedSum(shape, dtype)
    for term in family.terms:
        sizes = label_sizes(term, shape, family.splits)
        vector = vectors[term.target].reshape(family.splits[term.target])
        along = summed_along(term, shared)
        found.add(covelocity(term, split(family, arrays, term.source), vector, sizes, along), along)
    return found.total


def split(family: Family, arrays: Mapping[str, jax.Array], name: str | None) -> jax.Array | None:
    """A parameter with its fused axes apart."""
    return None if name is None else arrays[name].reshape(family.splits[name])

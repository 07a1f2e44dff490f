"""Families acting one after the other, and elements that are near the identity or take out a shift."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp

from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.trees import AnyArray

Elements = dict[str, jax.Array]
"""Group elements by family name."""


def near_identity(family: Family, xi: jax.Array) -> jax.Array:
    """`exp(xi)` up to third order, for a matrix: all that a Newton step knows, and a fraction of the program.

    It is positive definite: `1 + x + x^2 / 2` is at least one half at every eigenvalue `x` of a symmetric `xi`.
    """
    if family.group.layout != "matrix":
        return family.group.exponential(xi)
    return jnp.eye(xi.shape[-1], dtype=xi.dtype) + xi + 0.5 * (xi @ xi)


def act(families: Sequence[Family], arrays: Named, elements: Mapping[str, AnyArray]) -> Named:
    """The arrays moved by the elements, family by family."""
    for family in families:
        if family.name in elements:
            arrays = family.act(arrays, elements[family.name])
    return arrays


def inverses(families: Sequence[Family], elements: Mapping[str, AnyArray]) -> Elements:
    """The inverse elements."""
    return {f.name: f.group.inverse(elements[f.name]) for f in families if f.name in elements}


def shift_to_slice(family: Family, arrays: Named) -> jax.Array:
    """The shift that makes what it only shifts orthogonal to its own image, by least squares.

    A shift term copies an entry of `t` to `n` entries of a parameter; `V^T V` is the diagonal `sum c^2 n`.
    """
    shape = family.group.shape(family.sizes)
    dtype = jnp.result_type(*arrays.values())
    right, count = jnp.zeros(shape, dtype), 0.0
    for term in family.terms or ():
        if term.kind == "shift":
            target = jnp.asarray(arrays[term.target]).reshape(family.splits[term.target])
            right = right + term.coefficient * jnp.einsum(f"{term.target_labels}->{term.element}", target)
            count += term.coefficient**2 * target.size / max(math.prod(shape), 1)
    return -right / count

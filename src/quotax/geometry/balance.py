r"""What a family's parameters hold along its axis, and the group element that balances the two sides.

With $A$ the parameters that grow with $g$, laid out as columns along the axis, and $B$ those that shrink, the Gram
matrices $L = A A^T$ and $R = B B^T$ become $g L g^T$ and $g^{-T} R g^{-1}$. They are equal for $g^T g = P$ with

$$P L P = R, \qquad P = L^{-1/2} (L^{1/2} R L^{1/2})^{1/2} L^{-1/2}.$$
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from quotax.geometry.roles import sides
from quotax.geometry.spectra import each
from quotax.geometry.vertical import Family
from quotax.symmetry import GL, ComplexScaling, Term


def is_pair(family: Family) -> bool:
    """Whether the family multiplies every parameter it moves along one axis, by `g` or by its inverse."""
    terms = family.terms or ()
    targets = [term.target for term in terms]
    plain = all(t.homogeneous and (abs(t.coefficient) == 1) for t in terms)
    layout = family.group.layout
    kinds = {t.kind for t in terms} <= ({"matrix"} if layout == "matrix" else {"diagonal"})
    turned = {t.transposed != (t.coefficient < 0) for t in terms} if layout == "matrix" else {False}
    free = not (layout == "matrix" and not isinstance(family.group, GL | ComplexScaling))
    return bool(terms) and plain and kinds and free and len(turned) == 1 and len(set(targets)) == len(targets)


def axis_gram(family: Family, terms: list[Term], arrays: Mapping[str, Any]) -> jax.Array:
    """The sum of `A A^T` over the terms' parameters, shaped like a group element (its diagonal for a diagonal one)."""
    total = jnp.zeros(family.group.shape(family.sizes), jnp.result_type(*arrays.values()))
    for term in terms:
        array = jnp.asarray(arrays[term.target]).reshape(family.splits[term.target])
        labels = term.target_labels
        if term.kind == "matrix":
            assert term.position is not None
            own = labels[term.position]
            other = labels.replace(own, "Z")
            batch = term.element[:-2]
            total = total + jnp.einsum(f"{labels},{other}->{batch}{own}Z", array, array, precision="highest")
        else:
            total = total + jnp.einsum(f"{labels}->{term.element}", array**2)
    return isotropic(family, total)


def isotropic(family: Family, gram: jax.Array) -> jax.Array:
    """The part of a matrix that commutes with the group: for pairs of coordinates, the mean over the pair."""
    if not isinstance(family.group, ComplexScaling):
        return gram
    n = gram.shape[-1]
    first, second = family.group.places(n)
    moduli = jnp.diagonal(gram, axis1=-2, axis2=-1)
    mean = 0.5 * (moduli[..., first] + moduli[..., second])
    values = jnp.zeros(gram.shape[:-1], gram.dtype).at[..., first].set(mean).at[..., second].set(mean)
    return values[..., None] * jnp.eye(n, dtype=gram.dtype)


def spectral(family: Family, gram: jax.Array, function: Any) -> jax.Array:
    """A function of a Gram matrix, through its eigenvalues (its entries, where it is a diagonal)."""
    if family.group.layout != "matrix":
        return function(gram)
    values, vectors = each(jnp.linalg.eigh, gram)
    return (vectors * function(values)[..., None, :]) @ jnp.swapaxes(vectors, -1, -2)


def spectra(family: Family, arrays: Mapping[str, Any]) -> tuple[jax.Array, jax.Array] | None:
    """The eigenvalues of the Gram matrices of both sides, one row per copy; nothing where the sides are not apart."""
    if not is_pair(family):
        return None
    grams = [axis_gram(family, side, arrays) for side in sides(family)]
    if family.group.layout == "matrix":
        return each(jnp.linalg.eigvalsh, grams[0]), each(jnp.linalg.eigvalsh, grams[1])
    return grams[0][..., None], grams[1][..., None]


def balancing(family: Family, arrays: Mapping[str, Any], character: int) -> jax.Array:
    """The element that makes both sides' Gram matrices equal (one-sided families: one); the identity where none is.

    It is a starting point for Newton's method, exact where families do not share parameters.
    """
    dtype = jnp.result_type(*arrays.values())
    identity = jnp.asarray(family.group.identity(family.sizes, dtype))
    if not is_pair(family):
        return identity
    left, right = (axis_gram(family, side, arrays) for side in sides(family))
    if character:
        exponent = -0.5 if character > 0 else 0.5
        gram = left if character > 0 else right
        return _where(family, [gram], spectral(family, gram, lambda v: jnp.abs(v) ** exponent), identity)
    if family.group.layout != "matrix":
        good = (left > 0) & (right > 0)
        ratio = jnp.where(good, right, 1) / jnp.where(good, left, 1)
        return ratio**0.25
    root = spectral(family, left, lambda v: jnp.sqrt(jnp.abs(v)))
    inverse = spectral(family, left, lambda v: 1 / jnp.sqrt(jnp.abs(v)))
    middle = spectral(family, root @ right @ root, lambda v: jnp.sqrt(jnp.abs(v)))
    p = inverse @ middle @ inverse
    found = spectral(family, 0.5 * (p + jnp.swapaxes(p, -1, -2)), lambda v: jnp.sqrt(jnp.abs(v)))
    return _where(family, [left, right], found, identity)


def _where(family: Family, grams: list[jax.Array], found: jax.Array, identity: jax.Array) -> jax.Array:
    """`found` where the Gram matrices are regular and it is finite, copy by copy."""
    good = jnp.asarray(True)
    for gram in grams:
        if family.group.layout == "matrix":
            values = each(jnp.linalg.eigvalsh, gram)
            floor = gram.shape[-1] * 10 * jnp.finfo(gram.dtype).eps
            good = good & (values[..., 0] > floor * values[..., -1])
        else:
            good = good & (gram > 0)
    if family.group.layout == "matrix":
        good = good & jnp.all(jnp.isfinite(found), (-2, -1))
        good = good[..., None, None]
    return jnp.where(good, found, identity)

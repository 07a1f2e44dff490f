r"""What a family's parameters hold along its axis, and the group element that balances the two sides.

With $A$ the parameters that grow with $g$, laid out as columns along the axis, and $B$ those that shrink, the Gram
matrices $L = A A^T$ and $R = B B^T$ become $g L g^T$ and $g^{-T} R g^{-1}$. They are equal for $g^T g = P$ with

$$P L P = R, \qquad P = L^{-1/2} (L^{1/2} R L^{1/2})^{1/2} L^{-1/2}.$$
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from quotax.geometry.families.roles import sides
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.one_by_one import each
from quotax.symmetry import Term
from quotax.trees import AnyArray


def is_pair(family: Family) -> bool:
    """Whether the family multiplies every parameter it moves along one axis, by `g` or by its inverse."""
    terms = family.terms or ()
    targets = [term.target for term in terms]
    plain = all(t.homogeneous and (abs(t.coefficient) == 1) for t in terms)
    layout = family.group.layout
    kinds = {t.kind for t in terms} <= ({"matrix"} if layout == "matrix" else {"diagonal"})
    turned = {t.transposed != (t.coefficient < 0) for t in terms} if layout == "matrix" else {False}
    free = not family.group.orthogonal
    return bool(terms) and plain and kinds and free and len(turned) == 1 and len(set(targets)) == len(targets)


def axis_gram(family: Family, terms: list[Term], arrays: Mapping[str, AnyArray]) -> jax.Array:
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
    """The part of a matrix that commutes with the group, or of factors in it: the mean over what shares a number."""
    if family.group.layout == "diagonal":
        return family.group.nearest(gram, family.sizes)
    if not family.group.paired:
        return gram
    n = gram.shape[-1]
    first, second = family.group.places(n)
    moduli = jnp.diagonal(gram, axis1=-2, axis2=-1)
    mean = 0.5 * (moduli[..., first] + moduli[..., second])
    values = jnp.zeros(gram.shape[:-1], gram.dtype).at[..., first].set(mean).at[..., second].set(mean)
    return values[..., None] * jnp.eye(n, dtype=gram.dtype)


def spectral(family: Family, gram: jax.Array, function: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """A function of a Gram matrix, through its eigenvalues (its entries, where it is a diagonal)."""
    if family.group.layout != "matrix":
        return function(gram)
    values, vectors = each(jnp.linalg.eigh, gram)
    return _compose(vectors, function(values))


def spectra(family: Family, arrays: Mapping[str, AnyArray]) -> tuple[jax.Array, jax.Array] | None:
    """The eigenvalues of the Gram matrices of both sides, one row per copy; nothing where the sides are not apart."""
    if not is_pair(family):
        return None
    grams = [axis_gram(family, side, arrays) for side in sides(family)]
    if family.group.layout == "matrix":
        return each(jnp.linalg.eigvalsh, grams[0]), each(jnp.linalg.eigvalsh, grams[1])
    return grams[0][..., None], grams[1][..., None]


class Balancing(NamedTuple):
    """An element, and for every copy whether it is exact: whether the Gram matrices that it divides by are resolved.

    `grams` are those of both sides before it acts; of no pair there are none.
    """

    element: jax.Array
    exact: jax.Array
    grams: tuple[jax.Array, jax.Array] | None


def balancing(family: Family, arrays: Mapping[str, AnyArray], character: int) -> Balancing:
    """The element that makes both sides' Gram matrices equal (one-sided families: one); the identity where none is.

    It is a starting point for Newton's method, exact where families do not share parameters. A Gram matrix squares the
    condition of what it is made of, and keeps no eigenvalue below rounding of the largest: those are lifted to what it
    does keep. The element then takes that much of the condition away, and another one, found after it, more. Where a
    direction is zero altogether, none of them is ever exact.
    """
    identity = jnp.asarray(family.group.identity(family.sizes, jnp.result_type(*arrays.values())))
    if not is_pair(family):
        return Balancing(identity, jnp.asarray(True), None)
    left, right = (axis_gram(family, side, arrays) for side in sides(family))
    if family.group.layout != "matrix":
        return Balancing(_ratio(left, right, character), jnp.asarray(True), (left, right))
    if character:
        grown, exact = _resolved(left if character > 0 else right)
        found = grown(lambda v: v ** (-0.5 if character > 0 else 0.5))
    else:
        (grown, one), (shrunk, two) = _resolved(left), _resolved(right)
        root, inverse, exact = grown(jnp.sqrt), grown(lambda v: 1 / jnp.sqrt(v)), one & two
        middle = spectral(family, root @ shrunk(lambda v: v) @ root, lambda v: jnp.sqrt(jnp.abs(v)))
        p = inverse @ middle @ inverse
        found = spectral(family, 0.5 * (p + jnp.swapaxes(p, -1, -2)), lambda v: jnp.sqrt(jnp.abs(v)))
    return Balancing(chosen(jnp.all(jnp.isfinite(found), (-2, -1)), found, identity), exact, (left, right))


def chosen(good: jax.Array, found: jax.Array, identity: jax.Array) -> jax.Array:
    """`found`, and the identity for copies that are not good."""
    return jnp.where(good[..., None, None] if good.ndim == found.ndim - 2 else good, found, identity)


def _ratio(left: jax.Array, right: jax.Array, character: int) -> jax.Array:
    """The factors of a diagonal family."""
    if character:
        gram = left if character > 0 else right
        return jnp.where(gram > 0, jnp.abs(gram) ** (-0.5 if character > 0 else 0.5), 1)
    good = (left > 0) & (right > 0)
    return (jnp.where(good, right, 1) / jnp.where(good, left, 1)) ** 0.25


def _resolved(gram: jax.Array) -> tuple[Callable[[AnyArray], jax.Array], jax.Array]:
    """Functions of a matrix whose eigenvalues are lifted to what rounding leaves of them; and whether none was below.

    Of a matrix that is zero they are not finite.
    """
    values, vectors = each(jnp.linalg.eigh, gram)
    floor = gram.shape[-1] * 10 * jnp.finfo(gram.dtype).eps * values[..., -1:]
    lifted = jnp.where(floor > 0, jnp.maximum(values, floor), jnp.nan)
    return lambda function: _compose(vectors, function(lifted)), jnp.all(values > floor, -1)


def _compose(vectors: jax.Array, values: jax.Array) -> jax.Array:
    return (vectors * values[..., None, :]) @ jnp.swapaxes(vectors, -1, -2)

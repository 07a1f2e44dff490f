r"""The named metrics of two-factor blocks, `f = A^T B` up to a group element: `inv` and `mix`.

With $L = A A^T$ and $R = B B^T$ on the axis of the group (rows of $A$ multiplied by $g$, rows of $B$ by $g^{-T}$):

- inv: $\mathrm{tr}(L^{-1} a\,a'^T) + \mathrm{tr}(R^{-1} b\,b'^T)$,
- mix: $\mathrm{tr}(R\,a\,a'^T) + \mathrm{tr}(L\,b\,b'^T)$.

The vertical vectors are $(\xi A, -\xi^T B)$. With $K_A = a A^T$ and $K_B = b B^T$, the normal equations for the
vertical part of $(a, b)$ are, for inv, $\xi L R + L R \xi = K_A R - L K_B^T$, a Sylvester equation solved
by the eigenvectors of $L^{1/2} R L^{1/2}$; for mix explicitly $\xi = \tfrac12 (K_A L^{-1} - R^{-1} K_B^T)$.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from quotax.errors import GeometryError
from quotax.geometry.canonical.balance import axis_gram, is_pair, spectral
from quotax.geometry.families.component import components
from quotax.geometry.families.roles import short_sides, sides
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.geometry.linalg.one_by_one import each
from quotax.geometry.metrics.metric import Metric, vertical_by_matrix
from quotax.geometry.paths.factor_geodesics import inv_pair, mix_pair
from quotax.geometry.paths.path import Path, joined, moved, straight
from quotax.geometry.projection.vertical import Factors, factors_at, vertical
from quotax.symmetry import Group, Term


class TwoSides(NamedTuple):
    """What a two-factor block knows at a base point: both Gram matrices, and the whitening of each side."""

    left: jax.Array
    right: jax.Array
    whiten: tuple[jax.Array, jax.Array]
    unwhiten: tuple[jax.Array, jax.Array]
    values: jax.Array
    vectors: jax.Array


Blocks = tuple[list[TwoSides], Factors]
"""Each block's two sides, and the factored Gram operators of the other families."""


class Pairs(Metric[Blocks]):
    """`inv` or `mix` on every two-factor block, Euclidean on all other parameters."""

    lemma = (
        "lemma (covariances): along the axis of a block A A^T becomes g A A^T g^T, and B B^T likewise with "
        "the inverse; under g each side whitened by them changes by an orthogonal matrix, and its length does not"
    )

    def __init__(self, families: Sequence[Family], kind: Literal["inv", "mix"]) -> None:
        """Find the blocks; refuse when two of them share a parameter, or when there is none."""
        self.name = kind
        self.families = tuple(families)
        self.pairs = tuple(f for f in families if f.dimension and is_pair(f) and all(sides(f)))
        if not self.pairs:
            raise GeometryError(
                f"`quotient(..., metric={kind!r})` needs a two-factor block: a family that multiplies some parameters "
                "by g and others by inv(g), each along one axis; none of the families does. Try metric='invariant'."
            )
        for family in self.pairs:
            if any(short_sides(family) or ()):
                raise GeometryError(
                    f"`quotient(..., metric={kind!r})`: a factor of the block of {family.name!r} has lower rank than "
                    "its axis is long, so its covariance cannot be inverted. Try metric='invariant'."
                )
        owners: dict[str, str] = {}
        for family in self.pairs:
            for name in family.moved:
                if name in owners:
                    raise GeometryError(
                        f"`quotient(..., metric={kind!r})`: the blocks of {owners[name]!r} and {family.name!r} share "
                        f"{name!r}, so neither is a block of two factors. Try metric='invariant'."
                    )
                owners[name] = family.name
        others = [f for f in families if f.dimension and f not in self.pairs]
        self.apart = not any(set(f.moved) & set(owners) for f in others)
        self.others = components(others)
        self.parts = components(families)

    def _loose(self, families: Sequence[Family]) -> list[str]:
        return super()._loose([family for family in families if family not in self.pairs])

    def asked(self, family: Family) -> Group | None:
        """The compact part of a block's family."""
        return family.group.compact if family in self.pairs else family.group

    def prepare(self, arrays: Named) -> Blocks:
        """Each block's Gram matrices, and the factored Gram operators of the other families."""
        return _prepare(self, arrays)

    def whiten(self, data: Blocks, arrays: Named, v: Named) -> Named:
        """Each side multiplied along its axis."""
        return self._multiplied(v, [block.whiten for block in data[0]])

    def unwhiten(self, data: Blocks, arrays: Named, e: Named) -> Named:
        """Each side multiplied by the inverse along its axis."""
        return self._multiplied(e, [block.unwhiten for block in data[0]])

    def _multiplied(self, v: Named, matrices: list[tuple[jax.Array, jax.Array]]) -> Named:
        result = dict(v)
        for family, both in zip(self.pairs, matrices, strict=True):
            for terms, matrix in zip(sides(family), both, strict=True):
                for term in terms:
                    split = v[term.target].reshape(family.splits[term.target])
                    value = jnp.einsum(term.subscripts, split, matrix, precision="highest")
                    result[term.target] = value.reshape(v[term.target].shape)
        return result

    def vertical(self, data: Blocks, arrays: Named, v: Named) -> Named:
        """By the closed forms where the blocks share no parameter with other families."""
        blocks, factors = data
        if not self.apart:
            return vertical_by_matrix(self.parts, lambda w: self.whiten(data, arrays, w), arrays, v)
        result = vertical(self.others, factors, arrays, v)
        for family, block in zip(self.pairs, blocks, strict=True):
            for name, value in family.field(arrays, self._generator(family, block, arrays, v)).items():
                result[name] = value
        return result

    def path(self, data: Blocks, arrays: Named, v: Named, *, forward: bool = False) -> Path:
        """Block by block, in closed form for inv; straight lines for all other parameters."""
        if not self.apart:
            return super().path(data, arrays, v, forward=forward)
        rest = [name for name in arrays if not any(name in family.moved for family in self.pairs)]
        paths: list[Path] = [straight({n: arrays[n] for n in rest}, {n: v[n] for n in rest})] if rest else []
        for family in self.pairs:
            stack = functools.partial(stacked, family)
            pair = inv_pair if self.name == "inv" else mix_pair
            back = _Unstack(family, tuple((name, arrays[name].shape) for name in family.moved))
            paths.append(moved(pair(stack(arrays), stack(v)), back))
        return joined(*paths)

    def _generator(self, family: Family, block: TwoSides, arrays: Named, v: Named) -> jax.Array:
        """The algebra element of the vertical part; turned around where the action is `g^T A`."""
        xi = self._turned_generator(family, block, arrays, v)
        return jnp.swapaxes(xi, -1, -2) if sides(family)[0][0].transposed else xi

    def _turned_generator(self, family: Family, block: TwoSides, arrays: Named, v: Named) -> jax.Array:
        left, right = (_contracted(family, terms, v, arrays) for terms in sides(family))
        if family.group.layout != "matrix":
            return family.group.nearest(0.5 * (left / block.left - right / block.right), family.sizes)
        turned = jnp.swapaxes(right, -1, -2)
        if self.name == "mix":
            xi = 0.5 * (left @ _inverse(family, block.left) - _inverse(family, block.right) @ turned)
            return family.group.nearest(xi, family.sizes)
        rhs = left @ block.right - block.left @ turned
        root = spectral(family, block.left, _root)
        inverse = spectral(family, block.left, lambda x: 1 / _root(x))
        there = jnp.swapaxes(block.vectors, -1, -2) @ inverse
        back = root @ block.vectors
        eta = (there @ rhs @ back) / (block.values[..., :, None] + block.values[..., None, :])
        return family.group.nearest(back @ eta @ there, family.sizes)


def stacked(family: Family, arrays: Named) -> Named:
    """The two factors of a block as matrices `(copies, n, r)`, what shares the axis of the group stacked along `n`."""
    return {
        side: jnp.concatenate([_columns(family, term, arrays[term.target]) for term in terms], axis=-2)
        for side, terms in zip("AB", sides(family), strict=True)
    }


@dataclass(frozen=True)
class _Unstack:
    """The inverse of `stacked`; compared by its family, so that a path that holds it is found again when compiled."""

    family: Family
    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    def __call__(self, _: object, factors: Named) -> Named:
        result: Named = {}
        for side, terms in zip("AB", sides(self.family), strict=True):
            start = 0
            for term in terms:
                shape = self.family.splits[term.target]
                like = jax.ShapeDtypeStruct(shape, factors[side].dtype)
                rows = jax.eval_shape(functools.partial(_columns, self.family, term), like).shape[-2]
                part = factors[side][..., start : start + rows, :]
                # The layout is a permutation of the entries: its transpose undoes it.
                undo = jax.linear_transpose(functools.partial(_columns, self.family, term), like)
                result[term.target] = undo(part)[0].reshape(dict(self.shapes)[term.target])
                start += rows
        return result


def _columns(family: Family, term: Term, array: jax.Array) -> jax.Array:
    """A parameter as matrices `(copies, n, r)`; what has a factor of its own, a unit or a pair of them, is one copy."""
    split = array.reshape(family.splits[term.target])
    labels = term.target_labels
    if term.kind != "matrix":
        rest = "".join(c for c in labels if c not in term.element)
        units = jnp.einsum(f"{labels}->{term.element}{rest}", split).reshape(*family.group.shape(family.sizes), -1, 1)
        if family.group.free:
            return units
        first, second = family.group.places(units.shape[-3])
        return jnp.concatenate([units[..., first, :, :], units[..., second, :, :]], axis=-2)
    assert term.position is not None
    own, copies = labels[term.position], term.element[:-2]
    rest = "".join(c for c in labels if c != own and c not in copies)
    matrix = jnp.einsum(f"{labels}->{copies}{rest}{own}", split)
    matrix = matrix.reshape(*matrix.shape[: len(copies)], -1, matrix.shape[-1])
    if not family.group.paired:
        return matrix
    first, second = family.group.places(matrix.shape[-1])
    both = jnp.concatenate([matrix[..., first], matrix[..., second]], axis=-2)
    return jnp.swapaxes(both, -1, -2)[..., None]


@functools.partial(jax.jit, static_argnums=0)
def _prepare(metric: Pairs, arrays: Named) -> Blocks:
    return [_block(metric.name, family, arrays) for family in metric.pairs], factors_at(metric.others, arrays)


def _block(kind: str, family: Family, arrays: Named) -> TwoSides:
    left, right = (axis_gram(family, terms, arrays) for terms in sides(family))
    inverse = lambda x: 1 / _root(x)
    if kind == "inv":
        there = spectral(family, left, inverse), spectral(family, right, inverse)
        back = spectral(family, left, _root), spectral(family, right, _root)
    else:
        there = spectral(family, right, _root), spectral(family, left, _root)
        back = spectral(family, right, inverse), spectral(family, left, inverse)
    if family.group.layout != "matrix":
        return TwoSides(left, right, there, back, left * right, left)
    root = spectral(family, left, _root)
    values, vectors = each(jnp.linalg.eigh, root @ right @ root)
    return TwoSides(left, right, there, back, values, vectors)


def _root(x: jax.Array) -> jax.Array:
    """The square root; what is zero up to rounding counts as rounding, so that nothing divides by zero."""
    floor = jnp.finfo(x.dtype).eps * jnp.max(jnp.abs(x), -1, keepdims=True)
    return jnp.sqrt(jnp.maximum(x, jnp.where(floor > 0, floor, 1)))


def _inverse(family: Family, gram: jax.Array) -> jax.Array:
    return spectral(family, gram, lambda x: 1 / _root(x) ** 2)


def _contracted(family: Family, terms: list[Term], v: Named, arrays: Named) -> jax.Array:
    """`sum v A^T` over the terms' parameters, shaped like a group element."""
    total = jnp.zeros(family.group.shape(family.sizes), jnp.result_type(*v.values()))
    for term in terms:
        shape = family.splits[term.target]
        vector, array = v[term.target].reshape(shape), jnp.asarray(arrays[term.target]).reshape(shape)
        labels = term.target_labels
        if term.kind == "matrix":
            assert term.position is not None
            own = labels[term.position]
            out = f"{term.element[:-2]}{own}Z"
            value = jnp.einsum(f"{labels},{labels.replace(own, 'Z')}->{out}", vector, array, precision="highest")
        else:
            value = jnp.einsum(f"{labels},{labels}->{term.element}", vector, array, precision="highest")
        total = total + value
    return total

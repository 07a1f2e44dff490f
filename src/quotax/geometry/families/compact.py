"""The compact part of every family: how its elements act on one axis at a time, and which element fits best.

A maximal compact subgroup acts by Euclidean isometries: O(n) inside GL(n), signs inside R*^n, rotations inside C*,
permutations and flips as they are. With everything else fixed, `<g . a, b>` is `<g, M>` for an array `M` shaped like
`g`, contracted from `a` and `b` over all other axes, and the best `g` has a closed form: the polar factor of `M`, an
assignment, signs, angles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.one_by_one import each
from quotax.symmetry import Freedom
from quotax.trees import AnyArray

_ROW, _COLUMN = "X", "Y"
"""Labels for the two indices of an element; the labels of a term are small letters."""


@dataclass(frozen=True)
class Touch:
    """One place where a parameter meets an element: an axis that a matrix acts on, or indices that signs multiply.

    `labels` name the parameter's axes, `batch` those along which the element has independent copies. A matrix acts on
    the axis at `own`, transposed when `flip`; for signs `batch` holds all of the element's labels.
    """

    labels: str
    batch: str
    own: int | None = None
    flip: bool = False

    def _matrix(self, row: str, column: str) -> str:
        return self.batch + (column + row if self.flip else row + column)

    def act(self, g: jax.Array, array: jax.Array) -> jax.Array:
        """The array with the element applied here."""
        if self.own is None:
            return _einsum(f"{self.labels},{self.batch}->{self.labels}", array, g)
        old = _renamed(self.labels, self.own, _COLUMN)
        return _einsum(f"{old},{self._matrix(self.labels[self.own], _COLUMN)}->{self.labels}", array, g)

    def pair(self, after: jax.Array, before: jax.Array) -> jax.Array:
        """The array `M` with `<after, g . before> = <g, M>`."""
        if self.own is None:
            return _einsum(f"{self.labels},{self.labels}->{self.batch}", after, before)
        old = _renamed(self.labels, self.own, _COLUMN)
        return _einsum(f"{self.labels},{old}->{self._matrix(self.labels[self.own], _COLUMN)}", after, before)

    def pair_copies(self, copies: Touch, after: jax.Array, before: jax.Array) -> jax.Array:
        """`M` of the touch `copies` between slice `i` of `after` and slice `j` of `before` along this axis.

        Axes `(i, j)` come first; a pairing that this touch transposes has them swapped.
        """
        assert self.own is not None
        label = self.labels[self.own]
        rest = copies.batch.replace(label, "")
        left, right = _renamed(self.labels, self.own, _ROW), _renamed(self.labels, self.own, _COLUMN)
        if copies.own is not None:
            right = _renamed(right, copies.own, "Z")
            own = self.labels[copies.own]
            rest += "Z" + own if copies.flip else own + "Z"
        places = _COLUMN + _ROW if self.flip else _ROW + _COLUMN
        return _einsum(f"{left},{right}->{places}{rest}", after, before)


@dataclass(frozen=True, eq=False)
class CompactPart:
    """The compact part of one family: its kind, and where its elements touch each parameter."""

    family: Family
    kind: Freedom
    touches: Mapping[str, tuple[Touch, ...]]
    carried: tuple[str, ...] = ()
    """Parameters that also take up others, as `b2 + W2 @ (1 - g) / 2`: the search leaves that part out."""

    @property
    def name(self) -> str:
        """The family's name."""
        return self.family.name

    @property
    def axes(self) -> tuple[str | None, str | None]:
        """The axis acted on and the axis of independent copies."""
        return self.family.group.axis, self.family.group.each

    def act(self, name: str, g: jax.Array, array: jax.Array) -> jax.Array:
        """A parameter with the element applied."""
        for touch in self.touches.get(name, ()):
            array = touch.act(g, array)
        return array

    def undo(self, name: str, g: jax.Array, array: jax.Array) -> jax.Array:
        """A parameter with the inverse element applied."""
        return self.act(name, g if self.kind == "sign" else jnp.swapaxes(g, -1, -2), array)

    def pair(self, name: str, g: jax.Array, after: jax.Array, before: jax.Array) -> jax.Array:
        """The derivative of `<after, g . before>` in `g`; where a parameter is touched twice it depends on `g`."""
        touches, total = self.touches[name], jnp.zeros_like(g)
        for i, touch in enumerate(touches):
            moved = before
            for other in touches[:i] + touches[i + 1 :]:
                moved = other.act(g, moved)
            total += touch.pair(after, moved)
        return total

    def best(self, m: jax.Array) -> jax.Array:
        """The element that maximises `<g, m>`."""
        if self.kind == "orthogonal":
            left, _, right = each(lambda a: tuple(jnp.linalg.svd(a, full_matrices=False)), self.inner(m))
            return self.outer(jnp.matmul(left, right, precision="highest"))
        if self.kind == "permutation":
            return assignment(m)
        if self.kind == "sign":
            return jnp.where(m < 0, -1, 1).astype(m.dtype)
        pairs = self._pairs(m)
        length = jnp.linalg.norm(pairs, axis=-1, keepdims=True)
        unit = jnp.where(length > 0, pairs / jnp.where(length > 0, length, 1), jnp.asarray([1, 0], m.dtype))
        return self.family.group.algebra(unit, self.family.sizes)

    @property
    def directions(self) -> int:
        """How many directions along the axis its elements move."""
        n = self.family.group.shape(self.family.sizes)[-1]
        moved = self.family.group.moved(n)
        return n if moved is None else moved.shape[-1]

    def inner(self, m: jax.Array) -> jax.Array:
        """A matrix on the axis, between the directions that elements move."""
        moved = self._moved(m)
        return m if moved is None else moved.T @ m @ moved

    def outer(self, h: jax.Array) -> jax.Array:
        """The element that does this to the directions that elements move."""
        moved = self._moved(h)
        return h if moved is None else moved @ h @ moved.T + (jnp.eye(len(moved), dtype=h.dtype) - moved @ moved.T)

    def _moved(self, like: jax.Array) -> jax.Array | None:
        moved = self.family.group.moved(self.family.group.shape(self.family.sizes)[-1])
        return None if moved is None else jnp.asarray(moved, like.dtype)

    def noise(self, like: jax.Array) -> tuple[int, ...]:
        """The shape of the normal numbers that `random` is made of."""
        return like.shape[:-1] if self.kind == "permutation" else like.shape

    def random(self, noise: jax.Array) -> jax.Array:
        """A uniformly random element, from normal numbers."""
        if self.kind == "permutation":
            return jax.nn.one_hot(jnp.argsort(noise, -1), noise.shape[-1], dtype=noise.dtype)
        return self.best(noise)

    def value(self, m: jax.Array) -> jax.Array:
        """The maximum of `<g, m>` over one copy, for any leading axes."""
        if self.kind == "orthogonal":
            fixed = 0 if self._moved(m) is None else jnp.sum(self.outer(jnp.zeros_like(self.inner(m))) * m, (-2, -1))
            return jnp.sum(each(lambda a: jnp.linalg.svd(a, compute_uv=False), self.inner(m)), -1) + fixed
        if self.kind == "permutation":
            return jnp.sum(m * assignment(m), (-2, -1))
        if self.kind == "sign":
            return jnp.sum(jnp.abs(m), -1) if self.family.group.axis else jnp.abs(m)
        return jnp.sum(jnp.linalg.norm(self._pairs(m), axis=-1), -1)

    def _pairs(self, m: jax.Array) -> jax.Array:
        """For blocks `[[a, -b], [b, a]]`: the coefficients of `a` and `b` in `<g, m>`."""
        return self.family.group.pairing(m)


def compact_blocks(families: Sequence[Family]) -> tuple[CompactPart, ...]:
    """The families whose group has a compact part, or constant translations, that the search can use; in order."""
    return tuple(block for block in map(_block, families) if block is not None)


def unusable(families: Sequence[Family]) -> dict[str, str]:
    """The discrete families that the metrics by name and the alignment cannot use, with the reasons."""
    found = {block.name: block for block in compact_blocks(families)}
    reasons = {}
    for family in families:
        if family.name not in found:
            reasons[family.name] = "its action does not permute indices or change signs, one axis at a time"
        elif found[family.name].carried:
            targets = ", ".join(found[family.name].carried)
            reasons[family.name] = f"it carries other parameters into {targets}, which is no isometry of a named metric"
    return reasons


def _block(family: Family) -> CompactPart | None:
    group, kind, terms = family.group, family.group.freedom, family.action.touches
    if kind is None or terms is None:
        return None
    kinds = {term.kind for term in terms}
    touches: dict[str, tuple[Touch, ...]] = {}
    if kind == "shift":
        return CompactPart(family, kind, {term.target: () for term in terms}) if kinds == {"shift"} else None
    if kind != "sign":
        if kinds != {"matrix"} or any(abs(term.coefficient) != 1 for term in terms):
            return None
        for term in terms:
            # The inverse of an orthogonal matrix is its transpose: a contragredient slot acts like the others.
            flip = term.transposed != (term.coefficient < 0)
            touch = Touch(term.target_labels, term.element[:-2], term.position, flip)
            touches[term.target] = (*touches.get(term.target, ()), touch)
        return CompactPart(family, kind, touches)
    if not kinds <= {"diagonal", "carried"} or (group.continuous and "carried" in kinds):
        return None
    for term in terms:
        if term.kind == "diagonal" and term.coefficient % 2 == 1:  # even powers do not see signs
            touch = Touch(term.target_labels, term.element)
            touches[term.target] = (*touches.get(term.target, ()), touch)
    return CompactPart(family, kind, touches, tuple(t.target for t in terms if t.kind == "carried"))


def assignment(scores: jax.Array) -> jax.Array:
    """The permutation matrices with the largest `<g, scores>`, over the last two axes: solved on the host."""
    columns = jax.pure_callback(
        _columns,
        jax.ShapeDtypeStruct(scores.shape[:-1], np.int32),
        jax.lax.stop_gradient(scores),
        vmap_method="broadcast_all",
    )
    return jax.nn.one_hot(columns, scores.shape[-1], dtype=scores.dtype)


def _columns(scores: AnyArray) -> np.ndarray:
    from scipy.optimize import linear_sum_assignment

    stack = np.nan_to_num(np.asarray(scores))
    rows = [linear_sum_assignment(m, maximize=True)[1] for m in stack.reshape(-1, *stack.shape[-2:])]
    return np.asarray(rows, np.int32).reshape(stack.shape[:-1])


def _einsum(subscripts: str, *operands: jax.Array) -> jax.Array:
    return jnp.einsum(subscripts, *operands, precision="highest")


def _renamed(labels: str, position: int, label: str) -> str:
    return labels[:position] + label + labels[position + 1 :]

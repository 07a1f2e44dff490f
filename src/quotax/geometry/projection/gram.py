"""The Gram operator `V^T V` in the coordinates of the algebras, read off the terms.

Two terms on the same target, with velocities `A[..] xi[..]` and `B[..] eta[..]`, contribute `sum_target A xi B eta`:
what is not an index of `xi` or `eta` is summed once, into a tensor. For a matrix on an axis of `W` that tensor is
`S = W W^T`, for scalings of neighbouring layers it is `W` squared entrywise. Applying the operator then never touches
the parameters, except where a tensor would be larger than they are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from quotax.geometry.families.component import Component
from quotax.geometry.families.labelled import (
    Operand,
    SharedSum,
    SplitPlaces,
    SummedLabel,
    apart,
    contract,
    contract_in_parts,
    covelocity,
    label_sizes,
    summed_along,
    velocity,
)
from quotax.geometry.families.splitting import shared
from quotax.geometry.families.velocities import Family, split
from quotax.geometry.linalg.named import Named
from quotax.symmetry import Term

_SMALL = 2**14
"""Tensors up to this many entries are always formed."""

Data = tuple[jax.Array | None, ...]
"""The tensors of a Gram operator, one for each piece that has one."""


@dataclass(frozen=True)
class Product:
    """A pair of terms, the labels of their sources in the piece's letters, and the number that multiplies them."""

    row: Term
    column: Term
    row_source: str
    column_source: str
    factor: float


@dataclass(frozen=True)
class Piece:
    """`row[row_labels] += tensor[tensor_labels] column[column_labels]`, and its transpose for different families.

    Equal letters are indices that both elements share. A piece that is not `formed` is applied through the parameters.
    """

    row: int
    column: int
    row_labels: str
    column_labels: str
    tensor_labels: str
    sizes: Mapping[str, int]
    products: tuple[Product, ...]
    formed: bool

    @property
    def diagonal(self) -> bool:
        """Whether the piece multiplies every coordinate of one family by a number."""
        return self.formed and self.row == self.column and self.row_labels == self.column_labels

    def side(self) -> str | None:
        """Whether the piece is `xi S` ("right") or `S xi` ("left") on the matrices of one family."""
        if not self.formed or self.row != self.column or len(self.row_labels) < 2:
            return None
        if len(self.row_labels) != len(self.column_labels):
            return None
        other = [i for i, (a, b) in enumerate(zip(self.row_labels, self.column_labels, strict=True)) if a != b]
        if len(other) != 1:
            return None
        place = other[0] - len(self.row_labels)
        own = self.row_labels[place] + self.column_labels[place]
        if place not in (-1, -2) or self.tensor_labels != self.row_labels[:-2] + own:
            return None
        return "right" if place == -1 else "left"

    def matrix(self, tensor: jax.Array) -> jax.Array:
        """A formed piece as a matrix: entries where indices that both elements share differ are zero."""
        order = "".join(dict.fromkeys(self.row_labels + self.column_labels))
        places = tuple(slice(None) if a in self.tensor_labels else None for a in order)
        value = jnp.broadcast_to(tensor[places], [self.sizes[a] for a in order])
        for a in self.column_labels:
            if a in self.row_labels:  # the column gets an index of its own, tied to the row's by a delta
                n = self.sizes[a]
                delta = jnp.eye(n, dtype=value.dtype)
                shape = [n if label == a else 1 for label in order]
                value, order = value[..., None] * delta.reshape(*shape, n), order + a.upper()
        columns = "".join(a.upper() if a in self.row_labels else a for a in self.column_labels)
        value = jnp.transpose(value, [order.index(a) for a in self.row_labels + columns])
        return value.reshape(math.prod(self.sizes[a] for a in self.row_labels), -1)


def pieces(part: Component) -> tuple[Piece, ...] | None:
    """The pieces of a component's Gram operator, or nothing where a family has no terms."""
    if any(family.terms is None for family in part.families):
        return None
    found: dict[tuple[int, int, str, str, str], Piece] = {}
    for i, first in enumerate(part.families):
        for j, second in enumerate(part.families[i:], i):
            for s in first.terms or ():
                for t in second.terms or ():
                    if s.target == t.target:
                        piece = _pair(i, j, first, second, s, t)
                        key = (i, j, piece.row_labels, piece.column_labels, piece.tensor_labels)
                        if key in found:
                            # A tensor that is worth forming for one product holds the others too.
                            products = found[key].products + piece.products
                            piece = Piece(*key, piece.sizes, products, piece.formed or found[key].formed)
                        found[key] = piece
    return tuple(found.values())


def _pair(i: int, j: int, first: Family, second: Family, s: Term, t: Term) -> Piece:
    shapes = [family.group.shape(family.sizes) for family in (first, second)]
    # Letters: those of s as they are; those of t by their place in the common target, else new ones.
    placed = dict(zip(t.target_labels, s.target_labels, strict=True))
    taken = set(s.target_labels + s.source_labels + s.element)
    fresh = iter(letter for letter in map(chr, range(ord("a"), ord("a") + 200)) if letter not in taken)
    placed |= {a: next(fresh) for a in dict.fromkeys(t.element + t.source_labels) if a not in placed}
    read = lambda word: "".join(placed[a] for a in word)
    elements, sources = (s.element, read(t.element)), (s.source_labels, read(t.source_labels))
    sizes = label_sizes(s, shapes[0], first.splits)
    sizes |= {placed[a]: n for a, n in label_sizes(t, shapes[1], second.splits).items()}
    kept = [a for a in dict.fromkeys(elements[0] + elements[1]) if a in sources[0] + sources[1]]
    unseen = [a for a in s.target_labels if a not in elements[0] + elements[1] + sources[0] + sources[1]]
    factor = s.coefficient * t.coefficient * math.prod(sizes[a] for a in unseen)
    # Canonical letters, in the order in which the elements use them, so that equal pieces are found equal.
    order = dict.fromkeys(elements[0] + elements[1] + sources[0] + sources[1])
    final = {a: chr(ord("a") + n) for n, a in enumerate(order)}
    spell = lambda word: "".join(final[a] for a in word)
    entries = math.prod(sizes[a] for a in kept)
    held = sum(math.prod(sizes[a] for a in word) for word in sources if word)
    return Piece(
        i,
        j,
        spell(elements[0]),
        spell(elements[1]),
        spell(kept),
        {final[a]: sizes[a] for a in order},
        (Product(s, t, spell(sources[0]), spell(sources[1]), factor),),
        entries <= max(_SMALL, 2 * held),
    )


@functools.lru_cache(maxsize=256)
def structure(part: Component) -> tuple[Piece, ...] | None:
    """`pieces`, found once."""
    return pieces(part)


def data(part: Component, arrays: Mapping[str, jax.Array]) -> Data:
    """The tensors of the pieces."""
    held: list[jax.Array | None] = []
    for piece in structure(part) or ():
        held.append(_tensor(part, piece, arrays) if piece.formed else None)
        held, arrays = apart(held, arrays)
    return tuple(held)


def _tensor(part: Component, piece: Piece, arrays: Mapping[str, jax.Array]) -> jax.Array:
    families = part.families[piece.row], part.families[piece.column]
    found, split_over = SharedSum((), jnp.result_type(*arrays.values())), shared(part.families, arrays)
    for product in piece.products:
        operands: list[Operand] = []
        for family, term, labels in (
            (families[0], product.row, product.row_source),
            (families[1], product.column, product.column_source),
        ):
            source = split(family, arrays, term.source)
            if source is not None:
                operands.append((source, labels))
        along = _summed_along(piece, product, split_over)
        value = contract_in_parts(operands, piece.tensor_labels, _sizes(operands), along) if operands else 1
        found.add(product.factor * value, along)
    return found.total


def _summed_along(piece: Piece, product: Product, split_over: SplitPlaces | None) -> SummedLabel | None:
    """The label of a tensor's sum that runs over devices: both sources are split along it."""
    if split_over is None or None in (product.row.source, product.column.source):
        return None
    places = [split_over.places.get(str(term.source)) for term in (product.row, product.column)]
    if None in places:
        return None
    labels = {
        own[int(place or 0)] for own, place in zip((product.row_source, product.column_source), places, strict=True)
    }
    label = labels.pop()
    return None if labels or label in piece.tensor_labels else SummedLabel(label, split_over.devices)


def _sizes(operands: list[Operand]) -> dict[str, int]:
    return {a: n for array, labels in operands for a, n in zip(labels, array.shape, strict=True)}


def apply(
    part: Component,
    held: Data,
    arrays: Mapping[str, jax.Array],
    elements: Mapping[str, jax.Array],
    rows: Sequence[int] | None = None,
) -> Named:
    """`V^T V` on algebra elements; only the rows of some families, where they are given, and zero elements left out."""
    found = structure(part)
    if found is None:
        return part.covelocity(arrays, part.velocity(arrays, elements))
    names = [family.name for family in part.families]
    wanted = {names[i] for i in (range(len(names)) if rows is None else rows)}
    dtype = jnp.result_type(*elements.values())
    sums = {f.name: SharedSum(f.group.shape(f.sizes), dtype) for f in part.families if f.name in wanted}
    split_over = shared(part.families, arrays)

    def add(row: str, column: str, piece: Piece, tensor: jax.Array | None, transposed: bool) -> None:
        if row not in wanted or column not in elements:
            return
        if tensor is not None:
            labels = (piece.row_labels, piece.column_labels)[:: -1 if transposed else 1]
            operands = [(tensor, piece.tensor_labels), (elements[column], labels[1])]
            sums[row].add(contract(operands, labels[0], piece.sizes))
        else:
            _add_moved(part, piece, arrays, elements[column], transposed, split_over, sums[row])

    for piece, tensor in zip(found, held, strict=True):
        row, column = names[piece.row], names[piece.column]
        add(row, column, piece, tensor, transposed=False)
        if piece.row != piece.column:
            add(column, row, piece, tensor, transposed=True)
    return part.project({name: total.total for name, total in sums.items()})


def _add_moved(
    part: Component,
    piece: Piece,
    arrays: Mapping[str, jax.Array],
    element: jax.Array,
    transposed: bool,
    split_over: SplitPlaces | None,
    total: SharedSum,
) -> None:
    """A piece that has no tensor: the parameters' velocities along the element, and their covelocities."""
    families = (part.families[piece.row], part.families[piece.column])[:: -1 if transposed else 1]
    for product in piece.products:
        row, column = (product.row, product.column)[:: -1 if transposed else 1]
        sizes = label_sizes(column, element.shape, families[1].splits)
        moved = velocity(column, split(families[1], arrays, column.source), element, sizes)
        sizes = label_sizes(row, families[0].group.shape(families[0].sizes), families[0].splits)
        along = summed_along(row, split_over)
        total.add(covelocity(row, split(families[0], arrays, row.source), moved, sizes, along), along)


def matrix(part: Component, held: Data, arrays: Mapping[str, jax.Array]) -> jax.Array:
    """The Gram matrix in flat coordinates, a batch of columns at a time."""
    basis = jnp.eye(part.dimension, dtype=jnp.result_type(*arrays.values()))
    largest = max(sum(arrays[name].size for name in part.moved), part.dimension)
    batch = max(1, min(part.dimension, 2**24 // largest))
    return jax.lax.map(lambda c: part.flat(apply(part, held, arrays, part.elements(c))), basis, batch_size=batch)

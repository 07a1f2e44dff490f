"""Products of labelled arrays, and the two linear maps of a term: an algebra element to a velocity, and back.

A label is a letter, one per axis. Products without a matrix product in them stay elementwise, so that XLA fuses them
with what comes before and after: most families cost one pass over the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from quotax.symmetry import Term
from quotax.trees import Tree

Operand = tuple[jax.Array, str]
"""An array with one letter for each of its axes."""


_SMALL = 2**17


def apart(done: Tree, arrays: Mapping[str, jax.Array], *others: Mapping[str, jax.Array]) -> Tree:
    """The same, but what is computed with large arrays from here on does not share a loop with what is done.

    XLA would fuse sums over rows and over columns of one array into a loop that takes twice their time.
    """
    if max((array.size for array in arrays.values()), default=0) <= _SMALL:
        return done, dict(arrays), *map(dict, others)
    return jax.lax.optimization_barrier((done, dict(arrays), *map(dict, others)))


def contract(operands: Sequence[Operand], output: str, sizes: Mapping[str, int]) -> jax.Array:
    """The product of one or two labelled arrays, summed over the labels that `output` lacks.

    Labels of `output` that no operand has are repeated `sizes[label]` times.
    """
    labels = "".join(dict.fromkeys(label for _, own in operands for label in own))
    present = "".join(label for label in output if label in labels)
    largest = max((own for _, own in operands), key=len)
    if len(largest) == len(labels):
        product = _spread(*operands[0], largest)
        for array, own in operands[1:]:
            product = product * _spread(array, own, largest)
        summed = jnp.sum(product, axis=tuple(i for i, label in enumerate(largest) if label not in present))
        kept = "".join(label for label in largest if label in present)
        result = jnp.transpose(summed, [kept.index(label) for label in present])
    else:
        subscripts = f"{','.join(own for _, own in operands)}->{present}"
        result = jnp.einsum(subscripts, *(array for array, _ in operands), precision="highest")
    if present == output:
        return result
    return jnp.broadcast_to(_spread(result, present, output), tuple(sizes[label] for label in output))


def _spread(array: jax.Array, own: str, labels: str) -> jax.Array:
    """The array with its axes in the order of `labels`, and axes of length one for the labels it lacks."""
    ordered = jnp.transpose(array, [own.index(label) for label in labels if label in own])
    return ordered[tuple(slice(None) if label in own else None for label in labels)]


def label_sizes(term: Term, element: tuple[int, ...], splits: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """What every letter of a term runs over."""
    sizes = dict(zip(term.element, element, strict=True)) | dict(
        zip(term.target_labels, splits[term.target], strict=True)
    )
    return sizes | (dict(zip(term.source_labels, splits[term.source], strict=True)) if term.source else {})


def velocity(term: Term, source: jax.Array | None, xi: jax.Array, sizes: Mapping[str, int]) -> jax.Array:
    """What the term adds to the velocity of its target, with fused axes apart."""
    operands = ([(source, term.source_labels)] if source is not None else []) + [(xi, term.element)]
    return _times(term.coefficient, contract(operands, term.target_labels, sizes))


def covelocity(
    term: Term, source: jax.Array | None, vector: jax.Array, sizes: Mapping[str, int], along: SummedLabel | None = None
) -> jax.Array:
    """The transpose of `velocity`: what a vector on the target adds to the algebra coordinates' covector.

    With `along` it is what each part of the sum over that label adds, along an axis in front.
    """
    operands = ([(source, term.source_labels)] if source is not None else []) + [(vector, term.target_labels)]
    return _times(term.coefficient, contract_in_parts(operands, term.element, sizes, along))


class SummedLabel(NamedTuple):
    """The label that a sum runs over, and the number of parts in which it is taken."""

    label: str
    parts: int


class SplitPlaces(NamedTuple):
    """Over how many devices parameters are split, and for each that is the place of the axis, fused ones apart."""

    devices: int
    places: Mapping[str, int]


def summed_along(term: Term, shared: SplitPlaces | None) -> SummedLabel | None:
    """The label of a covelocity's sum that runs over devices, if there is one."""
    if shared is None or term.target not in shared.places:
        return None
    label = term.target_labels[shared.places[term.target]]
    return None if label in term.element or not splits(term, label, shared) else SummedLabel(label, shared.devices)


def splits(term: Term, label: str, shared: SplitPlaces) -> bool:
    """Whether the source of a term, if it has one, is split along this label."""
    place = shared.places.get(term.source) if term.source is not None else None
    return term.source is None or (place is not None and term.source_labels[place] == label)


_PART = "Z"
"""The label of the parts; those of terms are small letters."""


def contract_in_parts(
    operands: Sequence[Operand], output: str, sizes: Mapping[str, int], along: SummedLabel | None
) -> jax.Array:
    """`contract`, or with `along` the parts of its sum over that label, along an axis in front."""
    if along is None:
        return contract(operands, output, sizes)
    label, parts = along
    divided = []
    for array, own in operands:
        if label in own:
            place = own.index(label)
            array = array.reshape(*array.shape[:place], parts, -1, *array.shape[place + 1 :])
            own = own[:place] + _PART + own[place:]
        divided.append((array, own))
    return contract(divided, _PART + output, {**sizes, _PART: parts, label: sizes[label] // parts})


class SharedSum:
    """A sum of products, of which some are given in parts; those are added before the parts are.

    Where arrays are split over devices each part is on a device of its own. Adding parts is then what devices do for
    themselves, and what they send one another is one array, however many products there are.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._whole = jnp.zeros(shape, dtype)
        self._parts: jax.Array | None = None

    def add(self, value: jax.Array | float, along: SummedLabel | None = None) -> None:
        """One product more, in parts if it was taken along a label."""
        if along is None:
            self._whole = self._whole + value
        else:
            self._parts = jnp.asarray(value) if self._parts is None else self._parts + value

    @property
    def total(self) -> jax.Array:
        """All of it."""
        return self._whole if self._parts is None else self._whole + jnp.sum(self._parts, 0)


def _times(coefficient: float, array: jax.Array) -> jax.Array:
    return array if coefficient == 1 else coefficient * array

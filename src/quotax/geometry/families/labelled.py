"""Products of labelled arrays, and the two linear maps of a term: an algebra element to a velocity, and back.

A label is a letter, one per axis. Products without a matrix product in them stay elementwise, so that XLA fuses them
with what comes before and after: most families cost one pass over the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from quotax.symmetry import Term

Operand = tuple[jax.Array, str]
"""An array with one letter for each of its axes."""


_SMALL = 2**17


def apart(done: Any, arrays: Mapping[str, jax.Array], *others: Mapping[str, jax.Array]) -> Any:
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


def covelocity(term: Term, source: jax.Array | None, vector: jax.Array, sizes: Mapping[str, int]) -> jax.Array:
    """The transpose of `velocity`: what a vector on the target adds to the algebra coordinates' covector."""
    operands = ([(source, term.source_labels)] if source is not None else []) + [(vector, term.target_labels)]
    return _times(term.coefficient, contract(operands, term.element, sizes))


def _times(coefficient: float, array: jax.Array) -> jax.Array:
    return array if coefficient == 1 else coefficient * array

"""Arrays by their parts, and what of one lies where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from quotax.trees import AnyArray, Dim

Divided: TypeAlias = Any
"""An array, or one by its parts (`Concatenation`), or integers that are known (`Positions`): rules take any of them."""


@dataclass(frozen=True)
class Concatenation:
    """An array by its parts: along `axis` it is `before * (lengths one after another) * after`."""

    shape: tuple[Dim, ...]
    axis: int
    before: Dim
    lengths: tuple[Dim, ...]
    after: Dim
    pieces: tuple[Divided, ...]

    @property
    def total(self) -> Dim:
        """How long the parts are together."""
        return sum(self.lengths)

    def like(self, pieces: Sequence[Divided], axis: int) -> Concatenation:
        """Other parts that lie in the same way along an axis of theirs."""
        shape = list(shape_of(pieces[0]))
        shape[axis] = self.before * self.total * self.after
        return replace(self, shape=tuple(shape), axis=axis, pieces=tuple(pieces))

    def alike(self, other: Concatenation) -> bool:
        """Whether another array's axis is divided in the same way."""
        return (
            len(other.lengths) == len(self.lengths)
            and bool(other.before == self.before and other.after == self.after)
            and all(a == b for a, b in zip(self.lengths, other.lengths, strict=True))
        )

    def borders(self) -> list[Dim]:
        """Where parts begin, and where the last one ends."""
        return [sum(self.lengths[:i]) for i in range(len(self.lengths) + 1)]


@dataclass(frozen=True)
class Positions:
    """Integers that are known while tracing: positions, as numbers or as sizes that stay symbols."""

    value: AnyArray
    known: np.ndarray


def shape_of(value: Divided) -> tuple[Dim, ...]:
    """The shape of a value."""
    if isinstance(value, Concatenation):
        return value.shape
    return value.known.shape if isinstance(value, Positions) else np.shape(value)


def dtype_of(value: Divided) -> np.dtype:
    """The type of a value's entries."""
    return dtype_of(value.pieces[0]) if isinstance(value, Concatenation) else jnp.result_type(whole(value))


def whole(value: Divided) -> AnyArray:
    """A value as one array."""
    if isinstance(value, Positions):
        return value.value
    if not isinstance(value, Concatenation):
        return value
    pieces = [jnp.asarray(whole(piece)) for piece in value.pieces]
    if value.before == 1:
        return jnp.concatenate(pieces, value.axis)
    at = value.axis
    opened = [
        p.reshape(*p.shape[:at], value.before, n, value.after, *p.shape[at + 1 :])
        for p, n in zip(pieces, value.lengths, strict=True)
    ]
    return jnp.concatenate(opened, at + 1).reshape(value.shape)


def segment(value: Divided, frame: Concatenation, axis: int, number: int) -> Divided:
    """What of an array meets this part of another along an axis."""
    if shape_of(value)[axis] == 1:
        return value
    if isinstance(value, Concatenation):
        if value.axis == axis and frame.alike(value):
            return value.pieces[number]
        if value.axis != axis:
            return value.like([segment(piece, frame, axis, number) for piece in value.pieces], value.axis)
    array = jnp.asarray(whole(value))
    borders = frame.borders()
    start, stop = borders[number], borders[number + 1]
    if frame.before == 1:
        return jax.lax.slice_in_dim(array, start * frame.after, stop * frame.after, axis=axis)
    lead, trail = array.shape[:axis], array.shape[axis + 1 :]
    opened = array.reshape(*lead, frame.before, frame.total, frame.after, *trail)
    kept = jax.lax.slice_in_dim(opened, start, stop, axis=axis + 1)
    return kept.reshape(*lead, frame.before * (stop - start) * frame.after, *trail)


def part(value: Concatenation, start: Dim, stop: Dim, stride: Dim = 1) -> Divided:
    """What lies between two places of the divided axis, where these are borders of parts; None elsewhere."""
    if stride == 1 and start == 0 and stop == value.shape[value.axis]:
        return value
    borders = value.borders()
    if stride != 1:  # every n-th place of an axis in which n parts take turns
        turns = value.after == 1 and value.total == stride and all(n == 1 for n in value.lengths)
        places = [i for i in range(len(value.lengths)) if start == i]
        last = start + value.before * value.total - stride  # the last one that is taken
        return value.pieces[places[0]] if turns and places and _before(last, stop) else None
    if value.before != 1:
        return None
    first = [i for i, b in enumerate(borders) if b * value.after == start]
    last = [i for i, b in enumerate(borders) if b * value.after == stop]
    if not first or not last or not first[0] < last[-1]:
        return None
    kept = slice(first[0], last[-1])
    if last[-1] == first[0] + 1:
        return value.pieces[first[0]]
    return replace(value, lengths=value.lengths[kept]).like(value.pieces[kept], value.axis)


def _before(one: Dim, other: Dim) -> bool:
    """Whether one place comes before another for every size; an order that sizes leave open raises in JAX."""
    try:
        return bool(one < other)
    except Exception:
        return False


def quotient(a: Dim, b: Dim) -> Dim | None:
    """`a / b` where that is a size, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    found = a // b
    return found if found * b == a else None

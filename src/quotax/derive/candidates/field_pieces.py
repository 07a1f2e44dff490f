r"""Fields of the general ansatz as functions of arrays: what a proof by laws reads.

The numbers of a field are of pieces: a matrix on an axis of a parameter, constants, a parameter contracted with a
vector into another, or polynomials in single entries. A field has rational numbers; one of its multiples has integers,
which are exact in floats. Matrices that are multiples or transposes of one another are one array, and what is diagonal
is a vector: then the laws see that $-W_2 M$ takes back what $M W_1$ adds, whatever the numbers are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import jax.numpy as jnp
import numpy as np

from quotax.trees import AnyArray

Arrays = Mapping[str, AnyArray]

EXACT = 2**53
"""Integers below this are floats."""


@dataclass(frozen=True)
class MatrixOnAxes:
    """A matrix on some axes of a parameter, with fused axes taken apart; on none, a number."""

    param: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]

    def value(self, numbers: np.ndarray, arrays: Arrays, known: SeenArrays) -> dict[str, AnyArray]:
        """What is added to which parameter."""
        array = arrays[self.param].reshape(self.shape)
        over = tuple(self.shape[a] for a in self.axes)
        size = math.prod(over)
        factor, matrix, transposed = known.matrix(numbers.reshape(size, size))
        if np.array_equal(matrix, np.diag(np.diag(matrix))):
            along = [self.shape[a] if a in self.axes else 1 for a in range(len(self.shape))]
            return {self.param: factor * known.array(np.diag(matrix)).reshape(along) * array}
        letters = "abcdefghijklmnop"
        own = letters[: len(self.shape)]
        into = "".join(chr(ord("A") + a) if a in self.axes else own[a] for a in range(len(self.shape)))
        rows, columns = "".join(into[a] for a in self.axes), "".join(own[a] for a in self.axes)
        words = columns + rows if transposed else rows + columns
        tensor = known.array(matrix).reshape(over + over)
        return {self.param: factor * jnp.einsum(f"{words},{own}->{into}", tensor, array)}


@dataclass(frozen=True)
class AddedConstants:
    """AddedConstants added to a parameter."""

    param: str
    shape: tuple[int, ...]

    def value(self, numbers: np.ndarray, arrays: Arrays, known: SeenArrays) -> dict[str, AnyArray]:
        """What is added to which parameter."""
        factor, matrix, _ = known.matrix(numbers[:, None])
        return {self.param: factor * known.array(matrix).reshape(self.shape)}


@dataclass(frozen=True)
class ContractedInto:
    """A parameter contracted with a tensor along `rest`, added to another whose axes are at `order`."""

    param: str
    source: str
    shape: tuple[int, ...]
    order: tuple[int, ...]
    rest: tuple[int, ...]

    def value(self, numbers: np.ndarray, arrays: Arrays, known: SeenArrays) -> dict[str, AnyArray]:
        """What is added to which parameter."""
        factor, matrix, _ = known.matrix(numbers[:, None])
        own = "abcdefghijklmnop"[: len(self.shape)]
        rest, into = ("".join(own[a] for a in axes) for axes in (self.rest, self.order))
        tensor = known.array(matrix).reshape([self.shape[a] for a in self.rest])
        source = arrays[self.source].reshape(self.shape)
        return {self.param: factor * jnp.einsum(f"{own},{rest}->{into}", source, tensor)}


@dataclass(frozen=True)
class EntryPolynomials:
    """Every entry of some parameters moved by all of these monomials in entries of a flat vector."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    starts: Mapping[str, int]
    monomials: tuple[tuple[int, ...], ...]

    def value(self, numbers: np.ndarray, arrays: Arrays, known: SeenArrays) -> dict[str, AnyArray]:
        """What is added to which parameter."""
        entries = {
            start + k: entry
            for name, start in self.starts.items()
            for k, entry in enumerate(arrays[name].reshape(-1) if name in dict(self.shapes) else ())
        }
        rows, out = iter(numbers.reshape(-1, len(self.monomials))), {}
        for name, shape in self.shapes:
            moved = []
            parts = list(itertools.islice(rows, math.prod(shape)))
            for own in parts if np.any(parts) else ():
                terms = [int(own[k]) * math.prod(entries[p] for p in self.monomials[k]) for k in np.flatnonzero(own)]
                moved.append(sum(terms, start=jnp.zeros(())))
            out |= {name: jnp.stack(moved).reshape(shape)} if moved else {}
        return out


Piece = MatrixOnAxes | AddedConstants | ContractedInto | EntryPolynomials


@dataclass
class SeenArrays:
    """Arrays of integers that occurred, up to multiples and transposes."""

    seen: dict[tuple[tuple[int, ...], bytes], AnyArray] = field(default_factory=dict)

    def array(self, integers: np.ndarray) -> AnyArray:
        """One array for equal ones."""
        key = integers.shape, integers.tobytes()
        return self.seen.setdefault(key, jnp.asarray(integers, float))

    def matrix(self, numbers: np.ndarray) -> tuple[int, np.ndarray, bool]:
        """A factor, a primitive matrix, and whether its transpose is meant."""
        divisor = int(np.gcd.reduce(numbers.ravel()))
        factor = divisor if numbers.ravel()[np.flatnonzero(numbers)[0]] > 0 else -divisor
        matrix = np.ascontiguousarray(numbers // factor)
        other = np.ascontiguousarray(matrix.T)
        sign = 1 if other.ravel()[np.flatnonzero(other)[0]] > 0 else -1
        if (matrix.shape, matrix.tobytes()) not in self.seen and (other.shape, (sign * other).tobytes()) in self.seen:
            return sign * factor, sign * other, True
        return factor, matrix, False


def integers(numbers: Sequence[Fraction]) -> np.ndarray | None:
    """The numbers times the smallest factor that makes integers of them; None where these are no floats."""
    common = math.lcm(*(a.denominator for a in numbers))
    found = [int(a * common) for a in numbers]
    return np.array(found, np.int64) if max(map(abs, found), default=0) < EXACT else None


def function_of(
    pieces: Sequence[tuple[int, Piece]], count: int, numbers: Sequence[Fraction], like: Mapping[str, tuple[int, ...]]
) -> Callable[[Arrays], dict[str, AnyArray]] | None:
    """The field with these numbers: arrays by name to what it adds to those it moves; None where it cannot be said."""
    whole = integers(numbers)
    if whole is None:
        return None
    ends = [*(start for start, _ in pieces[1:]), count]
    own = [(piece, part) for (start, piece), end in zip(pieces, ends, strict=True) if (part := whole[start:end]).any()]

    def function(arrays: Arrays) -> dict[str, AnyArray]:
        known, out = SeenArrays(), {}
        for piece, part in own:
            for name, value in piece.value(part, arrays, known).items():
                value = value.reshape(like[name])
                out[name] = out[name] + value if name in out else value
        return out

    return function

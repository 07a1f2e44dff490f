"""Sparse matrices of rational numbers, as whole numbers over one denominator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from quotax.errors import SymmetryError
from quotax.trees import AnyArray, Tree

LARGEST = 2**62
"""Entries stay below: sums and products of whole numbers must not wrap around."""

Entries = tuple[tuple[int, int, Fraction], ...]
"""Row, column and value of what is not zero, in order."""


@dataclass(frozen=True)
class ExactMatrix:
    """A square matrix of rational numbers, compared by value."""

    size: int
    entries: Entries

    @cached_property
    def denominator(self) -> int:
        """The least common denominator."""
        return math.lcm(*(value.denominator for *_, value in self.entries))

    @cached_property
    def numerators(self) -> Tree:
        """The matrix times its denominator: whole numbers, in SciPy's sparse rows."""
        from scipy.sparse import csr_array

        rows, columns, values = zip(*self.entries, strict=True) if self.entries else ((), (), ())
        whole = [int(value * self.denominator) for value in values]
        small(whole)
        return csr_array((np.array(whole, np.int64), (rows, columns)), (self.size, self.size))

    @cached_property
    def monomial(self) -> tuple[np.ndarray, np.ndarray] | None:
        """`(p, s)` where it sends every `e_i` to `s_i e_p(i)` with a sign; None where it does not."""
        columns = [column for _, column, _ in self.entries]
        rows = [row for row, *_ in self.entries]
        if not (sorted(columns) == sorted(rows) == list(range(self.size))):
            return None
        if any(abs(value) != 1 for *_, value in self.entries):
            return None
        places, signs = np.zeros(self.size, np.int64), np.zeros(self.size, np.int64)
        for row, column, value in self.entries:
            places[column], signs[column] = row, int(value)
        return places, signs

    @property
    def transpose(self) -> ExactMatrix:
        """Rows for columns."""
        return ExactMatrix(self.size, tuple(sorted((c, r, v) for r, c, v in self.entries)))

    def scaled(self, factor: int) -> ExactMatrix:
        """A multiple."""
        return ExactMatrix(self.size, tuple((r, c, factor * v) for r, c, v in self.entries))

    def inverse(self) -> ExactMatrix | None:
        """The inverse, if there is one."""
        if self.monomial is not None:
            return self.transpose
        from flint import fmpq, fmpq_mat

        table = [[fmpq(0)] * self.size for _ in range(self.size)]
        for row, column, value in self.entries:
            table[row][column] = fmpq(value.numerator, value.denominator)
        try:
            found = fmpq_mat(table).inv()
        except ZeroDivisionError:
            return None
        pairs = ((i, j, found[i, j]) for i in range(self.size) for j in range(self.size))
        return ExactMatrix(self.size, tuple((i, j, Fraction(int(v.p), int(v.q))) for i, j, v in pairs if v != 0))


def unit_matrix(size: int) -> ExactMatrix:
    """The identity."""
    return ExactMatrix(size, tuple((i, i, Fraction(1)) for i in range(size)))


def exact(value: AnyArray, refuse: Callable[[str], Exception]) -> ExactMatrix:
    """A square matrix of rational numbers, or a list of numbers that says where each index goes."""
    rows = value.tolist() if hasattr(value, "tolist") else value
    try:
        rows = [list(row) if isinstance(row, Iterable) and not isinstance(row, str) else row for row in rows]
    except TypeError:
        raise refuse(f"is {value!r}, which is no matrix") from None
    if rows and not any(isinstance(row, list) for row in rows):
        numbers = [rational(entry, refuse) for entry in rows]
        if sorted(numbers) != list(range(len(rows))):
            raise refuse(f"is the list {rows}, which is no order of 0 to {len(rows) - 1}")
        return ExactMatrix(len(rows), tuple(sorted((int(to), i, Fraction(1)) for i, to in enumerate(numbers))))
    if not rows or any(not isinstance(row, list) or len(row) != len(rows) for row in rows):
        raise refuse(f"has rows of lengths {[len(r) if isinstance(r, list) else 1 for r in rows]}: it must be square")
    parts = ((i, j, rational(entry, refuse)) for i, row in enumerate(rows) for j, entry in enumerate(row))
    return ExactMatrix(len(rows), tuple((i, j, v) for i, j, v in parts if v))


def rational(entry: Any, refuse: Callable[[str], Exception]) -> Fraction:
    """An entry as a fraction; floats only where they are whole."""
    try:
        if isinstance(entry, float | np.floating):
            if float(entry).is_integer():
                return Fraction(int(entry))
            raise TypeError
        if getattr(entry, "is_Rational", False):
            return Fraction(int(entry.p), int(entry.q))
        return Fraction(entry)
    except (TypeError, ValueError):
        raise refuse(
            f"has the entry {entry!r}, which is no exact rational number; write 1/2 as `sympy.Rational(1, 2)` or "
            f"`fractions.Fraction(1, 2)`, and an irrational turn by its infinitesimal generator"
        ) from None


def kronecker(left: Any, right: Any) -> Tree:
    """The tensor product of sparse whole-number matrices; SciPy makes floats of one that is zero."""
    from scipy.sparse import kron

    _bounded(_largest(left) * _largest(right))
    return kron(left, right, format="csr").astype(np.int64)


def product(left: Any, right: Any) -> Tree:
    """The product of sparse whole-number matrices."""
    rows = int(np.diff(left.indptr).max(initial=0))
    _bounded(_largest(left) * _largest(right) * rows)
    return left @ right


def multiple(matrix: AnyArray, factor: int) -> Tree:
    """A sparse whole-number matrix times a number."""
    _bounded(_largest(matrix) * abs(factor))
    return matrix * factor


def unit(size: int) -> Tree:
    """The sparse whole-number matrix of the identity."""
    from scipy.sparse import eye_array

    return eye_array(size, dtype=np.int64, format="csr")


def small(values: AnyArray) -> None:
    """Refuse whole numbers that products in 64 bits might not hold."""
    _bounded(max((abs(int(v)) for v in np.ravel(np.asarray(values, object))), default=0))


def _largest(matrix: AnyArray) -> int:
    return int(np.abs(matrix.data).max(initial=0))


def _bounded(largest: int) -> None:
    if largest >= LARGEST:
        raise SymmetryError(
            f"`quotax.equivariant_maps`: whole numbers of {largest.bit_length()} bits may arise, more than 62: "
            f"generators with smaller numerators and denominators, or lower tensor powers, are within reach."
        )

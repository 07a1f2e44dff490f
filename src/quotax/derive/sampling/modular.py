"""Linear algebra modulo the prime: rank, nullspace, and the small rationals that residues stand for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction
from math import isqrt

import numpy as np
from flint import nmod_mat

from quotax.interpret.jets.residues import PRIME, product

_BOUND = isqrt(PRIME // 2)


def rank(matrix: np.ndarray) -> int:
    """The rank of a matrix of residues."""
    return 0 if 0 in matrix.shape else _flint(squeezed(matrix)).rank()


def squeezed(matrix: np.ndarray, spare: int = 12) -> np.ndarray:
    """A matrix of the same row space: random combinations of the rows, when there are many more of them than columns.

    A random combination misses part of the row space with probability about `PRIME ** -spare`.
    """
    rows, columns = matrix.shape
    if rows <= columns + columns // 2 + 4 * spare:  # below that, the product costs more than it saves
        return matrix
    rng = np.random.default_rng(rows * 1009 + columns)
    total = np.zeros((columns + spare, columns), np.int64)
    for start in range(0, rows, 4096):
        piece = matrix[start : start + 4096]
        total = (total + product(rng.integers(0, PRIME, (columns + spare, len(piece))), piece)) % PRIME
    return total


def nullspace(matrix: np.ndarray) -> np.ndarray:
    """A basis (rows) of what the matrix sends to zero, in reduced echelon form."""
    columns = matrix.shape[1]
    if not matrix.size:
        return np.eye(columns, dtype=np.int64)
    solutions, found = _flint(squeezed(matrix)).nullspace()
    basis = np.array([[int(solutions[i, k]) for i in range(columns)] for k in range(found)], np.int64)
    return echelon(basis.reshape(found, columns))


def common_nullspace(columns: int, blocks: Iterable[Callable[[np.ndarray], np.ndarray]]) -> np.ndarray:
    """What many matrices of as many columns send to zero, in reduced echelon form; a block gives the columns asked for.

    The first blocks, about as many rows as there are columns, exclude nearly everything; the others see what is left.
    """
    rest, first = iter(blocks), []
    for block in rest:
        first.append(block(np.arange(columns)))
        if sum(map(len, first)) > columns:
            break
    left = nullspace(np.concatenate(first))
    for block in rest:
        places = np.flatnonzero(left.any(axis=0))
        if len(places) and (residual := product(block(places), np.ascontiguousarray(left[:, places].T))).any():
            left = echelon(product(nullspace(residual), left))
    return left


def echelon(matrix: np.ndarray) -> np.ndarray:
    """The reduced row echelon form, without zero rows."""
    if 0 in matrix.shape:
        return matrix
    reduced, found = _flint(matrix).rref()
    columns = matrix.shape[1]
    entries = itertools.islice(reduced.entries(), found * columns)
    return np.fromiter(map(int, entries), np.int64, found * columns).reshape(found, columns)


def rational(residue: int) -> Fraction | None:
    """The fraction with numerator and denominator below sqrt(p/2) that a residue stands for, if there is one.

    >>> rational(PRIME - 1), rational(pow(3, -1, PRIME) * 2 % PRIME)
    (Fraction(-1, 1), Fraction(2, 3))
    """
    before, remainder, above, below = PRIME, int(residue) % PRIME, 0, 1
    while remainder > _BOUND:
        quotient = before // remainder
        before, remainder = remainder, before - quotient * remainder
        above, below = below, above - quotient * below
    if not 0 < abs(below) <= _BOUND:
        return None
    return Fraction(remainder, below)


def rationals(row: Iterable[int]) -> list[Fraction] | None:
    """All entries of a row as fractions, or None when one of them is none."""
    entries = list(row)
    values = [value for entry in entries if (value := rational(entry)) is not None]
    return values if len(values) == len(entries) else None


def _flint(matrix: np.ndarray) -> nmod_mat:
    rows, columns = matrix.shape
    return nmod_mat(rows, columns, matrix.ravel().tolist(), PRIME)

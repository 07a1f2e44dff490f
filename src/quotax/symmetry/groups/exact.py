"""Arrays of exact entries, fractions or symbols, of which groups make their elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from quotax.symmetry.groups.base import Group
from quotax.trees import AnyArray


def stacked(blocks: list[np.ndarray], group: Group, sizes: Mapping[str, int]) -> np.ndarray:
    """One block for each copy, as the axes of copies are; the block itself, where the group has no copies."""
    return np.stack(blocks).reshape(*(sizes[axis] for axis in group.each_axes), *blocks[0].shape)


def fractions(values: AnyArray) -> np.ndarray:
    """Whole numbers and fractions as an array of `Fraction`."""
    return np.vectorize(Fraction, otypes=[object])(np.asarray(values))


def named(group: Group, sizes: Mapping[str, int], **assumptions: bool) -> np.ndarray:
    """One symbol per entry of an element's array."""
    array = np.empty(group.shape(sizes), dtype=object)
    for index in np.ndindex(array.shape):
        suffix = f"[{','.join(map(str, index))}]" if index else ""
        array[index] = sp.Symbol(f"g{suffix}", **(assumptions or {"real": True}))
    return array


def objects(value: AnyArray) -> np.ndarray:
    """A zero- or higher-dimensional object array, whatever NumPy made of a scalar."""
    array = np.empty(np.shape(value), dtype=object)
    array[...] = value
    return array


def cofactor_inverse(g: np.ndarray) -> np.ndarray:
    """The inverse over the symbols' field: adjugate over determinant, block by block."""
    if g.ndim > 2:
        return np.stack([cofactor_inverse(block) for block in g])
    matrix = sp.Matrix(g)
    determinant = matrix.det(method="berkowitz")
    return np.array((matrix.adjugate(method="berkowitz") / determinant).tolist(), dtype=object).reshape(g.shape)


def skew(n: int, entry: Callable[[int, int], Any]) -> np.ndarray:
    """The skew matrix with these entries above its diagonal."""
    matrix = np.zeros((n, n), dtype=object)
    for i, j in itertools.combinations(range(n), 2):
        matrix[i, j] = entry(i, j)
        matrix[j, i] = -matrix[i, j]
    return matrix


def symbols(copy: int) -> Callable[[int, int], sp.Expr]:
    """Entries of a skew matrix: one symbol each."""
    return lambda i, j: sp.Symbol(f"s[{copy},{i},{j}]", real=True)


def rationals(rng: np.random.Generator) -> Callable[[int, int], sp.Expr]:
    """Entries of a skew matrix: small positive rationals."""
    return lambda i, j: sp.Rational(int(rng.integers(1, 5)), int(rng.integers(2, 5)))


def cayley(skew: np.ndarray) -> np.ndarray:
    """The rotation `(I - S)(I + S)^-1`; it fixes what `S` sends to zero."""
    n = len(skew)
    matrix, eye = sp.Matrix(skew), sp.eye(n)
    rotation = (eye - matrix) * (eye + matrix).inv(method="ADJ")
    return np.array(rotation.applyfunc(sp.cancel).tolist(), dtype=object).reshape(n, n)


def from_sympy(block: np.ndarray) -> np.ndarray:
    """SymPy's rationals as an array of `Fraction`."""
    return np.vectorize(lambda e: Fraction(int(e.p), int(e.q)), otypes=[object])(np.vectorize(sp.Rational)(block))

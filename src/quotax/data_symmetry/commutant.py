r"""All solutions X of $\rho_{out}(g) X = X \rho_{in}(g)$ and $d\rho_{out}(A) X = X d\rho_{in}(A)$, exactly.

Generators that are permutations with signs only say which entries of X are equal, or opposite: entries are joined along
them, and what has to be its own opposite is zero. The others are linear equations in what is left, solved in whole
numbers. Nothing is rounded and nothing drawn, so that the dimension is the dimension.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quotax.data_symmetry.exact_matrices import kronecker, multiple, product, small, unit
from quotax.data_symmetry.representation import Word, generator, length
from quotax.errors import SymmetryError
from quotax.trees import AnyArray, Tree

ENTRIES = 2**24
"""A block of more entries is refused."""
UNKNOWN = 3000
"""So many unknown numbers may be left when equations are solved."""

Names = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Block:
    """A basis of the maps from one tensor product to another: column `i` of `basis` is a map, its rows in order."""

    basis: AnyArray
    out: int
    into: int

    @property
    def dim(self) -> int:
        """How many there are."""
        return self.basis.shape[1]


@functools.lru_cache(maxsize=32)
def commutant(into: Word, out: Word, names: Names) -> Block:
    """A basis of all maps that commute with the generators of these names."""
    rows, columns = length(out), length(into)
    if rows * columns > ENTRIES:
        raise SymmetryError(
            f"`quotax.equivariant_maps`: maps from {_shown(into)} to {_shown(out)} have {rows:,} x {columns:,} "
            f"entries, more than {ENTRIES:,}."
        )
    orders = {name: _orders(into, out, name) for name in names[0]}
    basis = _joined(rows, columns, [order for order in orders.values() if order is not None])
    left = [(name, False) for name, order in orders.items() if order is None] + [(name, True) for name in names[1]]
    for name, infinitesimal in left:
        if not basis.shape[1]:
            break
        if basis.shape[1] > UNKNOWN:
            raise SymmetryError(
                f"`quotax.equivariant_maps`: {basis.shape[1]:,} unknown numbers of a map from {_shown(into)} to "
                f"{_shown(out)} are left when the equations of {name!r} are to be solved, more than {UNKNOWN:,}: "
                f"lower tensor powers are within reach."
            )
        basis = product(basis, _solutions(_defect(into, out, name, infinitesimal, basis)))
    basis = _ordered(basis)
    for name, infinitesimal in [*((name, False) for name in names[0]), *((name, True) for name in names[1])]:
        defect = _defect(into, out, name, infinitesimal, basis)
        if defect.count_nonzero():
            raise AssertionError(f"a map from {_shown(into)} to {_shown(out)} does not commute with {name!r}")
    return Block(basis, rows, columns)


def _orders(into: Word, out: Word, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Where a generator sends every entry of a map, and with which sign, if it does no more than that."""
    found = []
    for word in (out, into):
        places, signs = np.zeros(1, np.int64), np.ones(1, np.int64)
        for atom in word:
            order = dict(atom.finite)[name].monomial
            if order is None:
                return None
            places = (places[:, None] * atom.size + order[0]).ravel()
            signs = (signs[:, None] * order[1]).ravel()
        found.append((places, signs))
    (rows, left), (columns, right) = found
    return (rows[:, None] * len(columns) + columns).ravel(), (left[:, None] * right).ravel()


def _joined(rows: int, columns: int, orders: list[tuple[np.ndarray, np.ndarray]]) -> Tree:
    """A basis of the maps whose entries are equal, or opposite, along these orders.

    Every entry is two nodes, itself and its opposite. Where both are in one component it is zero; the components of
    the others come in opposite pairs, of which one is a map with entries 1 and -1.
    """
    from scipy.sparse import coo_array, csr_array
    from scipy.sparse.csgraph import connected_components

    count = rows * columns
    if not orders:
        return unit(count)
    nodes = np.arange(count)
    starts, ends = [], []
    for places, signs in orders:
        flipped = (signs < 0) * count
        starts += [nodes, nodes + count]
        ends += [places + flipped, places + count - flipped]
    start, end = np.concatenate(starts), np.concatenate(ends)
    graph = coo_array((np.ones(len(start), np.int8), (start, end)), (2 * count, 2 * count))
    _, label = connected_components(graph, directed=False)
    first, second = label[:count], label[count:]
    alive = np.flatnonzero(first != second)
    least = np.minimum(first[alive], second[alive])
    sign = np.where(first[alive] == least, 1, -1)
    components, index = np.unique(least, return_inverse=True)
    return csr_array((sign.astype(np.int64), (alive, index)), (count, len(components)))


def _defect(into: Word, out: Word, name: str, infinitesimal: bool, basis: AnyArray) -> Tree:
    """`rho_out X - X rho_in` for every map of a basis, times both denominators."""
    (left, below), (right, under) = generator(out, name, infinitesimal), generator(into, name, infinitesimal)
    moved = product(kronecker(multiple(left, under), unit(right.shape[0])), basis)
    return moved - product(kronecker(unit(left.shape[0]), multiple(right.T.tocsr(), below)), basis)


def _solutions(equations: Any) -> Tree:
    """The whole-number solutions of `equations c = 0`, primitive, as sparse columns."""
    from flint import fmpz_mat
    from scipy.sparse import csr_array

    unknown = equations.shape[1]
    rows = _distinct(equations)
    if not rows:
        return unit(unknown)
    reduced, _, rank = fmpz_mat(rows).rref()
    table = [[int(reduced[i, j]) for j in range(unknown)] for i in range(rank)]
    pivots = [next(j for j, entry in enumerate(row) if entry) for row in table]
    free = sorted(set(range(unknown)) - set(pivots))
    entries: list[tuple[int, int, int]] = []
    for column, j in enumerate(free):
        tied = [(p, row[j], row[p]) for p, row in zip(pivots, table, strict=True) if row[j]]
        scale = math.lcm(*(pivot // math.gcd(entry, pivot) for _, entry, pivot in tied))
        values = [(j, scale), *((p, -entry * scale // pivot) for p, entry, pivot in tied)]
        common = math.gcd(*(value for _, value in values)) * (1 if values[0][1] > 0 else -1)
        entries += [(i, column, value // common) for i, value in values]
    where, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
    small(values)
    return csr_array((np.array(values, np.int64), (where, columns)), (unknown, len(free)))


def _ordered(basis: AnyArray) -> Tree:
    """The same maps in the order of their first entries, which are positive."""
    found = basis.tocsc()
    found.eliminate_zeros()
    found.sort_indices()
    first = found.indptr[:-1]
    order = np.argsort(found.indices[first], kind="stable")
    return (found * np.sign(found.data[first])[None, :]).tocsc()[:, order].tocsr()


def _distinct(equations: Any) -> list[list[int]]:
    """The equations that differ, written out."""
    equations.sum_duplicates()
    equations.eliminate_zeros()
    seen: dict[bytes, list[int]] = {}
    for i in np.flatnonzero(np.diff(equations.indptr)):
        part = slice(equations.indptr[i], equations.indptr[i + 1])
        places, values = equations.indices[part], equations.data[part]
        values = values // np.gcd.reduce(values) * (1 if values[0] > 0 else -1)
        key = places.tobytes() + values.tobytes()
        if key not in seen:
            row = np.zeros(equations.shape[1], np.int64)
            row[places] = values
            seen[key] = row.tolist()
    return list(seen.values())


def _shown(word: Word) -> str:
    return "*".join(atom.name for atom in word) or "1"

r"""How many equivariant maps there are, counted by characters: $\frac1{|G|} \sum_g \chi_{in}(g)\, \chi_{out}(g)$.

The elements of the group that the declared matrices generate are listed, if they are not too many. A finite group keeps
an inner product, in which its matrices are orthogonal: characters of rational ones are real, $\chi(g^{-1}) = \chi(g)$.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np

from quotax.data_symmetry.exact_matrices import ExactMatrix
from quotax.data_symmetry.representation import Declared, Representation
from quotax.trees import AnyArray, Tree

MOST = {True: 6000, False: 600}
"""Groups of more elements are not listed: of orders with signs, and of other matrices, which are slower to multiply."""


class Elements(Protocol):
    """Matrices of one declared representation, multiplied by a generator."""

    def start(self) -> Tree:
        """The identity."""
        ...

    def times(self, name: str, element: AnyArray) -> Tree:
        """A generator times an element."""
        ...

    def trace(self, element: AnyArray) -> int | Fraction:
        """The trace."""
        ...

    def key(self, element: AnyArray) -> bytes | str:
        """What tells elements apart."""
        ...


class _Orders:
    """Permutations with signs."""

    def __init__(self, size: int, orders: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
        self._size, self._orders = size, orders

    def start(self) -> Tree:
        return np.arange(self._size), np.ones(self._size, np.int64)

    def times(self, name: str, element: AnyArray) -> Tree:
        (places, signs), (order, own) = self._orders[name], element
        return places[order], signs[order] * own

    def trace(self, element: AnyArray) -> int:
        return int(element[1][element[0] == np.arange(self._size)].sum())

    def key(self, element: AnyArray) -> bytes:
        return element[0].tobytes() + element[1].tobytes()


class _Matrices:
    """Any matrices."""

    def __init__(self, size: int, matrices: dict[str, ExactMatrix]) -> None:
        from flint import fmpq, fmpq_mat

        self._size, self._make = size, fmpq_mat
        self._matrices = {}
        for name, matrix in matrices.items():
            table = [[fmpq(0)] * size for _ in range(size)]
            for row, column, value in matrix.entries:
                table[row][column] = fmpq(value.numerator, value.denominator)
            self._matrices[name] = fmpq_mat(table)

    def start(self) -> Tree:
        return self._make([[int(i == j) for j in range(self._size)] for i in range(self._size)])

    def times(self, name: str, element: AnyArray) -> Tree:
        return self._matrices[name] * element

    def trace(self, element: AnyArray) -> Fraction:
        entries = [element[i, i] for i in range(self._size)]
        return sum((Fraction(int(v.p), int(v.q)) for v in entries), Fraction(0))

    def key(self, element: AnyArray) -> str:
        return element.repr()


def counted(rep_in: Representation, rep_out: Representation) -> tuple[int, int] | None:
    """The number of independent equivariant maps, and of elements; None where the group is not small and finite."""
    if not rep_in.finite:
        return None
    atoms = list(dict.fromkeys(atom for rep in (rep_in, rep_out) for word in rep.summands for atom in word))
    kinds = [_elements(atom) for atom in atoms]
    key = lambda elements: tuple(kind.key(element) for kind, element in zip(kinds, elements, strict=True))
    start = [kind.start() for kind in kinds]
    most = MOST[all(isinstance(kind, _Orders) for kind in kinds)]
    known, rows, reached = {key(start)}, [_traces(kinds, start)], [start]
    while reached:
        element = reached.pop()
        for name in rep_in.names[0]:
            new = [kind.times(name, part) for kind, part in zip(kinds, element, strict=True)]
            if key(new) not in known:
                if len(known) == most:
                    return None
                known.add(key(new))
                rows.append(_traces(kinds, new))
                reached.append(new)
    total = sum(_character(rep_in, atoms, row) * _character(rep_out, atoms, row) for row in rows)
    dim = Fraction(total) / len(rows)
    if dim.denominator != 1:
        raise AssertionError(f"{dim} equivariant maps by characters")
    return int(dim), len(rows)


def _elements(atom: Declared) -> Elements:
    orders = {name: matrix.monomial for name, matrix in atom.finite}
    known = {name: order for name, order in orders.items() if order is not None}
    return _Orders(atom.size, known) if len(known) == len(orders) else _Matrices(atom.size, dict(atom.finite))


def _traces(kinds: list[Elements], element: list[Tree]) -> list[int | Fraction]:
    return [kind.trace(part) for kind, part in zip(kinds, element, strict=True)]


def _character(rep: Representation, atoms: list[Declared], traces: list[int | Fraction]) -> int | Fraction:
    of: Callable[[Declared], int | Fraction] = lambda atom: traces[atoms.index(atom)]
    total: int | Fraction = 0
    for word in rep.summands:
        product: int | Fraction = 1
        for atom in word:
            product *= of(atom)
        total += product
    return total

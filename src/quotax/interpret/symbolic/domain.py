"""The symbolic domain: a number is a SymPy expression of the entries of parameters and inputs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import sympy as sp
from jax.typing import ArrayLike

from quotax.interpret.symbolic import entries, scalars, truth

_BINARY: dict[str, scalars.Scalar] = {
    "add": scalars.add,
    "sub": scalars.sub,
    "mul": scalars.mul,
    "max": scalars.maximum,
    "min": scalars.minimum,
    "and": truth.conjunction,
    "or": truth.disjunction,
    "xor": truth.exclusive,
}


def _sum(terms: Sequence[sp.Basic]) -> sp.Basic:
    return reduce(scalars.add, terms, sp.S.Zero) if any(map(scalars.is_special, terms)) else sp.Add(*terms)


def _product(terms: Sequence[sp.Basic]) -> sp.Basic:
    return reduce(scalars.mul, terms, sp.S.One) if any(map(scalars.is_special, terms)) else sp.Mul(*terms)


_FOLD: dict[str, Callable[[Sequence[sp.Basic]], sp.Basic]] = {
    "add": _sum,
    "mul": _product,
    "max": lambda terms: scalars.maximum(*terms) if len(terms) else -sp.oo,
    "min": lambda terms: scalars.minimum(*terms) if len(terms) else sp.oo,
    "and": lambda terms: truth.conjunction(*terms),
    "or": lambda terms: truth.disjunction(*terms),
    "xor": lambda terms: reduce(truth.exclusive, terms, scalars.FALSE),
}


@dataclass(frozen=True)
class SymbolicDomain:
    """Values are NumPy arrays: of numbers (constants), or of SymPy expressions (dtype object).

    Floating-point constants become the simplest rationals that they can stand for. `below` says that a symbol is an
    integer in 0..below-1, which is what decides comparisons of tokens and how far a gather at a token has to look.
    """

    name: str = "symbolic"
    columns: tuple[str, ...] = ("symbolic", "array", "every")
    below: Mapping[sp.Symbol, int] = field(default_factory=dict)

    def lift(self, value: ArrayLike) -> np.ndarray:
        """A constant as an array of SymPy numbers."""
        return entries.lift(np.asarray(value))

    def concrete(self, value: np.ndarray) -> np.ndarray | None:
        """The value as a constant array if its entries are all integers or decided."""
        return entries.concrete(value)

    def take(self, pool: Sequence[np.ndarray], index: np.ndarray) -> np.ndarray:
        """Entries of the pool, laid end to end, at these positions."""
        parts = [entries.lift(value).reshape(-1) for value in pool]
        flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
        out = np.empty(index.shape, dtype=object)
        out.reshape(-1)[:] = flat[index.reshape(-1)]
        return out

    def combine(self, operation: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Entrywise operation on two arrays."""
        return entries.mapped(_BINARY[operation], left, right)

    def fold(self, operation: str, value: np.ndarray) -> np.ndarray:
        """Reduce the last axis."""
        value = entries.lift(value)
        rows = value.reshape(int(np.prod(value.shape[:-1], dtype=np.int64)), value.shape[-1])
        out = entries.filled(value.shape[:-1], (_FOLD[operation](list(row)) for row in rows))
        return entries.settle(out) if operation in ("and", "or", "xor") else out

    def matmul(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Batched matrix product."""
        left, right = entries.lift(left), entries.lift(right)
        special = any(map(scalars.is_special, left.flat)) or any(map(scalars.is_special, right.flat))
        times = scalars.mul if special else operator.mul
        columns = right.swapaxes(1, 2)
        return entries.filled(
            (left.shape[0], left.shape[1], right.shape[2]),
            (
                _sum([times(x, y) for x, y in zip(row, column, strict=True)])
                for rows, cols in zip(left, columns, strict=True)
                for row in rows
                for column in cols
            ),
        )


SYMBOLIC = SymbolicDomain()
"""The symbolic domain with nothing known of token ranges."""

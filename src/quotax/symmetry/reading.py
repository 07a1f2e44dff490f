"""Reading an entry on arrays: the same expression evaluated with JAX, NumPy, or SymPy objects.

Every subexpression becomes an array whose axes carry index symbols; products and sums of products are one `einsum`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from quotax.symmetry.language import Entry


@dataclass(frozen=True)
class Arrays:
    """What reading needs of an array library."""

    einsum: Callable[..., Any]
    constant: Callable[[sp.Expr], Any]
    functions: Mapping[type, Callable[[Any], Any]]
    power: Callable[[Any, sp.Expr], Any]
    eye: Callable[[int], Any]


OBJECTS = Arrays(
    einsum=lambda subscripts, *arrays: np.einsum(subscripts, *[np.asarray(a, dtype=object) for a in arrays]),
    constant=lambda value: value,
    functions={sp.exp: np.frompyfunc(sp.exp, 1, 1), sp.log: np.frompyfunc(sp.log, 1, 1)},
    power=lambda base, exponent: np.frompyfunc(lambda b: b**exponent, 1, 1)(base),
    eye=lambda n: np.eye(n, dtype=int).astype(object),
)
"""Object arrays of SymPy expressions."""


def read(entry: Entry, environment: Mapping[str, Any], sizes: Mapping[str, int], arrays: Arrays) -> Any:
    """The array of all values of `entry`, axes in the order of its indices.

    `environment` holds the parameters (fused axes taken apart), the group element `g` and `inv(g)`, or `xi`.
    """
    lengths = {symbol: factor if isinstance(factor, int) else sizes[factor] for symbol, factor in entry.factors.items()}
    value, labels = _Reader(environment, lengths, arrays).visit(entry.expression)
    missing = [symbol for symbol in entry.indices if symbol not in labels]
    if missing:
        ones = [arrays.einsum("ab->a", arrays.eye(lengths[symbol])) for symbol in missing]
        value, labels = _einsum(
            arrays, [(value, labels), *((o, (s,)) for o, s in zip(ones, missing, strict=True))], entry.indices
        )
    return _einsum(arrays, [(value, labels)], entry.indices)[0]


_Labelled = tuple[Any, tuple[sp.Symbol, ...]]


class _Reader:
    def __init__(self, environment: Mapping[str, Any], lengths: Mapping[sp.Symbol, int], arrays: Arrays) -> None:
        self.environment, self.lengths, self.arrays = environment, lengths, arrays

    def visit(self, expression: sp.Expr) -> _Labelled:
        arrays = self.arrays
        if expression.is_number:
            return arrays.constant(expression), ()
        if isinstance(expression, sp.Symbol):
            return self.environment[expression.name], ()
        if isinstance(expression, sp.Indexed):
            labels = tuple(expression.indices)
            return _einsum(arrays, [(self.environment[expression.base.name], labels)], tuple(dict.fromkeys(labels)))
        if isinstance(expression, sp.KroneckerDelta):
            return arrays.eye(self.lengths[expression.args[0]]), expression.args
        if isinstance(expression, sp.Sum):
            return self.total(expression)
        if isinstance(expression, sp.Add):
            return self.add([self.visit(term) for term in expression.args])
        if isinstance(expression, sp.Mul):
            return self.multiply(expression.args, ())
        if isinstance(expression, sp.Pow):
            value, labels = self.visit(expression.base)
            return arrays.power(value, expression.exp), labels
        value, labels = self.visit(expression.args[0])
        return arrays.functions[expression.func](value), labels

    def multiply(self, factors: Sequence[sp.Expr], summed: tuple[sp.Symbol, ...]) -> _Labelled:
        operands = [self.visit(factor) for factor in factors]
        for symbol in summed:
            if not any(symbol in labels for _, labels in operands):
                ones = self.arrays.einsum("ab->a", self.arrays.eye(self.lengths[symbol]))
                operands.append((ones, (symbol,)))
        kept = dict.fromkeys(label for _, labels in operands for label in labels if label not in summed)
        return _einsum(self.arrays, operands, tuple(kept))

    def total(self, expression: sp.Sum) -> _Labelled:
        summed = tuple(limit[0] for limit in expression.limits)
        body = expression.function
        if isinstance(body, sp.Add):
            return self.add([self.total(sp.Sum(term, *expression.limits)) for term in body.args])
        return self.multiply(sp.Mul.make_args(body), summed)

    def add(self, terms: list[_Labelled]) -> _Labelled:
        labels = tuple(dict.fromkeys(label for _, own in terms for label in own))
        total = None
        for value, own in terms:
            ordered = tuple(label for label in labels if label in own)
            array, _ = _einsum(self.arrays, [(value, own)], ordered)
            if own and ordered != labels:  # a scalar broadcasts by itself
                array = array[tuple(slice(None) if label in own else None for label in labels)]
            total = array if total is None else total + array
        return total, labels


def _einsum(arrays: Arrays, operands: list[_Labelled], output: tuple[sp.Symbol, ...]) -> _Labelled:
    """The contraction of labelled arrays; nothing is called when there is nothing to do."""
    if len(operands) == 1 and operands[0][1] == output:
        return operands[0]
    letters = {label: chr(ord("a") + i) for i, label in enumerate(dict.fromkeys(s for _, own in operands for s in own))}
    spell = lambda labels: "".join(letters[label] for label in labels)
    subscripts = f"{','.join(spell(own) for _, own in operands)}->{spell(output)}"
    return arrays.einsum(subscripts, *(value for value, _ in operands)), output

"""Reading an entry on arrays: the same expression evaluated with JAX, NumPy, residues, or SymPy objects.

Every subexpression becomes an array whose axes carry index symbols; products and sums of products are one `einsum`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from quotax.interpret.constants import simplest_rational
from quotax.symmetry.new_entries.general_entries import Entry, maps_of, variable
from quotax.symmetry.new_entries.onto_kernels import exact_projector, float_projector
from quotax.trees import AnyArray, Tree


@dataclass(frozen=True)
class Arrays:
    """What reading needs of an array library; constants and unit matrices are made like the parameter that moves."""

    einsum: Callable[..., Any]
    constant: Callable[[sp.Expr, Any], Any]
    functions: Mapping[type, Callable[[Any], Any]]
    power: Callable[[Any, sp.Expr], Any]
    eye: Callable[[int, Any], Any]
    projector: Callable[[Sequence[Any]], Any]
    """Of maps `(..., rows, n)` from one space, the projector `(..., n, n)` onto what all of them send to zero."""
    broadcast: Callable[[Any, tuple[int, ...]], Any] = np.broadcast_to
    held: Callable[[np.ndarray, Any], Any] = lambda values, like: values
    """Numbers that the action reads beside the parameters."""


OBJECTS = Arrays(
    einsum=lambda subscripts, *arrays: np.einsum(subscripts, *[np.asarray(a, dtype=object) for a in arrays]),
    constant=lambda value, like: value,
    functions={sp.exp: np.frompyfunc(sp.exp, 1, 1), sp.log: np.frompyfunc(sp.log, 1, 1)},
    power=lambda base, exponent: np.frompyfunc(lambda b: b**exponent, 1, 1)(base),
    eye=lambda n, like: np.eye(n, dtype=int).astype(object),
    projector=lambda maps: exact_projector(np.concatenate(maps, axis=-2)),
    broadcast=lambda value, shape: np.broadcast_to(np.asarray(value, dtype=object), shape),
    held=lambda values, like: _rationals(values),
)
"""Object arrays of SymPy expressions."""

FLOATS = Arrays(
    einsum=lambda subscripts, *arrays: np.einsum(
        subscripts, *arrays, optimize=len(arrays) > 2 or sum(map(np.size, arrays)) > _LARGE
    ),
    constant=lambda value, like: float(value),
    functions={sp.exp: np.exp, sp.log: np.log},
    power=lambda base, exponent: np.asarray(base, float) ** float(exponent),
    eye=lambda n, like: np.eye(n),
    projector=lambda maps: float_projector(np.concatenate(maps, axis=-2)),
)
"""NumPy arrays of floats."""


def _rationals(values: np.ndarray) -> np.ndarray:
    """The fractions that floats stand for in every exact reading of a model."""
    exact = [simplest_rational(float(value)) for value in values.flat]
    array = np.empty(values.shape, dtype=object)
    array.flat[:] = [sp.Rational(one.numerator, one.denominator) for one in exact]
    return array


_LARGE = 2**12
"""Arrays of more numbers in all are worth the time to look for a matrix product."""


def read(
    entry: Entry, environment: Mapping[str, AnyArray], sizes: Mapping[str, int], arrays: Arrays, like: Tree
) -> AnyArray:
    """The array of all values of `entry`, axes in the order of its indices; `like` is the parameter that moves.

    `environment` holds the parameters (fused axes taken apart), the group element `g` and `inv(g)`, or `xi`.
    """
    lengths = {symbol: factor if isinstance(factor, int) else sizes[factor] for symbol, factor in entry.factors.items()}
    reader = _Reader(environment, lengths, arrays, like)
    value, labels = reader.visit(entry.expression)
    missing = [(reader.ones(symbol), (symbol,)) for symbol in entry.indices if symbol not in labels]
    return _einsum(arrays, [(value, labels), *missing], entry.indices)[0]


_Labelled = tuple[Any, tuple[sp.Symbol, ...]]


class _Reader:
    def __init__(
        self, environment: Mapping[str, AnyArray], lengths: Mapping[sp.Symbol, int], arrays: Arrays, like: Tree
    ) -> None:
        self.environment, self.lengths, self.arrays, self.like = environment, lengths, arrays, like

    def ones(self, symbol: sp.Symbol) -> AnyArray:
        return self.arrays.einsum("ab->a", self.eye(symbol))

    def eye(self, symbol: sp.Symbol) -> AnyArray:
        return self.arrays.eye(self.lengths[symbol], self.like)

    def visit(self, expression: sp.Expr) -> _Labelled:
        arrays = self.arrays
        if expression.is_number:
            return arrays.constant(expression, self.like), ()
        if isinstance(expression, sp.Symbol):
            return self.environment[expression.name], ()
        if isinstance(expression, sp.Indexed):
            labels, name = tuple(expression.indices), expression.base.name
            value = self.projector(name) if maps_of(name) else self.environment[name]
            return _einsum(arrays, [(value, labels)], tuple(dict.fromkeys(labels)))
        if isinstance(expression, sp.KroneckerDelta):
            return self.eye(expression.args[0]), expression.args
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

    def projector(self, name: str) -> AnyArray:
        """The projector of this name, the axes of copies first."""
        maps = []
        for own in maps_of(name):
            array = self.environment[variable(own.parameter)]
            rest = [k for k in range(array.ndim) if k != own.axis and k not in own.copies]
            array = array.transpose([*own.copies, *rest, own.axis])
            maps.append(array.reshape(*array.shape[: len(own.copies)], -1, array.shape[-1]))
        return self.arrays.projector(maps)

    def multiply(self, factors: Sequence[sp.Expr], summed: tuple[sp.Symbol, ...]) -> _Labelled:
        operands = [self.visit(factor) for factor in factors]
        for symbol in summed:
            if not any(symbol in labels for _, labels in operands):
                operands.append((self.ones(symbol), (symbol,)))
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

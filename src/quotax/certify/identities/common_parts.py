r"""Cut points: the parts that two expressions have in common, found by floating point and never trusted.

Deep networks swell: written out in the base symbols, a value after two normalisations has millions of terms. But an
invariance usually holds long before the output, at the residual stream after each block, at every logit, at a hidden
unit up to its own scaling. Nodes of both sides are evaluated at a few random points, at which the symbols of one side
only (the group element) keep one value; two nodes with proportional values are probably equal up to a factor in
those symbols. The walk gives such a node, once it is written exactly, a generator of its own.

A wrong guess costs a proof, never soundness: a generator that stands for an exact value is always allowed.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import sympy as sp

from quotax.elementwise import FUNCTIONS

POINTS = 3
Values = Any
"""An array with one value for each point."""

ELEMENTWISE: dict[str, Callable[..., Values]] = {
    **{function.sympy: function.numpy for function in FUNCTIONS.values() if function.sympy},
    "StrictGreaterThan": np.greater, "GreaterThan": np.greater_equal, "StrictLessThan": np.less,
    "LessThan": np.less_equal, "Equality": np.equal, "Unequality": np.not_equal, "Not": np.logical_not,
    "ITE": np.where,
}  # fmt: skip
FOLDED: dict[str, Callable[..., Values]] = {
    "Add": operator.add, "Mul": operator.mul, "Max": np.maximum, "Min": np.minimum,
    "And": np.logical_and, "Or": np.logical_or,
}  # fmt: skip


def nodes(roots: Sequence[sp.Basic]) -> Iterator[sp.Basic]:
    """Every node once, arguments before the node."""
    seen: set[sp.Basic] = set()
    stack: list[tuple[sp.Basic, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((argument, False) for argument in node.args)


def symbols_of(roots: Sequence[sp.Basic]) -> frozenset[sp.Symbol]:
    """The symbols that occur; SymPy's own `free_symbols` walks a shared node once for every path to it."""
    return frozenset(node for node in nodes(roots) if isinstance(node, sp.Symbol))


def private_symbols(left: Sequence[sp.Expr], right: Sequence[sp.Expr]) -> frozenset[sp.Symbol]:
    """Symbols of one side only."""
    return symbols_of(left) ^ symbols_of(right)


def shared_nodes(left: Sequence[sp.Expr], right: Sequence[sp.Expr]) -> frozenset[sp.Basic]:
    """Nodes of either side whose values are proportional to those of a node of the other side."""
    private = private_symbols(left, right)
    draw = random.Random(0)  # fixed: a proof must not depend on luck
    values: dict[sp.Basic, Values] = {}
    signatures: list[dict[tuple[float, ...], list[sp.Basic]]] = []
    with np.errstate(all="ignore"):
        for side in (left, right):
            found: dict[tuple[float, ...], list[sp.Basic]] = {}
            for node in nodes(side):
                if node not in values:
                    values[node] = _evaluate(node, values, private, draw)
                signature = _signature(values[node])
                if signature is not None:
                    found.setdefault(signature, []).append(node)
            signatures.append(found)
    common = signatures[0].keys() & signatures[1].keys()
    return frozenset(node for found in signatures for key in common for node in found[key])


def _signature(value: Values) -> tuple[float, ...] | None:
    if value is None or value.ndim != 1 or value.dtype != float or not np.all(np.isfinite(value)) or value[0] == 0:
        return None
    ratio = value / value[0]
    if np.ptp(ratio) < 1e-9:
        return None
    return tuple(float(f"{r:.7g}") for r in ratio)


def _evaluate(
    node: sp.Basic, values: dict[sp.Basic, Values], private: frozenset[sp.Symbol], draw: random.Random
) -> Values:
    """The node at every point; None when some part has no floating rule."""
    if isinstance(node, sp.Symbol):
        if node.is_integer:
            return np.full(POINTS, float(draw.randint(0, 1)))
        sample = [draw.uniform(0.4, 1.6) * (1 if node.is_positive else draw.choice((-1, 1))) for _ in range(POINTS)]
        return np.full(POINTS, sample[0]) if node in private else np.array(sample)
    if node in (sp.true, sp.false):
        return np.full(POINTS, node == sp.true)
    if isinstance(node, sp.Expr) and node.is_number and not node.args:
        return np.full(POINTS, float(node))
    arguments = [values[a] for a in node.args]
    if any(a is None for a in arguments):
        return None
    name = node.func.__name__
    if name in FOLDED:
        return reduce(FOLDED[name], arguments)
    if name in ELEMENTWISE:
        return ELEMENTWISE[name](*arguments)
    if name == "Pow":
        base, exponent = arguments
        return np.power(base, exponent)
    if name == "ExprCondPair":
        return np.stack([arguments[0], np.where(arguments[1], 1.0, 0.0)])
    if name == "Piecewise":
        return reduce(
            lambda rest, pair: np.where(pair[1] > 0, pair[0], rest), reversed(arguments), np.full(POINTS, np.nan)
        )
    return None

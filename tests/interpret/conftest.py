"""Numbers for SymPy expressions, by an evaluator that shares nothing with the code under test."""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import numpy as np
import pytest
import scipy.special
import sympy as sp

from quotax.artifacts import ArraySpec
from quotax.interpret import symbolic_outputs, trace

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in ("exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "atan2")},
    **{
        name: getattr(math, name)
        for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "floor")
    },
    "erfinv": lambda x: float(scipy.special.erfinv(x)),
    "Abs": abs,
    "Max": max,
    "Min": min,
    "ceiling": math.ceil,
    "sign": lambda x: float(np.sign(x)),
    "Mod": lambda a, b: a % b,
    "Add": lambda *terms: math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms),
    "Mul": lambda *terms: reduce(lambda a, b: a * b, terms),
    "Pow": lambda a, b: float(a) ** b,
    "Equality": lambda a, b: a == b,
    "Unequality": lambda a, b: a != b,
    "StrictLessThan": lambda a, b: a < b,
    "LessThan": lambda a, b: a <= b,
    "StrictGreaterThan": lambda a, b: a > b,
    "GreaterThan": lambda a, b: a >= b,
    "And": lambda *terms: all(terms),
    "Or": lambda *terms: any(terms),
    "ITE": lambda test, then, otherwise: then if test else otherwise,
    "Not": lambda a: not a,
    "Xor": lambda *terms: sum(map(bool, terms)) % 2 == 1,
}


def number(e: Any, values: dict[Any, float], memo: dict[Any, Any]) -> Any:
    """The value of an expression; branches of a Piecewise that do not hold are never evaluated."""
    if e in memo:
        return memo[e]
    if e in values:
        out = values[e]
    elif e.is_Number or isinstance(e, sp.NumberSymbol):
        out = float(e)
    elif e in (sp.true, sp.false):
        out = e is sp.true
    elif isinstance(e, sp.Piecewise):
        out = next((number(b, values, memo) for b, c in e.args if number(c, values, memo)), math.nan)
    else:
        args = [number(a, values, memo) for a in e.args]
        own = FUNCTIONS.get(type(e).__name__)
        out = own(*args) if own else float(e.func(*args).evalf())  # SymPy's numbers where Python has no such function
    memo[e] = out
    return out


def numbers(array: np.ndarray, values: dict[Any, float]) -> np.ndarray:
    """An array of expressions as floats."""
    memo: dict[Any, Any] = {}
    return np.array([float(number(e, values, memo)) for e in array.flat]).reshape(array.shape)


def draw(spec: ArraySpec, sizes: dict[str, int], low: float, high: float, seed: int) -> np.ndarray:
    """Random entries of the kind that the spec allows."""
    rng = np.random.default_rng(seed)
    shape = spec.shape(sizes)
    if spec.kind == "tokens":
        bound = spec.below if isinstance(spec.below, int) else sizes[str(spec.below)]
        return rng.integers(0, bound, shape).astype(np.int32)
    if spec.kind == "mask":
        return rng.integers(0, 2, shape).astype(np.float64)
    return rng.uniform(low, high, shape)


@pytest.fixture(scope="session")
def numeric() -> Callable[[np.ndarray, dict[Any, float]], np.ndarray]:
    """Evaluate an array of expressions at numbers."""
    return numbers


@pytest.fixture(scope="session")
def agrees() -> Callable[..., list[np.ndarray]]:
    """Check that the symbolic outputs of `function(params, *inputs)` are JAX's own numbers, to 1e-10 relative."""

    def check(
        function: Callable[..., Any],
        params: tuple[ArraySpec, ...],
        inputs: tuple[ArraySpec, ...],
        sizes: dict[str, int] | None = None,
        low: float = -2.0,
        high: float = 2.0,
        draws: int = 3,
        rtol: float = 1e-10,
    ) -> list[np.ndarray]:
        sizes = sizes or {}
        traced = trace(function, params, inputs, sizes)
        outputs, symbols = symbolic_outputs(traced)
        compiled = jax.jit(function)  # once for all draws, where operations by themselves are a program each
        for seed in range(draws):
            arrays = [draw(s, sizes, low, high, 100 * seed + k) for k, s in enumerate(traced.arrays)]
            values = {
                symbol: float(value)
                for spec, array in zip(traced.arrays, arrays, strict=True)
                for symbol, value in zip(symbols[spec.name].flat, array.flat, strict=True)
            }
            arrays = [jax.numpy.asarray(array) for array in arrays]
            tree: dict[str, Any] = {}
            for spec, array in zip(params, arrays, strict=False):
                *path, last = spec.name.split("/")
                reduce(lambda node, key: node.setdefault(key, {}), path, tree)[last] = array
            expected = jax.tree.leaves(compiled(tree, *arrays[len(params) :]))
            assert len(expected) == len(outputs)
            for expression, array in zip(outputs, expected, strict=True):
                assert expression.shape == array.shape
                np.testing.assert_allclose(
                    numbers(expression, values), np.asarray(array, dtype=float), rtol=rtol, atol=1e-13
                )
        return outputs

    return check

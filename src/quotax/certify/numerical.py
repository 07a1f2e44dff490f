"""Looking for a counterexample: the model run in float64 at small rational parameters, before and after the action.

What is found is a refutation, because both outputs are exact enough to tell apart; what is not found proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import sympy as sp
from jax.extend.core import jaxpr_as_fun

from quotax.artifacts import ArraySpec, Trace, Witness
from quotax.symmetry import ELEMENT, INVERSE, OBJECTS, Action, read, variable
from quotax.trees import nest

TOLERANCE = 1e-7
"""Relative difference above which two float64 outputs are different functions' values, not one value rounded twice."""


def find_witness(trace: Trace, action: Action, rng: np.random.Generator, draws: int) -> Witness | None:
    """A counterexample among random small rationals, or nothing."""
    samples = [_draw(trace, action, rng) for _ in range(draws)]
    with jax.enable_x64(True):
        # One function for all traces' calls: jit keys its cache on it, so each trace compiles once.
        run = jax.jit(jax.vmap(jaxpr_as_fun(trace.jaxpr)))
        before = run(*_batched(trace, samples, "params"))
        after = run(*_batched(trace, samples, "moved"))
    for i, sample in enumerate(samples):
        outputs = [np.asarray(o[i]) for o in before]
        transformed = [np.asarray(o[i]) for o in after]
        if _differ(outputs, transformed):
            return Witness(
                sizes=dict(trace.sizes),
                params=nest({name: _floats(a) for name, a in sample["params"].items()}),
                element=_floats(sample["g"]),
                inputs={spec.name: sample["inputs"][spec.name] for spec in trace.inputs},
                output=jax.tree.unflatten(trace.out_tree, outputs),
                transformed_output=jax.tree.unflatten(trace.out_tree, transformed),
                transformed_params=nest({name: _floats(a) for name, a in sample["moved"].items()}),
            )
    return None


def _draw(trace: Trace, action: Action, rng: np.random.Generator) -> dict[str, Any]:
    params = {spec.name: _random_rationals(rng, spec.shape(trace.sizes)) for spec in trace.params}
    g = np.vectorize(sp.Rational, otypes=[object])(action.group.rational(rng, trace.sizes))
    g = g if isinstance(g, np.ndarray) else np.array(g, dtype=object)
    inverse = exact_inverse(g) if action.group.layout == "matrix" else None
    moved = params | transform(action, trace, params, g, inverse)
    return {
        "params": params,
        "g": g,
        "moved": moved,
        "inputs": {s.name: _random_input(rng, s, trace) for s in trace.inputs},
    }


def transform(
    action: Action, trace: Trace, params: Mapping[str, np.ndarray], g: np.ndarray, inverse: np.ndarray | None
) -> dict[str, np.ndarray]:
    """The moved parameters, exactly: arrays of SymPy objects in, arrays of SymPy objects out."""
    specs = {spec.name: spec for spec in trace.params}
    split = {
        name: tuple(f if isinstance(f, int) else trace.sizes[f] for axis in s.axes for f in axis)
        for name, s in specs.items()
    }
    environment = {variable(name): array.reshape(split[name]) for name, array in params.items()}
    environment |= {ELEMENT: g if g.ndim else g[()]} | ({} if inverse is None else {INVERSE: inverse})
    moved = {}
    for entry in action.entries:
        value = np.empty(split[entry.name], dtype=object)
        value[...] = read(entry, environment, trace.sizes, OBJECTS)
        moved[entry.name] = value.reshape(params[entry.name].shape)
    return moved


def exact_inverse(g: np.ndarray) -> np.ndarray:
    """The inverse of every matrix in a stack of rational matrices."""
    if g.ndim == 3:
        return np.stack([exact_inverse(block) for block in g])
    return np.array(sp.Matrix(g).inv().tolist(), dtype=object).reshape(g.shape)


def _random_rationals(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Nonzero multiples of one quarter, so that no term vanishes by accident and floats are exact."""
    values = rng.integers(1, 9, shape) * rng.choice([-1, 1], shape)
    array = np.empty(shape, dtype=object)
    array[...] = np.vectorize(lambda v: sp.Rational(int(v), 4), otypes=[object])(values)
    return array


def _random_input(rng: np.random.Generator, spec: ArraySpec, trace: Trace) -> np.ndarray:
    shape = spec.shape(trace.sizes)
    if spec.kind == "tokens":
        return rng.integers(0, token_bound(spec, trace), shape).astype(np.int32)
    if spec.kind == "mask":
        return rng.integers(0, 2, shape).astype(np.float64)
    return _floats(_random_rationals(rng, shape))


def token_bound(spec: ArraySpec, trace: Trace) -> int:
    """How many values a token may take."""
    assert spec.below is not None
    return spec.below if isinstance(spec.below, int) else trace.sizes[spec.below]


def _batched(trace: Trace, samples: list[dict[str, Any]], which: str) -> list[np.ndarray]:
    params = [np.stack([_floats(s[which][spec.name]) for s in samples]) for spec in trace.params]
    return params + [np.stack([s["inputs"][spec.name] for s in samples]) for spec in trace.inputs]


def _floats(array: Any) -> np.ndarray:
    convert = np.vectorize(
        lambda e: float(Fraction(int(e.p), int(e.q)) if getattr(e, "is_Rational", False) else sp.N(e, 20)),
        otypes=[float],
    )
    return convert(array) if np.size(array) else np.zeros(np.shape(array))


def _differ(before: list[np.ndarray], after: list[np.ndarray]) -> bool:
    for a, b in zip(before, after, strict=True):
        finite = np.isfinite(a) & np.isfinite(b)
        if np.any(np.isfinite(a) & ~np.isfinite(b) | np.isfinite(b) & ~np.isfinite(a)):
            return True
        scale = max(float(np.max(np.abs(a[finite]), initial=0.0)), float(np.max(np.abs(b[finite]), initial=0.0)))
        if np.any(np.abs(a[finite] - b[finite]) > TOLERANCE * scale):
            return True
    return False

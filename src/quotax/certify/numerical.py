"""Looking for a counterexample: the model run in float64 at small rational parameters, before and after the action.

What is found is a refutation, because both outputs are exact enough to tell apart; what is not found proves nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import sympy as sp
from jax.extend.core import jaxpr_as_fun

from quotax.artifacts import ArraySpec, Trace, Witness
from quotax.symmetry import ELEMENT, INVERSE, OBJECTS, Action, Arrays, read, variable
from quotax.trees import nest

TOLERANCE = 1e-7
"""Relative difference above which two float64 outputs are different functions' values, not one value rounded twice."""

ROUNDING = 1e-11
"""Differences below this times the usual size of the outputs are rounding, whatever the output at that point."""

NUDGE = 1e-12
"""A relative change of a point, far above rounding, that must not change the outputs by much at a witness."""


@functools.lru_cache(maxsize=64)
def _compiled(jaxpr: Any, batched: bool) -> Callable[..., Any]:
    """The traced function; kept, so that several claims about one model compile it once."""
    run = jaxpr_as_fun(jaxpr)
    return jax.jit(jax.vmap(run) if batched else run)


def find_witness(trace: Trace, action: Action, rng: np.random.Generator, draws: int) -> Witness | None:
    """A counterexample among random small rationals, or nothing."""
    samples = [_draw(trace, action, rng) for _ in range(draws)]
    with jax.enable_x64(True):
        run = _compiled(trace.jaxpr, True)
        before = run(*_batched(trace, samples, "params"))
        after = run(*_batched(trace, samples, "moved"))
    # At rationals an output can vanish exactly where its terms do not: what is lost to rounding there is measured
    # against the outputs at all the points.
    sizes = [np.asarray(o)[np.isfinite(np.asarray(o))] for o in (*before, *after)]
    floor = ROUNDING * max((float(np.median(np.abs(o))) for o in sizes if o.size), default=0.0)
    for i, sample in enumerate(samples):
        outputs = [np.asarray(o[i]) for o in before]
        transformed = [np.asarray(o[i]) for o in after]
        if _differ(outputs, transformed, floor) and _conditioned(
            run, trace, sample, outputs, transformed, floor, draws
        ):
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


def find_float_witness(trace: Trace, action: Action, rng: np.random.Generator, draws: int = 2) -> Witness | None:
    """A counterexample among random floats: for sizes at which exact elements would take long."""
    with jax.enable_x64(True):
        run = _compiled(trace.jaxpr, False)
        for _ in range(draws):
            sample = _float_draw(trace, action, rng)
            inputs = [sample["inputs"][s.name] for s in trace.inputs]
            before = [np.asarray(o) for o in run(*(sample["params"][s.name] for s in trace.params), *inputs)]
            after = [np.asarray(o) for o in run(*(sample["moved"][s.name] for s in trace.params), *inputs)]
            if _differ(before, after) and _conditioned(run, trace, sample, before, after):
                return Witness(
                    sizes=dict(trace.sizes),
                    params=nest(sample["params"]),
                    element=sample["g"],
                    inputs=sample["inputs"],
                    output=jax.tree.unflatten(trace.out_tree, before),
                    transformed_output=jax.tree.unflatten(trace.out_tree, after),
                    transformed_params=nest(sample["moved"]),
                )
    return None


def _conditioned(
    run: Callable[..., Any],
    trace: Trace,
    sample: dict[str, Any],
    before: list[np.ndarray],
    after: list[np.ndarray],
    floor: float = 0.0,
    batch: int = 0,
) -> bool:
    """Whether the outputs differ by more than they change when the point is nudged.

    Where a variance vanishes exactly, one side is 0/0 and the other a rounding error over its root: no refutation.
    `batch` is the number of points that `run` takes at once, 0 for a function of one point.
    """
    left, right = (
        _wobble(run, trace, sample, which, outputs, batch) for which, outputs in (("params", before), ("moved", after))
    )
    return any(
        _differ([a[steady]], [b[steady]], floor, 10 * (u + v)[steady])
        for a, b, u, v in zip(before, after, left, right, strict=True)
        for steady in [np.isfinite(u) & np.isfinite(v)]
    )


def _wobble(
    run: Callable[..., Any], trace: Trace, sample: dict[str, Any], which: str, outputs: list[np.ndarray], batch: int
) -> list[np.ndarray]:
    """How much each output entry changes at nudged points: infinite where it ceases or begins to be finite."""
    rng = np.random.default_rng(0)
    point = [(_floats(sample[which][spec.name]), "real") for spec in trace.params]
    point += [(np.asarray(sample["inputs"][spec.name]), spec.kind) for spec in trace.inputs]
    worst = [np.zeros(np.shape(o)) for o in outputs]
    for _ in range(1 if batch else 3):
        nudged = []
        for array, kind in point:
            copies = np.broadcast_to(array, (batch, *array.shape)) if batch else array
            nudged.append(copies * (1 + NUDGE * rng.normal(size=copies.shape)) if kind == "real" else copies)
        with jax.enable_x64(True):
            found = [np.asarray(o) for o in run(*nudged)]
        for k, (here, near) in enumerate(zip(outputs, found, strict=True)):
            both = np.isfinite(here) & np.isfinite(near)
            change = np.abs(np.where(both, near, 0.0) - np.where(both, here, 0.0))
            change = np.where(np.isfinite(here) == np.isfinite(near), change, np.inf)
            worst[k] = np.maximum(worst[k], change.max(0) if batch else change)
    return worst


def check_numerically(trace: Trace, action: Action, rng: np.random.Generator, draws: int = 8) -> float:
    """The largest relative difference of the outputs before and after, at random points."""
    worst = 0.0
    with jax.enable_x64(True):
        run = _compiled(trace.jaxpr, False)
        for _ in range(draws):
            sample = _float_draw(trace, action, rng)
            inputs = [sample["inputs"][s.name] for s in trace.inputs]
            before = run(*(sample["params"][s.name] for s in trace.params), *inputs)
            after = run(*(sample["moved"][s.name] for s in trace.params), *inputs)
            for a, b in zip(map(np.asarray, before), map(np.asarray, after), strict=True):
                finite = np.isfinite(a) & np.isfinite(b)
                scale = max(float(np.max(np.abs(a[finite]), initial=0.0)), 1e-300)
                worst = max(worst, float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)) / scale)
    return worst


def _float_draw(trace: Trace, action: Action, rng: np.random.Generator) -> dict[str, Any]:
    params = {spec.name: rng.normal(size=spec.shape(trace.sizes)) for spec in trace.params}
    g = _float_element(action, trace, rng)
    inverse = np.linalg.inv(g) if action.group.layout == "matrix" else None
    specs = {spec.name: spec for spec in trace.params}
    split = {
        name: tuple(f if isinstance(f, int) else trace.sizes[f] for axis in s.axes for f in axis)
        for name, s in specs.items()
    }
    environment: dict[str, Any] = {variable(name): array.reshape(split[name]) for name, array in params.items()}
    environment |= {ELEMENT: g if g.ndim else g[()]} | ({} if inverse is None else {INVERSE: inverse})
    moved = dict(params)
    for entry in action.entries:
        value = np.broadcast_to(read(entry, environment, trace.sizes, _FLOATS), split[entry.name])
        moved[entry.name] = np.asarray(value, dtype=float).reshape(params[entry.name].shape)
    inputs = {s.name: _random_input(rng, s, trace) for s in trace.inputs}
    return {"params": params, "g": g, "moved": moved, "inputs": inputs}


def _float_element(action: Action, trace: Trace, rng: np.random.Generator) -> np.ndarray:
    """A random element near the identity; exponentials by SciPy, the rest small rationals: nothing is compiled."""
    from scipy.linalg import expm  # a third of the time that importing quotax may take

    group, scale = action.group, 0.4
    if group.layout != "matrix" or not group.continuous:
        return _floats(np.vectorize(sp.Rational, otypes=[object])(group.rational(rng, trace.sizes)))
    coordinates = scale * rng.normal(size=group.coordinate_shape(trace.sizes))
    xi = np.asarray(group.algebra(jax.numpy.asarray(coordinates), trace.sizes))
    xi = xi / np.sqrt(xi.shape[-1])
    return np.stack([expm(block) for block in xi]) if xi.ndim == 3 else expm(xi)


_FLOATS = Arrays(
    einsum=lambda subscripts, *arrays: np.einsum(subscripts, *arrays, optimize=len(arrays) > 2),
    constant=lambda value: float(value),
    functions={sp.exp: np.exp, sp.log: np.log},
    power=lambda base, exponent: np.asarray(base, float) ** float(exponent),
    eye=np.eye,
)
"""Arrays of floats."""


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


def _differ(
    before: list[np.ndarray], after: list[np.ndarray], floor: float = 0.0, slack: np.ndarray | None = None
) -> bool:
    for a, b in zip(before, after, strict=True):
        finite = np.isfinite(a) & np.isfinite(b)
        if np.any(np.isfinite(a) & ~np.isfinite(b) | np.isfinite(b) & ~np.isfinite(a)):
            return True
        scale = max(float(np.max(np.abs(a[finite]), initial=0.0)), float(np.max(np.abs(b[finite]), initial=0.0)))
        least = max(TOLERANCE * scale, floor)
        if np.any(np.abs(a[finite] - b[finite]) > (least if slack is None else np.maximum(least, slack[finite]))):
            return True
    return False

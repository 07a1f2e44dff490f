"""Looking for a counterexample: the model run in float64 at a few points, before and after the action.

What runs is the real function that the model means (`interpret.reals`), so a cast to float32 inside it is no
difference. Two outputs are different when they are finite and differ by much more than either of them is uncertain by.
The uncertainty is measured: the same function once more, its results rounded to fewer binary digits, at points moved
by a little. With `u` the unit of rounding, `kappa` how much the function magnifies a relative change of a result on
its way, and `u' = 2^-44` the unit of the coarser run, the error of an output is about `kappa u`, and what the coarser
run shows is about `kappa u'`, some 500 times that. A difference of `MARGIN` times what it shows is no rounding.

Infinities and NaN are no counterexample: what overflows in float64 is finite as a real number. What is found is a
refutation; what is not found proves nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import jax
import numpy as np
import sympy as sp
from jax.extend.core import ClosedJaxpr

from quotax.artifacts import Trace, Witness
from quotax.interpret.random_inputs import random_input
from quotax.interpret.reals import casts_removed, real_function
from quotax.parts import tree
from quotax.programs.compiling import QUICK
from quotax.programs.hosted import Uncompiled, Unhosted
from quotax.symmetry import FLOATS, OBJECTS, Action, Group, transformed, variable
from quotax.symmetry.new_entries.general_entries import maps_of
from quotax.trees import AnyArray, Tree

TOLERANCE = 1e-7
"""Relative difference above which two numbers are different functions' values: constants are written in float32."""

BITS = 43
"""Binary digits of the coarser run: nine fewer than float64 has."""

NUDGE = 1e-13
"""A relative change of a point, of the size of the coarser run's rounding."""

MARGIN = 1e3
"""How much larger than its uncertainty a difference must be: then its first six digits are right."""

EXACT = 8
"""So many points are moved exactly, so that what is equal stays so; the others in floats, rounded as the model is."""

SCALE = 8
"""Every fourth point has parameters and inputs larger by this factor, beyond thresholds that small ones never meet."""


FEW = 2**20
"""Points of so many numbers in all are not worth compiling for."""


@functools.lru_cache(maxsize=128)
def _compiled(jaxpr: ClosedJaxpr, batched: bool, coarse: bool = False) -> Callable[..., Tree]:
    """The traced function; kept, so that several claims about one model compile it once."""
    run = real_function(jaxpr, BITS) if coarse else real_function(jaxpr)
    shape = jax.vmap(run) if batched else run
    uncompiled = Uncompiled(lambda _, *arrays: shape(*arrays))
    together = jax.jit(shape, compiler_options=QUICK)
    one_by_one = jax.jit(lambda *arrays: jax.lax.map(lambda row: run(*row), arrays), compiler_options=QUICK)

    def numbers(*arrays: AnyArray) -> list[AnyArray]:
        try:
            if sum(map(np.size, arrays)) <= FEW:
                return uncompiled(None, *arrays)
        except (Unhosted, NotImplementedError):
            pass
        try:
            return together(*arrays)
        except NotImplementedError:  # a primitive without a batching rule: a callback
            return one_by_one(*arrays)

    return numbers


def find_witness(trace: Trace, action: Action, rng: np.random.Generator, draws: int) -> Witness | None:
    """A counterexample among random small rationals, or nothing."""
    samples = [_draw(trace, action, rng, number) for number in range(draws)]
    with jax.enable_x64(True):
        run = _compiled(trace.written, True)
        before = _numbers(run(*_batched(trace, samples, "params")))
        after = _numbers(run(*_batched(trace, samples, "moved")))
    for i, sample in enumerate(samples):
        left, right = [o[i] for o in before], [o[i] for o in after]
        if _differ(left, right) and _conditioned(trace, sample, left, right, draws):
            return _witness(trace, sample, left, right)
    return None


def find_float_witness(trace: Trace, action: Action, rng: np.random.Generator, draws: int = 2) -> Witness | None:
    """A counterexample among random floats: for sizes at which exact elements would take long."""
    for number in range(draws):
        sample = _float_draw(trace, action, rng, number)
        left, right = (numbers_at(trace, sample, which) for which in ("params", "moved"))
        if _differ(left, right) and _conditioned(trace, sample, left, right):
            return _witness(trace, sample, left, right)
    return None


def differ_together(trace: Trace, actions: Sequence[Action], rng: np.random.Generator) -> bool:
    """Whether the outputs change when all of these actions move a point of random floats, one after the other."""
    sample = random_point(trace, rng)
    moved = dict(sample["params"])
    for number, action in enumerate(actions):
        action.group.check_sizes(trace.sizes)
        g = _float_element(action.group, trace, rng, number)
        inverse = np.linalg.inv(g) if action.group.layout == "matrix" else None
        moved |= transformed(action, trace.params, trace.sizes, moved, g, FLOATS, inverse)
    sample |= {"moved": moved}
    left, right = (numbers_at(trace, sample, which) for which in ("params", "moved"))
    return _differ(left, right) and _conditioned(trace, sample, left, right)


def precision_notes(trace: Trace) -> tuple[str, ...]:
    """What a certificate must say of the numbers found at this trace: nothing, or how many casts were read away."""
    count = casts_removed(trace)
    if not count:
        return ()
    times = "one cast to a narrower float" if count == 1 else f"{count} casts to narrower floats"
    return (f"the outputs are those of the model in float64, {times} in it removed",)


def check_numerically(trace: Trace, action: Action, rng: np.random.Generator, draws: int = 8) -> float:
    """The largest relative difference of the outputs before and after, at random points; NaN where none is finite."""
    worst = float("nan")
    for _ in range(draws):
        sample = _float_draw(trace, action, rng)
        for a, b in zip(numbers_at(trace, sample, "params"), numbers_at(trace, sample, "moved"), strict=True):
            finite = np.isfinite(a) & np.isfinite(b)
            if finite.any():
                scale = max(float(np.max(np.abs(a[finite]))), 1e-300)
                worst = float(np.fmax(worst, np.max(np.abs(a[finite] - b[finite])) / scale))
    return worst


# --- judging


def _differ(before: list[np.ndarray], after: list[np.ndarray], uncertain: list[np.ndarray] | None = None) -> bool:
    """Whether some entry, finite on both sides, differs by more than rounding explains."""
    for k, (a, b) in enumerate(zip(before, after, strict=True)):
        finite = np.isfinite(a) & np.isfinite(b)
        least = TOLERANCE * np.maximum(np.abs(a), np.abs(b))
        if uncertain is not None:
            finite &= np.isfinite(uncertain[k])
            least = np.maximum(least, MARGIN * uncertain[k])
        if np.any(np.abs(a[finite] - b[finite]) > least[finite]):
            return True
    return False


def _conditioned(
    trace: Trace, sample: dict[str, AnyArray], before: list[np.ndarray], after: list[np.ndarray], batch: int = 0
) -> bool:
    """Whether the outputs differ by more than they are uncertain by; `batch` points are compiled to run at once.

    Where a variance vanishes exactly, one side is 0/0 and the other a rounding error over its root: no refutation.
    """
    left = uncertainty(trace, sample, "params", before, batch)
    right = uncertainty(trace, sample, "moved", after, batch)
    return _differ(before, after, [u + v for u, v in zip(left, right, strict=True)])


def uncertainty(
    trace: Trace, sample: dict[str, AnyArray], which: str, outputs: list[np.ndarray], batch: int = 0
) -> list[np.ndarray]:
    """How much each output entry changes in a coarser run at nudged points: infinite where it ceases to be finite."""
    rng = np.random.default_rng(0)
    point = [(_floats(sample[which][spec.name]), False) for spec in trace.params]
    point += [(np.asarray(sample["inputs"][spec.name]), spec.discrete) for spec in trace.inputs]
    worst = [np.zeros(np.shape(o)) for o in outputs]
    for _ in range(1 if batch else 3):
        nudged = []
        for array, discrete in point:
            copies = np.broadcast_to(array, (batch, *array.shape)) if batch else array
            nudged.append(copies * (1 + NUDGE * rng.normal(size=copies.shape)) if not discrete else copies)
        with jax.enable_x64(True):
            found = _numbers(_compiled(trace.written, bool(batch), coarse=True)(*nudged))
        for k, (here, near) in enumerate(zip(outputs, found, strict=True)):
            both = np.isfinite(here) & np.isfinite(near)
            change = np.abs(np.where(both, near, 0.0) - np.where(both, here, 0.0))
            change = np.where(np.isfinite(here) == np.isfinite(near), change, np.inf)
            worst[k] = np.maximum(worst[k], change.max(0) if batch else change)
    return worst


def numbers_at(trace: Trace, sample: dict[str, AnyArray], which: str) -> list[np.ndarray]:
    """The outputs at one point, by the function of one point."""
    arrays = [_floats(sample[which][s.name]) for s in trace.params] + [sample["inputs"][s.name] for s in trace.inputs]
    with jax.enable_x64(True):
        return _numbers(_compiled(trace.written, False)(*arrays))


def _numbers(outputs: Tree) -> list[np.ndarray]:
    """Outputs as floats (or complex numbers): truth values and integers can be subtracted then."""
    arrays = [np.asarray(o) for o in outputs]
    return [a if a.dtype.kind == "c" else a.astype(np.float64) for a in arrays]


def _witness(trace: Trace, sample: dict[str, AnyArray], before: list[np.ndarray], after: list[np.ndarray]) -> Witness:
    return Witness(
        sizes=dict(trace.sizes),
        params=tree(trace.params, {name: _floats(a) for name, a in sample["params"].items()}, trace.sizes),
        element=_floats(sample["g"]),
        inputs={spec.name: sample["inputs"][spec.name] for spec in trace.inputs},
        output=jax.tree.unflatten(trace.out_tree, before),
        transformed_output=jax.tree.unflatten(trace.out_tree, after),
        transformed_params=tree(trace.params, {name: _floats(a) for name, a in sample["moved"].items()}, trace.sizes),
    )


# --- points and group elements


def random_point(trace: Trace, rng: np.random.Generator) -> dict[str, AnyArray]:
    """Normal parameters, and inputs of the kinds that the model declares."""
    params = {spec.name: rng.normal(size=spec.shape(trace.sizes)) for spec in trace.params}
    return {"params": params, "inputs": _inputs(trace, rng)}


def _float_draw(trace: Trace, action: Action, rng: np.random.Generator, number: int = 0) -> dict[str, AnyArray]:
    sample = random_point(trace, rng)
    params = sample["params"]
    g = _float_element(action.group, trace, rng, number)
    inverse = np.linalg.inv(g) if action.group.layout == "matrix" else None
    moved = params | transformed(action, trace.params, trace.sizes, params, g, FLOATS, inverse)
    return sample | {"g": g, "moved": moved}


def _float_element(group: Group, trace: Trace, rng: np.random.Generator, number: int) -> np.ndarray:
    """A random element; exponentials by SciPy, the rest small rationals: nothing is compiled."""
    from scipy.linalg import expm  # a third of the time that importing quotax may take

    if group.layout != "matrix" or not group.continuous:
        return _floats(_element(group, trace.sizes, rng, 2 * number + 1))
    scale = 2.0 if number % 2 else 0.4
    coordinates = scale * rng.normal(size=group.coordinate_shape(trace.sizes))
    xi = np.asarray(group.algebra(coordinates, trace.sizes))
    xi = xi / np.sqrt(xi.shape[-1])
    return np.stack([expm(block) for block in xi.reshape(-1, *xi.shape[-2:])]).reshape(xi.shape)


def _element(group: Group, sizes: Mapping[str, int], rng: np.random.Generator, number: int) -> np.ndarray:
    """An exact random element: of small rationals, every third time one that is far from well conditioned."""
    g: AnyArray = _exact(group.attempt(number, rng, sizes))
    if number % 3 == 2 and group.continuous:
        for _ in range(1 if group.layout == "matrix" else 3):
            other: Tree = _exact(group.rational(rng, sizes)) if group.layout == "matrix" else g
            g = _exact(group.compose(g, other))
    return g


def _exact(array: AnyArray) -> np.ndarray:
    """An array of SymPy rationals."""
    return np.asarray(np.vectorize(sp.Rational, otypes=[object])(array), dtype=object)


def _draw(trace: Trace, action: Action, rng: np.random.Generator, number: int = 0) -> dict[str, AnyArray]:
    scale = SCALE if number % 4 == 3 else 1
    quarters = {spec.name: scale * _random_integers(rng, spec.shape(trace.sizes)) for spec in trace.params}
    quarters = _with_kernels(quarters, trace, action) if number % 2 == 0 else quarters
    g = _element(action.group, trace.sizes, rng, number)
    exact = number < EXACT
    read = action.named
    params = {name: _quarters(a) if exact and name in read else a / 4 for name, a in quarters.items()}
    element, invert, arrays = (g, exact_inverse, OBJECTS) if exact else (_floats(g), np.linalg.inv, FLOATS)
    inverse = invert(element) if action.group.layout == "matrix" else None
    moved = params | transformed(action, trace.params, trace.sizes, params, element, arrays, inverse)
    return {"params": params, "g": g, "moved": moved, "inputs": _inputs(trace, rng, scale)}


def _with_kernels(arrays: dict[str, np.ndarray], trace: Trace, action: Action) -> dict[str, np.ndarray]:
    """Parameters with a kernel where the action has a projector onto it: there are none at most points of many sizes.

    The last index of the axis is sent where the first is.
    """
    out = dict(arrays)
    for spec in trace.params:
        for own in (one for name in action.projectors for one in maps_of(name)):
            if own.parameter == variable(spec.name):
                array = out[spec.name].reshape(spec.split_shape(trace.sizes)).copy()
                ends = np.moveaxis(array, own.axis, 0)
                ends[-1] = ends[0]
                out[spec.name] = array.reshape(out[spec.name].shape)
    return out


def _inputs(trace: Trace, rng: np.random.Generator, scale: int = 1) -> dict[str, np.ndarray]:
    """Random inputs by name; real ones are quarters, larger by a factor."""
    real = lambda shape: _random_integers(rng, shape) / 4 * scale
    return {spec.name: random_input(spec, trace.sizes, rng, real) for spec in trace.inputs}


def exact_inverse(g: np.ndarray) -> np.ndarray:
    """The inverse of every matrix in a stack of rational matrices."""
    if g.ndim > 2:
        return np.stack([exact_inverse(block) for block in g])
    return np.array(sp.Matrix(g).inv().tolist(), dtype=object).reshape(g.shape)


def _random_integers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Not zero, so that no term vanishes by accident; small, so that floats are exact."""
    return np.asarray(rng.integers(1, 9, shape) * rng.choice([-1, 1], shape))


def _quarters(integers: np.ndarray) -> np.ndarray:
    """Exact quarters of integers."""
    array = np.empty(integers.shape, dtype=object)
    array[...] = np.vectorize(lambda v: sp.Rational(int(v), 4), otypes=[object])(integers)
    return array


def _batched(trace: Trace, samples: list[dict[str, AnyArray]], which: str) -> list[np.ndarray]:
    params = [np.stack([_floats(s[which][spec.name]) for s in samples]) for spec in trace.params]
    return params + [np.stack([s["inputs"][spec.name] for s in samples]) for spec in trace.inputs]


def _floats(array: AnyArray) -> np.ndarray:
    """Exact entries as floats, each rounded once; what an action divides by zero is no number."""
    if isinstance(array, np.ndarray) and array.dtype != object:
        return array.astype(float)

    def rounded(e: Tree) -> float:
        if getattr(e, "is_Rational", False):
            return float(Fraction(int(e.p), int(e.q)))
        return math.nan if isinstance(e, sp.Expr) and e.has(sp.zoo, sp.nan) else float(sp.N(e, 20))

    convert = np.vectorize(rounded, otypes=[float])
    return convert(array) if np.size(array) else np.zeros(np.shape(array))

"""Claims that sampling cannot see through, and what float64 says of them where their gates are open.

A gated model is `x + gate(x) * D(params)`: the gate is shut at every input that anyone would draw, so a verdict on the
model rests on the proof alone. The claim "g leaves the model unchanged" is true if and only if `D(g . theta)` is
`D(theta)`, and that is evaluated here without the gate: at many sizes, points and group elements, in float64, with
floating-point casts read away. Nothing of the prover is used; the action is run by `quotax.lower`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import quotax as qx
from certify.in_numpy import Program
from quotax.artifacts import ArraySpec
from quotax.lower import lower_action
from quotax.trees import nest

Sizes = dict[str, int]

# --- gates: zero at every input that a search would try


GATES: dict[str, Callable[[Any], Any]] = {
    "relu": lambda s: jax.nn.relu(s - 1e3),
    "relu squared": lambda s: jax.nn.relu(s - 1e3) ** 2,
    "where": lambda s: jnp.where(s > 1e3, s, 0.0),
    "maximum": lambda s: jnp.maximum(s, 1e3) - 1e3,
    "indicator": lambda s: (s > 1e3).astype(float),
    "product of indicators": lambda s: jnp.where(s > 700.0, 1.0, 0.0) * jnp.where(s < 701.0, 1.0, 0.0),
    "product of ramps": lambda s: jax.nn.relu(s - 1e3) * jax.nn.relu(1001.0 - s),
    "far exponential": lambda s: jnp.exp(s - 1000.0),
    "below": lambda s: jnp.minimum(s + 1e3, 0.0),
}


def cast(z: Any, dtype: Any) -> Any:
    """A cast that the model makes."""
    return jnp.asarray(z).astype(dtype)


def uncast(z: Any, dtype: Any) -> Any:
    """The same cast as a proof reads it: the identity."""
    return z


# --- numbers


@dataclass(frozen=True)
class Draw:
    """How one draw is made: `0` and `1` are ordinary, `2` has large numbers, `3` a badly conditioned element."""

    style: int

    @property
    def wild(self) -> bool:
        """Whether only a large difference means anything: rounding is amplified."""
        return self.style >= 2


DRAWS = tuple(Draw(style) for style in range(4))


def point(spec: ArraySpec, rng: np.random.Generator, sizes: Sizes, draw: Draw) -> np.ndarray:
    """A random array for a parameter or an input."""
    if spec.kind == "tokens":
        below = sizes[spec.below] if isinstance(spec.below, str) else spec.below
        return rng.integers(0, below, spec.shape(sizes))
    if spec.kind == "mask":
        return rng.integers(0, 2, spec.shape(sizes)).astype(float)
    values = rng.normal(size=spec.shape(sizes))
    return np.abs(values) + 0.1 if draw.style == 3 else values * (1.0, 3.0, 100.0)[draw.style]


def element(group: Any, rng: np.random.Generator, sizes: Sizes, draw: Draw) -> np.ndarray:
    """A random element of each style; permutations are a cycle, any, a transposition of the ends, and the reversal."""
    shape, name = group.shape(sizes), type(group).__name__
    rows = range(int(np.prod(shape[:-2], dtype=int))) if group.layout == "matrix" else ()
    if name == "Permutation":
        n = shape[-1]
        ends = np.arange(n)
        ends[[0, -1]] = ends[[-1, 0]]
        orders = [(np.roll(np.arange(n), 1), rng.permutation(n), ends, np.arange(n)[::-1])[draw.style] for _ in rows]
        orders = [rng.permutation(n) if k else order for k, order in enumerate(orders)]
        return np.stack([np.eye(n)[order] for order in orders]).reshape(shape)
    if name == "O":
        return np.linalg.qr(rng.normal(size=shape))[0]
    if name == "ComplexScaling":
        return np.asarray(group.random(jax.random.key(int(rng.integers(2**31))), sizes, 0.5))
    if name == "GL":
        values = rng.normal(size=shape) * 0.4 / np.sqrt(shape[-1]) + np.eye(shape[-1])
        spread = np.logspace(-2, 2, shape[-1]) if draw.style == 3 else np.ones(shape[-1])
        return values * (10.0 if draw.style == 2 else 1.0) * spread
    if name == "Translation":
        return rng.normal(size=shape) * (1.0, 0.3, 30.0, 1.0)[draw.style]
    if name == "SignFlip" or name == "Diagonal":
        places = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
        last = places == places.size - 1
        signs = (np.where(places % 2, 1.0, -1.0), rng.choice([-1.0, 1.0], shape), -np.ones(shape), 1.0 - 2.0 * last)
        flips = np.asarray(signs[draw.style])
        factors = np.exp((0.5, 0.5, 2.0, 2.0)[draw.style] * rng.normal(size=shape))
        return flips if name == "SignFlip" else flips * factors
    return np.exp((0.5, 0.5, 2.0, 4.0)[draw.style] * rng.normal(size=shape))


def agreement(before: Any, after: Any, noise: float, magnitude: float, draw: Draw) -> bool | None:
    """Whether two trees are the same numbers; None when rounding does not let one say."""
    worst: bool | None = True
    for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        a, b = np.asarray(a, float), np.asarray(b, float)
        if a.shape != b.shape:
            return False
        sound = np.isfinite(a) & np.isfinite(b)
        if np.any(np.isfinite(a) != np.isfinite(b)):
            worst = None
        if not np.any(sound):
            worst = None if a.size else worst
            continue
        difference, scale = np.max(np.abs(a - b)[sound]), np.max((np.abs(a) + np.abs(b))[sound])
        floor = 1e-10 * max(1.0, magnitude) ** 2
        if difference > 1e-6 * scale + 100 * floor + 100 * noise:
            return False
        if difference > 1e-9 * scale + floor + 10 * noise:
            worst = None
    return worst


def agreement_of(
    run: Callable[[Any], Any], values: Any, moved: Any, rng: np.random.Generator, draw: Draw
) -> bool | None:
    """Whether a function of named arrays is the same at both; a difference must survive shaken arguments."""

    def shaken(arrays: Any) -> float:
        near = {name: v * (1 + 1e-13 * rng.normal(size=np.shape(v))) for name, v in arrays.items()}
        return distance(run(arrays), run(near))

    before, after = run(values), run(moved)
    magnitude = max(largest(values), largest(moved))
    found = agreement(before, after, shaken(moved), magnitude, draw)
    if found is False:
        noise = max(shaken(arrays) for arrays in (values, moved) for _ in range(4))
        found = agreement(before, after, noise, magnitude, draw)
    return found


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as one, names joined."""
    out: dict[str, Any] = {}
    for key, value in tree.items():
        out |= flat(value, f"{prefix}{key}/") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return out


def largest(tree: Any) -> float:
    """The largest absolute value that is finite."""
    values = [np.abs(np.asarray(leaf, float)) for leaf in jax.tree.leaves(tree)]
    return max((float(np.max(v[np.isfinite(v)], initial=0.0)) for v in values), default=0.0)


def distance(first: Any, second: Any) -> float:
    """The largest difference of two trees where both are finite."""
    gaps = jax.tree.map(lambda a, b: np.asarray(a, float) - np.asarray(b, float), first, second)
    return largest(gaps)


# --- claims

REFUSED = (TypeError, ValueError, IndexError, ZeroDivisionError, NotImplementedError)
"""What a model may raise at a size that it is not meant for."""


@dataclass
class Claim:
    """Something to be proved or refuted, and the means to know better.

    Attributes:
        kind: what it is about.
        name: what it says.
        ask: makes the certificate, through the public interface.
        holds: whether float64 sees it hold at these sizes, in one draw; None when it cannot be said.
        sizes: where to look.
        by_size: the model's Python depends on sizes, so that "undecided" is no fault.
        known: truths by sizes, filled on the way.
    """

    kind: str
    name: str
    ask: Callable[[], Any]
    holds: Callable[[Sizes, np.random.Generator, Draw], bool | None]
    sizes: Sequence[Sizes]
    by_size: bool = False
    known: dict[tuple[tuple[str, int], ...], bool | None] = field(default_factory=dict)

    def true_at(self, sizes: Sizes, seed: int = 0) -> bool | None:
        """What all draws say at these sizes; None where the model refuses them or rounding decides."""
        key = tuple(sorted(sizes.items()))
        if key not in self.known:
            self.known[key] = self._drawn(sizes, seed)
        return self.known[key]

    def _drawn(self, sizes: Sizes, seed: int) -> bool | None:
        rng = np.random.default_rng([seed, *sizes.values()])
        ordinary: list[bool | None] = []
        for draw in DRAWS:
            try:
                with np.errstate(all="ignore"):
                    found = self.holds(sizes, rng, draw)
            except (*REFUSED, qx.QuotaxError):
                return None
            if found is False:
                return False
            if not draw.wild:
                ordinary.append(found)
        return True if all(ordinary) else None

    def truth(self) -> bool | None:
        """True at all of its sizes (where it can be said), false at one of them, or None: no claim."""
        said = 0
        for sizes in self.sizes:
            found = self.true_at(sizes)
            if found is False:
                return False
            said += found is True
        return True if said >= min(2, len(self.sizes)) else None


def covered(scope: str) -> Callable[[Sizes], bool]:
    """The sizes that a scope speaks of: "every width", with what is held or conditions on axes; or widths by name."""
    equal = re.findall(r"\b([A-Za-z]\w*)\s*=\s*(\d+)", scope)
    if "every" not in scope:
        named = named_sizes(scope)
        return lambda sizes: any(all(sizes.get(a) == n for a, n in one.items()) for one in named) if named else True
    even = re.findall(r"even (\w+)", scope) + re.findall(r"\b(\w+) (?:is |are )?even\b", scope)
    bounds = re.findall(r"\b([A-Za-z]\w*)\s*(>=|>|≥|<=|<|≤)\s*(\d+)", scope)
    over = [(re.fullmatch(r"(\w+)_over_(\d+)", a), sign, n) for a, sign, n in bounds]
    bounds += [(m[1], sign, str(int(m[2]) * int(n))) for m, sign, n in over if m]
    rests = [(a, int(m)) for a, m in re.findall(r"mod\((\w+), (\d+)\) ≠ 0", scope)]
    shares = re.findall(r"\b(\w+) a multiple of (\w+)", scope)
    unequal = re.findall(r"\b([A-Za-z]\w*)\s*≠\s*(\d+)", scope)
    tests = {
        ">=": int.__ge__, "≥": int.__ge__, ">": int.__gt__, "<=": int.__le__, "≤": int.__le__, "<": int.__lt__
    }  # fmt: skip

    def inside(sizes: Sizes) -> bool:
        return (
            all(sizes.get(axis, int(n)) == int(n) for axis, n in equal)
            and all(sizes.get(axis, 0) % 2 == 0 for axis in even)  # "every" and "width" are no axes
            and all(axis not in sizes or tests[sign](sizes[axis], int(n)) for axis, sign, n in bounds)
            and all(sizes.get(axis) != int(n) for axis, n in unequal)
            and all(axis not in sizes or sizes[axis] % m for axis, m in rests)
            and all(axis not in sizes or sizes[axis] % (sizes[m] if m in sizes else int(m)) == 0 for axis, m in shares)
        )

    return inside


def named_sizes(scope: str) -> list[Sizes]:
    """The sizes in brackets of a scope such as `widths (h=2, x=2) and (h=3, x=2)`."""
    groups = re.findall(r"\(([^()]*=[^()]*)\)", scope) or [scope]
    found = [{a: int(n) for a, n in re.findall(r"\b([A-Za-z]\w*)\s*=\s*(\d+)", text)} for text in groups]
    return [one for one in found if one]


def counterexample(claim: Claim, scope: str) -> Sizes | None:
    """Sizes inside a scope at which the claim is false."""
    inside = covered(scope)
    tried = list(claim.sizes)
    if "every" not in scope:
        tried += [one for one in named_sizes(scope) if set(one) >= set(claim.sizes[0])]
    else:
        held = {a: int(n) for a, n in re.findall(r"\b([A-Za-z]\w*)\s*=\s*(\d+)", scope)}
        tried += [sizes | held for sizes in claim.sizes[:6]] if held else []
    for sizes in tried:
        if inside(sizes) and claim.true_at(sizes) is False:
            return sizes
    return None


def judged(claim: Claim, certificate: Any) -> str | None:
    """What is wrong with a verdict, or nothing."""
    if certificate.status == "proved":
        where = counterexample(claim, certificate.scope)
        return None if where is None else f"proved ({certificate.scope}), false at {where}"
    if certificate.status == "refuted" and claim.truth() is True:
        witness = certificate.witness
        sizes = dict(witness.sizes) if witness is not None else None
        if sizes and set(sizes) >= set(claim.sizes[0]) and claim.true_at(sizes) is not True:
            return None  # the witness is at sizes that were not looked at
        if witness is not None and hasattr(claim.holds, "shown"):
            with contextlib.suppress(KeyError, *REFUSED, qx.QuotaxError):
                if claim.holds.shown(witness):
                    return None  # at a point that no draw has met
        return f"refuted ({certificate.scope}), true wherever looked"
    return None


# --- claims of each form


def invariance(
    function: Callable[..., Any], params: Sequence[ArraySpec], inputs: Sequence[ArraySpec], symmetry: qx.Symmetry
) -> Callable[[Sizes, np.random.Generator, Draw], bool | None]:
    """Whether `function(params, *inputs)` is the same at theta and at g . theta."""
    programs: dict[tuple[int, ...], Any] = {}

    def made(sizes: Sizes, values: Any, g: Any, given: Any) -> Any:
        lowered = lower_action(symmetry.bind(tuple(params)), tuple(params), sizes)
        run = Program(lambda arrays, *rest: function(nest(arrays), *rest), values, *given)
        return run, Program(lowered.act, values, g)

    def compared(sizes: Sizes, values: Any, g: Any, given: Any, rng: np.random.Generator, draw: Draw) -> bool | None:
        key = tuple(sizes.values())
        if key not in programs:
            programs[key] = made(sizes, values, g, given)
        run, act = programs[key]
        moved = act(values, g)
        return agreement_of(lambda p: run(p, *given), values, moved, rng, draw)

    def holds(sizes: Sizes, rng: np.random.Generator, draw: Draw) -> bool | None:
        values = {spec.name: point(spec, rng, sizes, draw) for spec in params}
        given = [point(spec, rng, sizes, draw) for spec in inputs]
        return compared(sizes, values, element(symmetry.group, rng, sizes, draw), given, rng, draw)

    def shown(witness: Any) -> bool:
        names = {spec.name for spec in params}
        values = {k: np.asarray(v, float) for k, v in {**flat(witness.params), **witness.inputs}.items() if k in names}
        given = [np.asarray(witness.inputs[spec.name]) for spec in inputs]
        g = np.asarray(witness.element, float)
        rng = np.random.default_rng(0)
        return compared(dict(witness.sizes), values, g, given, rng, DRAWS[0]) is False

    holds.shown = shown  # type: ignore[attr-defined]
    return holds


def gated_model(
    difference: Callable[..., Any],
    params: Mapping[str, str],
    gate: str = "relu",
    inputs: Mapping[str, Any] | None = None,
) -> Any:
    """The architecture `s + gate(s) * difference(params, *inputs)`."""

    @qx.architecture(params=dict(params), inputs={"s": ""} | dict(inputs or {}))
    def gated(p: Any, s: Any, *rest: Any) -> Any:
        return s + GATES[gate](s) * difference(p, *rest)

    return gated


def gated_claim(
    name: str,
    difference: Callable[..., Any],
    params: Mapping[str, str],
    symmetry: qx.Symmetry,
    sizes: Iterable[Sizes],
    *,
    kind: str = "gated",
    gate: str = "relu",
    inputs: Mapping[str, Any] | None = None,
    exact: Callable[..., Any] | None = None,
    by_size: bool = False,
    **settings: Any,
) -> Claim:
    """`symmetry` leaves the gated model unchanged; `exact` is the difference without casts."""
    model = gated_model(difference, params, gate, inputs)
    holds = invariance(exact or difference, model.params, model.inputs[1:], symmetry)
    full = f"{name} [{gate}] under {symmetry}"
    return Claim(kind, full, lambda: qx.verify(model, symmetry, **settings), holds, list(sizes), by_size)


def plain_claim(
    name: str,
    function: Callable[..., Any],
    params: Mapping[str, str],
    inputs: Mapping[str, Any],
    symmetry: qx.Symmetry,
    sizes: Iterable[Sizes],
    *,
    kind: str = "plain",
    exact: Callable[..., Any] | None = None,
    by_size: bool = False,
    **settings: Any,
) -> Claim:
    """`symmetry` leaves the model unchanged, which any draw can see."""

    @qx.architecture(params=dict(params), inputs=dict(inputs))
    def plain(p: Any, *given: Any) -> Any:
        return function(p, *given)

    holds = invariance(exact or function, plain.params, plain.inputs, symmetry)
    full = f"{name} under {symmetry}"
    return Claim(kind, full, lambda: qx.verify(plain, symmetry, **settings), holds, list(sizes), by_size)


def measure_claim(
    name: str, measure: Callable[[Any], Any], params: Mapping[str, str], symmetry: qx.Symmetry, sizes: Iterable[Sizes],
    by_size: bool = False,
) -> Claim:  # fmt: skip
    """`measure(params)` is the same along orbits."""

    @qx.architecture(params=dict(params), inputs={"s": ""})
    def measured(p: Any, s: Any) -> Any:
        return s * sum(jnp.sum(v) for v in jax.tree.leaves(p))

    holds = invariance(measure, measured.params, (), symmetry)
    ask = lambda: qx.verify_invariant(measured, symmetry, measure)
    return Claim("measures", f"{name} under {symmetry}", ask, holds, list(sizes), by_size)


def metric_claim(
    name: str, metric: Callable[..., Any], params: Mapping[str, str], symmetry: qx.Symmetry, sizes: Iterable[Sizes]
) -> Claim:
    """`metric(g . theta; dg . a, dg . b) = metric(theta; a, b)`."""

    @qx.architecture(params=dict(params), inputs={"s": ""})
    def space(p: Any, s: Any) -> Any:
        return s * sum(jnp.sum(v) for v in jax.tree.leaves(p))

    programs: dict[tuple[int, ...], Any] = {}

    def made(sizes: Sizes, p: Any, a: Any, b: Any, g: Any) -> Any:
        lowered = lower_action(symmetry.bind(space.params), space.params, sizes)

        def pushed(p: Any, a: Any, b: Any, g: Any) -> Any:
            act = lambda arrays: lowered.act(arrays, g)
            return act(p), jax.jvp(act, (p,), (a,))[1], jax.jvp(act, (p,), (b,))[1]

        return Program(metric, p, a, b), Program(pushed, p, a, b, g)

    def holds(sizes: Sizes, rng: np.random.Generator, draw: Draw) -> bool | None:
        p, a, b = ({s.name: point(s, rng, sizes, draw) for s in space.params} for _ in range(3))
        g = element(symmetry.group, rng, sizes, draw)
        key = tuple(sizes.values())
        if key not in programs:
            programs[key] = made(sizes, p, a, b, g)
        run, push = programs[key]
        moved, push_a, push_b = push(p, a, b, g)
        before, after = run(p, a, b), run(moved, push_a, push_b)
        shaken = {name: v * (1 + 1e-13 * rng.normal(size=v.shape)) for name, v in moved.items()}
        noise = distance(after, run(shaken, push_a, push_b))
        return agreement(before, after, noise, max(largest(p), largest(moved)), draw)

    ask = lambda: qx.verify_metric(space, symmetry, metric)
    return Claim("metrics", f"{name} under {symmetry}", ask, holds, list(sizes))


def field_claim(
    name: str,
    function: Callable[..., Any],
    params: Mapping[str, str],
    vector: Callable[[Any], Any],
    sizes: Iterable[Sizes],
    *,
    inputs: Mapping[str, Any] | None = None,
    gate: str | None = None,
    by_size: bool = False,
) -> Claim:
    """The output does not change to first order along `vector(params)`: differences of values, no derivative rules."""
    if gate is None:

        @qx.architecture(params=dict(params), inputs=dict(inputs or {}))
        def model(p: Any, *given: Any) -> Any:
            return function(p, *given)

        rest = model.inputs
    else:
        model = gated_model(function, params, gate, inputs)
        rest = model.inputs[1:]

    programs: dict[tuple[int, ...], Any] = {}

    def holds(sizes: Sizes, rng: np.random.Generator, draw: Draw) -> bool | None:
        if draw.wild:
            return True
        p = nest({s.name: point(s, rng, sizes, draw) for s in model.params})
        given = [point(s, rng, sizes, draw) for s in rest]
        key = tuple(sizes.values())
        if key not in programs:
            programs[key] = Program(function, p, *given), Program(vector, p)
        run, velocity = programs[key]
        v = velocity(p)
        step = 1e-5 / (1.0 + largest(v))
        along = lambda t: run(jax.tree.map(lambda a, d: a + t * d, p, v), *given)
        ahead, behind = along(step), along(-step)
        slopes = jax.tree.map(lambda a, b: (np.asarray(a) - np.asarray(b)) / (2 * step), ahead, behind)
        size, slope = 1.0 + largest(ahead), largest(slopes)
        return False if slope > 1e-4 * size else True if slope < 1e-6 * size else None

    return Claim("fields", name, lambda: qx.verify_field(model, vector), holds, list(sizes), by_size)


def equivariance_claim(
    name: str,
    function: Callable[..., Any],
    params: Mapping[str, str],
    inputs: Mapping[str, Any],
    output: str,
    symmetry: qx.Symmetry,
    sizes: Iterable[Sizes],
    *,
    exact: Callable[..., Any] | None = None,
    by_size: bool = False,
) -> Claim:
    """`sum(probe * f(theta, x))` is invariant, all three moving; `exact` has the gate open."""

    @qx.architecture(params=dict(params), inputs=dict(inputs))
    def model(p: Any, *given: Any) -> Any:
        return function(p, *given)

    probe = ArraySpec("probe", tuple((int(f) if f.isdigit() else f,) for f in output.split()))
    real = [spec for spec in model.inputs if spec.kind == "real"]
    others = [spec for spec in model.inputs if spec.kind != "real"]
    specs = (*model.params, *real, probe)

    def paired(p: Any, *rest: Any) -> Any:
        left = iter(rest)
        given = [p[s.name] if s.kind == "real" else next(left) for s in model.inputs]
        value = (exact or function)({k: v for k, v in p.items() if k in params}, *given)
        if np.shape(value) != np.shape(p["probe"]):
            raise ValueError("the output has other axes")
        return jnp.sum(p["probe"] * value)

    holds = invariance(paired, specs, others, symmetry)
    ask = lambda: qx.verify_equivariance(model, symmetry, output=output)
    return Claim("equivariance", f"{name} under {symmetry}", ask, holds, list(sizes), by_size)


# --- sizes

POOL = (1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 50, 64, 65, 100, 101, 127, 128, 129, 150)
"""Small ones, primes, powers of two and their neighbours."""


def widths(*sizes: int, axis: str = "h") -> list[Sizes]:
    """One axis at these sizes."""
    return [{axis: n} for n in sizes]


EVERYWHERE = widths(1, 2, 3, 4, 5, 7, 8, 16, 33, 50, 51, 64, 65, 100, 101, 127, 128, 129, 150)
"""One axis `h`, small and large."""

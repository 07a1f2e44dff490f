r"""Which parameter of one network is which of another, where both are one function with other names.

Let $f(\theta, x)$ have the arrays $\theta_1, \dots, \theta_n$, and $g(\phi, x)$ as many. Looked for is a bijection $m$
with $g(\phi, x) = f(\phi \circ m, x)$. It is read off the functions, not off names, axes or the order of a declaration:
let all arrays of $s$ numbers be one array $a_s$, the same in both networks. Then $f$ and $g$ agree there whatever $m$
is, and so do they once $\theta_i$ and $\phi_{m(i)}$ alone are changed to $b_s$: the outputs are the *marks* of these
arrays, and $m$ sends equal to equal. Where two arrays of one network have one mark it may be that they can be
exchanged, and nothing is guessed; where the marks of the networks are not the same, or outputs at random points are
not, these are two functions.

What agrees does so at random points, in float64: it is no proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quotax.artifacts import ArraySpec, Trace
from quotax.certify.counterexample import numbers_at, random_point
from quotax.declare import Architecture, Network
from quotax.errors import ArchitectureError, ParameterError, QuotaxError
from quotax.presenting import Result

POINTS = 8
"""At which marks and outputs are compared."""

_TOLERANCE = 1e-8
"""Between outputs that are equal, relative to the largest."""

_FREE = (5, 6, 7, 8)
"""Sizes of axes that only inputs have."""

Marks = dict[str, list[np.ndarray]]


@dataclass(frozen=True, repr=False)
class Counterparts(Result):
    """Which array of the second network is which of the first: true where every one has one counterpart.

    Attributes:
        names: of the first network's arrays, each with its counterpart's; nothing where there is none.
        reason: why they are, or why not and what to pass.
    """

    names: dict[str, str] | None
    reason: str
    _first: Any = field(default=None, repr=False, compare=False)
    _second: Any = field(default=None, repr=False, compare=False)

    def __bool__(self) -> bool:
        """Whether they are known."""
        return self.names is not None

    def params(self, params: Any) -> Any:
        """Parameters of the second network as the first takes them."""
        if self.names is None:
            raise ParameterError(f"`counterparts.params(params)`: {self.reason}.")
        arrays = self._second.taken_apart(self._second.check_params(params, call="counterparts.params(params)"))
        own = self._first.shapes
        return self._first.tree({name: arrays[other].reshape(own[name]) for name, other in self.names.items()})


def counterparts(
    first: Network | Architecture, second: Network | Architecture, rename: Mapping[str, str] | None = None
) -> Counterparts:
    """Which parameter of one network is which of another, where both are one function with other names.

    Args:
        first: a sized network, or a model that came with its sizes.
        second: another.
        rename: counterparts that are known, the second network's names and what the first calls these; what the
            functions do not tell apart has to be said here.

    Example:
        >>> import jax, quotax as qx
        >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
        ... def net(p, x):
        ...     return p["W2"] @ jax.nn.relu(p["W1"] @ x)
        >>> @qx.architecture(params={"out": "b a", "into": "a b"}, inputs={"z": "b"})
        ... def same(p, z):
        ...     return p["out"] @ jax.nn.relu(p["into"] @ z)
        >>> qx.counterparts(net.at(x=4, h=4, y=4), same.at(a=4, b=4)).names
        {'W1': 'into', 'W2': 'out'}
    """
    nets = [_sized(network, place) for network, place in ((first, "first"), (second, "second"))]
    known = _known(nets, rename or {})
    try:
        names, reason = _found(nets[0], nets[1], known)
    except ArchitectureError as refused:
        names, reason = None, f"they cannot be compared: {refused}"
    return Counterparts(names, reason, nets[0], nets[1])


def _sized(network: Any, place: str) -> Network:
    if isinstance(network, Architecture) and network.own:
        network = network.at()
    if not isinstance(network, Network):
        hint = f"; give it sizes, as in {network.name}.at(...)" if isinstance(network, Architecture) else ""
        raise QuotaxError(f"`quotax.counterparts`: {place} must be a sized network, got {network!r}{hint}.")
    return network


def _known(nets: Sequence[Network], rename: Mapping[str, str]) -> dict[str, str]:
    """What was said, by the first network's names."""
    for other, name in rename.items():
        for net, given in ((nets[1], other), (nets[0], name)):
            if given not in net.shapes:
                raise ParameterError(
                    f"`quotax.counterparts`: rename= says that {other!r} of {nets[1].architecture.name} is {name!r} of "
                    f"{nets[0].architecture.name}; {net.architecture.name} has no array {given!r}, it has "
                    f"{', '.join(net.shapes)}."
                )
        if math.prod(nets[0].shapes[name]) != math.prod(nets[1].shapes[other]):
            raise ParameterError(
                f"`quotax.counterparts`: rename= says that {other!r} of shape {nets[1].shapes[other]} is {name!r} of "
                f"shape {nets[0].shapes[name]}."
            )
    if len(set(rename.values())) < len(rename):
        raise ParameterError(f"`quotax.counterparts`: rename= gives one array two counterparts: {dict(rename)}.")
    return {name: other for other, name in rename.items()}


def _found(first: Network, second: Network, known: Mapping[str, str]) -> tuple[dict[str, str] | None, str]:
    called = first.architecture.name, second.architecture.name
    if why := _unequal(first, second):
        return None, f"{called[0]} and {called[1]} are two functions: {why}"
    sizes = _sizes(first, second)
    if isinstance(sizes, str):
        return None, f"{called[0]} and {called[1]} are two functions: {sizes}"
    traces = first.architecture.trace(sizes[0]), second.architecture.trace(sizes[1])
    if [v.aval.shape for v in traces[0].jaxpr.jaxpr.outvars] != [v.aval.shape for v in traces[1].jaxpr.jaxpr.outvars]:
        return None, f"{called[0]} and {called[1]} are two functions: their outputs have other shapes"
    points = [list(random_point(traces[0], _generator(number, 0))["inputs"].values()) for number in range(POINTS)]
    marks = [_marks(t, points, given) for t, given in zip(traces, (list(known), [*known.values()]), strict=True)]
    names = dict(known)
    for name, mark in marks[0].items():
        own = [other for other, theirs in marks[1].items() if _equal(mark, theirs)]
        twins = [twin for twin, other in marks[0].items() if _equal(mark, other)]
        if own and max(len(own), len(twins)) > 1:
            return None, _ambiguous(called, twins, own)
        if not own:
            return None, (
                f"{called[0]} and {called[1]} are two functions, or lay their arrays out in other ways: no array of "
                f"{called[1]} does what {name} of {called[0]} does. What differs by more than names and reshapes (a "
                "transposed matrix, a constant) has to be written alike in both"
            )
        names[name] = own[0]
    if not _agree(traces, points, names):
        why = "with these names their outputs differ" if known else "their outputs differ at random points"
        return None, f"{called[0]} and {called[1]} are two functions: {why}"
    ordered = {name: names[name] for name in first.shapes}
    how = "by what each array does to the outputs" if not known else "as far as was said, and by what each does"
    return ordered, (
        f"the parameters of {called[1]} were matched to those of {called[0]} {how}; the two functions agree "
        f"at {POINTS} random points in float64"
    )


def _ambiguous(called: tuple[str, str], alike: list[str], others: list[str]) -> str:
    return (
        f"{', '.join(alike)} of {called[0]} do the same to the outputs, so which of them {', '.join(others)} of "
        f"{called[1]} are cannot be told: say it by rename= (--rename OTHER=MODEL), for example {others[0]}={alike[0]}"
    )


def _unequal(first: Network, second: Network) -> str:
    """What differs in the numbers of arrays, or nothing."""
    counts = [sorted(math.prod(shape) for shape in net.shapes.values()) for net in (first, second)]
    if len(counts[0]) != len(counts[1]):
        return f"they have {len(counts[0])} and {len(counts[1])} arrays"
    for one, other in zip(*counts, strict=True):
        if one != other:
            net, size = (first, one) if counts[0].count(one) > counts[1].count(one) else (second, other)
            alike = [n for n, shape in net.shapes.items() if math.prod(shape) == size]
            lacks = second if net is first else first
            return (
                f"of {size:,} numbers are {', '.join(alike)} in {net.architecture.name}, and "
                f"{counts[0 if lacks is first else 1].count(size) or 'no'} arrays in {lacks.architecture.name}"
            )
    return ""


def _sizes(first: Network, second: Network) -> tuple[dict[str, int], dict[str, int]] | str:
    """Sizes of all axes, at which the inputs have equal shapes; or why there are none."""
    inputs = first.architecture.inputs, second.architecture.inputs
    if [s.kind for s in inputs[0]] != [s.kind for s in inputs[1]]:
        told = [", ".join(f"{s.name} ({s.kind})" for s in own) or "nothing" for own in inputs]
        return f"the first reads {told[0]}, the second {told[1]}"
    free = iter(_FREE)
    sizes = dict(first.sizes), dict(second.sizes)
    for spec, other in zip(*inputs, strict=True):
        if len(spec.axes) != len(other.axes):
            return f"the inputs {spec.name} and {other.name} have {len(spec.axes)} and {len(other.axes)} axes"
        for axes in zip(spec.axes, other.axes, strict=True):
            lengths = [_length(axis, known) for axis, known in zip(axes, sizes, strict=True)]
            length = next((n for n in lengths if n is not None), None) or next(free, 9)
            for axis, known in zip(axes, sizes, strict=True):
                unknown = [factor for factor in axis if isinstance(factor, str) and factor not in known]
                if len(unknown) == 1 and not length % (_length([f for f in axis if f not in unknown], known) or 1):
                    known[unknown[0]] = length // (_length([f for f in axis if f not in unknown], known) or 1)
        if spec.shape(sizes[0]) != other.shape(sizes[1]):
            shapes = spec.shape(sizes[0]), other.shape(sizes[1])
            return f"the inputs {spec.name} and {other.name} have shapes {shapes[0]} and {shapes[1]}"
        if spec.kind == "tokens" and spec.bound(sizes[0]) != other.bound(sizes[1]):
            return (
                f"the tokens {spec.name} and {other.name} are below {spec.bound(sizes[0])} and {other.bound(sizes[1])}"
            )
    return sizes


def _length(axis: Sequence[Any], sizes: Mapping[str, int]) -> int | None:
    lengths = [factor if isinstance(factor, int) else sizes.get(factor) for factor in axis]
    return None if None in lengths else math.prod(n for n in lengths if n is not None)


def _marks(trace: Trace, points: Sequence[Sequence[Any]], given: Sequence[str]) -> Marks:
    """The outputs with one array changed, by its name; those whose counterpart is given differ from one another."""
    found: Marks = {spec.name: [] for spec in trace.params if spec.name not in given}
    for number, inputs in enumerate(points):
        base = {spec.name: _drawn(spec, trace, number, 1) for spec in trace.params}
        base |= {name: _drawn(_spec(trace, name), trace, number, 3 + place) for place, name in enumerate(given)}
        for name, mark in found.items():
            mark.extend(_outputs(trace, base | {name: _drawn(_spec(trace, name), trace, number, 2)}, inputs))
    return found


def _agree(traces: tuple[Trace, Trace], points: Sequence[Sequence[Any]], names: Mapping[str, str]) -> bool:
    """Whether the outputs are equal at random points, of which every array is its own."""
    outputs: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for number, inputs in enumerate(points):
        for trace, own, seen in zip(traces, (names.keys(), names.values()), outputs, strict=True):
            drawn = {n: _drawn(_spec(trace, n), trace, number, -1 - place) for place, n in enumerate(own)}
            seen.extend(_outputs(trace, drawn, inputs))
    return _equal(*outputs)


def _outputs(trace: Trace, params: Mapping[str, np.ndarray], inputs: Sequence[Any]) -> list[np.ndarray]:
    named = dict(zip((spec.name for spec in trace.inputs), inputs, strict=True))
    return numbers_at(trace, {"params": params, "inputs": named}, "params")


def _spec(trace: Trace, name: str) -> ArraySpec:
    return next(spec for spec in trace.params if spec.name == name)


def _drawn(spec: ArraySpec, trace: Trace, number: int, kind: int) -> np.ndarray:
    """The array of so many numbers that this draw has, in the shape of a parameter."""
    shape = spec.shape(trace.sizes)
    size = math.prod(shape)
    # a square matrix of these neither shrinks nor stretches, so that deep networks stay where they are sensitive
    array = _generator(number, kind, size).normal(scale=size**-0.25, size=size).reshape(shape)
    return np.abs(array) if number % 2 else array  # roots and logarithms are of positive numbers


def _generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([2**16 + n for n in seed])


def _equal(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> bool:
    """Whether outputs agree up to rounding, and at least one of them is a number."""
    seen = False
    for a, b in zip(one, other, strict=True):
        finite = np.isfinite(a) & np.isfinite(b)
        if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
            return False
        if finite.any():
            seen = True
            scale = float(np.max(np.abs(a[finite])))
            if np.max(np.abs(a[finite] - b[finite])) > _TOLERANCE * scale:
                return False
    return seen

"""A network of real size: random fields pushed through its derivative, and how many of them are independent."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from quotax.artifacts import Trace
from quotax.derive.floats import FLOATS, field_along
from quotax.derive.running import Running
from quotax.symmetry import Action, Arrays

FLAT = 1e-8
"""A field is called flat when the outputs move less than this, relative to the same field with random entries."""
SECONDS = 6.0
"""No further field is drawn after this long; compilation comes on top."""
WIDTH = 512
"""Coordinates that a field is hashed to before ranks are taken; at most this many minus 64 fields are drawn."""

_FAST = Arrays(
    einsum=lambda subscripts, *arrays: np.einsum(subscripts, *arrays, optimize=True),
    constant=FLOATS.constant,
    functions=FLOATS.functions,
    power=FLOATS.power,
    eye=FLOATS.eye,
)


@dataclass(frozen=True)
class Probe:
    """Random fields of all families at one random point: the largest relative |J v|; how many were independent."""

    flatness: float | None
    fields: int
    independent: int
    exhausted: bool
    skipped: int = 0

    def __str__(self) -> str:
        """One clause."""
        if not self.fields:
            return "no field to try"
        if self.flatness is None:
            return "outputs were not finite at random points"
        moved = f"{self.fields} random fields move the outputs by at most {self.flatness:.1e} of what others do"
        rank = f"{self.independent} of them are independent"
        count = " and no more were to be had" if self.exhausted else ""
        missed = f"; {self.skipped} families were not reached in time" if self.skipped else ""
        return f"{moved}, {rank}{count}{missed}"


def probe(trace: Trace, actions: Sequence[Action], seed: int = 5) -> Probe:
    """Randomised Jacobian products, one field in memory at a time.

    The first field v of each family is pushed forward: |J v| over |J w|, where w is v times a random number in each
    entry. All fields meet one cotangent u: |<J'u, v>| over |J'u| |v|, times the root of the number of parameters, which
    is about one for a random v. Ranks are taken of hashed fields (every parameter sent, with a sign, to one of `WIDTH`
    coordinates), which keeps fewer fields than coordinates independent with overwhelming probability.
    """
    rng = np.random.default_rng(seed)
    total = sum(Running(trace).sizes)
    with warnings.catch_warnings(), jax.enable_x64(True):
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(3):
            theta, inputs = _moderate(trace, rng), Running(trace).inputs(rng)
            push, pull = _products(trace, inputs)
            gradient = pull(theta, rng)
            if np.isfinite(gradient).all():
                break
        else:
            return Probe(None, 1, 0, False)
        bucket, sign = rng.integers(0, WIDTH, total), rng.choice(np.array([-1.0, 1.0]), total)
        started, worst, hashed, tried = time.monotonic(), 0.0, [], set()
        slope = float(np.linalg.norm(gradient))
        stream = _elements(actions, trace, rng)
        exhausted = True
        for which, first, xi in stream:
            late = time.monotonic() - started > SECONDS
            if late or len(hashed) >= WIDTH - 64:
                exhausted = False
                break
            field = field_along(actions[which], trace, theta, xi, _FAST)
            size = float(np.linalg.norm(field))
            if not size or not np.isfinite(size):
                continue
            tried.add(which)
            hashed.append(np.bincount(bucket, weights=sign * field, minlength=WIDTH) / size)
            if slope:
                worst = max(worst, abs(float(gradient @ field)) * np.sqrt(total) / (slope * size))
            if first:
                moved = float(np.linalg.norm(push(theta, field)))
                other = float(np.linalg.norm(push(theta, field * rng.normal(size=total))))
                worst = max(worst, moved / other if other else float(moved > 0))
    values = np.linalg.svd(np.array(hashed), compute_uv=False) if hashed else np.zeros(0)
    independent = int(np.sum(values > 1e-9 * values.max(initial=1e-300)))
    return Probe(worst, len(hashed), independent, exhausted, len(actions) - len(tried) if not exhausted else 0)


def _elements(
    actions: Sequence[Action], trace: Trace, rng: np.random.Generator
) -> Iterator[tuple[int, bool, np.ndarray]]:
    """Random algebra elements, one of each family in turn, until every family has had more than its dimension."""
    shapes = [a.group.coordinate_shape(trace.sizes) for a in actions]
    counts = [int(np.prod(s, dtype=np.int64)) for s in shapes]
    for turn in range(max(counts, default=0) + 2):
        for which, (action, shape, count) in enumerate(zip(actions, shapes, counts, strict=True)):
            if count and turn < count + 2:
                yield (
                    which,
                    not turn,
                    np.asarray(action.group.algebra(jnp.asarray(rng.normal(size=shape)), trace.sizes)),
                )


def _moderate(trace: Trace, rng: np.random.Generator) -> np.ndarray:
    """Random parameters at which a wide network neither saturates nor vanishes: fan-in scaling."""
    parts = []
    for spec in trace.params:
        shape = spec.shape(trace.sizes)
        fan = max(shape) if len(shape) > 1 else 1
        parts.append(rng.normal(size=int(np.prod(shape, dtype=np.int64))) / np.sqrt(fan))
    return np.concatenate(parts)


def _products(trace: Trace, inputs: list[np.ndarray]) -> tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]:
    """J v and J'u at one input, compiled once."""
    outputs = Running(trace)._outputs

    def run(theta: jax.Array) -> jax.Array:
        return outputs(theta, *inputs)

    forward = jax.jit(lambda theta, v: jax.jvp(run, (theta,), (v,))[1])
    backward = jax.jit(lambda theta, u: jax.vjp(run, theta)[1](u)[0])

    def pull(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        count = jax.eval_shape(run, jax.ShapeDtypeStruct(theta.shape, jnp.float64)).shape
        return np.asarray(backward(theta, rng.normal(size=count)))

    return lambda theta, v: np.asarray(forward(theta, v)), pull

"""The model as a float64 function of flat parameters, for what exact arithmetic does not answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quotax.artifacts import Trace
from quotax.derive.points.where_defined import ANYWHERE, Places, defined
from quotax.interpret.random_inputs import random_input
from quotax.interpret.reals import real_function
from quotax.programs.compiling import SMALL, once

GAP = 1e3
"""Singular values on the two sides of a stated rank differ by at least this factor."""
ULPS = 8
"""A nudge changes every number by about this many units in its last place: what changes with it is rounding."""
BATCH = 32
"""Inputs whose derivatives are taken at once."""
MOST_POINTS = 200
"""Points at which a rank is taken at most: on open sets of parameters a ReLU network has flat directions of its own."""
STEADY = 6
"""When this many points have the same rank with a clear gap, and no other has more, no further point is looked at."""
NARROW = 0.3
"""At every other point, biases are this much smaller: kinks then lie where inputs are, and more patterns occur."""
WORK = 2_000_000_000
"""Parameters cubed times points: the more parameters, the fewer points, but never fewer than three."""
TOGETHER = 64
"""Points at which a value is taken at once, where many are asked for."""
FEW = 24
"""So few are taken one by one: nothing more is traced for them."""
FAINT = 1e-100
"""Of a row of length one, smaller entries are zero."""
REDRAWN = 8
"""How often a point is drawn anew where the model is not defined."""


class Rank(NamedTuple):
    """The largest rank over several points, the ratio of singular values there, and which columns moved anywhere."""

    value: int
    gap: float
    points: int
    moving: np.ndarray


def _parts(out: jax.Array) -> tuple[jax.Array, ...]:
    return (out.real, out.imag) if jnp.iscomplexobj(out) else (out,)


class FloatModel:
    """One trace as the real function that it means, in float64: casts and stopped gradients are read away."""

    def __init__(self, trace: Trace) -> None:
        """Nothing is traced yet."""
        self.trace = trace
        self.shapes = [spec.shape(trace.sizes) for spec in trace.params]
        self.sizes = [int(np.prod(shape, dtype=np.int64)) for shape in self.shapes]
        run = real_function(trace.written)

        def outputs(theta: jax.Array, *inputs: jax.Array) -> jax.Array:
            parts = jnp.split(theta, np.cumsum(self.sizes)[:-1])
            params = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
            reals = [part for out in run(*params, *inputs) for part in _parts(out)]
            return jnp.concatenate([jnp.ravel(part).astype(jnp.float64) for part in reals])

        def both(theta: jax.Array, *inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
            return outputs(theta, *inputs), jax.jacrev(outputs)(theta, *inputs)

        self.outputs: Callable[..., jax.Array] = outputs
        over = (None, *(0 for _ in trace.inputs))
        together = jax.vmap(both, in_axes=over, axis_size=BATCH)
        self._outputs = once(lambda _, *arrays: outputs(*arrays))
        self._both = once(lambda _, *arrays: together(*arrays))
        beside = jax.vmap(outputs, in_axes=(0, *(None for _ in trace.inputs)))
        self._beside = once(lambda _, *arrays: beside(*arrays))

    # --- points

    def point(self, rng: np.random.Generator, places: Places = ANYWHERE, scale: float = 1.0) -> np.ndarray:
        """Random parameters; `scale` is that of vectors and scalars."""
        parts = []
        for spec, size in zip(self.trace.params, self.sizes, strict=True):
            values = places.drawn(spec.name, rng.normal(size=size))
            parts.append(values if len(spec.axes) > 1 else scale * values)
        return np.concatenate(parts)

    def inputs(self, rng: np.random.Generator, places: Places = ANYWHERE) -> list[np.ndarray]:
        """Random inputs of the kinds that the model declares."""
        real = lambda spec: lambda shape: places.drawn(spec.name, 1.5 * rng.normal(size=shape))
        return [random_input(spec, self.trace.sizes, rng, real(spec)) for spec in self.trace.inputs]

    @cached_property
    def smooth(self) -> Places | None:
        """Where every output has a derivative at some of many inputs, or None."""
        rng = np.random.default_rng(2)

        def share(places: Places) -> float:
            return float(self.derivatives(self.point(rng, places), rng, places)[1].any(axis=0).mean())

        return defined(share, *self._names())

    @cached_property
    def valued(self) -> Places | None:
        """Where every output is a number at each of a few inputs, or None: as `smooth`, with nothing more compiled."""
        rng = np.random.default_rng(2)

        def share(places: Places) -> float:
            theta = self.point(rng, places)
            return float(np.mean([~np.isnan(self(theta, self.inputs(rng, places))) for _ in range(4)]))

        return defined(share, *self._names())

    def _names(self) -> tuple[list[str], list[str]]:
        return [s.name for s in self.trace.params], [s.name for s in self.trace.inputs if not s.discrete]

    # --- values and derivatives

    def __call__(self, theta: np.ndarray, inputs: list[np.ndarray]) -> np.ndarray:
        """All outputs, flat."""
        with jax.enable_x64(True):
            return np.asarray(self._outputs(None, theta, *inputs))

    def at_many(self, thetas: Sequence[np.ndarray] | np.ndarray, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """The outputs at many points, all at the same inputs."""
        count = int(np.clip(SMALL // (2 * max(sum(self.sizes), 1)), 1, TOGETHER))
        if len(thetas) <= FEW or count == 1:
            return [self(theta, inputs) for theta in thetas]
        out: list[np.ndarray] = []
        for start in range(0, len(thetas), count):
            here = list(thetas[start : start + count])
            with jax.enable_x64(True):
                found = np.asarray(self._beside(None, np.stack([*here, *here[:1] * (count - len(here))]), *inputs))
            out += list(found[: len(here)])
        return out

    def named(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Arrays by name as one flat vector."""
        return np.concatenate([np.asarray(arrays[s.name], np.float64).reshape(-1) for s in self.trace.params])

    def derivatives(
        self, theta: np.ndarray, rng: np.random.Generator, places: Places = ANYWHERE
    ) -> tuple[np.ndarray, np.ndarray]:
        """The derivatives of all outputs `(inputs, outputs, parameters)` at random inputs, and which are to be had."""
        return self._derivatives(theta, self._drawn(rng, places))

    def _drawn(self, rng: np.random.Generator, places: Places) -> list[np.ndarray]:
        drawn = [self.inputs(rng, places) for _ in range(BATCH)]
        return [np.stack(column) for column in zip(*drawn, strict=True)]

    def _derivatives(self, theta: np.ndarray, inputs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        with jax.enable_x64(True):
            values, jacobian = (np.asarray(a) for a in self._both(None, theta, *inputs))
        return jacobian, np.isfinite(jacobian).all(axis=-1) & ~np.isnan(values)

    def matrix(
        self, theta: np.ndarray, rng: np.random.Generator, places: Places = ANYWHERE
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Rows of unit length that span the derivatives at a point, and the columns that are more than rounding.

        None where some output has no derivative at any input. A column that changes by about itself when all numbers
        are nudged by a few units in the last place is rounding, however small or large it is: it is set to zero.
        """
        total = len(theta)
        rows: list[np.ndarray] = []
        seen, moving = np.zeros(0, bool), np.ones(total, bool)
        while sum(map(len, rows)) < 4 * total + 40 and len(rows) < 400:
            inputs = self._drawn(rng, places)
            jacobian, good = self._derivatives(theta, inputs)
            if not rows:
                moving = self._moving(theta, inputs, jacobian, good, rng)
            seen = np.any(np.stack([*([seen] if rows else []), *good]), axis=0)
            rows.append(jacobian[good])
            if not self.trace.inputs or not jacobian.size or (len(rows) > 3 and not any(map(len, rows))):
                break
        if not seen.all():
            return None
        matrix = np.where(moving, np.concatenate(rows), 0.0)
        scale = np.linalg.norm(matrix, axis=1, keepdims=True)
        keep = scale[:, 0] > 1e-9 * scale.max(initial=0.0)
        matrix = matrix[keep] / scale[keep]
        matrix[np.abs(matrix) < FAINT] = 0.0  # numbers that are nearly no floats are slow, and change no rank
        if len(matrix) > 6 * total + 60:  # an orthogonal factor does not change singular values
            matrix = np.asarray(np.linalg.qr(matrix, mode="r"))
        return matrix, moving

    def _moving(
        self,
        theta: np.ndarray,
        inputs: list[np.ndarray],
        jacobian: np.ndarray,
        good: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        specs = self.trace.inputs
        beside = [x if spec.discrete else nudged(x, rng) for spec, x in zip(specs, inputs, strict=True)]
        nearby, also = self._derivatives(nudged(theta, rng), beside)
        both = good & also
        size, change = np.abs(jacobian[both]), np.abs(nearby[both] - jacobian[both])
        if not len(size):
            return np.ones(len(theta), bool)
        return change.max(axis=0) < 0.05 * size.max(axis=0)

    def rank(self, rng: np.random.Generator, most: int | None = None) -> Rank | None:
        """The largest rank over several points; None when the model is defined at none.

        `most` bounds the rank from above: once it is reached, no further point is looked at.
        """
        places = self.smooth
        if places is None:
            return None
        total = sum(self.sizes)
        ranks: list[tuple[int, float]] = []
        moving = np.zeros(total, bool)
        for turn in range(int(np.clip(WORK // max(total, 1) ** 3, 3, MOST_POINTS))):
            found = self._somewhere(rng, places, NARROW if turn % 2 else 1.0)
            if found is None:
                continue
            moving |= found[1]
            ranks.append(counted(np.linalg.svd(found[0], compute_uv=False)))
            reached = max(value for value, _ in ranks) >= (total if most is None else most)
            clear = [value for value, gap in ranks if gap > GAP]
            steady = len(clear) >= STEADY and min(clear) == max(value for value, _ in ranks)
            # What does not move at one point, a dead unit, may move at another.
            if (reached and (moving.all() or turn > 1)) or steady:
                break
        if not ranks:
            return None
        best = max(value for value, _ in ranks)
        return Rank(best, float(min(gap for value, gap in ranks if value == best)), len(ranks), moving)

    def _somewhere(
        self, rng: np.random.Generator, places: Places, scale: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray] | None:
        for _ in range(REDRAWN):
            found = self.matrix(self.point(rng, places, scale), rng, places)
            if found is not None:
                return found
        return None


def counted(values: np.ndarray) -> tuple[int, float]:
    """How many singular values are not rounding, and the ratio of those on the two sides."""
    if not len(values) or values[0] == 0:
        return 0, np.inf
    floor = np.append(np.maximum(values, values[0] * 1e-17), values[0] * 1e-16)
    found = int(np.sum(values > values[0] * 1e-9))
    return found, floor[found - 1] / floor[found]


def nudged(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same numbers, a few units in the last place away."""
    return theta * (1 + ULPS * np.finfo(float).eps * rng.uniform(-1, 1, theta.shape))

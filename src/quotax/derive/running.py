"""The model as a float64 function of flat parameters, for what exact arithmetic does not answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from quotax.artifacts import Trace

GAP = 1e3
"""Singular values on the two sides of a stated rank differ by at least this factor."""


class Running:
    """One trace, compiled in float64."""

    def __init__(self, trace: Trace) -> None:
        """Nothing is compiled yet."""
        self.trace = trace
        self.shapes = [spec.shape(trace.sizes) for spec in trace.params]
        self.sizes = [int(np.prod(shape, dtype=np.int64)) for shape in self.shapes]
        run = jaxpr_as_fun(trace.jaxpr)

        def outputs(theta: jax.Array, *inputs: jax.Array) -> jax.Array:
            parts = jnp.split(theta, np.cumsum(self.sizes)[:-1])
            params = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
            return jnp.concatenate([jnp.ravel(out).astype(jnp.float64) for out in run(*params, *inputs)])

        self._outputs = jax.jit(outputs)
        self._jacobian: Callable[..., Any] = jax.jit(
            jax.vmap(jax.jacrev(outputs), in_axes=(None, *(0 for _ in trace.inputs)))
        )

    def point(self, rng: np.random.Generator) -> np.ndarray:
        """Random parameters."""
        return rng.normal(size=sum(self.sizes))

    def inputs(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Random inputs of the kinds that the model declares."""
        out = []
        for spec in self.trace.inputs:
            shape = spec.shape(self.trace.sizes)
            if spec.kind == "tokens":
                bound = spec.below if isinstance(spec.below, int) else self.trace.sizes[spec.below or ""]
                out.append(rng.integers(0, bound, shape).astype(np.int32))
            elif spec.kind == "mask":
                out.append(rng.integers(0, 2, shape).astype(np.float64))
            else:
                out.append(1.5 * rng.normal(size=shape))
        return out

    def __call__(self, theta: np.ndarray, inputs: list[np.ndarray]) -> np.ndarray:
        """All outputs, flat."""
        with jax.enable_x64(True):
            return np.asarray(self._outputs(theta, *inputs))

    def named(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Arrays by name as one flat vector."""
        return np.concatenate([np.asarray(arrays[s.name], np.float64).reshape(-1) for s in self.trace.params])

    def singular_values(self, rng: np.random.Generator) -> np.ndarray:
        """Of the derivative of all outputs at enough inputs, by the parameters, at one random point."""
        theta, total = self.point(rng), sum(self.sizes)
        rows: list[np.ndarray] = []
        per_input, batch = 1, 32
        while sum(map(len, rows)) < 4 * total + 40 and len(rows) < 400:
            drawn = [self.inputs(rng) for _ in range(batch)]
            with jax.enable_x64(True):
                jacobian = np.asarray(self._jacobian(theta, *(np.stack(column) for column in zip(*drawn, strict=True))))
            jacobian = jacobian.reshape(-1, total)
            rows.append(jacobian[np.isfinite(jacobian).all(axis=1)])
            per_input = jacobian.shape[0] // batch
            if not self.trace.inputs:
                break
        matrix = np.concatenate(rows)
        if len(matrix) > 6 * total + 60 and per_input:  # an orthogonal factor does not change singular values
            matrix = np.linalg.qr(matrix, mode="r")
        scale = np.linalg.norm(matrix, axis=1, keepdims=True)
        keep = scale[:, 0] > 1e-9 * scale.max(initial=0.0)
        return np.linalg.svd(matrix[keep] / scale[keep], compute_uv=False) if keep.any() else np.zeros(0)

    def rank(self, rng: np.random.Generator, points: int = 3) -> tuple[int, float]:
        """The largest rank over several points, and the smallest ratio of the singular values on its two sides."""
        best, gap = 0, np.inf
        for _ in range(points):
            values = self.singular_values(rng)
            if not len(values) or values[0] == 0:
                continue
            floor = np.maximum(values, values[0] * 1e-17)
            padded = np.append(floor, values[0] * 1e-16)
            found = int(np.sum(values > values[0] * 1e-9))
            ratio = padded[found - 1] / padded[found] if found < len(padded) else np.inf
            if found > best:
                best, gap = found, ratio
            elif found == best:
                gap = min(gap, ratio)
        return best, float(gap)

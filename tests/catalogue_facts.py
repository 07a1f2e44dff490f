"""Facts of the catalogue, without `derive`: the corank of a dense Jacobian, by JAX and NumPy alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.trees import nest


def inputs(model: Any, sizes: Mapping[str, int], rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Random inputs, `count` of each."""
    out = []
    for spec in model.inputs:
        shape = (count, *spec.shape(sizes))
        if spec.kind == "tokens":
            out.append(rng.integers(0, spec.bound(sizes), shape))
        elif spec.kind == "mask":
            out.append(rng.integers(0, 2, shape).astype(float))
        else:
            values = rng.normal(size=shape)
            out.append(np.abs(values) + 0.5 if spec.kind == "positive" else 2 * values)
    return out


def flat_by_jacobian(model: Any, sizes: Mapping[str, int], seeds: int = 12) -> tuple[int, float]:
    """Parameters minus the largest rank at a few random points, and the ratio of singular values that decides it."""
    shapes = {spec.name: spec.shape(sizes) for spec in model.params}
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    total = int(ends[-1])

    def outputs(theta: Any, *xs: Any) -> Any:
        parts = zip(shapes.items(), jnp.split(theta, ends[:-1]), strict=True)
        params = nest({name: part.reshape(shape) for (name, shape), part in parts})
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(model.call(params, *xs, sizes=sizes))])

    derivative = jax.jit(jax.vmap(jax.jacrev(outputs), (None, *(0 for _ in model.inputs))))
    best = (-1, 1.0)
    for seed in range(seeds):
        rng = np.random.default_rng([7, seed])
        theta = np.abs(rng.normal(size=total)) if seed == 0 else rng.normal(size=total)
        once = inputs(model, sizes, rng, 8)
        width = np.asarray(derivative(theta, *once)).shape[1] if model.inputs else 1
        rows = np.asarray(derivative(theta, *inputs(model, sizes, rng, max(100, 6 * total // width))))
        rows = rows.reshape(-1, total)
        rows = rows[np.isfinite(rows).all(axis=1)]
        rows = rows / (np.abs(rows).max(axis=1, keepdims=True) + 1e-300)
        values = np.linalg.svd(rows, compute_uv=False)
        values = np.concatenate([values, np.zeros(max(total - len(values), 0))])[:total]
        rank = int((values > 1e-11 * values[0]).sum())
        gap = values[rank - 1] / max(values[rank], 1e-300) if rank < total else math.inf
        best = max(best, (rank, gap))
    return total - best[0], best[1]

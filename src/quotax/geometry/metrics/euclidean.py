"""The Euclidean metric: `A = 1`. Invariant under orthogonal actions and shifts only."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from quotax.geometry.canonical.orientation import orientation
from quotax.geometry.curvature.riemann import flat_sectional, flat_tensor
from quotax.geometry.curvature.transport import Line, flat_derivative, flat_drift, transported
from quotax.geometry.families.component import components
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.geometry.metrics.metric import Metric, Oriented, less
from quotax.geometry.paths.path import Path, straight
from quotax.geometry.projection.vertical import Factors, factors_at, horizontal, left_vertical, vertical


class Euclidean(Metric[Factors]):
    """The sum of the products of all entries."""

    name = "euclidean"
    euclidean = True

    def __init__(self, families: Sequence[Family]) -> None:
        """Group the families by the parameters they share."""
        self.parts = components(families)
        self.families = tuple(families)

    def oriented(self, data: Factors) -> Oriented:
        """The parameters' own coordinates follow what shifts them; they stay where others turn the parameters."""
        turning = orientation(self.families)
        why = "it turns the parameters' own coordinates, which those of metric='invariant' would follow"
        blocks = (*turning.permutations, *(stage.block for stage in turning.stages))
        loose = {block.name: why for block in blocks}
        return Oriented(data, jnp.ones(()), {**loose, **turning.loose})

    def prepare(self, arrays: Named) -> Factors:
        """The factored Gram operators."""
        return factors_at(self.parts, arrays)

    def whiten(self, data: Factors, arrays: Named, v: Named) -> Named:
        """Nothing to do."""
        return v

    def unwhiten(self, data: Factors, arrays: Named, e: Named) -> Named:
        """Nothing to do."""
        return e

    def vertical(self, data: Factors, arrays: Named, v: Named) -> Named:
        """By the factored Gram operators."""
        return vertical(self.parts, data, arrays, v)

    def horizontal(self, data: Factors, arrays: Named, v: Named) -> Named:
        """Without touching the parameters that nothing moves."""
        return horizontal(self.parts, data, arrays, v)

    def verticality(self, data: Factors, arrays: Named, v: Named) -> jax.Array:
        """From the pairings with all generators."""
        return left_vertical(self.parts, data, arrays, v)

    def sharp(self, data: Factors, arrays: Named, covector: Named) -> Named:
        """Nothing to do."""
        return covector

    def gradient(self, data: Factors, arrays: Named, covector: Named) -> Named:
        """The projection."""
        return self.horizontal(data, arrays, covector)

    def path(self, data: Factors, arrays: Named, v: Named, *, forward: bool = False) -> Path:
        """A straight line."""
        return straight(arrays, v)

    def reach(self, data: Factors, arrays: Named) -> jax.Array:
        """It never leaves."""
        return jnp.full((), jnp.inf, jnp.result_type(*arrays.values()))

    def curvature(self, data: Factors, arrays: Named, x: Named, y: Named, z: Named) -> Named:
        """By O'Neill's formula."""
        return flat_tensor(self.parts, arrays, x, y, z)

    def sectional(self, data: Factors, arrays: Named, x: Named, y: Named) -> jax.Array:
        """By O'Neill's formula."""
        return flat_sectional(self.parts, arrays, x, y)

    def _curvature_change(self, data: Factors, arrays: Named, h: Named, x: Named, y: Named, z: Named) -> Named:
        change = flat_derivative(self.parts, arrays, h, x, y, z)
        return less(change, self.vertical(data, arrays, change))

    def _transported(self, data: Factors, arrays: Named, direction: Named, v: Named) -> Named:
        return transported(Line(), (arrays, direction), v, functools.partial(flat_drift, self.parts))

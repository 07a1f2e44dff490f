r"""The row space of a Jacobian: its singular values, and the least horizontal step that has a wanted effect.

Steps are flat vectors in horizontal orthonormal coordinates, where lengths are the ordinary ones. With $E$ the rows of
the Jacobian in these, $E E^T = J P_H G^{-1} J^T = U s^2 U^T$. It is written out where it is small, so that singular
values are exact to rounding; else known by the products of its rows, which lose what is below the square root of that.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from quotax.function_space.coordinates import displaced, whitened
from quotax.function_space.jacobian import Jacobian
from quotax.trees import AnyPoint, Tree

WRITTEN = 2**25
"""Rows of so many numbers in all are written out."""
_HALF = 4 * float(np.finfo(float).eps) ** 0.5
"""Half of the digits of float64: the damping is the square."""


@dataclass(frozen=True)
class RowSpace:
    """Tangent directions that outputs see, with the metric of a point (None: Euclidean)."""

    jacobian: Jacobian
    point: AnyPoint = None

    # --- steps

    def tree(self, step: np.ndarray) -> Tree:
        """A step as a tangent vector, shaped like the parameters."""
        leaves, tree = jax.tree.flatten(self.jacobian.params)
        parts = np.split(step, np.cumsum([leaf.size for leaf in leaves])[:-1])
        shaped = [jnp.asarray(part.reshape(a.shape), a.dtype) for part, a in zip(parts, leaves, strict=True)]
        return displaced(self.point, jax.tree.unflatten(tree, shaped))

    def step(self, covector: Tree) -> np.ndarray:
        """The step that a covector stands for: its gradient among horizontal directions."""
        lifted = whitened(self.point, jax.tree.map(lambda leaf: leaf[None], covector))
        return np.concatenate([np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(lifted)])

    def moved(self, step: np.ndarray) -> RowSpace:
        """The same examples after a step, with the directions and lengths of before."""
        there = jax.tree.map(jnp.add, self.jacobian.params, self.tree(step))
        return RowSpace(self.jacobian.at(there), self.point)

    def outputs(self) -> np.ndarray:
        """All outputs, flat."""
        return np.asarray(self.jacobian.outputs(), float).ravel()

    def effect(self, step: np.ndarray) -> np.ndarray:
        """`E v`: how a step moves the outputs, to first order."""
        if self.written:
            return self.rows @ step
        return np.asarray(self.jacobian.push(self.tree(step)), float).ravel()

    def pulled(self, w: np.ndarray) -> np.ndarray:
        """`E^T w`, a step."""
        return w @ self.rows if self.written else self.step(self.jacobian.pull(self._shaped(w)))

    def twisted(self, w: np.ndarray, step: np.ndarray) -> np.ndarray:
        """The derivative of `E^T w` along a step: how the outputs bend."""
        return self.step(self.jacobian.twist(self._shaped(w), self.tree(step)))

    def _shaped(self, w: np.ndarray) -> jax.Array:
        return jnp.asarray(w.reshape(self.jacobian.shape), self.jacobian.output.dtype)

    # --- the space

    @property
    def written(self) -> bool:
        """Whether the rows are written out."""
        return self.jacobian.rows * self.jacobian.columns <= WRITTEN

    @property
    def cutoff(self) -> float:
        """Singular values below this share of the largest are not worth a step.

        Rows are exact to `eps`, their products too; what is computed here is computed in float64.
        """
        eps = self.jacobian.eps
        return max(16 * eps, _HALF) if self.written else 4 * eps**0.5

    @property
    def floor(self) -> float:
        """Singular values below this share count as zero: the directions of larger ones are exact to as much."""
        return 4 * self.jacobian.eps ** (0.5 if self.written else 0.25)

    @functools.cached_property
    def rows(self) -> np.ndarray:
        """E, written out."""
        return self.jacobian.coordinates(self.point)

    @functools.cached_property
    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """U, and the singular values, descending."""
        if self.written:
            left, values, _ = self._decomposed
            return left, values
        gram = self.jacobian.gram(point=self.point, horizontal=True).astype(float)
        squares, left = np.linalg.eigh(gram)
        return left[:, ::-1], np.sqrt(np.maximum(squares[::-1], 0))

    @functools.cached_property
    def rank(self) -> int:
        """Its dimension."""
        values = self.factors[1]
        return int(np.sum(values > self.floor * values[0])) if values[0] > 0 else 0

    @property
    def damping(self) -> float:
        """The weight of a step's length beside the squares of what it misses, where that is to matter least."""
        return float((self.cutoff * self.factors[1][0]) ** 2)

    def weights(self, wanted: np.ndarray, damping: float) -> np.ndarray:
        """The c for which the step `E^T c` minimises `|E v - wanted|^2 + damping |v|^2`."""
        if self.written and "factors" not in self.__dict__:
            from scipy.linalg import LinAlgError, cho_factor, cho_solve

            try:
                return cho_solve(cho_factor(self._gram + damping * np.eye(len(wanted))), wanted)
            except LinAlgError:
                pass
        left, values = self.factors
        total = values**2 + damping
        return left @ np.divide(left.T @ wanted, total, out=np.zeros_like(total), where=total > 0)

    # --- two of them

    def angles(self, other: RowSpace) -> np.ndarray:
        """Principal angles, ascending: cosines are the singular values of `V^T V'` of orthonormal bases."""
        if not min(self.rank, other.rank):
            return np.zeros(0)
        if self.written and other.written:
            from scipy.linalg import subspace_angles

            bases = (space._decomposed[2][: space.rank].T for space in (self, other))
            return np.sort(subspace_angles(*bases))
        left, right = self._reduced, other._reduced
        cosines = np.linalg.svd(left.T @ self.products(other) @ right, compute_uv=False)
        return np.arccos(np.clip(cosines, 0, 1))

    def products(self, other: RowSpace) -> np.ndarray:
        """`E E'^T`."""
        if self.written and other.written:
            return self.rows @ other.rows.T
        return self.jacobian.gram(other.jacobian, self.point, horizontal=True).astype(float)

    def beside(self, other: RowSpace, effect: np.ndarray) -> float:
        """The length of the least step with this effect here and none there, to first order; infinite if none has."""
        if self.written and other.written:
            basis = other._decomposed[2][: other.rank]
            left, values, _ = np.linalg.svd(self.rows - self.rows @ basis.T @ basis, full_matrices=False)
        else:
            shared = self.products(other) @ other._reduced
            squares, left = np.linalg.eigh(self.jacobian.gram(point=self.point, horizontal=True) - shared @ shared.T)
            values = np.sqrt(np.maximum(squares, 0))
        parts, seen = left.T @ effect, values > self.floor * self.factors[1][0]
        if np.linalg.norm(parts[~seen]) > 1e2 * self.floor * np.linalg.norm(effect):
            return float("inf")
        return float(np.linalg.norm(parts[seen] / values[seen]))

    @functools.cached_property
    def _gram(self) -> np.ndarray:
        return self.rows @ self.rows.T

    @functools.cached_property
    def _decomposed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.linalg.svd(self.rows, full_matrices=False)

    @functools.cached_property
    def _reduced(self) -> np.ndarray:
        """`U s^-1` of the singular values that count: `E^T` of it is an orthonormal basis."""
        left, values = self.factors
        return left[:, : self.rank] / values[: self.rank]

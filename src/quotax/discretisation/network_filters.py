r"""The filters of early stopping and weight decay at a minimum of a network, on its quotient Hessian.

Near a minimum $\theta^*$ the loss is $\tfrac12 \langle \delta, H \delta \rangle$ to second order in
$\delta = \theta - \theta^*$. With $H v_i = \lambda_i G v_i$ in a metric G and $c_i = \langle \delta_0, v_i \rangle_G$

- t steps of $\theta \leftarrow \theta - \eta\, G^{-1} \nabla L$ leave $(1 - \eta \lambda_i)^t c_i$ of each mode,
- the minimum of $L + \tfrac\alpha2 |\theta - \theta_0|_G^2$ has $\tfrac{\alpha}{\lambda_i + \alpha} c_i$ left,

one minus the filter of the eigenvalue, up to $O(|\delta|^2)$. Along the orbit H is zero, nothing is learned, and what
the start has of it stays: the modes that are learned are horizontal, those of the quotient. In the Euclidean metric
these are plain steps; in another one steps of `space.gradient`, which see other eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from quotax.checks import finite_params
from quotax.discretisation.spectral_filters import Filter
from quotax.errors import DiscretisationError
from quotax.presenting import Result
from quotax.presenting.drawing import QUIET, Axes, drawn
from quotax.trees import AnySpace, Tree

CALL = "quotax.filtered_modes"
NEAR = 0.1
"""The gradient at a minimum, over what the start would have of it there."""


class HessianModes(Protocol):
    """Eigenpairs of the Hessian, as `quotax.spectrum` has them."""

    @property
    def values(self) -> np.ndarray:
        """The eigenvalues."""
        ...

    @property
    def vectors(self) -> list[Tree]:
        """The eigenvectors, of length one in the metric."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class FilteredModes(Result):
    """What training leaves of each mode of the Hessian at a minimum, predicted.

    Attributes:
        values: the eigenvalues, as they were given.
        learned: the filter at each.
        start: the component of the start along each.
        left: the component that is predicted to be left.
        along_orbit: the size of the part of the start that is along the orbit, and stays; None without a space.
        other: the size of what is in no mode that was given, and not along the orbit: predicted to stay, which is true
            where its eigenvalues are nothing.
        off_minimum: the size of the gradient at the minimum, over that of the Hessian times the start.
        params: the predicted parameters.
    """

    values: np.ndarray
    learned: np.ndarray
    start: np.ndarray
    left: np.ndarray
    along_orbit: float | None
    other: float
    off_minimum: float
    params: Tree = field(repr=False)
    _minimum: Tree = field(repr=False, compare=False)
    _vectors: tuple[Tree, ...] = field(repr=False, compare=False)
    _space: Any = field(repr=False, compare=False)

    def measured(self, params: Tree) -> np.ndarray:
        """The components of other parameters along the modes: what training did leave."""
        return _components(self._space, self._minimum, _less(params, self._minimum), self._vectors)

    def __str__(self) -> str:
        """A few readable lines."""
        stays = "" if self.along_orbit is None else f", {self.along_orbit:.4g} along the orbit stays"
        shown = ", ".join(
            f"{value:.4g}: {share:.4g}" for value, share in zip(self.values[:6], self.learned[:6], strict=True)
        )
        more = f", and {len(self.values) - 6} more" if len(self.values) > 6 else ""
        return f"learned of the modes {shown}{more}; {self.other:.4g} in no mode that is known{stays}"

    def plot(self, params: Tree | None = None, ax: Axes | None = None) -> Axes:
        """What is left of each mode, over what it began with, by eigenvalue; of trained `params` too."""
        with drawn(ax, "filtered.plot()") as (ax, look):
            ax.semilogx(self.values, 1 - self.learned, **look | {"marker": ""}, label="predicted")
            if params is not None:
                seen = np.abs(self.start) > 0
                ratio = self.measured(params)[seen] / self.start[seen]
                ax.semilogx(self.values[seen], ratio, "o", color=QUIET, ms=3, label="measured")
            ax.set_xlabel("eigenvalue of the quotient Hessian")
            ax.set_ylabel("left of the mode")
        return ax


def filtered_modes(
    loss: Callable[[Tree], Any],
    minimum: Tree,
    start: Tree,
    learned: Filter,
    modes: HessianModes,
    *,
    space: AnySpace | None = None,
) -> FilteredModes:
    """What early stopping or weight decay leaves of a displacement from a minimum of a network, to first order in it.

    Args:
        loss: `loss(params)`.
        minimum: where its gradient is zero.
        start: where training starts, near the minimum, and what weight decay pulls towards.
        learned: `quotax.early_stopping`, `quotax.weight_decay`, `quotax.flow_until`, or a function of eigenvalues.
        modes: eigenpairs at the minimum: `quotax.spectrum(loss, minimum, k, space=space)`.
        space: the quotient that the modes are of; its metric says which steps are meant.

    Example:
        >>> import jax.numpy as jnp, quotax as qx
        >>> loss, best = lambda p: jnp.sum(jnp.array([1.0, 2.0]) * (p - 1) ** 2) / 2, jnp.ones(2)
        >>> modes = qx.spectrum(loss, best, k=2, which="top")
        >>> found = filtered_modes(loss, best, jnp.zeros(2), qx.early_stopping(0.5, 1), modes)
        >>> found.learned.round(4), found.params
        (array([1. , 0.5]), Array([0.5, 1. ], dtype=float32))
    """
    minimum, start = finite_params(CALL, minimum), finite_params(CALL, start)
    shapes = [jax.tree.map(np.shape, tree) for tree in (minimum, start)]
    if shapes[0] != shapes[1]:
        raise DiscretisationError(
            f"`{CALL}` needs minimum and start to be parameters of one network, got shapes {shapes[0]} and {shapes[1]}."
        )
    vectors = getattr(modes, "vectors", None)
    if not vectors or len(vectors) != np.size(getattr(modes, "values", ())):
        raise DiscretisationError(
            f"`{CALL}` needs modes= with values and vectors, as `quotax.spectrum(loss, minimum, k, space=space, "
            f"which='top')` has them, got {modes!r}."
        )
    if space is not None and not callable(getattr(space, "inner", None)):
        raise DiscretisationError(f"`{CALL}` needs space= a quotient, got {type(space).__name__}.")
    values, vectors = np.asarray(modes.values, float), tuple(vectors)
    away = _less(start, minimum)
    components = _components(space, minimum, away, vectors)
    slope, bent = jax.jvp(jax.grad(loss), (minimum,), (away,))
    size = lambda tree: float(np.sqrt(sum(float(jnp.vdot(a, a)) for a in jax.tree.leaves(tree))))
    off = size(slope) / max(size(bent), np.finfo(float).tiny)
    if size(slope) and off > NEAR:
        raise DiscretisationError(
            f"`{CALL}`: minimum= has a gradient of size {size(slope):.3g}, {off:.3g} times as much as the start "
            f"is away from it by the Hessian: train further, or start further off."
        )
    share = np.asarray(learned(values), float)
    gone = _sum(vectors, share * components)
    across = away if space is None else space.horizontal(minimum, away)
    rest = _less(across, _sum(vectors, components))
    length = lambda tree: size(tree) if space is None else float(space.norm(minimum, tree))
    return FilteredModes(
        values=values,
        learned=share,
        start=components,
        left=(1 - share) * components,
        along_orbit=None if space is None else length(_less(away, across)),
        other=length(rest),
        off_minimum=off,
        params=_less(start, gone),
        _minimum=minimum,
        _vectors=vectors,
        _space=space,
    )


def _less(params: Tree, other: Tree) -> Tree:
    return jax.tree.map(lambda a, b: a - jnp.asarray(b, a.dtype), params, other)


def _sum(vectors: tuple[Tree, ...], weights: np.ndarray) -> Tree:
    return jax.tree.map(lambda *v: sum(jnp.asarray(w, a.dtype) * a for w, a in zip(weights, v, strict=True)), *vectors)


def _components(space: AnySpace, minimum: Tree, away: Tree, vectors: tuple[Tree, ...]) -> np.ndarray:
    if space is not None:
        return np.array([float(space.inner(minimum, away, v)) for v in vectors])
    dot = lambda a, b: sum(float(jnp.vdot(x, y)) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
    return np.array([dot(away, v) for v in vectors])

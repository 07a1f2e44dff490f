"""The ends and the density of a Hessian's spectrum on the horizontal space, without ever forming the matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from quotax.sharpness.arguments import check_choice, check_share, check_whole, random_key
from quotax.sharpness.arithmetic import Arithmetic, judged, settled
from quotax.sharpness.ball import Space
from quotax.sharpness.invariance import Spread, spread, verdict
from quotax.sharpness.krylov import block_lanczos
from quotax.sharpness.objective import Loss
from quotax.sharpness.result import FUNCTION
from quotax.sharpness.scaling import Mask
from quotax.sharpness.setting import Problem, Setting, prepare

CALL = "quotax.spectrum"


@dataclass(frozen=True)
class Density:
    """A spectral density as a sum of point masses: `sum(weights) = 1`, `sum(weights f(nodes))` is about `tr f(H) / n`.

    From stochastic Lanczos quadrature; `probes` random starts of `steps` products each.
    """

    nodes: np.ndarray
    weights: np.ndarray
    probes: int
    steps: int

    def smooth(self, grid: np.ndarray, width: float) -> np.ndarray:
        """The density on a grid, every mass spread to a Gaussian of standard deviation `width`."""
        z = (np.asarray(grid)[:, None] - self.nodes) / width
        return np.exp(-0.5 * z**2) @ self.weights / (width * math.sqrt(2 * math.pi))


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of the Hessian on the horizontal space, in the metric: `H v = lambda G v`.

    Attributes:
        values: the largest, descending.
        bottom: the smallest, ascending.
        vectors: the eigenvectors of `values`, trees like the parameters: horizontal, of length 1 in the metric.
        bottom_vectors: those of `bottom`.
        residuals: `|H v - lambda G v|` in the metric's dual norm, for `values`; an eigenvalue is at most that far away.
        bottom_residuals: those of `bottom`.
        dim: the dimension of the space, so the number of eigenvalues in all.
        hessian: `"Riemannian"` or `"Euclidean"`, which differ away from critical points.
        products: Hessian-vector products spent (without those of the density).
        status: `"converged"`, `"budget"` (a residual is above the tolerance: `basis=` allows more) or `"not finite"`.
        density: the spectral density, if asked for.
        invariant: whether it is a function on the quotient (None: not known), and `reason` why.
        spread: the largest eigenvalue at random representatives, if asked for.
        arithmetic: what was kept of the digits; nothing without a quotient.
    """

    values: np.ndarray
    bottom: np.ndarray
    vectors: list[Any] = field(repr=False)
    bottom_vectors: list[Any] = field(repr=False)
    residuals: np.ndarray
    bottom_residuals: np.ndarray
    dim: int
    hessian: str
    products: int
    status: str
    density: Density | None = None
    invariant: bool | None = None
    reason: str = ""
    spread: Spread | None = None
    arithmetic: Arithmetic | None = None

    def __str__(self) -> str:
        """A few readable lines."""
        show = lambda values: ", ".join(f"{value:.5g}" for value in values)
        lines = [f"{self.hessian} Hessian on {self.dim} dimensions ({self.status}, {self.products} products)"]
        lines += [f"top: {show(self.values)}"] if self.values.size else []
        lines += [f"bottom: {show(self.bottom)}"] if self.bottom.size else []
        lines.append(f"{FUNCTION[self.invariant]}: {self.reason}")
        return "\n".join(lines + ([str(self.spread)] if self.spread else []))


def spectrum(
    loss: Loss,
    params: Any,
    k: int = 5,
    *,
    space: Space | None = None,
    ball: str | None = None,
    which: str = "both",
    density: bool = False,
    probes: int = 8,
    basis: int | None = None,
    tolerance: float | None = None,
    adaptive: bool = False,
    mask: Mask = None,
    batch: Any = None,
    microbatch: int | None = None,
    mesh: Any = None,
    key: Any = None,
    representatives: int = 0,
    spread_scale: float = 0.5,
) -> Spectrum:
    """The k largest and smallest eigenvalues of the Hessian on the horizontal space, in the metric.

    At a critical point the Hessian is zero along orbits, so that its non-zero eigenvalues in a Euclidean metric are
    those of the full Hessian. Elsewhere it is the Riemannian Hessian: the second derivative of the loss along
    horizontal geodesics, where the space has them (`ball="linear"`: along straight lines).

    Args:
        loss: `loss(params)`, or `loss(params, batch)` when `batch` is given: then a mean over the batch's examples.
        params: a pytree of floating-point arrays.
        k: how many eigenvalues of each end; equal ones are counted as often as they occur.
        space: a quotient.
        ball: `"geodesic"` (the default where the space has geodesics), `"linear"` or `"full"`.
        which: `"both"` ends, `"top"` or `"bottom"`.
        density: also the density of the whole spectrum, from `probes` runs of at most 60 products.
        probes: random starts for the density.
        basis: at most so many Hessian-vector products; memory is `2 basis` vectors of the size of the parameters. By
            default `20 k + 60`, and all there are if those are fewer than 400.
        tolerance: of the residuals, relative to the largest eigenvalue: 1e-8 in float64, 1e-4 in float32.
        adaptive: eigenvalues in units of each parameter's size.
        mask: what moves: see `quotax.sharpness`.
        batch: a pytree whose leaves share their leading axis.
        microbatch: examples in memory at once.
        mesh: a `jax.sharding.Mesh` over whose devices the batch is split: see `quotax.sharpness`.
        key: a JAX key or an integer.
        representatives: measure the largest eigenvalue (the smallest for "bottom") along the orbit too.
        spread_scale: of the random group elements.

    Example:
        >>> import jax.numpy as jnp
        >>> found = spectrum(lambda p: jnp.sum(jnp.arange(6.0) * p**2), jnp.ones(6), k=2)
        >>> found.values.round(4), found.bottom.round(4) + 0.0
        (array([10.,  8.]), array([0., 2.]))
    """
    setting = settled(
        prepare(
            CALL, loss, params, space, batch, microbatch, ball=ball, natural="geodesic",
            adaptive=adaptive, mask=mask, mesh=mesh,
        )
    )  # fmt: skip
    setting.require_coordinates()
    check_whole(CALL, "k", k, 1)
    check_whole(CALL, "probes", probes, 1)
    check_whole(CALL, "representatives", representatives, 0)
    check_choice(CALL, "which", which, ("both", "top", "bottom"))
    dtype, n = setting.layout.dtype, setting.dim
    if tolerance is None:
        tolerance = 1e-8 if jnp.finfo(dtype).bits >= 64 else 1e-4
    tolerance = check_share(CALL, "tolerance", tolerance)
    count = min(k, n)
    ends = (0 if which == "top" else count, 0 if which == "bottom" else count)
    if basis is None:
        basis = n if n <= 400 else 20 * k + 60
    basis = min(check_whole(CALL, "basis", basis, 1), n)
    key = random_key(CALL, key)
    static = (min(count, basis), basis, ends, tolerance)
    values, vectors, residuals, products = setting.run(_ends, static, key)
    values, residuals, products = np.asarray(values, float), np.asarray(residuals, float), int(products)
    low, high = slice(0, min(ends[0], products)), slice(max(products - ends[1], 0), products)
    flip = slice(None, None, -1)
    rows = vectors.shape[0]
    tree = lambda i: setting.home(setting.layout.nested(vectors[i]))
    norm = float(np.max(np.abs(values[:products]), initial=0.0))
    wanted = np.concatenate([residuals[low], residuals[high]])
    status = "converged" if np.all(wanted <= tolerance * norm) else "budget"
    if not (np.all(np.isfinite(values[:products])) and math.isfinite(norm)):
        status = "not finite"
    if products >= n and status == "budget":
        status = "converged"  # the basis spans the space: what is left is rounding
    seen = None
    if representatives:
        again = lambda other: _one(other, which, loss=loss, space=space, ball=ball, basis=basis, tolerance=tolerance,
            adaptive=adaptive, mask=mask, batch=batch, microbatch=microbatch, mesh=mesh, key=key)  # fmt: skip
        spread_scale = check_share(CALL, "spread_scale", spread_scale)
        seen = spread(CALL, space, setting.given, again, representatives, spread_scale, key)
    known, kept = judged(setting, verdict(setting))
    return Spectrum(
        values=values[high][flip],
        bottom=values[low],
        vectors=[tree(i) for i in range(rows - 1, rows - 1 - (high.stop - high.start), -1)],
        bottom_vectors=[tree(i) for i in range(low.stop)],
        residuals=residuals[high][flip],
        bottom_residuals=residuals[low],
        dim=n,
        hessian=setting.hessian,
        products=products,
        status=status,
        density=_density(setting, probes, jax.random.fold_in(key, 1)) if density else None,
        invariant=known.invariant,
        reason=known.reason,
        spread=seen,
        arithmetic=kept,
    )


def _one(params: Any, which: str, *, loss: Loss, **settings: Any) -> float:
    found = spectrum(loss, params, 1, which="bottom" if which == "bottom" else "top", **settings)
    return float((found.bottom if which == "bottom" else found.values)[0])


def _ends(problem: Problem, static: tuple, key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """All Ritz values with their residuals, and the vectors of the two ends as displacements."""
    block, basis, ends, tolerance = static
    found = block_lanczos(
        problem.hessian_vector, problem.ball.horizontal, key, problem.layout.size, problem.layout.dtype,
        block=block, basis=basis, ends=ends, tolerance=tolerance,
    )  # fmt: skip
    low = jnp.arange(ends[0])
    high = found.products - ends[1] + jnp.arange(ends[1])
    vectors = lax.map(problem.ball.tangent, found.vectors[jnp.concatenate([low, high])])
    return found.values, vectors, found.residuals, found.products


def _density(setting: Setting, probes: int, key: jax.Array) -> Density:
    steps = min(60, setting.dim)
    nodes, weights = (np.asarray(a, float) for a in setting.run(_quadrature, (probes, steps), key))
    kept = np.isfinite(nodes) & (weights > 0)
    order = np.argsort(nodes[kept])
    return Density(nodes[kept][order], weights[kept][order] / probes, probes, steps)


def _quadrature(problem: Problem, static: tuple[int, int], key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Gauss quadrature of the spectral measure of random vectors: the squared first components of Ritz vectors."""
    probes, steps = static

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = block_lanczos(
            problem.hessian_vector, problem.ball.horizontal, key, problem.layout.size, problem.layout.dtype,
            block=1, basis=steps, ends=(0, 0), tolerance=0.0,
        )  # fmt: skip
        return found.values, found.weights

    nodes, weights = lax.map(one, jax.random.split(key, probes))
    return nodes.ravel(), weights.ravel()

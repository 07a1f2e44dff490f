"""The ends and the density of a Hessian's spectrum on the horizontal space, without ever forming the matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from jax.sharding import Mesh

from quotax.presenting import Result
from quotax.presenting.drawing import Axes, drawn, says
from quotax.programs.threads import one_thread
from quotax.sharpness.linalg.lanczos import Ritz, block_lanczos
from quotax.sharpness.problem.arguments import Key, check_choice, check_share, check_whole
from quotax.sharpness.problem.ball import Space
from quotax.sharpness.problem.objective import Loss
from quotax.sharpness.problem.scaling import Moving
from quotax.sharpness.problem.setting import Measurement, Setting
from quotax.sharpness.problem.vectors import stacked
from quotax.sharpness.verdicts.along_orbit import Elsewhere, Spread, compared
from quotax.sharpness.verdicts.along_orbit import representatives as representatives_of
from quotax.sharpness.verdicts.arithmetic import Arithmetic, judged, settled
from quotax.sharpness.verdicts.invariance import verdict
from quotax.sharpness.verdicts.result import standing
from quotax.trees import Tree

CALL = "quotax.spectrum"

_ROOM = 1.12 * 1.1
"""The width of a picture, in ranges of its spectrum: six widths of a mass on both sides, and matplotlib's margins."""


@dataclass(frozen=True, repr=False)
class Density(Result):
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


@dataclass(frozen=True, repr=False)
class Spectrum(Result):
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
    vectors: list[Tree] = field(repr=False)
    bottom_vectors: list[Tree] = field(repr=False)
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
        return "\n".join([*lines, *standing(self.invariant, self.reason, self.spread)])

    def plot(self, ax: Axes | None = None, *, label: str | None = None, width: float | None = None) -> Axes:
        """The density as eigenvalues per unit, on a logarithmic scale, and a tick for each eigenvalue at the ends.

        Several spectra share axes: `quot.plot(full.plot(label="full"), label="quotient")`. `width` is the standard
        deviation that each mass of the density is spread to, by default a hundredth of its range.
        """
        with drawn(ax, "spectrum.plot()") as (ax, look):
            ends = np.concatenate([self.bottom, self.values])
            height = 0.05 if self.density is not None else 0.2
            row = height * (0.6 + sum(line.get_marker() == "|" for line in ax.lines))
            if self.density is None:
                look |= {"label": label, "markersize": 20}
                ax.get_yaxis().set_visible(False)
                ax.spines["left"].set_visible(False)
            else:
                known = np.concatenate([ends, self.density.nodes])
                known = known[np.isfinite(known)]
                if not known.size:
                    says(ax, f"no eigenvalue is a number ({self.status})")
                    return ax
                beside = np.ptp(ax.get_xlim()) / _ROOM if ax.lines else 0.0  # one width for all curves
                # one eigenvalue alone is as wide as a hundredth of its size
                spread = width or max(np.ptp(known), beside, 1e-3 * np.max(np.abs(known))) / 100 or 0.01
                grid = np.linspace(known.min() - 6 * spread, known.max() + 6 * spread, 1000)
                curve = self.dim * self.density.smooth(grid, spread)
                before = ax.get_ylim() if ax.get_yscale() == "log" else (np.inf, 0.0)
                ax.plot(grid, curve, label=label, **look | {"marker": ""})
                ax.set_yscale("log")
                # a single eigenvalue is forty times as high as the floor
                ax.set_ylim(min(0.01 / spread, before[0]), max(3 * curve.max(), before[1]))
                ax.set_ylabel("eigenvalues per unit")
            if not np.isfinite(ends).any():
                says(ax, f"no eigenvalue at the ends is a number ({self.status})")
            look |= {"marker": "|", "gid": "ends" if self.density is not None else "curve"}
            ax.plot(ends, np.full_like(ends, row), linestyle="", transform=ax.get_xaxis_transform(), **look)
            ax.set_xlabel("eigenvalue of the Hessian")
        return ax


@one_thread
@np.errstate(all="ignore")  # what is no number is named in the result
def spectrum(
    loss: Loss,
    params: Tree,
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
    mask: Moving = None,
    batch: Tree = None,
    microbatch: int | None = None,
    mesh: Mesh | None = None,
    key: Key = None,
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
    request = Measurement(
        CALL, loss, space, ball, natural="geodesic", adaptive=adaptive, mask=mask, batch=batch, microbatch=microbatch,
        mesh=mesh, key=key, representatives=representatives, spread_scale=spread_scale,
    )  # fmt: skip
    setting = settled(request.at(params))
    setting.require_coordinates()
    check_whole(CALL, "k", k, 1)
    check_whole(CALL, "probes", probes, 1)
    check_choice(CALL, "which", which, ("both", "top", "bottom"))
    if tolerance is None:
        tolerance = 1e-8 if setting.layout.dtype.itemsize >= 8 else 1e-4
    tolerance = check_share(CALL, "tolerance", tolerance)
    n = setting.dim
    if basis is None:
        basis = n if n <= 400 else 20 * k + 60
    basis = min(check_whole(CALL, "basis", basis, 1), n)
    asked = min(k, n)
    ends = (0 if which == "top" else asked, 0 if which == "bottom" else asked)
    found = _eigenpairs(setting, ends, basis, tolerance)
    products = found.products
    low, high = range(min(ends[0], products)), range(products - 1, max(products - ends[1], 0) - 1, -1)
    errors = found.residuals([*low, *high])
    if not np.all(np.isfinite(found.values)):
        status = "not finite"
    elif products >= n or (products >= sum(ends) and np.all(errors <= found.allowed(tolerance))):
        status = "converged"  # a basis that spans the space leaves rounding only
    else:
        status = "budget"
    known, kept = judged(setting, verdict(setting))
    seen = None
    if representatives:
        one, end, first = ((0, 1), -1, len(low)) if which != "bottom" else ((1, 0), 0, 0)
        own = (settled(request.at(other)) for other, _ in representatives_of(request, setting.given))
        there = [Elsewhere.of(float(_eigenpairs(each, one, basis, tolerance).values[end]), each) for each in own]
        known, seen = compared(known, request, float(found.values[end]), there, float(errors[first]))
    trees = lambda which: setting.homes(setting.problem.frame.away(found.vectors(which))) if which else []
    return Spectrum(
        values=found.values[list(high)],
        bottom=found.values[list(low)],
        vectors=trees(high),
        bottom_vectors=trees(low),
        residuals=errors[len(low) :],
        bottom_residuals=errors[: len(low)],
        dim=n,
        hessian=setting.hessian,
        products=products,
        status=status,
        density=_density(setting, probes) if density else None,
        invariant=known.invariant,
        reason=known.reason,
        spread=seen,
        arithmetic=kept,
    )


def _eigenpairs(setting: Setting, ends: tuple[int, int], basis: int, tolerance: float) -> Ritz:
    """Ritz pairs of the Hessian; equal eigenvalues are found as often as they are asked for."""
    problem, bits = setting.problem, setting.request.bits
    random = lambda indices: problem.frame.horizontal(stacked([problem.normal((*bits, 1, i)) for i in indices]))
    block = min(max(ends), basis)
    return block_lanczos(
        problem.hessian_vectors, problem.frame.horizontal, random,
        block=block, basis=basis, ends=ends, tolerance=tolerance,
    )  # fmt: skip


def _density(setting: Setting, probes: int) -> Density:
    """Gauss quadrature of the spectral measure of random vectors: the squared first components of Ritz vectors."""
    problem, bits, steps = setting.problem, setting.request.bits, min(60, setting.dim)
    nodes, weights = [], []
    for probe in range(probes):
        draw = lambda i, probe=probe: problem.normal((*bits, 2, probe, i))
        random = lambda indices, draw=draw: problem.frame.horizontal(stacked(list(map(draw, indices))))
        found = block_lanczos(
            problem.hessian_vectors, problem.frame.horizontal, random, block=1, basis=steps, ends=(0, 0), tolerance=0.0
        )
        nodes.append(found.values)
        weights.append(found.weights)
    nodes, weights = np.concatenate(nodes), np.concatenate(weights)
    kept = np.isfinite(nodes) & (weights > 0)
    order = np.argsort(nodes[kept])
    return Density(nodes[kept][order], weights[kept][order] / probes, probes, steps)

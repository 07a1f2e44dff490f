r"""Laplace's approximation of the evidence where the minimum is an orbit.

$Z = \int e^{-L(\theta)} \pi(\theta) \, d\theta$. A loss that a compact group G leaves alone has for minimum a whole
orbit, along which the integral is the orbit's volume, exactly; across it the loss is Gaussian to second order:

$$\log Z \approx -L + \log \pi + \tfrac{d - k}{2} \log 2\pi - \tfrac12 \log \det H_\perp + \log |G \theta|$$

with k the dimension of the orbit and $H_\perp$ the Hessian of $L - \log \pi$ on what is orthogonal to it. Permutations
and signs multiply Z by the number of copies. The full Hessian has k zeros, and Laplace's formula without a quotient
is infinite, or a function of the damping that was added: $-\tfrac{k}{2} \log \lambda$.

A flat prior on an orbit that is not compact has no evidence: $\int |\det g| \, dg$ over a group that is not compact is
infinite. A Gaussian prior has one. It breaks what is not orthogonal in the group, so that the minimum of
$L + \tfrac\alpha2 |\theta|^2$ is a point of least norm on its orbit, and what is left is compact. Across the broken
directions the curvature is that of the prior alone, $O(\alpha |\theta|^2)$, however many examples there are, and there
Laplace's formula is no better than its next term, relative $O(1 / (\alpha |\theta|^2))$: for $L(a b)$ the integral
along the orbit is $K_0(\alpha |c|) = \sqrt{\pi / 2 \alpha |c|} \, e^{-\alpha |c|} (1 - 1 / 8 \alpha |c| + ...)$.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from quotax.checks import finite_params
from quotax.errors import LandscapeError
from quotax.landscape.demands import one_number, positive, quotient_of
from quotax.landscape.orbit_volumes import compact_orbit
from quotax.landscape.second_order import LARGEST, second_order
from quotax.presenting import Result
from quotax.programs.threads import one_thread
from quotax.trees import AnySpace, Tree

CALL = "quotax.laplace_evidence"
SLOPE = 0.01
"""How much of the logarithm may be lost because the point is not quite the minimum."""


@dataclass(frozen=True, repr=False)
class LaplaceEvidence(Result):
    """The logarithm of the evidence, and the terms that it is the sum of.

    Attributes:
        value: the logarithm of the evidence: the sum of the five below. Infinite where it diverges, NaN where `status`
            is not "ok" otherwise.
        log_likelihood: minus the loss.
        log_prior: of the prior's density; zero where it is flat.
        log_gaussian: of the Gaussian integral across the orbit.
        log_volume: of the compact orbit.
        log_copies: of the number of its copies by permutations and signs.
        orbit: the dimension of that orbit.
        status: "ok"; "diverges": a flat prior on an orbit that is not compact; "flat": directions across the orbit in
            which the loss does not curve; "no minimum": it curves down, or slopes; "unknown volume".
        reason: what that means here.
        slope: how much the Gaussian's top lies above the value here, which is zero at a minimum.
        eigenvalues: of the Hessian across the orbit, ascending.
        all_eigenvalues: of the full Hessian.
        floor: up to where an eigenvalue is rounding.
    """

    value: float
    log_likelihood: float
    log_prior: float
    log_gaussian: float
    log_volume: float
    log_copies: float
    orbit: int
    status: str
    reason: str
    slope: float
    eigenvalues: np.ndarray = field(repr=False)
    all_eigenvalues: np.ndarray = field(repr=False)
    floor: float = field(repr=False)

    def naive(self, damping: float = 0.0) -> float:
        """Laplace's formula at one point of the orbit, with a number added to every eigenvalue: what it depends on.

        Infinite without damping, but for rounding; NaN where damping leaves an eigenvalue negative.
        """
        values = np.where(np.abs(self.all_eigenvalues) <= self.floor, 0, self.all_eigenvalues) + damping
        with np.errstate(divide="ignore", invalid="ignore"):
            gaussian = len(values) / 2 * math.log(2 * math.pi) - np.sum(np.log(values)) / 2
        return float(self.log_likelihood + self.log_prior + gaussian)

    def __str__(self) -> str:
        """Readable lines."""
        return "\n".join(
            [
                f"log evidence {self.value:.6g}" + (f" ({self.status}: {self.reason})" if self.status != "ok" else ""),
                f"likelihood {self.log_likelihood:.6g}, prior {self.log_prior:.6g}, across the orbit "
                f"{self.log_gaussian:.6g} in {len(self.eigenvalues)} dimensions",
                f"along it {self.log_volume:.6g} in {self.orbit} dimensions, copies {self.log_copies:.6g}",
            ]
        )


@one_thread
def laplace_evidence(
    loss: Callable[[Tree], Tree], params: Tree, space: AnySpace, *, prior_precision: float | None = None
) -> LaplaceEvidence:
    """The logarithm of the evidence around the orbit of a minimum: the orbit's volume, and a Gaussian across it.

    Args:
        loss: a function of the parameters: minus the logarithm of the likelihood of all examples, a sum and no mean.
        params: a minimum of the loss, or with a prior of `loss + prior_precision / 2 * |params|^2`.
        space: a quotient by symmetries of the loss; volumes are Euclidean, whatever its metric.
        prior_precision: of a Gaussian prior around zero; None is the flat prior of density one.

    Example:
        Two parameters of which the loss sees the length: a ring of radius 1.

        >>> import jax.numpy as jnp, quotax as qx
        >>> net = qx.architecture(params={"w": "n"}, inputs={"x": ""})(lambda p, x: jnp.sum(p["w"] ** 2) * x)
        >>> turn = qx.Symmetry("turn", qx.O("n"), {"w": "g @ w"})
        >>> space = qx.quotient(net.at(n=2), turn, metric="euclidean")
        >>> loss = lambda p: 50 * (jnp.sum(p["w"] ** 2) - 1) ** 2
        >>> found = laplace_evidence(loss, {"w": jnp.array([0.6, 0.8])}, space)
        >>> round(found.value, 2), round(found.naive(1e-2), 1), round(found.naive(1e-4), 1)
        (-0.24, 1.1, 3.4)
    """
    space = quotient_of(CALL, space)
    alpha = 0.0 if prior_precision is None else positive(CALL, "prior_precision", prior_precision)
    params = finite_params(CALL, params)
    count = space.network.num_parameters
    if count > LARGEST:
        raise LandscapeError(f"`{CALL}` makes the Hessian of all parameters, {count:,}, more than {LARGEST:,}.")
    value = one_number(CALL, "loss", loss, params)
    flat, gradient, hessian, rounding = second_order(loss, params)
    d = flat.size
    gradient, hessian = gradient + alpha * flat, hessian + alpha * np.eye(d)
    every, axes = np.linalg.eigh(hessian)
    floor = max(rounding, 10 * d * float(np.finfo(float).eps) * alpha)
    # The orbit of the minimum is asked for, from which params are about one step of Newton's away.
    away = np.linalg.norm((axes.T @ gradient)[every > floor] / every[every > floor])
    orbit = compact_orbit(space.at(params), 10 * float(away / max(np.linalg.norm(flat), 1e-300)))
    across = _across(space, params, d, orbit.rank)
    values, vectors = np.linalg.eigh(across @ hessian @ across.T)
    steep = vectors.T @ (across @ gradient)
    curved = values > floor
    slope = float(np.sum(steep[curved] ** 2 / values[curved]) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        gaussian = float(len(values) / 2 * math.log(2 * math.pi) - np.sum(np.log(values)) / 2)
    prior = -alpha / 2 * float(flat @ flat) + d / 2 * math.log(alpha / (2 * math.pi)) if alpha else 0.0
    status, reason = "ok", ""
    if not alpha and orbit.unbounded:
        status, reason = "diverges", f"the prior is flat and the orbit is not compact: {', '.join(orbit.unbounded)}"
    elif np.any(values < -floor):
        status, reason = "no minimum", f"{int(np.sum(values < -floor))} eigenvalues across the orbit are negative"
    elif not np.all(curved):
        status, reason = "flat", f"in {int(np.sum(~curved))} directions across the orbit nothing curves"
    elif slope > SLOPE:
        status, reason = "no minimum", f"the Gaussian's top lies {slope:.3g} above the value here"
    elif orbit.reason:
        status, reason = "unknown volume", orbit.reason
    total = -value + prior + gaussian + orbit.log_volume + orbit.log_copies
    return LaplaceEvidence(
        {"ok": total, "diverges": math.inf}.get(status, math.nan), 0.0 - value, prior, gaussian, orbit.log_volume,
        orbit.log_copies, orbit.rank, status, reason, slope, values, every, floor,
    )  # fmt: skip


def _across(space: AnySpace, params: Tree, d: int, rank: int) -> np.ndarray:
    """Orthonormal rows across the directions in which orthogonal elements of the families move the point."""
    rows = [np.zeros((0, d))]
    for family in space.families:
        group = family.group.isometries
        if group is None or not group.continuous or not group.dimension(family.sizes):
            continue
        shape = group.coordinate_shape(family.sizes)

        def moved(c: jax.Array, family: Any = family, group: Any = group, shape: Any = shape) -> jax.Array:
            xi = group.algebra(c.reshape(shape), family.sizes)
            return ravel_pytree(space.field(params, {family.name: xi}))[0]

        dtype = ravel_pytree(params)[0].dtype
        rows.append(np.asarray(jax.vmap(moved)(jnp.eye(math.prod(shape), dtype=dtype)), float))
    return np.linalg.svd(np.concatenate(rows), full_matrices=True)[2][rank:]

r"""How many parameters count: a bracket of the learning coefficient from an orbit, and a closed form.

Let $K \ge 0$ be analytic with $K(\theta_0) = 0$: a divergence, or a loss less its minimum. The volume of
$\{K < \epsilon\}$ near $\theta_0$ is of order $\epsilon^\lambda (-\log \epsilon)^{m - 1}$; $\lambda$ is the (local)
learning coefficient, $d / 2$ for a regular model, and $\lambda \log n$ takes the place of $\tfrac d2 \log n$ in the
evidence (Watanabe). Let K be constant on the orbit through $\theta_0$, of dimension k. Near $\theta_0$ parameters are
the product of the orbit and a slice across it, on which K has a Hessian of rank r and order four in the other
$s = d - k - r$ directions at least, because it is not negative (the splitting lemma). Hence

$$\tfrac r2 \;\le\; \lambda \;\le\; \tfrac r2 + \tfrac{s}{4} \;\le\; \tfrac{d - k}{2}.$$

With $s = 0$ all are equal, with multiplicity 1: the minimum is the orbit and nothing more, as far as the second
derivatives see. With $s > 0$ it is a bracket: hidden flat directions (the zeros of K are more than an orbit) and
singular points. The learning coefficient of a model is the least of all points of the set of minima, so that every
point bounds it from above; generic points have the largest orbits and $(d - k) / 2$, and singular points, where orbits
are small, can be lower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from quotax.checks import finite_params
from quotax.errors import LandscapeError
from quotax.landscape.demands import one_number, quotient_of, whole
from quotax.landscape.second_order import LARGEST, second_order
from quotax.presenting import Result
from quotax.programs.threads import one_thread
from quotax.trees import AnySpace, Tree

CALL = "quotax.learning_coefficient_bound"


@dataclass(frozen=True, repr=False)
class LearningBound(Result):
    """A bracket of the local learning coefficient at a point.

    Attributes:
        lower: half the Hessian's rank; zero where no loss was given.
        upper: `r / 2 + s / 4`; `(d - k) / 2` where no loss was given.
        from_orbit: `(d - k) / 2`, which needs no loss.
        parameters: d.
        orbit: k.
        curved: r, the rank of the Hessian across the orbit; None where no loss was given.
        exact: whether both ends are the same.
        reason: why they are, or what may lie between them.
    """

    lower: float
    upper: float
    from_orbit: float
    parameters: int
    orbit: int
    curved: int | None
    exact: bool
    reason: str

    def __str__(self) -> str:
        """One readable line."""
        between = f"= {self.upper:g}" if self.exact else f"between {self.lower:g} and {self.upper:g}"
        return f"learning coefficient {between} (parameters / 2 = {self.parameters / 2:g}): {self.reason}"


@dataclass(frozen=True, repr=False)
class LearningCoefficient(Result):
    """A learning coefficient that is known: the volume of `K < e` is of order `e^value (-log e)^(multiplicity - 1)`."""

    value: float
    multiplicity: int


@one_thread
def learning_coefficient_bound(
    space: AnySpace, params: Tree, loss: Callable[[Tree], Tree] | None = None
) -> LearningBound:
    """A bracket of the local learning coefficient at a point of the set of minima, from its orbit.

    Args:
        space: a quotient by symmetries of the model.
        params: a minimum.
        loss: a function of the parameters that has its minimum there and is analytic near it; its Hessian sharpens
            the bracket. Only its rank counts, so that a mean of squares serves as well as a likelihood.

    Example:
        Where the product of two numbers is learned, one counts; at the origin the bound is exact too.

        >>> import jax.numpy as jnp, quotax as qx
        >>> net = qx.architecture(params={"a": "", "b": ""}, inputs={"x": ""})(lambda p, x: p["a"] * p["b"] * x)
        >>> scale = qx.Symmetry("scale", qx.PositiveScalar(), {"a": "g * a", "b": "inv(g) * b"})
        >>> space = qx.quotient(net.at(), scale, metric="euclidean")
        >>> for a, b in ((1.0, 0.0), (0.0, 0.0)):
        ...     params = {"a": jnp.asarray(a), "b": jnp.asarray(b)}
        ...     found = learning_coefficient_bound(space, params, lambda p: (p["a"] * p["b"]) ** 2)
        ...     print(found.lower, found.upper, found.from_orbit)
        0.5 0.5 0.5
        0.0 0.5 1.0
    """
    space = quotient_of(CALL, space)
    params = finite_params(CALL, params)
    point = space.at(params)
    d, k = space.network.num_parameters, point.volumes(euclidean=True).total.rank
    whole_bound = (d - k) / 2
    if loss is None:
        why = f"the orbit has {k} of {d} dimensions, and of the others nothing was asked"
        return LearningBound(0.0, whole_bound, whole_bound, d, k, None, d == k, why)
    if d > LARGEST:
        raise LandscapeError(
            f"`{CALL}` makes the Hessian of all parameters, {d:,}, more than {LARGEST:,}: pass no loss."
        )
    one_number(CALL, "loss", loss, params)
    found = second_order(loss, params)
    values = np.linalg.eigvalsh(found.hessian)
    negative, r = int(np.sum(values < -found.floor)), int(np.sum(values > found.floor))
    steep = np.linalg.norm(found.gradient)
    if negative or steep > STEEP * max(1.0, float(np.abs(values).max(initial=0.0))) * (1 + np.linalg.norm(found.flat)):
        raise LandscapeError(
            f"`{CALL}` needs a minimum of the loss, and at params {negative} eigenvalues of its Hessian are negative "
            f"and its gradient has length {steep:.3g}. Train on, or pass no loss."
        )
    s = d - k - r
    if s < 0:
        raise LandscapeError(
            f"`{CALL}`: the Hessian has rank {r}, and across an orbit of {k} dimensions there are only {d - k}: the "
            "loss changes along the orbit, or params are known to too few digits."
        )
    why = f"the Hessian has rank {r} = {d} - {k}, all there is across the orbit"
    if s:
        why = f"{s} directions across the orbit are flat: a symmetry that is not in the space, or a singular point"
    return LearningBound(r / 2, r / 2 + s / 4, whole_bound, d, k, r, s == 0, why)


STEEP = 1e-3
"""A gradient counts as zero up to this part of the Hessian times the parameters."""


def deep_linear_learning_coefficient(widths: Sequence[int], rank: int) -> LearningCoefficient:
    r"""The learning coefficient of a deep linear network whose true product of matrices has this rank.

    Aoyagi (2024) for any depth, Aoyagi and Watanabe (2005) for two matrices. With $M_i$ the widths less the rank and S
    the set of the $\ell + 1$ smallest ones for which $\ell \max_S M \le \sum_S M \le \ell \min_{not S} M$,

    $$\lambda = \frac{r (H_0 + H_L - r)}{2} + \frac{a (\ell - a)}{4 \ell} - \frac{\ell - 1}{4 \ell} \Big(\sum_S M\Big)^2
    + \frac12 \sum_{i < j \in S} M_i M_j, \qquad m = a (\ell - a) + 1,$$

    where $a = \sum_S M - (\lceil \sum_S M / \ell \rceil - 1) \, \ell$.

    Args:
        widths: of the inputs, of every layer and of the outputs.
        rank: r.

    Example:
        >>> deep_linear_learning_coefficient([2, 2, 2], 0), deep_linear_learning_coefficient([1, 1, 1, 1], 0)
        (LearningCoefficient(value=1.5, multiplicity=1), LearningCoefficient(value=0.5, multiplicity=3))
    """
    call = "quotax.deep_linear_learning_coefficient"
    sizes = [whole(call, f"widths[{i}]", width, 1) for i, width in enumerate(widths)]
    rank = whole(call, "rank", rank, 0)
    if len(sizes) < 2 or rank > min(sizes):
        raise LandscapeError(
            f"`{call}` needs at least two widths, and a rank that all let through; got widths {sizes} and rank {rank}."
        )
    rest = sorted(size - rank for size in sizes)
    # Two of them always are such a set, and the largest such set has nothing smaller outside.
    ell = next(n for n in range(len(rest) - 1, 0, -1) if n * rest[n] <= sum(rest[: n + 1]))
    chosen = rest[: ell + 1]
    total = sum(chosen)
    a = total - (-(-total // ell) - 1) * ell
    pairs = (total**2 - sum(m * m for m in chosen)) / Fraction(2)
    value = Fraction(rank * (sizes[0] + sizes[-1] - rank), 2)
    value += Fraction(a * (ell - a), 4 * ell) - Fraction((ell - 1) * total**2, 4 * ell) + pairs / 2
    return LearningCoefficient(float(value), a * (ell - a) + 1)

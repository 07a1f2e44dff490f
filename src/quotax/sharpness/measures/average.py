"""Average-case sharpness: the mean rise of the loss over random perturbations, beside its second-order prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jax.sharding import Mesh

from quotax.presenting import Result
from quotax.programs.threads import one_thread
from quotax.sharpness.measures.trace import traced
from quotax.sharpness.problem.arguments import Key, check_choice, check_radius, check_whole
from quotax.sharpness.problem.ball import Space
from quotax.sharpness.problem.objective import Loss
from quotax.sharpness.problem.scaling import Moving
from quotax.sharpness.problem.setting import Measurement, Setting
from quotax.sharpness.problem.vectors import Vector, stacked
from quotax.sharpness.verdicts.along_orbit import Elsewhere, Spread, compared
from quotax.sharpness.verdicts.along_orbit import representatives as representatives_of
from quotax.sharpness.verdicts.arithmetic import Arithmetic, judged, settled
from quotax.sharpness.verdicts.invariance import sampled
from quotax.sharpness.verdicts.kinks import SCALES, kinked
from quotax.sharpness.verdicts.result import standing
from quotax.trees import Tree

CALL = "quotax.average_sharpness"

DISTRIBUTIONS = ("sphere", "ball", "gaussian")

LOOKED_AT = 8
"""Pairs of samples along which second differences look for kinks."""


@dataclass(frozen=True, repr=False)
class AverageSharpness(Result):
    """The mean of `L(params + delta) - L(params)` over random delta.

    Attributes:
        value: the mean over the samples.
        standard_error: of `value`.
        prediction: to second order in the radius, with T the trace of the Hessian over the n directions of the ball:
            `r^2 T / 2n` on the sphere, `r^2 T / 2(n + 2)` in the ball, `r^2 T / 2` for the Gaussian.
        prediction_error: the standard error of `prediction`, from that of the trace; zero for an exact trace.
        method: how the trace was computed.
        samples: losses evaluated; antithetic pairs count twice.
        dim: n.
        radius: of sphere and ball; the standard deviation of every coordinate for the Gaussian.
        distribution: "sphere", "ball" or "gaussian".
        status: `"ok"`; `"kink"`: second differences do not converge as the step shrinks, so the Hessian, and with it
            `prediction`, does not describe this ball; `"not finite"`: the loss was NaN or infinite somewhere, and
            `value` is a mean over the other samples; `"domain"`: some geodesics left the metric's domain, and count
            where they left it; `"loss is nan at params"`.
        nonfinite: samples (pairs count once) where it was.
        invariant: whether its expectation is a function on the quotient (None: not known), and `reason` why; also
            whether the samples of a key are the same at every representative, and with them `value`.
        arithmetic: what was kept of the digits; nothing without a quotient.
        spread: the values at random representatives, if asked for; sampling error included where samples differ.
    """

    value: float
    standard_error: float
    prediction: float
    prediction_error: float
    method: str
    samples: int
    dim: int
    radius: float
    distribution: str
    status: str
    nonfinite: int = 0
    invariant: bool | None = None
    reason: str = ""
    spread: Spread | None = None
    arithmetic: Arithmetic | None = None

    def __str__(self) -> str:
        """One readable line, and one for each thing to know about it."""
        error = "" if not self.prediction_error else f" ± {self.prediction_error:.1g}"
        text = (
            f"average sharpness {self.value:.6g} ± {self.standard_error:.2g} ({self.distribution}, radius "
            f"{self.radius:g}, {self.samples} samples, {self.status}); second order predicts {self.prediction:.6g}"
            f"{error} ({self.method} trace over {self.dim} dimensions)"
        )
        return "\n".join([text, *standing(self.invariant, self.reason, self.spread)])


@one_thread
@np.errstate(all="ignore")  # what is no number is named in the result
def average_sharpness(
    loss: Loss,
    params: Tree,
    radius: float,
    *,
    space: Space | None = None,
    ball: str | None = None,
    distribution: str = "sphere",
    samples: int = 512,
    antithetic: bool = True,
    adaptive: bool = False,
    mask: Moving = None,
    probes: int | None = None,
    batch: Tree = None,
    microbatch: int | None = None,
    mesh: Mesh | None = None,
    key: Key = None,
    representatives: int = 0,
    spread_scale: float = 0.5,
) -> AverageSharpness:
    """The mean rise of the loss over random perturbations of a given size.

    With a quotient, perturbations are horizontal and isotropic in its metric. On the sphere, orbit directions dilute
    the average over all parameters by `(d - k) / d`, where k is the dimension of the orbits; in the ball by
    `(d - k + 2) / (d + 2)`; a Gaussian of fixed variance is not diluted (to second order, at a critical point).

    Args:
        loss: `loss(params)`, or `loss(params, batch)` when `batch` is given: then a mean over the batch's examples.
        params: a pytree of floating-point arrays.
        radius: of the sphere or ball; for the Gaussian the standard deviation of every coordinate, so that the length
            is about `radius * sqrt(n)`.
        space: a quotient.
        ball: `"linear"` (the default with a space), `"geodesic"`, or `"full"`: see `quotax.sharpness`.
        distribution: `"sphere"`, `"ball"` (uniform) or `"gaussian"`.
        samples: how many perturbations.
        antithetic: in pairs of opposite signs, which removes the gradient's contribution to the error exactly.
        adaptive: relative to each parameter's size; zeros do not move.
        mask: what moves: see `quotax.sharpness`.
        probes: Hessian-vector products for the prediction; None is exact up to 1,000 parameters, 120 beyond; 0 leaves
            the prediction out.
        batch: a pytree whose leaves share their leading axis.
        microbatch: examples in memory at once.
        mesh: a `jax.sharding.Mesh` over whose devices the batch is split: see `quotax.sharpness`.
        key: a JAX key or an integer.
        representatives: measure at so many random points of the same orbit too.
        spread_scale: of the random group elements.

    Example:
        >>> import jax.numpy as jnp
        >>> found = average_sharpness(lambda p: jnp.sum(p**2), jnp.zeros(5), 0.1)
        >>> round(found.value, 6), round(found.prediction, 6), found.status
        (0.01, 0.01, 'ok')
    """
    request = Measurement(
        CALL, loss, space, ball, adaptive=adaptive, mask=mask, batch=batch, microbatch=microbatch,
        mesh=mesh, key=key, representatives=representatives, spread_scale=spread_scale,
    )  # fmt: skip
    radius = check_radius(CALL, radius)
    check_choice(CALL, "distribution", distribution, DISTRIBUTIONS)
    check_whole(CALL, "samples", samples, 4)
    if probes != 0 and probes is not None:
        check_whole(CALL, "probes", probes, 6)
    setting = settled(request.at(params))
    setting.require_coordinates()
    draws = samples // 2 if antithetic else samples
    drawn = _sample(setting, radius, distribution, draws, antithetic)
    n = setting.dim
    prediction = error = math.nan
    method = "no"
    if probes != 0:
        value, error, method, _ = traced(setting, probes)
        share = {"sphere": n, "ball": n + 2, "gaussian": 1}[distribution]
        prediction, error = radius**2 / (2 * share) * value, radius**2 / (2 * share) * error
    status = "ok"
    if not math.isfinite(drawn.base):
        status = f"loss is {'nan' if math.isnan(drawn.base) else 'inf'} at params"
    elif drawn.nonfinite:
        status = "not finite"
    elif drawn.cut:
        status = "domain"
    elif kinked(drawn.bends, drawn.base, setting.layout.eps):
        status = "kink"
    known, kept = judged(setting, sampled(setting), rise=drawn.mean, base=drawn.base)
    seen = None
    if representatives:
        own = (settled(request.at(other)) for other, _ in representatives_of(request, setting.given))
        there = [Elsewhere.of(_sample(each, radius, distribution, draws, antithetic).mean, each) for each in own]
        known, seen = compared(known, request, drawn.mean, there, drawn.error)
    spent = draws * (2 if antithetic else 1)
    return AverageSharpness(
        drawn.mean, drawn.error, prediction, error, method, spent, n, radius, distribution, status,
        drawn.nonfinite, *known, seen, kept,
    )  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """Rises at random points, as means of pairs if antithetic; whether the metric's domain cut any of them short.

    Then second differences along the first few, averaged, and the loss at the centre.
    """

    rises: np.ndarray
    cut: bool
    bends: np.ndarray
    base: float

    @property
    def good(self) -> np.ndarray:
        """Those that are numbers."""
        return self.rises[np.isfinite(self.rises)]

    @property
    def nonfinite(self) -> int:
        """How many are none."""
        return self.rises.size - self.good.size

    @property
    def mean(self) -> float:
        """Of those that are numbers."""
        return float(self.good.mean()) if self.good.size else math.nan

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return float(self.good.std(ddof=1)) / math.sqrt(self.good.size) if self.good.size > 1 else math.nan


def _sample(setting: Setting, radius: float, distribution: str, draws: int, antithetic: bool) -> Sample:
    problem, seed, size = setting.problem, (*setting.request.bits, 1), setting.layout.size
    base, signs = problem.value(problem.origin), (1, -1) if antithetic else (1,)
    rises, cut, looked = [], False, None
    for start in range(0, draws, together := max(LOOKED_AT, min(AT_ONCE, TOGETHER // size))):
        points = _draw(setting, [(*seed, i) for i in range(start, min(start + together, draws))], radius, distribution)
        along = problem.lines(points)
        rises += (np.mean([along(sign) for sign in signs], axis=0) - base).tolist()
        cut = cut or any(problem.stop(sign * x) < 1 for x in points for sign in signs)
        if looked is None:
            twice = [np.add(along(share, LOOKED_AT), along(-share, LOOKED_AT)) for share in SCALES]
            looked = np.mean(twice, axis=1) - 2 * base
    return Sample(np.asarray(rises), cut, np.asarray(looked), base)


AT_ONCE, TOGETHER = 32, 2**22
"""So many points, or numbers, are drawn at once."""


def _draw(setting: Setting, seeds: list[tuple[int, ...]], radius: float, distribution: str) -> Vector:
    # A standard normal vector in whitened coordinates, projected: isotropic on the horizontal space.
    problem = setting.problem
    x = problem.frame.horizontal(stacked([problem.normal(seed) for seed in seeds]))
    if distribution == "gaussian":
        return radius * x
    x = stacked([problem.ball(1.0).unit(row)[0] for row in x])
    if distribution == "ball":
        shares = [float(np.random.default_rng((*seed, 1)).uniform()) ** (1.0 / setting.dim) for seed in seeds]
        x = np.asarray(shares, setting.layout.dtype)[:, None] * x
    return radius * x

"""Average-case sharpness: the mean rise of the loss over random perturbations, beside its second-order prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from quotax.sharpness.arguments import check_choice, check_radius, check_share, check_whole, random_key
from quotax.sharpness.arithmetic import Arithmetic, judged, settled
from quotax.sharpness.ball import Space
from quotax.sharpness.invariance import Spread, sampled, spread
from quotax.sharpness.kinks import SCALES, kinked
from quotax.sharpness.objective import Loss
from quotax.sharpness.result import FUNCTION
from quotax.sharpness.scaling import Mask
from quotax.sharpness.setting import Problem, prepare
from quotax.sharpness.trace import traced

CALL = "quotax.average_sharpness"

DISTRIBUTIONS = ("sphere", "ball", "gaussian")

LOOKED_AT = 8
"""Pairs of samples along which second differences look for kinks."""


@dataclass(frozen=True)
class AverageSharpness:
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
        lines = [text, f"{FUNCTION[self.invariant]}: {self.reason}"]
        return "\n".join(lines + ([str(self.spread)] if self.spread else []))


def average_sharpness(
    loss: Loss,
    params: Any,
    radius: float,
    *,
    space: Space | None = None,
    ball: str | None = None,
    distribution: str = "sphere",
    samples: int = 512,
    antithetic: bool = True,
    adaptive: bool = False,
    mask: Mask = None,
    probes: int | None = None,
    batch: Any = None,
    microbatch: int | None = None,
    mesh: Any = None,
    key: Any = None,
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
    setting = settled(
        prepare(CALL, loss, params, space, batch, microbatch, ball=ball, adaptive=adaptive, mask=mask, mesh=mesh)
    )
    setting.require_coordinates()
    radius = check_radius(CALL, radius)
    check_choice(CALL, "distribution", distribution, DISTRIBUTIONS)
    check_whole(CALL, "samples", samples, 4)
    check_whole(CALL, "representatives", representatives, 0)
    spread_scale = check_share(CALL, "spread_scale", spread_scale)
    if probes != 0 and probes is not None:
        check_whole(CALL, "probes", probes, 6)
    sample_key, probe_key = jax.random.split(random_key(CALL, key))
    draws = samples // 2 if antithetic else samples
    n, dtype = setting.dim, setting.layout.dtype
    static = (distribution, draws, antithetic, n)
    rises, cut, bends, base = (
        np.asarray(part, float) for part in setting.run(_sample, static, sample_key, jnp.asarray(radius, dtype))
    )
    good = np.isfinite(rises)
    prediction = error = math.nan
    method = "no"
    if probes != 0:
        value, error, method, _ = traced(setting, probes, probe_key)
        share = {"sphere": n, "ball": n + 2, "gaussian": 1}[distribution]
        prediction, error = radius**2 / (2 * share) * value, radius**2 / (2 * share) * error
    kept = rises[good]
    mean = float(kept.mean()) if kept.size else math.nan
    scatter = float(kept.std(ddof=1)) / math.sqrt(kept.size) if kept.size > 1 else math.nan
    status = "ok"
    if not math.isfinite(base):
        status = f"loss is {'nan' if math.isnan(base) else 'inf'} at params"
    elif not good.all():
        status = "not finite"
    elif cut.any():
        status = "domain"
    elif kinked(bends.mean(axis=0), float(base), float(jnp.finfo(dtype).eps)):
        status = "kink"
    known, kept = judged(setting, sampled(setting), rise=mean, base=float(base))
    seen = None
    if representatives:
        again = lambda other: average_sharpness(
            loss, other, radius, space=space, ball=ball, distribution=distribution, samples=samples,
            antithetic=antithetic, adaptive=adaptive, mask=mask, probes=0, batch=batch, microbatch=microbatch,
            mesh=mesh, key=key,
        ).value  # fmt: skip
        seen = spread(CALL, space, setting.given, again, representatives, spread_scale, probe_key)
    spent = draws * (2 if antithetic else 1)
    return AverageSharpness(
        mean, scatter, prediction, error, method, spent, n, radius, distribution, status,
        int((~good).sum()), *known, seen, kept,
    )  # fmt: skip


def _sample(
    problem: Problem, static: tuple[str, int, bool, int], key: jax.Array, radius: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Rises at random points (means of pairs if antithetic) and whether the metric's domain cut them short.

    Then second differences along the first few, and the base.
    """
    distribution, draws, antithetic, n = static
    size, dtype = problem.layout.size, problem.layout.dtype
    base = problem.rise_to(jnp.zeros(size, dtype))

    def draw(key: jax.Array) -> jax.Array:
        one, two = jax.random.split(key)
        # A standard normal vector in whitened coordinates, projected: isotropic on the horizontal space.
        x = problem.ball.horizontal(jax.random.normal(one, (size,), dtype))
        if distribution == "gaussian":
            return radius * x
        x = problem.ball.unit(x)[0]
        if distribution == "ball":
            x = x * jax.random.uniform(two, (), dtype) ** (1.0 / n)
        return radius * x

    def rise(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = draw(key)
        ahead, stop = problem.rise_to(x) - base, problem.ball.stop(x)
        if not antithetic:
            return ahead, stop < 1
        return 0.5 * (ahead + problem.rise_to(-x) - base), jnp.minimum(stop, problem.ball.stop(-x)) < 1

    def bend(key: jax.Array) -> jax.Array:
        x = draw(key)
        second = lambda share: problem.rise_to(share * x) + problem.rise_to(-share * x) - 2 * base
        return lax.map(second, jnp.asarray(SCALES, dtype))

    keys = jax.random.split(key, draws)
    at_once = 16 if size <= 100_000 else 1
    rises, cut = lax.map(rise, keys, batch_size=min(draws, at_once))
    return rises, cut, lax.map(bend, keys[:LOOKED_AT]), base

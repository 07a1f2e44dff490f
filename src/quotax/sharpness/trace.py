"""The trace of the Hessian over the directions that matter, exactly or from random probes; the gradient's length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from quotax.sharpness.arguments import check_share, check_whole, random_key
from quotax.sharpness.arithmetic import Arithmetic, judged, settled, warned
from quotax.sharpness.ball import Space
from quotax.sharpness.invariance import Spread, sampled, spread, verdict
from quotax.sharpness.objective import Loss
from quotax.sharpness.result import FUNCTION
from quotax.sharpness.scaling import Mask
from quotax.sharpness.setting import Problem, Setting, prepare

CALL = "quotax.trace"

EXACT = 1000
"""Up to this many parameters the default is the exact trace: one Hessian-vector product for each."""


@dataclass(frozen=True)
class Trace:
    """The trace of a Hessian on the horizontal space (or on all parameters that move).

    Attributes:
        value: the trace.
        standard_error: of `value`; zero when it is exact.
        method: `"exact"` or `"Hutch++"`.
        products: Hessian-vector products spent.
        dim: the dimension traced over; `value / dim` is the mean eigenvalue. Neither is comparable between widths.
        hessian: `"Riemannian"` or `"Euclidean"`, which differ away from critical points.
        status: `"ok"`, or `"not finite"`.
        invariant: whether it is a function on the quotient (None: not known), and `reason` why; for an estimate also
            whether it is made from the same samples at every representative.
        spread: the values at random representatives, if asked for.
        arithmetic: what was kept of the digits; nothing without a quotient.
    """

    value: float
    standard_error: float
    method: str
    products: int
    dim: int
    hessian: str
    status: str
    invariant: bool | None = None
    reason: str = ""
    spread: Spread | None = None
    arithmetic: Arithmetic | None = None

    def __str__(self) -> str:
        """One readable line, and one for each thing to know about it."""
        error = "" if self.method == "exact" else f" ± {self.standard_error:.2g}"
        text = f"trace {self.value:.6g}{error} over {self.dim} dimensions ({self.hessian} Hessian, {self.method}"
        text += f", {self.products} products" + ("" if self.status == "ok" else f", {self.status}") + ")"
        lines = [text, f"{FUNCTION[self.invariant]}: {self.reason}"]
        return "\n".join(lines + ([str(self.spread)] if self.spread else []))


def trace(
    loss: Loss,
    params: Any,
    *,
    space: Space | None = None,
    ball: str | None = None,
    probes: int | None = None,
    adaptive: bool = False,
    mask: Mask = None,
    batch: Any = None,
    microbatch: int | None = None,
    mesh: Any = None,
    key: Any = None,
    representatives: int = 0,
    spread_scale: float = 0.5,
) -> Trace:
    """The trace of the Hessian, in the metric of a quotient on its horizontal space.

    The Riemannian Hessian where the space has geodesics; `ball="linear"` takes straight lines instead. `probes=None`
    is exact for at most 1,000 parameters and 120 Hessian-vector products beyond: Hutch++ spends a third of them on the
    range of the Hessian, whose trace it then takes exactly, and averages the rest over random signs.

    Example:
        >>> import jax.numpy as jnp
        >>> found = trace(lambda p: jnp.sum(jnp.arange(4.0) * p**2), jnp.ones(4))
        >>> found.value, found.method
        (12.0, 'exact')
    """
    setting = settled(
        prepare(
            CALL, loss, params, space, batch, microbatch, ball=ball, natural="geodesic",
            adaptive=adaptive, mask=mask, mesh=mesh,
        )
    )  # fmt: skip
    setting.require_coordinates()
    if probes is not None:
        check_whole(CALL, "probes", probes, 6)
    check_whole(CALL, "representatives", representatives, 0)
    spread_scale = check_share(CALL, "spread_scale", spread_scale)
    value, error, method, spent = traced(setting, probes, random_key(CALL, key))
    known, kept = judged(setting, verdict(setting) if method == "exact" else sampled(setting))
    seen = None
    if representatives:
        again = lambda other: trace(
            loss, other, space=space, ball=ball, probes=probes, adaptive=adaptive, mask=mask, batch=batch,
            microbatch=microbatch, mesh=mesh, key=key,
        ).value  # fmt: skip
        seen = spread(CALL, space, setting.given, again, representatives, spread_scale, random_key(CALL, key))
    status = "ok" if math.isfinite(value) else "not finite"
    return Trace(value, error, method, spent, setting.dim, setting.hessian, status, *known, seen, kept)


def traced(setting: Setting, probes: int | None, key: jax.Array) -> tuple[float, float, str, int]:
    """The trace, its standard error, the method and the products spent."""
    size = setting.layout.size
    if probes is None and size <= EXACT:
        return float(np.sum(np.asarray(setting.run(_diagonal, None), float))), 0.0, "exact", size
    sketch = min((probes or 120) // 3, setting.dim)
    signs = (probes or 120) - 2 * sketch
    range_part, rest = (np.asarray(part, float) for part in setting.run(_hutch, (sketch, signs), key))
    value = float(range_part + rest.mean())
    return value, float(rest.std(ddof=1)) / math.sqrt(signs), "Hutch++", 2 * sketch + signs


def _diagonal(problem: Problem, _: None) -> jax.Array:
    """The diagonal of the projected Hessian in whitened coordinates."""
    size, dtype = problem.layout.size, problem.layout.dtype

    def entry(i: jax.Array) -> jax.Array:
        return problem.hessian_vector(problem.ball.horizontal(jnp.zeros(size, dtype).at[i].set(1.0)))[i]

    return lax.map(entry, jnp.arange(size), batch_size=min(size, 16))


def _hutch(problem: Problem, counts: tuple[int, int], key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The trace on the range of a random sketch, and samples of the trace on its complement (Meyer et al. 2021)."""
    sketch, signs = counts
    size, dtype = problem.layout.size, problem.layout.dtype
    one, two = jax.random.split(key)
    draw = lambda k: problem.ball.horizontal(jax.random.rademacher(k, (size,), dtype))
    image = lambda k: problem.hessian_vector(draw(k))
    Q = jnp.linalg.qr(lax.map(image, jax.random.split(one, sketch)).T)[0].T
    # A sketch that is not of full rank is completed by vectors that need not be horizontal.
    Q = lax.map(problem.ball.horizontal, Q)
    range_part = jnp.sum(lax.map(lambda q: q @ problem.hessian_vector(q), Q))

    def sample(k: jax.Array) -> jax.Array:
        z = draw(k)
        z = z - Q.T @ (Q @ z)
        return z @ problem.hessian_vector(z)

    return range_part, lax.map(sample, jax.random.split(two, signs))


def gradient_norm(
    loss: Loss,
    params: Any,
    *,
    space: Space | None = None,
    batch: Any = None,
    microbatch: int | None = None,
    mesh: Any = None,
) -> float:
    """The length of the gradient in the metric of the space: the steepest rise per unit of distance.

    Its gradient vector is horizontal by itself: the loss does not change along orbits.

    Example:
        >>> import jax.numpy as jnp
        >>> gradient_norm(lambda p: 3 * p["a"] + 4 * p["b"], {"a": jnp.ones(()), "b": jnp.ones(())})
        5.0
    """
    setting = prepare("quotax.gradient_norm", loss, params, space, batch, microbatch, mesh=mesh)
    size, setting = slope(setting)
    warned(setting)
    return size


def slope(setting: Setting) -> tuple[float, Setting]:
    """The length of the gradient, and the setting in which it was measured."""
    setting = settled(setting)
    return float(setting.run(_gradient_norm, None)), setting


def _gradient_norm(problem: Problem, _: None) -> jax.Array:
    return problem.ball.norm(problem.gradient(jnp.zeros(problem.layout.size, problem.layout.dtype)))

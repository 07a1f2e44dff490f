"""The trace of the Hessian over the directions that matter, exactly or from random probes; the gradient's length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import jax
import numpy as np
from jax.sharding import Mesh

from quotax.presenting import Result
from quotax.programs.threads import one_thread
from quotax.sharpness.problem.arguments import Key, check_whole
from quotax.sharpness.problem.ball import Space
from quotax.sharpness.problem.objective import Loss
from quotax.sharpness.problem.scaling import Moving
from quotax.sharpness.problem.setting import Measurement, Setting
from quotax.sharpness.problem.vectors import Vector, combine, dots, finite
from quotax.sharpness.verdicts.along_orbit import Elsewhere, Spread, compared
from quotax.sharpness.verdicts.along_orbit import representatives as representatives_of
from quotax.sharpness.verdicts.arithmetic import Arithmetic, judged, settled, warned
from quotax.sharpness.verdicts.invariance import sampled, verdict
from quotax.sharpness.verdicts.result import standing
from quotax.trees import Tree

CALL = "quotax.trace"

EXACT = 1000
"""Up to this many parameters the default is the exact trace: one Hessian-vector product for each."""


@dataclass(frozen=True, repr=False)
class TraceEstimate(Result):
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
        return "\n".join([text, *standing(self.invariant, self.reason, self.spread)])


@one_thread
@np.errstate(all="ignore")  # what is no number is named in the result
def trace(
    loss: Loss,
    params: Tree,
    *,
    space: Space | None = None,
    ball: str | None = None,
    probes: int | None = None,
    adaptive: bool = False,
    mask: Moving = None,
    batch: Tree = None,
    microbatch: int | None = None,
    mesh: Mesh | None = None,
    key: Key = None,
    representatives: int = 0,
    spread_scale: float = 0.5,
) -> TraceEstimate:
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
    request = Measurement(
        CALL, loss, space, ball, natural="geodesic", adaptive=adaptive, mask=mask, batch=batch, microbatch=microbatch,
        mesh=mesh, key=key, representatives=representatives, spread_scale=spread_scale,
    )  # fmt: skip
    setting = settled(request.at(params))
    setting.require_coordinates()
    if probes is not None:
        check_whole(CALL, "probes", probes, 6)
    value, error, method, spent = traced(setting, probes)
    known, kept = judged(setting, verdict(setting) if method == "exact" else sampled(setting))
    seen = None
    if representatives:
        own = (settled(request.at(other)) for other, _ in representatives_of(request, setting.given))
        known, seen = compared(
            known, request, value, [Elsewhere.of(traced(each, probes)[0], each) for each in own], error
        )
    status = "ok" if math.isfinite(value) else "not finite"
    return TraceEstimate(value, error, method, spent, setting.dim, setting.hessian, status, *known, seen, kept)


def traced(setting: Setting, probes: int | None) -> tuple[float, float, str, int]:
    """The trace, its standard error, the method and the products spent."""
    problem, size = setting.problem, setting.layout.size
    if probes is None and size <= EXACT:
        # The diagonal of the projected Hessian in whitened coordinates.
        rows = problem.frame.horizontal(problem.kept(np.eye(size)))
        return float(np.sum(problem.forms(rows))), 0.0, "exact", size
    sketch = min((probes or 120) // 3, setting.dim)
    signs = (probes or 120) - 2 * sketch
    range_part, rest = _hutch(setting, sketch, signs)
    value = float(range_part + rest.mean())
    return value, float(rest.std(ddof=1)) / math.sqrt(signs), "Hutch++", 2 * sketch + signs


def _hutch(setting: Setting, sketch: int, signs: int) -> tuple[float, np.ndarray]:
    """The trace on the range of a random sketch, and samples of the trace on its complement (Meyer et al. 2021)."""
    problem, size = setting.problem, setting.layout.size
    random = np.random.default_rng((*setting.request.bits, 3))
    flips = lambda count: random.integers(0, 2, (count, size), np.int8)
    draw = lambda count: problem.frame.horizontal(problem.kept(2.0 * flips(count) - 1.0))
    Q = _orthonormal(problem.hessian_vectors(draw(sketch)))
    if Q is None or not len(Q):
        return 0.0, np.full(signs, math.nan if Q is None else 0.0)
    z = draw(signs)
    return float(np.sum(problem.forms(Q))), problem.forms(z - combine(dots(z, Q), Q))


def _orthonormal(stack: Vector) -> Vector | None:
    """An orthonormal basis of the span of some rows; nothing where they are no numbers."""
    if not finite(stack):
        return None
    xp: ModuleType = np if isinstance(stack, np.ndarray) else jax.numpy
    Q, R = xp.linalg.qr(stack.T)
    sizes = np.abs(np.diag(np.asarray(R)))
    # Columns beyond the rank complete the basis by anything, horizontal or not.
    return Q.T[sizes > 1e3 * float(np.finfo(sizes.dtype).eps) * sizes.max(initial=0.0)]


@one_thread
@np.errstate(all="ignore")  # what is no number is named in the result
def gradient_norm(
    loss: Loss,
    params: Tree,
    *,
    space: Space | None = None,
    batch: Tree = None,
    microbatch: int | None = None,
    mesh: Mesh | None = None,
) -> float:
    """The length of the gradient in the metric of the space: the steepest rise per unit of distance.

    Its gradient vector is horizontal by itself: the loss does not change along orbits.

    Example:
        >>> import jax.numpy as jnp
        >>> gradient_norm(lambda p: 3 * p["a"] + 4 * p["b"], {"a": jnp.ones(()), "b": jnp.ones(())})
        5.0
    """
    request = Measurement("quotax.gradient_norm", loss, space, batch=batch, microbatch=microbatch, mesh=mesh)
    size, setting = slope(request, params)
    warned(setting)
    return size


def slope(request: Measurement, params: Tree) -> tuple[float, Setting]:
    """The length of the gradient, and the setting in which it was measured."""
    setting = settled(request.at(params))
    problem = setting.problem
    return problem.ball(1.0).norm(problem.look(problem.origin)[1]), setting

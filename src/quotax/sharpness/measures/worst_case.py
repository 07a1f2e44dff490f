"""Worst-case sharpness: the largest rise of the loss in a ball around the parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from quotax.errors import SharpnessError
from quotax.programs.threads import one_thread
from quotax.sharpness.problem.arguments import Key, check_radius, check_start
from quotax.sharpness.problem.ball import Space, broken_promises
from quotax.sharpness.problem.devices import restart_devices
from quotax.sharpness.problem.objective import Loss
from quotax.sharpness.problem.scaling import Moving, block_norms
from quotax.sharpness.problem.setting import Measurement, Problem, Setting
from quotax.sharpness.problem.vectors import Vector
from quotax.sharpness.search.climbing import RUNNING, STATIONARY
from quotax.sharpness.search.effort import Wanted
from quotax.sharpness.search.run import Found, Job, Search, check_state, maximise, outcome
from quotax.sharpness.search.watching import Watch
from quotax.sharpness.verdicts.along_orbit import Elsewhere, compared
from quotax.sharpness.verdicts.along_orbit import representatives as representatives_of
from quotax.sharpness.verdicts.arithmetic import judged, settled
from quotax.sharpness.verdicts.gap import model_gap, spread_gap
from quotax.sharpness.verdicts.invariance import Verdict, searched
from quotax.sharpness.verdicts.kinks import SCALES, kinked
from quotax.sharpness.verdicts.result import Sharpness
from quotax.trees import AnySpace, Tree

CALL = "quotax.sharpness"


@one_thread
@np.errstate(all="ignore")  # what is no number is named in the result
def sharpness(
    loss: Loss,
    params: Tree,
    radius: float,
    *,
    space: Space | None = None,
    ball: str | None = None,
    norm: str = "l2",
    adaptive: bool = False,
    mask: Moving = None,
    per_layer: bool = False,
    batch: Tree = None,
    microbatch: int | None = None,
    budget: int | None = None,
    steps: int | None = None,
    restarts: int | None = None,
    curvature: int | None = None,
    memory: int | None = None,
    tolerance: float | None = None,
    key: Key = None,
    start: Tree = None,
    bound: bool = False,
    mesh: Mesh | None = None,
    progress: Callable[[str], object] | None = None,
    state: Search | None = None,
    resumable: bool = False,
    representatives: int = 0,
    spread_scale: float = 0.5,
) -> Sharpness:
    """The worst rise `max L(params + delta) - L(params)` over `|delta| <= radius`.

    Without `space` the ball is Euclidean and full. With a quotient, delta is horizontal at `params` and its length is
    the quotient's metric. The search is an ascent from several starts: what it returns is reached at `perturbation`,
    hence a lower bound of the maximum; for quadratic losses it converges to the maximum, the hard case included.

    Args:
        loss: `loss(params)`, or `loss(params, batch)` when `batch` is given: then a mean over the batch's examples.
        params: a pytree of floating-point arrays.
        radius: the ball's radius, positive.
        space: a quotient: `space.at(params)` is asked once, for `horizontal`, `inner`, `norm` and, if the metric is not
            Euclidean, `whiten` and `unwhiten` (or `sharp`, from covectors to vectors).
        ball: `"linear"` (straight horizontal steps, the default with a space), `"geodesic"` (along horizontal
            geodesics; where the ball exceeds the metric's domain the search stays inside) or `"full"` (all directions,
            Euclidean: the default without a space; with one, the space serves `representatives` only).
        norm: of a full ball: `"l2"`, or `"linf"`: every parameter in its own interval.
        adaptive: measure steps relative to each parameter, `|delta / |theta||`, as in ASAM. Zeros do not move.
        mask: what moves: a tree of zeros and ones like the parameters, names of arrays or subtrees, or a function of
            an array's name (nested names join with `/`).
        per_layer: every array has a ball of its own, all at once: `|delta_i| <= radius |theta_i|`, the layer-wise
            relative perturbation; with `adaptive`, `|delta_i / |theta_i|| <= radius` for each. Arrays of zeros do not
            move. For the sharpness of one layer alone, use `mask="its name"`.
        batch: a pytree whose leaves share their leading axis.
        microbatch: examples in memory at once; the result depends on it through rounding only.
        budget: at most so many gradients; a certificate of stationarity stops the search before. By default 200; with
            up to 1024 parameters other climbs use what is left of them beside a certified one, and as many as 1000
            are spent where the search has no certificate by then.
        steps: the same, said as steps for each of the `restarts`.
        restarts: short ascents, among which the search chooses: uphill, the best mirrored, then random ones.
        curvature: Hessian-vector products at the centre, for the quadratic model that one more climb begins with.
        memory: directions whose curvature a climb remembers: 2 `memory` vectors of the size of the parameters. By
            default 20, and fewer for networks so large that this would take much room.
        tolerance: for the certificate of stationarity, relative to the gradient: 1e-6 in float64, 1e-4 in float32.
        key: of the random starts: a JAX key or an integer; 0 by default.
        start: a perturbation, shaped like the parameters, whose direction is one more start: what a smaller ball
            found, for example, so that the larger one is not measured below it.
        bound: measure the gap to the exact maximum of the quadratic model, whose Hessian is formed: for small problems.
            Without it the gap is the spread over restarts.
        mesh: a `jax.sharding.Mesh` (Auto axes): the batch is split over its devices, everything else is on all of them.
            An axis called `"restarts"` holds searches instead of examples.
        progress: called with a line of text after every step; by default lines appear on standard error when it
            takes longer than two seconds. An interrupt from the keyboard returns the best so far.
        state: of an earlier result with the same arguments: the search goes on, and ends where it would have ended.
        resumable: keep `state` in the result; an interrupted search keeps it anyway. It holds a few dozen vectors.
        representatives: measure at so many random points of the same orbit too, and return the spread.
        spread_scale: of the random group elements.

    Example:
        >>> import jax.numpy as jnp
        >>> found = sharpness(lambda p: p["a"] ** 2 + 4 * p["b"] ** 2, {"a": jnp.zeros(()), "b": jnp.zeros(())}, 0.5)
        >>> round(found.value, 4), found.status
        (1.0, 'stationary')
    """
    request = Measurement(
        CALL, loss, space, ball, norm=norm, adaptive=adaptive, mask=mask, per_layer=per_layer, batch=batch,
        microbatch=microbatch, mesh=mesh, key=key, representatives=representatives, spread_scale=spread_scale,
    )  # fmt: skip
    wanted = Wanted(budget, steps, restarts, curvature, memory, tolerance)
    rising = Rising.of(request, wanted, params)
    radius = check_radius(CALL, radius)
    if start is not None:
        check_start(CALL, start, rising.setting.given)
    check_state(CALL, state, radius, rising.setting.layout.size)
    watch = Watch(CALL, rising.job(radius).most, progress)
    search, interrupted = maximise(rising.job(radius, start), watch, state)
    measured = rising.conclude(search, bound)
    if interrupted:
        measured = replace(measured, status="interrupted")
    measured = replace(measured, state=search if resumable or interrupted else None)
    if representatives and math.isfinite(measured.base):

        def again(other: Any, push: Callable[[Any], Any]) -> Elsewhere:
            there = Rising.of(request, wanted, other)
            found = outcome(maximise(there.job(radius), watch)[0])
            return Elsewhere.of(found.rise, there.setting)._replace(carried=there.worth(push(measured.perturbation)))

        seen = [again(*each) for each in representatives_of(request, rising.setting.given)]
        known, along = compared(Verdict(measured.invariant, measured.reason), request, measured.value, seen)
        return replace(measured, invariant=known.invariant, reason=known.reason, spread=along)
    return measured


@dataclass(frozen=True)
class Rising:
    """Searches for the worst rise around one point, at any radius."""

    setting: Setting
    wanted: Wanted

    @classmethod
    def of(cls, request: Measurement, wanted: Wanted, params: Tree) -> Rising:
        """Checked, before anything is compiled."""
        wanted.check(request.call)
        return cls(settled(request.at(params)), wanted)

    def job(self, radius: float, start: Tree = None) -> Job:
        """The search in a ball; `start` is a perturbation whose direction is one more start."""
        setting, request = self.setting, self.setting.request
        product = None
        if request.norm == "linf" or request.per_layer:
            product = block_norms(setting.layout, "linf" if request.norm == "linf" else "l2")
        effort = (replace(self.wanted, curvature=0) if product else self.wanted).plan(setting.layout)
        devices = restart_devices(request.mesh)
        effort = replace(effort, width=-(-effort.width // devices) * devices)
        direction = None
        if start is not None:
            direction = setting.problem.frame.coordinates(setting.away(start))
        share = self.wanted.share(setting.layout)
        return Job(setting.problem, radius, effort, request.bits, share, direction, product)

    def worth(self, perturbation: Any) -> float:
        """The rise of the loss at a perturbation of the parameters as they were given."""
        problem = self.setting.problem
        x = problem.frame.coordinates(self.setting.away(perturbation))
        return problem.value(x) - problem.value(problem.origin)

    def conclude(self, search: Search, bound: bool = False) -> Sharpness:
        """The measurement that a search amounts to."""
        setting, problem, found = self.setting, self.setting.problem, outcome(search)
        base, radius, eps = search.centre.base, search.radius, setting.layout.eps
        known, kept = judged(setting, searched(setting), rise=found.rise, base=base, moving=True)
        if not math.isfinite(base):
            return _nothing(setting, base, radius, search.spent, known)
        if setting.point is not None and not hasattr(setting.point, "level"):
            # A space of somebody else's; what quotax promises of its own is tested.
            one, two = problem.normal((*setting.request.bits, 3), 2)
            broken = broken_promises(problem.ball(radius), setting.point, setting.layout, one, two)
            _check_promises(setting.space, broken, eps)
        bends = _second_differences(problem, found.delta, base, search.ascent is not None)
        stop, moved = problem.stop(found.delta), problem.frame.away(found.delta)
        missed = model_gap(setting, radius, found.rise) if bound else spread_gap(found.rises)
        return Sharpness(
            value=found.rise,
            perturbation=setting.home(moved if stop == 1 else stop * moved),
            evaluations=search.spent,
            history=search.history[: search.spent].copy(),
            status=_status(search, found, eps, stop),
            radius=radius,
            base=base,
            restart_values=found.rises,
            nonfinite=search.nonfinite,
            gap=missed.size,
            gap_kind=missed.kind,
            invariant=known.invariant,
            reason=known.reason,
            arithmetic=kept,
            kink=kinked(bends, base, eps),
        )


def _second_differences(problem: Problem, x: Vector, base: float, single: bool) -> np.ndarray:
    """`L(h) + L(-h) - 2 L(0)` at shares h of a point of the ball."""
    at = (lambda share: problem.look_along(x, x, 0.0, share)) if single else lambda share: problem.look(share * x)
    return np.asarray([at(share)[0] + at(-share)[0] - 2 * base for share in SCALES])


def _nothing(setting: Setting, base: float, radius: float, spent: int, known: Verdict) -> Sharpness:
    """The result where the loss at the centre is no number."""
    kind = "nan" if math.isnan(base) else "inf"
    zero, history = jax.tree.map(jnp.zeros_like, setting.given), np.full(1, np.nan)
    status = f"loss is {kind} at params"
    centre = Sharpness(math.nan, zero, spent, history, status, radius, base, history, 1)
    return replace(centre, invariant=known.invariant, reason=known.reason)


def _status(search: Search, found: Found, eps: float, stop: float) -> str:
    """The name of the way the winning restart ended."""
    hidden = 8 * eps * abs(search.centre.base)
    if float(np.max(np.abs(found.rises))) <= hidden and search.radius * search.steepest <= hidden:
        return "flat"
    if stop < 1:
        return "domain"
    return "budget" if found.done == RUNNING else "stationary" if found.done == STATIONARY else "rounding"


def _check_promises(space: AnySpace, broken: tuple[float, float], eps: float) -> None:
    allowed = 100 * eps**0.5
    again, mismatch = broken
    kind = type(space).__name__
    if not again <= allowed:
        raise SharpnessError(
            f"`{CALL}` needs a projection, and `{kind}.at(params).horizontal` is none: projecting a horizontal unit "
            f"vector again moves it by {again:.1e}; it must return the horizontal part itself."
        )
    if not mismatch <= allowed:
        raise SharpnessError(
            f"`{CALL}` needs the gradient of the space's own metric, and `{kind}.at(params)` does not give it: "
            f"`inner(sharp(c), v)` differs from c(v) by {mismatch:.1e} relative. A metric that is not Euclidean needs "
            f"`sharp`, the inverse of its matrix; without `sharp` the identity is used."
        )

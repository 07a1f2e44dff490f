"""Worst-case sharpness: the largest rise of the loss in a ball around the parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.errors import SharpnessError
from quotax.sharpness.arguments import (
    check_radius,
    check_share,
    check_start,
    check_whole,
    random_key,
)
from quotax.sharpness.arithmetic import judged, settled
from quotax.sharpness.ball import Space, broken_promises
from quotax.sharpness.devices import replicated, restart_devices
from quotax.sharpness.effort import PRODUCT, Effort, plan
from quotax.sharpness.gap import model_gap, spread_gap
from quotax.sharpness.invariance import Verdict, spread, verdict
from quotax.sharpness.kinks import SCALES, kinked
from quotax.sharpness.maximiser import draw, maximise
from quotax.sharpness.objective import Loss
from quotax.sharpness.product import maximise_product
from quotax.sharpness.result import Sharpness
from quotax.sharpness.scaling import Mask, block_norms
from quotax.sharpness.search import RUNNING, STATIONARY, Found, Search, check_state, outcome
from quotax.sharpness.setting import Problem, Setting, prepare
from quotax.sharpness.watching import Watch

CALL = "quotax.sharpness"


def sharpness(
    loss: Loss,
    params: Any,
    radius: float,
    *,
    space: Space | None = None,
    ball: str | None = None,
    norm: str = "l2",
    adaptive: bool = False,
    mask: Mask = None,
    per_layer: bool = False,
    batch: Any = None,
    microbatch: int | None = None,
    budget: int | None = None,
    steps: int | None = None,
    restarts: int | None = None,
    curvature: int | None = None,
    memory: int | None = None,
    tolerance: float | None = None,
    key: Any = None,
    start: Any = None,
    bound: bool = False,
    mesh: Any = None,
    progress: Callable[[str], Any] | None = None,
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
        budget: at most so many gradients; a certificate of stationarity stops the search before. By default 200, and up
            to 1024 parameters as many as 1000 where the search has no certificate by then.
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
        progress: called with a line of text as the search goes on; by default lines appear on standard error when it
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
    setting = settled(
        prepare(
            CALL, loss, params, space, batch, microbatch,
            ball=ball, norm=norm, adaptive=adaptive, mask=mask, per_layer=per_layer, mesh=mesh,
        )
    )  # fmt: skip
    radius = check_radius(CALL, radius)
    check_whole(CALL, "representatives", representatives, 0)
    spread_scale = check_share(CALL, "spread_scale", spread_scale)
    blocks = norm if norm == "linf" else "l2" if per_layer else None
    effort = plan_for(setting, budget, steps, restarts, 0 if blocks else curvature, memory)
    small = small_share(setting, tolerance)
    params, flat = setting.given, setting.layout
    dtype = flat.dtype
    random = random_key(CALL, key)
    direction = None if start is None else flat.flat(setting.away(check_start(CALL, start, params)))
    size = jnp.asarray(radius, dtype)
    if direction is not None:
        direction = setting.run(_coordinates, None, replicated(setting.mesh, direction))
    search, interrupted = None, False
    if blocks:
        found, evaluations = _in_blocks(setting, blocks, effort, size, small, random, direction)
    else:
        effort = replace(effort, width=-(-effort.width // restart_devices(mesh)) * restart_devices(mesh))
        check_state(CALL, state, radius, flat.size)
        watch = Watch(CALL, effort.most, progress)
        search, interrupted = maximise(setting, size, small, effort, random, direction, watch, state)
        found, evaluations = outcome(search), search.spent
    measured = conclude(setting, size, found, evaluations, random, bound)
    if interrupted:
        measured = replace(measured, status="interrupted")
    measured = replace(measured, state=search if resumable or interrupted else None)
    if representatives and math.isfinite(measured.base):
        again = lambda other: sharpness(
            loss, other, radius, space=space, ball=ball, norm=norm, adaptive=adaptive, mask=mask, per_layer=per_layer,
            batch=batch, microbatch=microbatch, mesh=mesh, budget=budget, restarts=restarts, curvature=curvature,
            memory=memory, tolerance=tolerance, key=key, progress=progress,
        ).value  # fmt: skip
        seen = spread(CALL, space, params, again, representatives, spread_scale, random_key(CALL, key))
        return replace(measured, spread=seen)
    return measured


def plan_for(
    setting: Setting,
    budget: int | None = None,
    steps: int | None = None,
    restarts: int | None = None,
    curvature: int | None = None,
    memory: int | None = None,
) -> Effort:
    """The division of the budget that these arguments of a measurement ask for."""
    for name, count, least in (("budget", budget, 2), ("steps", steps, 1), ("restarts", restarts, 1),
                               ("curvature", curvature, 0), ("memory", memory, 1)):  # fmt: skip
        if count is not None:
            check_whole(CALL, name, count, least)
    if steps is not None:
        restarts = 4 if restarts is None else restarts
        budget = 1 + PRODUCT * (6 if curvature is None else curvature) + steps * restarts
    flat = setting.layout
    return plan(budget, flat.size, flat.dtype.itemsize, curvature, restarts, memory)


def small_share(setting: Setting, tolerance: float | None) -> jax.Array:
    """The tolerance of the certificate of stationarity."""
    dtype = setting.layout.dtype
    if tolerance is None:
        tolerance = 1e-6 if jnp.finfo(dtype).bits >= 64 else 1e-4
    else:
        tolerance = check_share(CALL, "tolerance", tolerance)
    return jnp.asarray(tolerance, dtype)


def conclude(
    setting: Setting, size: jax.Array, found: Found, evaluations: int, random: jax.Array, bound: bool
) -> Sharpness:
    """The measurement that a search at the radius `size` amounts to."""
    flat, dtype = setting.layout, setting.layout.dtype
    base, radius = float(found.base), float(size)
    known, kept = judged(setting, verdict(setting), rise=float(found.rise), base=base)
    if not math.isfinite(base):
        return replace(_nothing(setting, base, radius, evaluations, known), arithmetic=kept)
    noise = None if setting.point is None else replicated(setting.mesh, draw(random, (2, flat.size), dtype))
    delta, broken, bends = setting.run(_finish, None, size, found.delta, found.base, noise)
    if broken is not None:
        _check_promises(setting.space, broken, dtype)
    missed = model_gap(setting, size, float(found.rise)) if bound else spread_gap(np.asarray(found.rises))
    return Sharpness(
        value=float(found.rise),
        perturbation=setting.home(flat.nested(delta)),
        evaluations=evaluations,
        history=np.asarray(found.history),
        status=_status(found, radius, float(jnp.finfo(dtype).eps), float(bends[-1])),
        radius=radius,
        base=base,
        restart_values=np.asarray(found.rises),
        nonfinite=int(found.nonfinite),
        gap=missed.size,
        gap_kind=missed.kind,
        invariant=known.invariant,
        reason=known.reason,
        arithmetic=kept,
        kink=kinked(np.asarray(bends[:-1], float), base, float(jnp.finfo(dtype).eps)),
    )


def _coordinates(problem: Problem, _: None, direction: jax.Array) -> jax.Array:
    """A displacement in the coordinates of the ball."""
    return problem.ball.coordinates(direction)


def _in_blocks(
    setting: Setting,
    blocks: str,
    effort: Effort,
    radius: jax.Array,
    tolerance: jax.Array,
    key: jax.Array,
    direction: Any,
) -> tuple[Found, int]:
    """The search in a product of balls, and the gradients it spent."""
    # At least twenty gradients each: a corner is found in few.
    restarts = min(effort.starts, max(4, effort.budget // 20))
    noise = draw(key, (restarts, setting.layout.size), setting.layout.dtype)
    if direction is not None:
        noise = jnp.concatenate([noise, direction[None]])
    steps = max(1, (effort.budget - 1) // len(noise))
    # Room for the history in steps of 64: another number of steps is then no other program.
    longest = -(-steps // 64) * 64
    found = setting.run(_product, (blocks, longest), radius, noise, jnp.asarray(steps, jnp.int32), tolerance)
    taken = int(found.spent)
    history = np.repeat(np.asarray(found.history[1 : taken + 1]), len(noise))
    return found._replace(history=np.concatenate([np.zeros(1), history])), 1 + taken * len(noise)


def _product(
    problem: Problem, static: tuple[str, int], radius: Any, noise: jax.Array, steps: jax.Array, tolerance: jax.Array
) -> Found:
    blocks, longest = static
    ball, norms = problem.ball._replace(radius=radius), block_norms(problem.layout, blocks)
    return maximise_product(ball, norms, problem.value_and_gradient, noise, steps, tolerance, longest)


def _finish(
    problem: Problem, _: None, radius: jax.Array, x: jax.Array, base: jax.Array, noise: jax.Array | None
) -> tuple[jax.Array, Any, jax.Array]:
    """The displacement; what is wrong with the space; and second differences along it, with its time of stopping."""
    ball = problem.ball._replace(radius=radius)
    along = jnp.asarray(SCALES, x.dtype)
    both = jnp.concatenate([along, -along])
    value = lambda share: jnp.asarray(problem.value(ball.embed(share * x))).astype(x.dtype)
    ahead, behind = jnp.split(jax.lax.map(value, both), 2)
    stop = ball.stop(x)
    bends = jnp.append(ahead + behind - 2 * base, stop)
    broken = None if noise is None else broken_promises(ball, problem.layout, problem.point, *noise)
    return stop * ball.tangent(x), broken, bends


def _nothing(setting: Setting, base: float, radius: float, spent: int, known: Verdict) -> Sharpness:
    """The result where the loss at the centre is no number."""
    kind = "nan" if math.isnan(base) else "inf"
    zero, history = jax.tree.map(jnp.zeros_like, setting.given), np.zeros(1)
    status = f"loss is {kind} at params"
    centre = Sharpness(0.0, zero, spent, history, status, radius, base, history, 1)
    return replace(centre, invariant=known.invariant, reason=known.reason)


def _status(found: Found, radius: float, eps: float, stop: float) -> str:
    """The name of the way the winning restart ended."""
    hidden = 8 * eps * abs(float(found.base))
    if float(jnp.max(jnp.abs(found.rises))) <= hidden and radius * float(found.steepest) <= hidden:
        return "flat"
    if stop < 1:
        return "domain"
    done = int(found.done)
    return "budget" if done == RUNNING else "stationary" if done == STATIONARY else "rounding"


def _check_promises(space: Any, broken: tuple[jax.Array, jax.Array], dtype: Any) -> None:
    allowed = 100 * float(jnp.finfo(dtype).eps) ** 0.5
    again, mismatch = (float(number) for number in broken)
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

"""Worst-case sharpness: the largest rise of the loss in a ball around the parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.errors import SharpnessError
from quotax.sharpness.arguments import (
    check_batch,
    check_loss,
    check_params,
    check_point,
    check_radius,
    check_start,
    check_whole,
    random_key,
)
from quotax.sharpness.ball import Space, broken_promises, linear_ball
from quotax.sharpness.maximiser import RUNNING, STATIONARY, Effort, Found, maximise
from quotax.sharpness.objective import Loss, value_and_gradient
from quotax.sharpness.result import Sharpness
from quotax.sharpness.vectors import layout

CALL = "quotax.sharpness"

_OWN_STARTS = 3
"""The restarts before the random ones, whose starts come from the centre."""


def sharpness(
    loss: Loss,
    params: Any,
    radius: float,
    *,
    space: Space | None = None,
    batch: Any = None,
    microbatch: int | None = None,
    steps: int = 40,
    restarts: int = 4,
    curvature: int = 6,
    memory: int = 10,
    tolerance: float | None = None,
    key: Any = None,
    start: Any = None,
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
            Euclidean, `sharp` (from covectors to vectors).
        batch: a pytree whose leaves share their leading axis.
        microbatch: examples in memory at once; the result depends on it through rounding only.
        steps: at most so many steps; each spends one gradient per restart.
        restarts: starts, run as one batch: the quadratic model's maximiser, the gradient, the model's mirrored
            maximiser, then random ones.
        curvature: Hessian-vector products at the centre, for the model of the first start. With 0 the first start is
            the gradient.
        memory: directions whose curvature each restart remembers: 2 `memory` vectors of the size of the parameters.
        tolerance: for the certificate of stationarity, relative to the gradient: 1e-6 in float64, 1e-4 in float32.
        key: of the random starts: a JAX key or an integer; 0 by default.
        start: a perturbation, shaped like the parameters, whose direction is one more start: what a smaller ball
            found, for example, so that the larger one is not measured below it.

    Example:
        >>> import jax.numpy as jnp
        >>> found = sharpness(lambda p: p["a"] ** 2 + 4 * p["b"] ** 2, {"a": jnp.zeros(()), "b": jnp.zeros(())}, 0.5)
        >>> round(found.value, 4), found.status
        (1.0, 'stationary')
    """
    params = check_params(CALL, params)
    radius = check_radius(CALL, radius)
    for name, count, least in (("steps", steps, 1), ("restarts", restarts, 1), ("curvature", curvature, 0)):
        check_whole(CALL, name, count, least)
    check_whole(CALL, "memory", memory, 1)
    microbatch, batch = check_batch(CALL, batch, microbatch)
    check_loss(CALL, loss, params, batch)
    point = None if space is None else check_point(CALL, space, params)
    flat = layout(params)
    dtype = flat.dtype
    if tolerance is None:
        tolerance = 1e-6 if jnp.finfo(dtype).bits >= 64 else 1e-4
    elif not (isinstance(tolerance, float | int) and tolerance > 0):
        raise SharpnessError(f"`{CALL}` needs tolerance= positive, got {tolerance!r}; leave it out for the default.")
    memory = min(memory, flat.size)
    direction = None if start is None else flat.flat(check_start(CALL, start, params))
    if direction is not None:
        restarts = max(restarts, _OWN_STARTS) + 1
    # Room for the history in steps of 64: another number of steps is then no other program.
    effort = Effort(-(-steps // 64) * 64, restarts, min(curvature, memory), memory)

    # Drawn by a program of its own, which depends on the size only and is compiled once for all losses.
    noise = _draw(random_key(CALL, key), (restarts + 1, flat.size), dtype)
    if direction is not None:
        noise = noise.at[-1].set(direction)
    numbers = (jnp.asarray(radius, dtype), noise, jnp.asarray(steps, jnp.int32), jnp.asarray(tolerance, dtype))
    found, broken = _run(loss, effort, microbatch, params, batch, point, numbers)
    base = float(found.base)
    if not math.isfinite(base):
        kind = "nan" if math.isnan(base) else "inf"
        nothing = np.zeros(1)
        zero = jax.tree.map(jnp.zeros_like, params)
        return Sharpness(
            0.0, zero, 1 + effort.curvature, nothing, f"loss is {kind} at params", radius, base, nothing, 1
        )
    if point is not None:
        _check_promises(space, broken, dtype)
    taken = int(found.spent)
    return Sharpness(
        value=float(found.rise),
        perturbation=flat.nested(found.delta),
        evaluations=1 + effort.curvature + taken * restarts,
        history=np.asarray(found.history[: taken + 1]),
        status=_status(found, radius, float(jnp.finfo(dtype).eps)),
        radius=radius,
        base=base,
        restart_values=np.asarray(found.rises),
        nonfinite=int(found.nonfinite),
    )


def _status(found: Found, radius: float, eps: float) -> str:
    """The name of the way the winning restart ended."""
    hidden = 8 * eps * abs(float(found.base))
    if float(jnp.max(jnp.abs(found.rises))) <= hidden and radius * float(found.steepest) <= hidden:
        return "flat"
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


def _run(
    loss: Loss, effort: Effort, microbatch: int | None, params: Any, batch: Any, point: Any, numbers: Any
) -> tuple[Found, tuple[jax.Array, jax.Array]]:
    """Compile, or reuse what was compiled for the same loss and effort, and run."""
    arrays = all(isinstance(leaf, jax.Array | np.ndarray) for leaf in jax.tree.leaves(point))
    if arrays:
        try:
            program = _program(loss, effort, microbatch)
        except TypeError:  # a loss that cannot be hashed is compiled every time
            program = _program.__wrapped__(loss, effort, microbatch)
        return program(params, batch, point, *numbers)
    # A point that is not a pytree keeps its arrays in closures: they become constants of a program of its own.
    program = _program.__wrapped__(loss, effort, microbatch, lambda: point)
    return program(params, batch, None, *numbers)


_draw = jax.jit(jax.random.normal, static_argnums=(1, 2))


@lru_cache(maxsize=32)
def _program(
    loss: Loss, effort: Effort, microbatch: int | None, constant: Callable[[], Any] | None = None
) -> Callable[..., Any]:
    @jax.jit
    def program(params: Any, batch: Any, point: Any, radius: Any, noise: Any, steps: Any, tolerance: Any) -> Any:
        point = constant() if constant else point
        flat = layout(params)
        ball = linear_ball(params, flat, point, radius)
        found = maximise(ball, value_and_gradient(loss, batch, microbatch), noise, steps, tolerance, effort)
        return found, broken_promises(ball, flat, point, noise[0], noise[1])

    return program

"""How much a search may have missed: exactly, by the quadratic model, or only as evidence."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Var

from quotax.errors import SharpnessError
from quotax.sharpness.setting import Problem, Setting
from quotax.sharpness.trust_region import maximise_quadratic

LARGEST = 1024
"""Parameters up to which the Hessian is formed."""

EXACT = "exact: the loss is quadratic"
MODEL = "quadratic model: not a bound, the loss is not quadratic"
SPREAD = "spread over restarts: evidence, not a bound"


class Gap(NamedTuple):
    """The value that is known or supposed to be possible, minus the value found; and of which kind that is."""

    size: float
    kind: str


def spread_gap(rises: np.ndarray) -> Gap:
    """How far apart the restarts ended."""
    return Gap(float(np.max(rises) - np.min(rises)), SPREAD)


def model_gap(setting: Setting, radius: jax.Array, value: float) -> Gap:
    """The exact maximum over the ball of the quadratic model at the centre, minus what was found.

    Where the Hessian is constant the model is the loss, and the gap is exact up to rounding. That is read off the
    program of `v -> H(x) v`: no operation that its result depends on reads x.
    """
    if setting.layout.size > LARGEST:
        raise SharpnessError(
            f"`{setting.call}` got bound=True, which forms the Hessian: at most {LARGEST} parameters, and here are "
            f"{setting.layout.size}; without it the result holds the spread over restarts."
        )
    best = float(setting.run(_model_maximum, None, radius))
    if not np.isfinite(best):
        return Gap(float("inf"), MODEL)
    return Gap(best - value, EXACT if _constant_hessian(setting, radius) else MODEL)


def _model_maximum(problem: Problem, _: None, radius: jax.Array) -> jax.Array:
    ball = problem.ball._replace(radius=radius)
    size, dtype = problem.layout.size, problem.layout.dtype
    # An orthonormal basis of the horizontal space in the ball's metric: P E W / sqrt(w), with P E E^T P = W w W^T.
    projected = jax.lax.map(ball.horizontal, jnp.eye(size, dtype=dtype), batch_size=64)
    gram = jax.lax.map(lambda v: ball.inners(projected, v), projected, batch_size=64)
    w, W = jnp.linalg.eigh(0.5 * (gram + gram.T))
    kept = w > 1e3 * size * jnp.finfo(dtype).eps * w[-1]
    basis = (W * jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, w, 1.0)), 0.0)).T @ projected
    images = jax.lax.map(problem.hessian_vector, basis)
    A = jax.vmap(lambda image: ball.inners(basis, image))(images)
    b = ball.inners(basis, problem.gradient(jnp.zeros(size, dtype)))
    A = 0.5 * (A + A.T)
    # Directions that do not exist get a curvature so negative that no step goes there.
    wall = 10 * (jnp.max(jnp.sum(jnp.abs(A), axis=1)) + jnp.linalg.norm(b) / radius + 1.0)
    z = maximise_quadratic(A - jnp.diag(jnp.where(kept, 0.0, wall)), b, radius, b)
    z = jnp.where(kept, z, 0.0)
    return b @ z + 0.5 * z @ (A @ z)


def _constant_hessian(setting: Setting, radius: jax.Array) -> bool:
    """Whether the program of `v -> H(x) v` never reads x: a proof that the loss is quadratic on the ball."""
    flat, batch = setting.layout, setting.batch
    arguments = () if batch is None else (batch,)

    def product(x: jax.Array, v: jax.Array) -> Any:
        gradient = jax.grad(lambda x: setting.loss(flat.nested(x), *arguments))
        return jax.jvp(gradient, (x,), (v,))[1]

    if setting.curved or len(set(flat.dtypes)) > 1:
        return False
    like = jax.ShapeDtypeStruct((flat.size,), flat.dtype)
    traced = jax.make_jaxpr(product)(like, like).jaxpr
    return not _reads(traced, [True])[0]


def _reads(jaxpr: Jaxpr, wanted: list[bool]) -> list[bool]:
    """Which inputs the wanted outputs of a program depend on."""
    live = {v for v, want in zip(jaxpr.outvars, wanted, strict=True) if want and isinstance(v, Var)}
    for equation in reversed(jaxpr.eqns):
        needed = [out in live for out in equation.outvars]
        if not any(needed):
            continue
        inner = equation.params.get("jaxpr")
        read = [True] * len(equation.invars)
        if equation.primitive.name in ("jit", "pjit") and isinstance(inner, ClosedJaxpr):
            read = _reads(inner.jaxpr, needed)
        live |= {v for v, used in zip(equation.invars, read, strict=True) if used and isinstance(v, Var)}
    return [v in live for v in jaxpr.invars]

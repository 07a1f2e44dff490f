"""How much a search may have missed: exactly, by the quadratic model, or only as evidence."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Var

from quotax.errors import SharpnessError
from quotax.sharpness.linalg.trust_region import maximise_quadratic
from quotax.sharpness.problem.setting import Setting
from quotax.sharpness.problem.vectors import combine, stacked
from quotax.trees import Tree

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


def model_gap(setting: Setting, radius: float, value: float) -> Gap:
    """The exact maximum over the ball of the quadratic model at the centre, minus what was found.

    Where the Hessian is constant the model is the loss, and the gap is exact up to rounding. That is read off the
    program of `v -> H(x) v`: no operation that its result depends on reads x.
    """
    if setting.layout.size > LARGEST:
        raise SharpnessError(
            f"`{setting.call}` got bound=True, which forms the Hessian: at most {LARGEST} parameters, and here are "
            f"{setting.layout.size}; without it the result holds the spread over restarts."
        )
    best = _model_maximum(setting, radius)
    if not np.isfinite(best):
        return Gap(float("inf"), MODEL)
    return Gap(best - value, EXACT if _constant_hessian(setting) else MODEL)


def _model_maximum(setting: Setting, radius: float) -> float:
    problem, ball = setting.problem, setting.problem.ball(radius)
    size = setting.layout.size
    # An orthonormal basis of the horizontal space in the ball's metric: P E W / sqrt(w), with P E E^T P = W w W^T.
    projected = stacked([ball.horizontal(problem.kept(row)) for row in np.eye(size)])
    gram = ball.products(projected, projected)
    w, W = np.linalg.eigh(0.5 * (gram + gram.T))
    kept = w > 1e3 * size * setting.layout.eps * w[-1]
    basis = combine((W[:, kept] / np.sqrt(w[kept])).T, projected)
    A = ball.products(basis, stacked([problem.hessian_vector(row) for row in basis]))
    b = ball.inners(basis, problem.look(problem.origin)[1])
    if not (np.all(np.isfinite(A)) and np.all(np.isfinite(b))):
        return float("nan")
    A = 0.5 * (A + A.T)
    z = maximise_quadratic(A, b, radius, b)
    return float(b @ z + 0.5 * z @ (A @ z))


def _constant_hessian(setting: Setting) -> bool:
    """Whether the program of `v -> H(x) v` never reads x: a proof that the loss is quadratic on the ball."""
    flat, request = setting.layout, setting.request
    arguments = () if request.batch is None else (request.batch,)

    def product(x: jax.Array, v: jax.Array) -> Tree:
        gradient = jax.grad(lambda x: request.loss(flat.nested(x), *arguments))
        return jax.jvp(gradient, (x,), (v,))[1]

    if setting.kind == "geodesic" or len(set(flat.dtypes)) > 1:
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

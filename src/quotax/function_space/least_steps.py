r"""The least horizontal step to a minimum of squared errors: Gauss and Newton's iteration, and Newton's.

What is minimised is

$$F_\lambda(\delta) = \tfrac12 |f(\theta + \delta) - y|^2 + \tfrac\lambda2 |\delta|^2$$

over steps that are horizontal at $\theta$, while $\lambda$ falls to where it no longer matters: what is left is the
least step among those that minimise the errors. Gauss and Newton's step is in closed form,
$\delta \leftarrow E^T (E E^T + \lambda)^{-1} (E \delta - r)$. It treats outputs as straight, and is slow where their
bending counts as much as the length: along directions that change no output, where the Hessian

$$E^T E + \sum_i r_i \nabla^2 f_i + \lambda$$

has nothing but the last two terms, with $r = O(\lambda)$. Newton's step has both, by conjugate gradients with the first
and the last as the preconditioner, $(E^T E + \lambda)^{-1} = (1 - E^T (E E^T + \lambda)^{-1} E) / \lambda$; their first
iterate is Gauss and Newton's step.
"""

from __future__ import annotations

import numpy as np

from quotax.function_space.row_space import RowSpace

INNER = 25
"""Iterations of conjugate gradients, at most."""
STAGE = 15
"""Steps at one weight of the length, before it falls."""


def least_step(start: RowSpace, target: np.ndarray, budget: int) -> tuple[np.ndarray, str, int]:
    """The step, `"converged"` or `"budget"`, and the iterations spent."""
    step, here = np.zeros(start.jacobian.columns), start
    residual = start.outputs() - target
    largest = float(start.factors[1][0] ** 2)
    if not largest:
        return step, "converged", 0
    damping, spent, eps = 0.1 * largest, 0, start.jacobian.eps
    while True:
        value, before, radius = _value(residual, step, damping), spent, np.inf
        enough = max(1e2 * eps, 1e-9) if damping <= start.damping else 1e-5
        while True:
            change, expected, length = _newton(here, residual, step, damping, radius)
            if expected <= enough * value:
                break
            if spent == budget:
                return step, "budget", spent
            spent += 1
            if spent - before > STAGE and damping > start.damping:
                break
            there = start.moved(step + change)
            off = there.outputs() - target
            new = _value(off, step + change, damping)
            gained = (value - new) / expected if np.isfinite(new) else -1.0
            if gained < 0.25:
                radius = length / 4
            elif gained > 0.75 and length > 0.99 * radius:
                radius *= 2
            if gained > 1e-4:
                step, residual, here, value = step + change, off, there, new
            elif expected <= 1e4 * eps * value:
                break  # nothing lower is resolved
        if damping <= start.damping:
            return step, "converged", spent
        damping = max(damping * (0.1 if spent - before > 2 else 1e-3), start.damping)


def _value(residual: np.ndarray, step: np.ndarray, damping: float) -> float:
    return 0.5 * float(residual @ residual) + 0.5 * damping * float(step @ step)


def _newton(
    here: RowSpace, residual: np.ndarray, step: np.ndarray, damping: float, radius: float
) -> tuple[np.ndarray, float, float]:
    """A step downwards, what the model expects to gain by it, and its length in the norm of the preconditioner.

    It ends at the radius where it would be longer, or where the model bends downwards: Steihaug's rule.
    """
    slope = here.pulled(residual) + damping * step

    def product(v: np.ndarray) -> np.ndarray:
        return here.pulled(here.effect(v)) + here.twisted(residual, v) + damping * v

    def solved(v: np.ndarray) -> np.ndarray:
        return (v - here.pulled(here.weights(here.effect(v), damping))) / damping

    change, rest = np.zeros_like(step), -slope
    direction = ready = solved(rest)
    size = first = float(rest @ ready)
    # In the preconditioner's norm: |change|^2, change . direction, |direction|^2.
    square, across, along = 0.0, 0.0, size
    gain = 0.0
    for _ in range(INNER):
        if size <= 1e-6 * first:
            break
        image = product(direction)
        curvature = float(direction @ image)
        length = size / curvature if curvature > 0 else np.inf
        if square + 2 * length * across + length**2 * along >= radius**2 or curvature <= 0:
            limit = min(radius, 2 * first**0.5) if np.isfinite(radius) else max(first**0.5, square**0.5)
            length = (-across + np.sqrt(max(across**2 + along * (limit**2 - square), 0.0))) / along
            change = change + length * direction
            gain += length * size - 0.5 * length**2 * curvature
            square += 2 * length * across + length**2 * along
            break
        change, rest = change + length * direction, rest - length * image
        gain += 0.5 * length * size
        square += 2 * length * across + length**2 * along
        ready = solved(rest)
        new = float(rest @ ready)
        ratio = new / size
        across, along = ratio * (across + length * along), new + ratio**2 * along
        direction, size = ready + ratio * direction, new
    return change, gain, square**0.5

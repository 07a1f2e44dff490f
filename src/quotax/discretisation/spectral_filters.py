r"""Weight decay and early stopping as filters of the modes of a linear model.

For $\tfrac{1}{2n} |X \theta - y|^2$ with $X = U s V^T$ and $\lambda = s^2 / n$, each of these goes from $\theta_0$ to

$$\theta_0 + V \varphi(\lambda) s^{-1} U^T (y - X \theta_0),$$

with $\varphi = \lambda / (\lambda + \alpha)$ for weight decay $\tfrac\alpha2 |\theta - \theta_0|^2$,
$1 - (1 - \eta \lambda)^t$ for t steps of gradient descent, $1 - e^{-\lambda t}$ for the flow, and one minus a power
of a matrix of two rows with momentum. The part of $\theta_0$ that X does not see stays as it is: from zero, and for
ever, the solution of least norm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quotax.discretisation.schemes import Scheme, gradient_descent
from quotax.errors import DiscretisationError
from quotax.trees import Tree

Filter = Callable[[np.ndarray], np.ndarray]


def weight_decay(alpha: float) -> Filter:
    r"""$\lambda / (\lambda + \alpha)$.

    >>> weight_decay(1.0)(np.array([0.0, 1.0, 3.0]))
    array([0.  , 0.5 , 0.75])
    """
    if not alpha > 0:
        raise DiscretisationError(f"`quotax.weight_decay` needs a positive alpha, got {alpha!r}.")
    return lambda values: np.asarray(values, float) / (np.asarray(values, float) + alpha)


def early_stopping(eta: float, steps: int, scheme: Scheme | None = None) -> Filter:
    r"""What so many steps from rest have learned of every mode: $1 - (1 - \eta \lambda)^t$ without momentum.

    >>> early_stopping(0.5, 2)(np.array([0.0, 1.0, 2.0]))
    array([0.  , 0.75, 1.  ])
    """
    if not eta > 0 or steps < 0:
        raise DiscretisationError(f"`quotax.early_stopping` needs eta > 0 and steps >= 0, got {eta!r} and {steps!r}.")
    chosen = gradient_descent() if scheme is None else scheme
    return lambda values: 1 - chosen.decay(values, eta, steps)


def flow_until(time: float) -> Filter:
    r"""$1 - e^{-\lambda t}$.

    >>> float(flow_until(np.log(2))(np.array(1.0)))
    0.5
    """
    if not time >= 0:
        raise DiscretisationError(f"`quotax.flow_until` needs a time that is not negative, got {time!r}.")
    return lambda values: -np.expm1(-np.asarray(values, float) * time)


def filtered(features: Any, targets: Tree, learned: Filter, start: Tree = None) -> np.ndarray:
    """The parameters of a linear model trained on half the mean of squares, by what a filter lets through of each mode.

    Args:
        features: X, an example a row.
        targets: y, one for each example, or a row of several.
        learned: `quotax.weight_decay`, `quotax.early_stopping`, `quotax.flow_until`, or a function of eigenvalues.
        start: the parameters at the start; zero if none are given.

    Example:
        >>> filtered(np.array([[1.0, 0.0]]), np.array([2.0]), early_stopping(0.5, 1), np.array([0.0, 7.0]))
        array([1., 7.])
    """
    X, y = np.asarray(features, float), np.asarray(targets, float)
    if X.ndim != 2 or y.shape[:1] != X.shape[:1]:
        raise DiscretisationError(
            f"`quotax.filtered` needs features with an example a row and as many targets, got {X.shape} and {y.shape}."
        )
    begin = np.zeros((X.shape[1], *y.shape[1:])) if start is None else np.asarray(start, float)
    if begin.shape != (X.shape[1], *y.shape[1:]):
        raise DiscretisationError(
            f"`quotax.filtered`: start has shape {begin.shape}, and parameters {(X.shape[1], *y.shape[1:])}."
        )
    left, s, right = np.linalg.svd(X, full_matrices=False)
    seen = s > s.max(initial=0.0) * max(X.shape) * np.finfo(float).eps
    left, s, right = left[:, seen], s[seen], right[seen]
    share = learned(s**2 / len(X)) / s
    modes = left.T @ (y - X @ begin)
    return begin + right.T @ (modes * share.reshape(-1, *[1] * (y.ndim - 1)))

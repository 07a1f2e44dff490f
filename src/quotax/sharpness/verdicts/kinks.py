"""Kinks: second differences that do not converge as the step shrinks.

Along a smooth curve `(L(h) + L(-h) - 2 L(0)) / h^2 = L'' + c h^2 + ...`: from one scale to a quarter of it, the change
shrinks sixteenfold. A kink at the centre makes it grow fourfold instead, and kinks spread over the ball, as the ReLUs
of a batch of examples have them, keep it constant: the Hessian misses the curvature that is concentrated in the kinks,
and second-order statements (traces, eigenvalues, predictions) are then wrong at this radius.
"""

from __future__ import annotations

import numpy as np

SCALES = (1.0, 1 / 4, 1 / 16, 1 / 64)
"""Shares of the radius at which second differences are taken."""

# The change from one scale to the next must be this share of the curvature to count, ...
RELEVANT = 0.05
# ... and this share of the change before it: in logs half-way between 1/16 (smooth) and 1 (kinks all over the ball).
SLOW = 0.25


def kinked(rises: np.ndarray, base: float, eps: float) -> bool | None:
    """Whether the loss has kinks at this scale; None where rounding of the loss hides the answer.

    `rises[i]` is `L(h) + L(-h) - 2 L(0)` with h the i-th share of a step, or the mean of that over several steps.

    >>> h = np.asarray(SCALES)
    >>> kinked(2 * h**2 + h**4, 1.0, 1e-16), kinked(2 * h**2 + np.abs(h), 1.0, 1e-16)
    (False, True)
    """
    steps = np.asarray(SCALES)
    if not np.all(np.isfinite(rises)):
        return None
    differences = np.asarray(rises, float) / steps**2
    noise = 8 * eps * (abs(base) + np.abs(rises)) / steps**2
    size = float(np.max(np.abs(differences[:2])))
    if size <= noise[0]:
        return False  # flat: nothing bends at all
    changes = np.abs(np.diff(differences))
    readable = noise[1:] <= 0.25 * RELEVANT * size
    if not readable[1]:
        return None
    last = 2 if readable[2] else 1
    return bool(changes[last] > RELEVANT * size and changes[last] > SLOW * changes[last - 1])

"""The largest value of a small quadratic on a ball, exactly, hard case included."""

from __future__ import annotations

import numpy as np

STEPS = 60
"""Of the scalar equation; Newton needs a handful, bisection a few more."""


def maximise_quadratic(A: np.ndarray, b: np.ndarray, radius: float, towards: np.ndarray) -> np.ndarray:
    """The argmax of `b.z + z.A z / 2` over `|z| <= radius`, for a symmetric matrix A of any signature.

    z is optimal iff `(lam - A) z = b` with `lam >= max(0, a_max)` and `lam (radius - |z|) = 0`. In eigenvectors of A,
    `z_i = b_i / (t + (a_max - a_i))` with `t = lam - a_max >= 0`: every difference is formed without cancellation.
    On the sphere t solves `1/|z(t)| = 1/radius`, which is nearly linear and concave in t, by Newton inside a bisection.
    Hard case: b has no component along the top eigenvectors and even `t = 0` leaves `|z| < radius`; the rest of the
    radius then goes along a top eigenvector, on the side of `towards` when b does not say which.
    """
    a, W = np.linalg.eigh(A)
    beta = W.T @ b
    a_max = float(a[-1])
    gaps = a_max - a
    tiny = np.finfo(float).tiny ** 0.5
    size = float(np.sqrt(beta @ beta))
    spread = max(abs(a_max), abs(float(a[0])), size / radius) + tiny
    floor = float(np.finfo(float).eps) * spread * 0.01

    # lam >= 0 means t >= -a_max; and |z(t)| <= |b| / t bounds the root from above.
    low = max(-a_max, floor)
    z = beta / (gaps + low)
    norm = float(np.sqrt(z @ z))
    if norm > radius:
        high = max(size / radius, low)
        t = low
        for _ in range(STEPS):
            low, high = (t, high) if norm > radius else (low, t)
            slope = float(z @ (z / (gaps + t))) / norm
            newton = t + (norm - radius) * norm / (radius * slope + tiny)
            t = newton if low < newton < high else (low * high) ** 0.5
            z = beta / (gaps + t)
            norm = float(np.sqrt(z @ z))
            if abs(norm - radius) <= 4e-16 * radius or high - low <= 4e-16 * high:
                break

    # Deficient on the sphere (lam > 0): the hard case.
    if a_max >= -floor and norm < radius * (1 - 1e-6):
        rest = max(radius**2 - float(z[:-1] @ z[:-1]), 0.0)
        side = z[-1] if abs(z[-1]) > 1e-3 * radius else W[:, -1] @ towards
        z[-1] = -(rest**0.5) if side < 0 else rest**0.5
    norm = float(np.sqrt(z @ z))
    return W @ (z * (radius / norm) if norm > radius else z)

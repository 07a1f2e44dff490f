"""The exact maximum of a quadratic over a ball: dense eigenvectors and bisection, in NumPy."""

import jax.numpy as jnp
import numpy as np

KINDS = ["indefinite", "convex", "concave", "hard", "critical"]


def dense_maximum(A, b, radius):
    """max of b.z + z.A z / 2 over |z| <= radius: inside, or by bisection on the multiplier, or the hard case."""
    a, W = np.linalg.eigh(A)
    beta = W.T @ b

    def value(z):
        return float(beta @ z + 0.5 * np.sum(a * z * z))

    if a[-1] < 0 and np.linalg.norm(beta / a) <= radius:
        return value(-beta / a)
    top = np.isclose(a, a[-1], rtol=1e-10, atol=1e-12)
    if a[-1] >= 0 and np.linalg.norm(beta[top]) <= 1e-12 * np.linalg.norm(beta):
        z = np.where(top, 0.0, beta / np.where(top, 1.0, a[-1] - a))
        if np.linalg.norm(z) <= radius:
            z[-1] = np.sqrt(radius**2 - z @ z)
            return value(z)
    low = max(0.0, a[-1])
    near, far = 0.0, np.linalg.norm(beta) / radius + 1.0
    for _ in range(300):
        middle = 0.5 * (near + far)
        if np.linalg.norm(beta / (low + middle - a)) > radius:
            near = middle
        else:
            far = middle
    return value(beta / (low + far - a))


def quadratic(p, data):
    A, b = data
    return b[0] @ p + 0.5 * p @ A[0] @ p


def examples(A, b):
    return jnp.asarray(A)[None], jnp.asarray(b)[None]

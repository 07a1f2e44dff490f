r"""The projector onto the kernel of a matrix, $P = 1 - A^+ A$: exactly, in floats, in residues.

$P$ is a smooth function of $A$ where the rank of $A$ is constant, and jumps where it drops. $A P = 0$ holds everywhere.
"""

from __future__ import annotations

import numpy as np
import sympy as sp

from quotax.trees import AnyArray


def exact_projector(stack: np.ndarray) -> np.ndarray:
    """Of matrices of rational numbers, or of symbols where the rank is the largest that the shape allows."""
    if stack.ndim > 2:
        return np.stack([exact_projector(block) for block in stack])
    count, n = stack.shape
    rows = sp.Matrix(count, n, [sp.sympify(x) for x in stack.ravel()])
    if not rows.free_symbols:
        rows = rows.rref()[0][: rows.rank(), :]
    elif count >= n:
        rows = sp.eye(n)
    onto = rows.T * (rows * rows.T).inv() * rows if rows.rows else sp.zeros(n, n)
    found = np.empty((n, n), dtype=object)
    found[...] = (sp.eye(n) - onto).applyfunc(sp.cancel).tolist()
    return found


def float_projector(stack: np.ndarray) -> np.ndarray:
    """Of matrices of floats, whose rank is that of the singular values above rounding; zero without a kernel."""
    _, values, right = np.linalg.svd(stack)
    seen = np.zeros(right.shape[:-1])
    seen[..., : values.shape[-1]] = values > tolerance(stack) * values.max(axis=-1, keepdims=True, initial=0)
    return np.swapaxes(right, -1, -2) @ ((1 - seen)[..., None] * right)


def tolerance(stack: AnyArray) -> float:
    """Singular values below this fraction of the largest are zero."""
    return 10 * max(stack.shape[-2:]) * float(np.finfo(stack.dtype).eps)

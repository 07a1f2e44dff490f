"""`gs.linalg`: decompositions from `jax.numpy.linalg`, matrix functions and equations of their own.

Errors: `cholesky` raises numpy's `LinAlgError` for a matrix that is not positive definite, as numpy does; under jit,
where no value can be looked at, its result is NaN, as JAX's is.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from quotax.geomstats_jax.dtypes import inexact, is_complex, is_traced
from quotax.geomstats_jax.matrix_equations import polar, solve_sylvester
from quotax.geomstats_jax.matrix_functions import fractional_matrix_power, logm, sqrtm


def _on_floats(function: Any) -> Any:
    def on_floats(a: Any, *args: Any, **kwargs: Any) -> Any:
        return function(inexact(a), *args, **kwargs)

    return on_floats


def cholesky(a: Any) -> jax.Array:
    """The lower triangular Cholesky factor."""
    a = inexact(a)
    factor = jnp.linalg.cholesky(a)
    if not is_traced(a) and bool(jnp.any(jnp.isnan(factor)) & jnp.all(jnp.isfinite(a))):
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    return factor


def is_single_matrix_pd(mat: Any) -> Any:
    """Whether one matrix is positive definite: a bool, or a boolean tracer under a transformation.

    As numpy does, a real matrix is read from its lower triangle; a complex one has to be Hermitian.
    """
    mat = inexact(mat)
    if mat.shape[0] != mat.shape[1]:
        return False
    if is_complex(mat):
        hermitian = jnp.all(jnp.abs(mat - mat.conj().T) < 8 * jnp.finfo(mat.dtype).eps * (1 + jnp.max(jnp.abs(mat))))
        definite = hermitian & (jnp.min(jnp.linalg.eigvalsh(mat)) > 0)
    else:
        definite = ~jnp.any(jnp.isnan(jax.lax.linalg.cholesky(mat, symmetrize_input=False)))
    return definite if is_traced(definite) else bool(definite)


def solve(a: Any, b: Any) -> jax.Array:
    """The solution of `a x = b`; with a batch of matrices, `b` is a vector or a batch of vectors."""
    a, b = inexact(a), inexact(b)
    if a.ndim == 2:
        return jnp.linalg.solve(a, b)
    return jnp.linalg.solve(a, b[..., None])[..., 0]


def matrix_rank(a: Any, tol: Any = None, hermitian: bool = False) -> jax.Array:
    """The number of singular values above `tol` (by default numpy's, the largest times the size times epsilon)."""
    a = inexact(a)
    if a.ndim < 2:
        return jnp.any(a != 0).astype(int)
    values = jnp.abs(jnp.linalg.eigvalsh(a)) if hermitian else jnp.linalg.svd(a, compute_uv=False)
    if tol is None:
        tol = jnp.max(values, axis=-1, keepdims=True) * max(a.shape[-2:]) * jnp.finfo(a.dtype).eps
    else:
        tol = jnp.asarray(tol)[..., None]
    return jnp.sum(values > tol, axis=-1)


def quadratic_assignment(a: Any, b: Any, options: dict[str, Any] | None = None) -> list[int]:
    """SciPy's approximate solution of the quadratic assignment problem, on the host."""
    from scipy.optimize import quadratic_assignment

    # A generator of its own: SciPy warns when somebody has seeded NumPy's global one, which it would use.
    chosen = {"rng": np.random.default_rng(0), **(options or {})}
    return quadratic_assignment(np.asarray(a), np.asarray(b), options=chosen).col_ind.tolist()


NAMESPACE = {
    "cholesky": cholesky,
    "det": _on_floats(jnp.linalg.det),
    "eig": _on_floats(jnp.linalg.eig),
    "eigh": _on_floats(jnp.linalg.eigh),
    "eigvalsh": _on_floats(jnp.linalg.eigvalsh),
    "expm": _on_floats(jsl.expm),
    "fractional_matrix_power": fractional_matrix_power,
    "inv": _on_floats(jnp.linalg.inv),
    "is_single_matrix_pd": is_single_matrix_pd,
    "logm": logm,
    "matrix_power": _on_floats(jnp.linalg.matrix_power),
    "matrix_rank": matrix_rank,
    "norm": _on_floats(jnp.linalg.norm),
    "polar": polar,
    "qr": _on_floats(jnp.linalg.qr),
    "quadratic_assignment": quadratic_assignment,
    "solve": solve,
    "solve_sylvester": solve_sylvester,
    "sqrtm": sqrtm,
    "svd": _on_floats(jnp.linalg.svd),
}

"""SciPy's matrix algorithms called from traced JAX code, and the spectral path that usually makes the call needless."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.geomstats_jax.dtypes import is_traced

General = Callable[..., Any]


def hermitian(a: jax.Array) -> jax.Array:
    """Whether each matrix of a batch is Hermitian to rounding."""
    defect = jnp.max(jnp.abs(a - a.conj().mT), axis=(-2, -1), initial=0)
    size = jnp.max(jnp.abs(a), axis=(-2, -1), initial=0)
    return defect <= 8 * a.shape[-1] * jnp.finfo(a.dtype).eps * size


def choose(easy: jax.Array, spectral: Callable[[], jax.Array], general: General, *matrices: jax.Array) -> jax.Array:
    """`spectral()` where `easy` holds, `general` on the host, matrix by matrix, elsewhere.

    Where there are values, they are looked at, and the host's result may be complex for real matrices. Under tracing
    the dtype cannot depend on values: a result that is not real is NaN. There the branch is a `lax.cond`; vmap turns
    that into evaluating both sides, so `easy` travels to the host with the matrices and saves it the easy ones.
    """
    if not is_traced(easy, *matrices):
        if bool(jnp.all(easy)):
            return spectral()
        return jnp.asarray(_stacked(general, np.zeros(easy.shape, bool), *map(np.asarray, matrices)))
    shape = jax.eval_shape(spectral)

    def call(skip: Any, *values: Any) -> np.ndarray:
        out = _stacked(general, np.asarray(skip), *map(np.asarray, values))
        return real_or_nan(out).astype(shape.dtype) if not np.issubdtype(shape.dtype, np.complexfloating) else out

    def mixed() -> jax.Array:
        on_host = jax.pure_callback(call, shape, easy, *matrices, vmap_method="broadcast_all")
        return jnp.where(easy[..., None, None], spectral(), on_host)

    return jax.lax.cond(jnp.all(easy), spectral, mixed)


def real_or_nan(matrices: Any) -> Any:
    """The real parts of the matrices that are real to rounding, NaN in place of the others."""
    xp = np if isinstance(matrices, np.ndarray) else jnp
    imaginary = xp.max(xp.abs(matrices.imag), axis=(-2, -1), keepdims=True, initial=0)
    size = xp.max(xp.abs(matrices), axis=(-2, -1), keepdims=True, initial=0)
    is_real = imaginary <= 1e3 * xp.finfo(matrices.dtype).eps * size
    return xp.where(is_real, matrices.real, np.nan)


def _stacked(general: General, skip: np.ndarray, *matrices: np.ndarray) -> np.ndarray:
    batch = skip.shape
    last = matrices[-1]
    rows = [m.reshape((-1, *m.shape[len(batch) :])) for m in matrices]
    out = [
        np.zeros(last.shape[len(batch) :], last.dtype) if skipped else general(*(row[i] for row in rows))
        for i, skipped in enumerate(skip.reshape(-1))
    ]
    stacked = np.asarray(out).reshape(last.shape)
    # SciPy returns complex128 for some real arguments of either precision.
    complex_dtype = np.result_type(last.dtype, np.complex64)
    return stacked.astype(complex_dtype if np.iscomplexobj(stacked) else last.dtype)

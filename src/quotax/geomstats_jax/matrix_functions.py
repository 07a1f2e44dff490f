r"""Matrix logarithm, square root and powers: any square matrix, jit, vmap, and derivatives of every order.

A Hermitian matrix with a positive spectrum is treated in its eigenbasis, any other one by SciPy on the host. The
derivatives never differentiate an eigen-decomposition (which has no derivative where eigenvalues meet): a function is
the solution of an equation ($\exp Y = X$, $Y^2 = X$), and its derivative solves the linearised equation.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import scipy.linalg

from quotax.geomstats_jax.dtypes import inexact, is_complex
from quotax.geomstats_jax.host import choose, hermitian, real_or_nan
from quotax.geomstats_jax.matrix_equations import solve_sylvester

Scalar = Callable[[jax.Array], jax.Array]


def logm(x: Any) -> jax.Array:
    """The principal logarithm.

    Where it is not real although `x` is: complex outside of transformations, NaN under jit, vmap and grad.
    """
    return _logm(inexact(x))


def sqrtm(x: Any) -> jax.Array:
    """The principal square root; complex or NaN where it is not real, as for `logm`."""
    return _sqrtm(inexact(x))


def fractional_matrix_power(A: Any, t: float) -> jax.Array:
    """The power `t` of a square matrix; complex or NaN where it is not real, as for `logm`."""
    return _power(inexact(A), t)


def _positive(values: jax.Array) -> jax.Array:
    return jnp.all(values > 0, axis=-1)


def _semidefinite(values: jax.Array) -> jax.Array:
    return jnp.all(values >= -_rounding(values), axis=-1)


def _rounding(values: jax.Array) -> jax.Array:
    return 4 * values.shape[-1] * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values), axis=-1, keepdims=True)


def _apply(x: jax.Array, scalar: Scalar, general: Callable[..., Any], domain: Scalar) -> jax.Array:
    values, vectors = jnp.linalg.eigh(x)
    easy = hermitian(x) & domain(values)

    def spectral() -> jax.Array:
        images = scalar(jnp.where(easy[..., None], values, 1))
        return (vectors * images[..., None, :]) @ vectors.conj().mT

    return choose(easy, spectral, general, x)


_logm = jax.custom_jvp(lambda x: _apply(x, jnp.log, scipy.linalg.logm, _positive))


@_logm.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (change,) = primals, tangents
    y = _of_dtype(x, _logm(x))
    # exp Y = X, so dY solves D exp(Y)[dY] = dX. The linear map is differentiable in Y, which gives the higher orders.
    _, matvec = jax.linearize(jsl.expm, y)
    return y, jax.lax.custom_linear_solve(
        matvec,
        change,
        solve=lambda _, e: _log_derivative(x, e),
        transpose_solve=lambda _, e: _log_derivative(x.mT, e),
    )


def _log_derivative(x: jax.Array, change: jax.Array) -> jax.Array:
    values, vectors = jnp.linalg.eigh(x)
    easy = hermitian(x) & _positive(values)

    # Daleckii and Krein: in the eigenbasis, multiply by (log a - log b) / (a - b) = 2 artanh(r) / (r (a + b)) with
    # r = (a - b) / (a + b); near r = 0 the series of artanh(r) / r is exact to rounding.
    def spectral() -> jax.Array:
        a = jnp.where(easy[..., None], values, 1)
        total = a[..., :, None] + a[..., None, :]
        r = (a[..., :, None] - a[..., None, :]) / total
        small = jnp.abs(r) < 1e-3
        large = jnp.where(small, 0.5, r)
        quotient = jnp.where(small, 1 + r**2 / 3 + r**4 / 5, jnp.arctanh(large) / large)
        rotated = vectors.conj().mT @ change @ vectors
        return vectors @ (2 * quotient / total * rotated) @ vectors.conj().mT

    # The derivative is the upper right block of the function of [[X, E], [0, X]].
    def general(matrix: np.ndarray, direction: np.ndarray) -> np.ndarray:
        n = len(matrix)
        block = np.block([[matrix, direction], [np.zeros_like(matrix), matrix]])
        return np.asarray(scipy.linalg.logm(block))[:n, n:]

    return choose(easy, spectral, general, x, change)


def _principal_root(x: jax.Array) -> jax.Array:
    return _apply(x, lambda values: jnp.sqrt(jnp.maximum(values, 0)), scipy.linalg.sqrtm, _semidefinite)


_sqrtm = jax.custom_jvp(_principal_root)


@_sqrtm.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (change,) = primals, tangents
    y = _of_dtype(x, _sqrtm(x))
    return y, solve_sylvester(y, y, change)


def _principal_power(x: jax.Array, t: float) -> jax.Array:
    general = partial(scipy.linalg.fractional_matrix_power, t=t)
    return _apply(x, lambda values: values**t, general, _positive)


_power = jax.custom_jvp(_principal_power, nondiff_argnums=(1,))


@_power.defjvp
def _(t: float, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    _, change = jax.jvp(lambda x: jsl.expm(t * _logm(x)), primals, tangents)
    return _of_dtype(primals[0], _power(primals[0], t)), change


# A derivative rule runs on values under grad alone, where a complex result would not match the real tangent.
def _of_dtype(x: jax.Array, y: jax.Array) -> jax.Array:
    return y if is_complex(x) or not is_complex(y) else real_or_nan(y).astype(x.dtype)

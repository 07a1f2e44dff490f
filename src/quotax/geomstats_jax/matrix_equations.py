"""The Sylvester equation and the polar decomposition, with derivatives that do not mind repeated eigenvalues."""

from typing import Any

import jax
import jax.numpy as jnp
import scipy.linalg

from quotax.geomstats_jax.dtypes import inexact, is_traced
from quotax.geomstats_jax.host import choose, hermitian


def solve_sylvester(a: Any, b: Any, q: Any) -> jax.Array:
    """The solution `x` of `a x + x b = q`.

    Hermitian coefficients are diagonalised, each by itself; any others go to SciPy on the host. When the equation is
    singular (Hermitian `a` and `b` with eigenvalues of sum zero) the answer is the minimum-norm solution of the
    equation projected to its range.
    """
    a, b, q = _same_batch(inexact(a), inexact(b), inexact(q))
    if not is_traced(a, b, q):
        return _sylvester(a, b, q)
    # A linear equation: its derivatives are again solutions of it, whatever method solves it.
    return jax.lax.custom_linear_solve(
        lambda x: a @ x + x @ b,
        q,
        solve=lambda _, rhs: _sylvester(a, b, rhs),
        transpose_solve=lambda _, rhs: _sylvester(a.mT, b.mT, rhs),
    )


def _same_batch(*matrices: jax.Array) -> list[jax.Array]:
    batch = jnp.broadcast_shapes(*(m.shape[:-2] for m in matrices))
    dtype = jnp.result_type(*matrices)
    return [jnp.broadcast_to(m, batch + m.shape[-2:]).astype(dtype) for m in matrices]


def _sylvester(a: jax.Array, b: jax.Array, q: jax.Array) -> jax.Array:
    easy = hermitian(a) & hermitian(b)

    def spectral() -> jax.Array:
        values_a, vectors_a = jnp.linalg.eigh(a)
        values_b, vectors_b = jnp.linalg.eigh(b)
        total = values_a[..., :, None] + values_b[..., None, :]
        scale = jnp.max(jnp.abs(values_a), -1)[..., None, None] + jnp.max(jnp.abs(values_b), -1)[..., None, None]
        singular = jnp.abs(total) <= 4 * max(q.shape[-2:]) * jnp.finfo(q.dtype).eps * scale
        rotated = vectors_a.conj().mT @ q @ vectors_b
        solution = jnp.where(singular, 0, rotated / jnp.where(singular, 1, total))
        return vectors_a @ solution @ vectors_b.conj().mT

    return choose(easy, spectral, scipy.linalg.solve_sylvester, a, b, q)


def polar(a: Any, side: str = "right") -> tuple[jax.Array, jax.Array]:
    """The polar decomposition: `a = u p` (right) or `a = p u` (left), `u` unitary and `p` positive semidefinite."""
    if side not in ("left", "right"):
        raise ValueError(f"`gs.linalg.polar`: side is {side!r}; 'left' and 'right' are known.")
    a = inexact(a)
    u = _unitary(a)
    p = u.conj().mT @ a if side == "right" else a @ u.conj().mT
    return u, (p + p.conj().mT) / 2


def nearest_rotation(a: Any) -> jax.Array:
    r"""The rotation $R \in SO(n)$ nearest to `a`: it maximises $\langle R, A \rangle$."""
    return _rotation(inexact(a))


def _unitary_factor(a: jax.Array) -> jax.Array:
    left, _, right = jnp.linalg.svd(a, full_matrices=False)
    return left @ right


def _rotation_factor(a: jax.Array) -> jax.Array:
    left, _, right = jnp.linalg.svd(a, full_matrices=False)
    # Of two rotations that differ in the least singular direction, one has determinant 1.
    flip = jnp.linalg.det(left @ right)
    return left @ right.at[..., -1, :].multiply(jnp.sign(flip)[..., None])


_unitary = jax.custom_jvp(_unitary_factor)
_rotation = jax.custom_jvp(_rotation_factor)


# For square A = U P, P Hermitian: U* dA - dA* U = W P + P W with dU = U W, W skew; the same for the nearest rotation.
@_unitary.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    u = _unitary(*primals)
    return u, _turn(u, *primals, *tangents)


@_rotation.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    u = _rotation(*primals)
    return u, _turn(u, *primals, *tangents)


def _turn(u: jax.Array, a: jax.Array, change: jax.Array) -> jax.Array:
    p = u.conj().mT @ a
    p = (p + p.conj().mT) / 2
    rotated = u.conj().mT @ change
    return u @ solve_sylvester(p, p, rotated - rotated.conj().mT)

"""The logarithm of a quotient: the horizontal vector whose geodesic ends in the orbit of another point.

Where the total space is flat and the group acts by isometries, geodesics are straight and the vector is the chord to
the closest representative. Elsewhere it is found by shooting: with `e = exp(w)` and `t` the representative of the
target next to `e`, solve `F(w) = P_e (t - e) = 0`, `P_e` the horizontal projection at `e`. Along horizontal `w` the
end moves horizontally and vertically; the vertical part is followed by the representative, so Newton's equation is
`P_e dexp(dw) = F` over horizontal `dw`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

Tree = Any
"""Arrays by name, or any other pytree."""


class Log(NamedTuple):
    """A logarithm: `vector` is always finite; `ok` says whether its geodesic ends in the target's orbit."""

    vector: Tree
    residual: jax.Array
    """The distance left at the end, relative to the size of the end; infinite when no geodesic reached an end."""
    ok: jax.Array
    steps: jax.Array


def chord(base: Tree, closest: Tree, project: Callable[[Tree, Tree], Tree], *, tolerance: float | None = None) -> Log:
    """The logarithm where horizontal geodesics are straight: the chord to the closest representative of the target.

    `closest` is the target aligned to `base`. The chord to the closest representative is horizontal; its vertical
    part is the residual, which is large only when the alignment did not find the closest one.
    """
    vector, unravel = ravel_pytree(jax.tree.map(jnp.subtract, closest, base))
    horizontal = ravel_pytree(project(base, unravel(vector)))[0]
    size = jnp.maximum(_norm(ravel_pytree(closest)[0]), jnp.finfo(vector.dtype).tiny)
    residual = _norm(vector - horizontal) / size
    return Log(unravel(vector), residual, residual <= _tolerance(vector.dtype, tolerance), jnp.asarray(0))


def shoot(
    end: Callable[[Tree], Tree],
    align: Callable[[Tree], Tree],
    project: Callable[[Tree, Tree], Tree],
    base: Tree,
    start: Tree,
    *,
    steps: int = 40,
    tolerance: float | None = None,
    dense: int = 300,
    forward: bool = False,
) -> Log:
    """The horizontal `w` at `base` whose geodesic `end(w)` lies in the orbit of a target.

    `align(e)` is the target's representative closest to `e`; `project(point, v)` the horizontal part of `v` at
    `point`; `start` a first guess, as the chord to the representative closest to `base`: it decides which of several
    geodesics is found. An `end` that leaves its domain is to hold NaN: such steps are shortened.

    Every step is Newton's, halved until it helps: with at most `dense` parameters by the Jacobian of `end`, in
    `forward` mode or in reverse, above that by GMRES on central differences of `end`. The default tolerance is
    `eps^(2/3)`: 4e-11 in float64. Derivatives with respect to what the functions close over come from one more step
    with everything else held fixed (implicit function theorem); above `dense` that step solves nothing, and they are
    exact only where the geometry is flat.
    """
    first, unravel = ravel_pytree(start)
    tolerance = _tolerance(first.dtype, tolerance)
    flat = lambda tree: ravel_pytree(tree)[0]
    origin = flat(base)

    # Everything the loop reads is hoisted out of the closures and held fixed: loops have no reverse derivative.
    end_of, end_reads = jax.closure_convert(lambda w: flat(end(unravel(w))), first)
    near, near_reads = jax.closure_convert(lambda e: flat(align(unravel(e))), origin)
    onto, onto_reads = jax.closure_convert(lambda e, v: flat(project(unravel(e), unravel(v))), origin, origin)
    reads = (end_reads, near_reads, onto_reads, origin)
    held = jax.lax.stop_gradient(reads)

    def residual(w: jax.Array, reads: Any) -> tuple[jax.Array, jax.Array]:
        """The gap at the end, relative, and its horizontal part."""
        end_reads, near_reads, onto_reads, origin = reads
        e = end_of(w, *end_reads)
        inside = jnp.all(jnp.isfinite(e))
        e = jnp.where(inside, e, origin)
        gap = near(e, *near_reads) - e
        size = _norm(gap) / jnp.maximum(_norm(e), jnp.finfo(w.dtype).tiny)
        return jnp.where(inside & jnp.isfinite(size), size, jnp.inf), onto(e, gap, *onto_reads)

    def at_base(v: jax.Array, reads: Any = held) -> jax.Array:
        return onto(reads[3], v, *reads[2])

    newton = functools.partial(
        _by_jacobian if first.size <= dense else _by_differences,
        lambda w: end_of(at_base(w), *held[0]),
        lambda e, v: onto(e, v, *held[2]),
        at_base,
        forward,
    )
    w, size, count, inverse = _descend(
        lambda w: residual(w, held), newton, at_base(jax.lax.stop_gradient(first)), steps, tolerance
    )
    ok = size <= tolerance
    # One more step, the only one that is differentiated; the projection keeps the vector horizontal as `base` moves.
    w = at_base(jax.lax.stop_gradient(w), reads)
    last = residual(jnp.where(ok, w, 0), reads)[1]
    step = at_base(last if inverse is None else inverse @ last)
    polish = jnp.where(ok, step - jax.lax.stop_gradient(step), 0)
    return Log(unravel(w + polish), size, ok, count)


def _by_jacobian(
    end: Any, onto: Any, at_base: Any, forward: bool, w: jax.Array, f: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The shortest horizontal `dw` with `P dexp(dw) = f`, by dense algebra; and the matrix that finds it."""
    eye = jnp.eye(w.size, dtype=w.dtype)
    if forward:
        e, push = jax.linearize(end, w)
        columns = jax.vmap(push)(eye)
    else:
        e, pull = jax.vjp(end, w)
        columns = jax.vmap(lambda row: pull(row)[0])(eye).T
    columns = jax.lax.stop_gradient(jnp.where(jnp.isfinite(columns), columns, 0))
    matrix = jax.lax.stop_gradient(jax.vmap(lambda v: onto(e, v))(columns).T)
    # Vertical directions are at rounding level in the matrix and stay out of the solution.
    left, values, right = jnp.linalg.svd(matrix, full_matrices=False)
    kept = values > w.size * 1e2 * jnp.finfo(w.dtype).eps * jnp.max(values, initial=0)
    inverse = (right.T * jnp.where(kept, 1 / jnp.where(kept, values, 1), 0)) @ left.T
    return at_base(inverse @ f), inverse


def _by_differences(
    end: Any, onto: Any, at_base: Any, forward: bool, w: jax.Array, f: jax.Array
) -> tuple[jax.Array, None]:
    """The same by GMRES, both sides carried to the base, where they have the same unknowns."""
    del forward
    e = end(w)
    reach = jnp.finfo(w.dtype).eps ** (1 / 3) * (_norm(w) + jnp.finfo(w.dtype).eps * _norm(e))

    def operator(v: jax.Array) -> jax.Array:
        h = reach / jnp.maximum(_norm(v), jnp.finfo(w.dtype).tiny)
        slope = (end(w + h * v) - end(w - h * v)) / (2 * h)
        slope = jnp.where(jnp.all(jnp.isfinite(slope)), slope, v)
        return at_base(onto(e, slope))

    return at_base(_gmres(operator, at_base(f))), None


def _gmres(operator: Callable[[jax.Array], jax.Array], right: jax.Array, size: int = 25) -> jax.Array:
    """The vector of a Krylov space with the least residual; JAX's own asks to transpose the operator."""
    size = min(size, right.size)
    eps = jnp.finfo(right.dtype).eps
    scale = _norm(right)

    def arnoldi(state: Any) -> Any:
        count, basis, hessenberg, _ = state
        v = operator(basis[count])
        before = _norm(v)
        below = basis @ v
        v = v - below @ basis
        again = basis @ v  # twice is enough
        v = v - again @ basis
        length = _norm(v)
        whole = length > 1e3 * eps * before
        column = (below + again).at[count + 1].set(jnp.where(whole, length, 0))
        basis = basis.at[count + 1].set(jnp.where(whole, v / jnp.where(whole, length, 1), 0))
        return count + 1, basis, hessenberg.at[:, count].set(column), whole

    basis = jnp.zeros((size + 1, right.size), right.dtype).at[0].set(right / jnp.where(scale > 0, scale, 1))
    state = (jnp.asarray(0), basis, jnp.zeros((size + 1, size), right.dtype), scale > 0)
    _, basis, hessenberg, _ = jax.lax.while_loop(lambda s: (s[0] < size) & s[3], arnoldi, state)
    aim = jnp.zeros(size + 1, right.dtype).at[0].set(scale)
    return jnp.linalg.lstsq(hessenberg, aim)[0] @ basis[:-1]


def _descend(
    residual: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    newton: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array | None]],
    w: jax.Array,
    steps: int,
    tolerance: float,
    halvings: int = 10,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
    """Newton's steps, each halved until the residual shrinks; stops when none does.

    Ends with Newton's matrix at the solution, if there is one: what the solution's derivative is found with. Every
    trace of `residual` and `newton` is a differential equation to be compiled, so that each is traced once per loop.
    """

    def body(state: Any) -> Any:
        w, size, f, count, _, _ = state
        step, inverse = newton(w, f)
        open_ = size > tolerance

        def going(state: Any) -> jax.Array:
            tried, _, new, _ = state
            return open_ & (tried <= halvings) & ~(new < size)

        def attempt(state: Any) -> Any:
            tried, length, _, _ = state
            return tried + 1, length / 2, *residual(w + length / 2 * step)

        before = (jnp.asarray(0), jnp.full((), 2, w.dtype), jnp.full_like(size, jnp.inf), f)
        _, length, new, g = jax.lax.while_loop(going, attempt, before)
        better = new < size
        return (
            jnp.where(better, w + length * step, w),
            jnp.where(better, new, size),
            jnp.where(better, g, f),
            count + open_,
            better,
            inverse,
        )

    def going(state: Any) -> jax.Array:
        _, size, _, count, moving, inverse = state
        solved = size <= tolerance
        return moving & jnp.where(solved, inverse is not None, count < steps)

    w, size, f = _entered(residual, w)
    inverse = jax.eval_shape(lambda: newton(w, f)[1])
    inverse = None if inverse is None else jnp.zeros(inverse.shape, inverse.dtype)
    state = jax.lax.while_loop(going, body, (w, size, f, jnp.asarray(0), jnp.isfinite(size), inverse))
    return state[0], state[1], state[3], state[5]


def _entered(residual: Any, w: jax.Array, halvings: int = 20) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The start, halved until its geodesic stays in the domain."""

    def attempt(state: Any) -> Any:
        tried, w, _, _ = state
        return tried + 1, w / 2, *residual(w / 2)

    going = lambda state: (state[0] <= halvings) & ~jnp.isfinite(state[2])
    before = (jnp.asarray(0), 2 * w, jnp.full((), jnp.inf, w.dtype), jnp.zeros_like(w))
    _, w, size, f = jax.lax.while_loop(going, attempt, before)
    return w, size, f


def _tolerance(dtype: Any, tolerance: float | None) -> float:
    return float(jnp.finfo(dtype).eps) ** (2 / 3) if tolerance is None else tolerance


def _norm(v: jax.Array) -> jax.Array:
    square = jnp.sum(v * v)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)

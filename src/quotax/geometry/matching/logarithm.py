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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike

from quotax.geometry.matching.patience import Patience
from quotax.presenting import Result
from quotax.trees import Carry, Tree

DENSE = 300
"""Up to so many parameters Newton's method has the whole Jacobian, and a distance is a geodesic's length by default."""

_STEPS, _KRYLOV = 40, 25
"""Newton's steps at most, and products in each where GMRES solves its equation."""

_REMEMBERED = 20
"""Vectors that Anderson's rule combines."""


class _Log(NamedTuple):
    vector: Tree
    residual: jax.Array
    """The distance left at the end, relative to the size of the end; infinite when no geodesic reached an end."""
    ok: jax.Array
    steps: jax.Array
    attained: jax.Array | bool = True
    """Whether the canonical representatives that it was found between exist and were reached."""


class Log(Result, _Log):
    """A logarithm: `vector` is always finite; `ok` says whether its geodesic ends in the target's orbit."""

    __slots__ = ()


def unfinished(found: Log, budget: float) -> str:
    """What is to be said of a logarithm that did not arrive within so many seconds."""
    return (
        f"no geodesic was found in {budget:g} s that ends in the orbit of other; the best one ends at a relative "
        f"distance of {float(found.residual):.2g}. `space.distance` brackets the distance without one"
    )


def chord(base: Tree, closest: Tree, project: Callable[[Tree, Tree], Tree]) -> Log:
    """The logarithm where horizontal geodesics are straight: the chord to the closest representative of the target.

    `closest` is the target aligned to `base`. The chord to the closest representative is horizontal; its vertical
    part is the residual, which is large only when the alignment did not find the closest one.
    """
    vector, unravel = ravel_pytree(jax.tree.map(jnp.subtract, closest, base))
    horizontal = ravel_pytree(project(base, unravel(vector)))[0]
    size = jnp.maximum(_norm(ravel_pytree(closest)[0]), jnp.finfo(vector.dtype).tiny)
    residual = _norm(vector - horizontal) / size
    return Log(unravel(vector), residual, residual <= _tolerance(vector.dtype), jnp.asarray(0))


def shoot(
    end: Callable[[Tree], Tree],
    align: Callable[[Tree], Tree],
    project: Callable[[Tree, Tree], Tree],
    base: Tree,
    start: Tree,
    *,
    forward: Callable[[Tree], Tree] | None = None,
    at_base: Callable[[Tree], Tree] | None = None,
    dense: int = DENSE,
) -> Log:
    """The horizontal `w` at `base` whose geodesic `end(w)` lies in the orbit of a target.

    `align(e)` is the target's representative closest to `e`; `project(point, v)` the horizontal part of `v` at
    `point`; `start` a first guess, as the chord to the representative closest to `base`: it decides which of several
    geodesics is found. An `end` that leaves its domain is to hold NaN: such steps are shortened. `forward` is `end`
    again, for a differential equation that has derivatives in forward mode there and in reverse in `end`; `at_base(v)`
    is `project(base, v)`, where that is known to cost less.

    Every step is Newton's, halved until it helps: with at most `dense` parameters by the Jacobian of `forward`, above
    that by GMRES on central differences. The tolerance is `eps^(2/3)`: 4e-11 in float64. Derivatives, in
    reverse mode, with respect to what the functions close over come from one more step with everything else held fixed
    (implicit function theorem); above `dense` that step solves nothing, and they are exact only where the geometry is
    flat.
    """
    first, unravel = ravel_pytree(start)
    tolerance = _tolerance(first.dtype)
    flat = lambda tree: ravel_pytree(tree)[0]
    origin = flat(base)

    # What the functions read is hoisted out of them: it is held fixed in the search, and differentiated after it.
    end_of, end_reads = jax.closure_convert(lambda w: flat(end(unravel(w))), first)
    fast_of, fast_reads = (
        (end_of, end_reads) if forward is None else jax.closure_convert(lambda w: flat(forward(unravel(w))), first)
    )
    near, near_reads = jax.closure_convert(lambda e: flat(align(unravel(e))), origin)
    onto, onto_reads = jax.closure_convert(lambda e, v: flat(project(unravel(e), unravel(v))), origin, origin)
    home = at_base if at_base is not None else functools.partial(project, base)
    home_of, home_reads = jax.closure_convert(lambda v: flat(home(unravel(v))), origin)

    def aim(e: jax.Array, reads: _Reads) -> tuple[jax.Array, jax.Array, jax.Array]:
        """An end inside the domain, the gap there, and its size: relative, and infinite outside."""
        inside = jnp.all(jnp.isfinite(e))
        e = jnp.where(inside, e, reads.origin)
        gap = near(e, *reads.near) - e
        size = _norm(gap) / jnp.maximum(_norm(e), jnp.finfo(e.dtype).tiny)
        return e, gap, jnp.where(inside & jnp.isfinite(size), size, jnp.inf)

    def search(reads: _Reads, first: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
        held = jax.lax.stop_gradient(reads)
        problem = _Problem(
            lambda w: fast_of(home_of(w, *held.home), *held.forward),
            lambda e: aim(e, held),
            lambda e, v: onto(e, v, *held.onto),
            lambda v: home_of(v, *held.home),
        )
        return _descend(problem, jax.lax.stop_gradient(first), tolerance, whole=first.size <= dense)

    @jax.custom_vjp
    def solution(reads: _Reads, first: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return search(reads, first)[:3]

    def solved(reads: _Reads, first: jax.Array) -> tuple[Tree, Tree]:
        w, size, count, inverse = search(reads, first)
        return (w, size, count), (reads, w, size <= tolerance, inverse)

    def pulled(saved: Tree, change: Tree) -> tuple[Tree, jax.Array]:
        reads, w, ok, inverse = saved

        def polished(reads: _Reads) -> jax.Array:
            # The projection keeps the vector horizontal as `base` moves.
            v = home_of(w, *reads.home)
            e, gap, _ = aim(end_of(jnp.where(ok, v, 0), *reads.end), reads)
            last = onto(e, gap, *reads.onto)
            step = home_of(last if inverse is None else inverse @ last, *reads.home)
            return v + jnp.where(ok, step - jax.lax.stop_gradient(step), 0)

        return jax.vjp(polished, reads)[1](change[0])[0], jnp.zeros_like(w)

    solution.defvjp(solved, pulled)
    w, size, count = solution(_Reads(end_reads, fast_reads, near_reads, onto_reads, home_reads, origin), first)
    return Log(unravel(w), size, size <= tolerance, count)


def seek(
    end: Callable[[Tree], Tree],
    align: Callable[[Tree], Tree],
    project: Callable[[Tree, Tree], Tree],
    base: Tree,
    start: Tree,
    at_base: Callable[[Tree], Tree],
    *,
    patience: Patience,
) -> Log:
    """`shoot` as a host does it: one geodesic after the other, while there is `patience`; it has no derivatives.

    Near a flat space `w + F(w)` is a better `w`. Anderson's acceleration: of all combinations of the vectors tried, the
    one whose `F` would be least if `F` were affine. A vector that does not help is one more to combine, and the next
    step is half as long.
    """
    flat, unravel = _raveler(base)
    tolerance = _tolerance(flat(base).dtype)
    w, length, failed = flat(at_base(start)), 1.0, 0
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    best, size, count = (0 * w, None), np.inf, 0
    while True:
        e = end(unravel(w))
        there = flat(e)
        left, f = np.inf, None
        if np.all(np.isfinite(there)):
            gap = flat(align(e)) - there
            left = float(np.linalg.norm(gap) / max(np.linalg.norm(there), np.finfo(w.dtype).tiny))
            f = flat(at_base(project(e, unravel(gap))))
            if np.all(np.isfinite(f)):
                seen = [*seen[-_REMEMBERED + 1 :], (w, f)]
            else:
                left = np.inf
        if left < size:
            best, size, length, failed, count = (w, f), left, 1.0, 0, count + 1
        else:
            length, failed = length / 2, failed + 1
        patience(f"the end is at a relative distance of {size:.1e}")
        if size <= tolerance or failed > (12 if best[1] is not None else 20) or patience.over:
            break
        nearest, further = best
        w = w / 2 if further is None else nearest + length * _accelerated(nearest, further, seen)
    found = at_base(unravel(best[0]))
    residual = jnp.asarray(size, w.dtype)
    return Log(found, residual, residual <= tolerance, jnp.asarray(max(count - 1, 0)))


def _accelerated(w: np.ndarray, f: np.ndarray, seen: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The step from `w` by Anderson's rule."""
    others = [(a - w, b - f) for a, b in seen if a is not w]
    lengths = [np.linalg.norm(b) for _, b in others]
    kept = [(a / n, b / n) for (a, b), n in zip(others, lengths, strict=True) if n > 0]
    if not kept:
        return f
    moves, changes = (np.stack(column, 1) for column in zip(*kept, strict=True))
    shares = np.linalg.lstsq(changes.astype(float), -f.astype(float), rcond=np.finfo(w.dtype).eps ** 0.5)[0]
    return (f + (moves + changes) @ shares).astype(w.dtype)


def _raveler(like: Tree) -> tuple[Callable[[Tree], np.ndarray], Callable[[np.ndarray], Tree]]:
    """A tree as one vector of NumPy, and back: without a program for either."""
    leaves, form = jax.tree.flatten(like)
    ends = np.cumsum([leaf.size for leaf in leaves])
    flat = lambda tree: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])

    def unravel(vector: np.ndarray) -> Tree:
        parts = np.split(vector, ends[:-1])
        return form.unflatten([part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)])

    return flat, unravel


class _Reads(NamedTuple):
    """What each function reads besides its arguments, and the base."""

    end: Tree
    forward: Tree
    near: Tree
    onto: Tree
    home: Tree
    origin: jax.Array


class _Problem(NamedTuple):
    """The end of a horizontal vector, what is missing there (see `aim`), and the projections there and at the base."""

    end: Callable[[jax.Array], jax.Array]
    aim: Callable[[jax.Array], tuple[jax.Array, jax.Array, jax.Array]]
    onto: Callable[[jax.Array, jax.Array], jax.Array]
    at_base: Callable[[jax.Array], jax.Array]


def _by_jacobian(problem: _Problem, matrix: jax.Array, f: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The shortest horizontal `dw` with `P dexp(dw) = f`, by dense algebra; and the matrix that finds it."""
    # Vertical directions are at rounding level in the matrix and stay out of the solution.
    left, values, right = jnp.linalg.svd(matrix, full_matrices=False)
    kept = values > f.size * 1e2 * jnp.finfo(f.dtype).eps * jnp.max(values, initial=0)
    inverse = (right.T * jnp.where(kept, 1 / jnp.where(kept, values, 1), 0)) @ left.T
    return problem.at_base(inverse @ f), inverse


def _by_differences(problem: _Problem, w: jax.Array, e: jax.Array, f: jax.Array) -> jax.Array:
    """The same by GMRES, both sides carried to the base, where they have the same unknowns."""
    reach = jnp.finfo(w.dtype).eps ** (1 / 3) * (_norm(w) + jnp.finfo(w.dtype).eps * _norm(e))

    def operator(v: jax.Array) -> jax.Array:
        h = reach / jnp.maximum(_norm(v), jnp.finfo(w.dtype).tiny)
        after, before = jax.lax.map(problem.end, jnp.stack([w + h * v, w - h * v]))
        slope = (after - before) / (2 * h)
        slope = jnp.where(jnp.all(jnp.isfinite(slope)), slope, v)
        return problem.at_base(problem.onto(e, slope))

    return problem.at_base(_gmres(operator, problem.at_base(f)))


def _gmres(operator: Callable[[jax.Array], jax.Array], right: jax.Array) -> jax.Array:
    """The vector of a Krylov space with the least residual; JAX's own asks to transpose the operator."""
    size = min(_KRYLOV, right.size)
    eps = jnp.finfo(right.dtype).eps
    scale = _norm(right)

    def arnoldi(state: Carry) -> Carry:
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
    problem: _Problem, first: jax.Array, tolerance: float, *, whole: bool
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
    """Newton's steps from zero, the first one given, each halved until the residual shrinks; stops when none does.

    Ends with Newton's matrix at the solution, where the `whole` Jacobian is used: what the solution's derivative is
    found with. There is one loop, as every trace of `end` is a differential equation to be compiled.
    """
    basis = jnp.eye(first.size, dtype=first.dtype)

    def look(w: jax.Array) -> tuple[jax.Array, Callable[[], tuple[jax.Array, jax.Array | None]]]:
        """How far a geodesic ends from the target, and what gives Newton's step from there."""
        if not whole:
            e, gap, size = problem.aim(problem.end(w))
            return size, lambda: (_by_differences(problem, w, e, problem.onto(e, gap)), None)
        e, columns = jax.vmap(lambda v: jax.jvp(problem.end, (w,), (v,)), out_axes=(None, 0))(basis)
        e, gap, size = problem.aim(e)
        rows = jnp.concatenate([gap[None], jnp.where(jnp.isfinite(columns), columns, 0)])
        rows = jax.vmap(lambda v: problem.onto(e, v))(rows)
        return size, lambda: _by_jacobian(problem, rows[1:].T, rows[0])

    def body(state: Carry) -> Carry:
        w, size, step, length, count, tried, inverse = state
        there = w + length * step
        new, newton = look(there)
        better = new < size
        # By differences a step is costly, and after the last one nobody asks for it.
        step, inverse = jax.lax.cond(better & (whole | (new > tolerance)), newton, lambda: (step, inverse))
        return (
            jnp.where(better, there, w),
            jnp.where(better, new, size),
            step,
            jnp.where(better, 1, length / 2),
            count + better,
            jnp.where(better, 0, tried + 1),
            inverse,
        )

    def going(state: Carry) -> jax.Array:
        _, size, _, _, count, tried, _ = state
        return (size > tolerance) & (count <= _STEPS) & (tried <= jnp.where(jnp.isfinite(size), 10, 20))

    w = problem.at_base(first)
    one, none = jnp.ones((), w.dtype), jnp.asarray(0)
    start = (0 * w, jnp.inf * one, w, one, none, none, 0 * basis if whole else None)
    w, size, _, _, count, _, inverse = jax.lax.while_loop(going, body, start)
    return problem.at_base(w), size, jnp.maximum(count - 1, 0), inverse


def _tolerance(dtype: DTypeLike) -> float:
    return float(jnp.finfo(dtype).eps) ** (2 / 3)


def _norm(v: jax.Array) -> jax.Array:
    square = jnp.sum(v * v)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)

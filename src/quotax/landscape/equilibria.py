r"""How degenerate an equilibrium is, against what its symmetries explain.

At an equilibrium, $\nabla L(\theta) = 0$, the whole orbit is one, and the Hessian H is zero along it: its kernel has at
least the dimension k of the orbit, and its rank is at most d - k. What the kernel has beyond is no symmetry's: a
manifold of minima (of a network that fits n numbers, d - n dimensions at least), a point where the stabiliser is larger
than elsewhere, or directions in which the loss grows by a higher power.

An eigenvalue is never zero in floats. Those up to a floor are counted as zero: what rounding leaves, what the Hessian
measures along the orbit itself, $H \xi \theta = -\xi^T \nabla L$, and the gradient over the size of the parameters. The
count is an answer if the next eigenvalue stands a factor above; else it is undecided, with both counts.

Up to some dimension H is written out. Beyond, its range is spanned by products $H \omega$ with random vectors until
fresh ones add nothing, which takes rank many: enough where few numbers are fitted, and undecided where not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from quotax.checks import finite_params
from quotax.errors import LandscapeError
from quotax.landscape.demands import quotient_of, whole
from quotax.presenting import Result
from quotax.presenting.drawing import QUIET, Axes, counted, drawn, few_decades
from quotax.programs.threads import one_thread
from quotax.trees import AnySpace, Tree

CALL = "quotax.degeneracy"
SLACK = 10.0
"""Times what was measured of the floor, at a few vectors."""
BLOCK = 8

Products = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False, repr=False)
class Degeneracy(Result):
    """The kernel of the Hessian at an equilibrium, against the dimension of its orbit.

    Attributes:
        dim: d, the number of parameters.
        orbit: k, the dimension of the orbit; zero without a space.
        rank: of the Hessian.
        kernel: d - rank.
        beyond: kernel - k: degenerate directions that no symmetry has.
        kind: of those, `"flat"`: equilibria go on along them, as far as rounding tells a tenth of the parameters' size
            away in three random directions; `"higher order"`: the loss has its next power there; None where there are
            none, or where that was not told.
        index: how many eigenvalues are negative.
        least: the smallest eigenvalue, by size, that is counted as none of the kernel's.
        floor: what is counted as zero.
        between: least and most that the kernel may be.
        gradient: its norm.
        status: `"counted"` or `"undecided"`, and `reason` why.
        values: eigenvalues of the Hessian by size, the largest first; without those of the kernel where the Hessian
            was not written out.
        directions: some that are beyond the orbit: trees like the parameters, orthonormal; where H was written out.
        products: Hessian-vector products spent.
    """

    dim: int
    orbit: int
    rank: int
    kernel: int
    beyond: int
    kind: str | None
    index: int
    least: float
    floor: float
    between: tuple[int, int]
    gradient: float
    status: str
    reason: str
    values: np.ndarray = field(repr=False)
    directions: tuple[Tree, ...] = field(repr=False)
    products: int

    def __str__(self) -> str:
        """A few readable lines."""
        power = ", in which the loss has its next power"
        what = {None: "", "flat": ", along which equilibria go on", "higher order": power}
        least, most = self.between
        counted = f"kernel {self.kernel} of {self.dim}" if least == most else f"kernel {least} to {most} of {self.dim}"
        lines = [f"{counted}: {self.orbit} along the orbit, {self.beyond} beyond{what[self.kind]}"]
        lines += [f"rank {self.rank}, {self.index} negative; {self.least:.3g} stands above {self.floor:.3g}"]
        return "\n".join(lines + [f"undecided: {self.reason}"] * (self.status != "counted"))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Eigenvalues by size, the floor, and where d - k ends."""
        with drawn(ax, "degeneracy.plot()") as (ax, look):
            sizes = np.maximum(np.abs(self.values), np.finfo(float).tiny)
            ax.semilogy(np.arange(1, len(sizes) + 1), sizes, **look | {"linestyle": "", "markersize": 2})
            ax.axhline(self.floor, color=QUIET, linestyle="--", linewidth=0.8)
            ax.axvline(self.dim - self.orbit + 0.5, color=QUIET, linewidth=0.8)
            ax.set_xlabel("eigenvalue of the Hessian, d - k marked")
            ax.set_ylabel("size")
            ax.set_ylim(bottom=max(self.floor * 1e-6, sizes.min() / 10))
            few_decades(ax)
            counted(ax)
        return ax


@one_thread
def degeneracy(
    loss: Callable[[Tree], Any],
    params: Tree,
    *,
    space: AnySpace | None = None,
    gap: float = 100.0,
    dense: int = 1500,
    most: int = 600,
    seed: int = 0,
) -> Degeneracy:
    """The dimension of the Hessian's kernel at an equilibrium, and of the orbit in it.

    Args:
        loss: `loss(params)`.
        params: where its gradient is zero; a minimum or a saddle.
        space: a quotient; without it nothing is explained.
        gap: the first eigenvalue that counts stands so many times above what counts as zero, or it is undecided.
        dense: up to so many parameters the Hessian is written out.
        most: of more parameters, the largest rank that is looked for: so many vectors are kept.
        seed: of the vectors that are drawn.

    Example:
        >>> import jax.numpy as jnp
        >>> found = degeneracy(lambda p: (p[0] * p[1] - 1) ** 2 + p[2] ** 4, jnp.array([2.0, 0.5, 0.0]))
        >>> found.kernel, found.kind, found.directions[0].shape
        (2, 'higher order', (3,))
    """
    params = finite_params(CALL, params)
    if not gap > 1:
        raise LandscapeError(f"`{CALL}` needs gap= above 1, got {gap!r}.")
    dense, most = whole(CALL, "dense", dense, 0), whole(CALL, "most", most, 1)
    flat, away = ravel_pytree(params)
    home = np.asarray(flat, float)
    slope = jax.jit(jax.grad(lambda v: loss(away(v))))
    gradient = np.asarray(slope(flat), float)
    if not np.isfinite(gradient).all():
        raise LandscapeError(f"`{CALL}`: the gradient of the loss is NaN or infinite at params.")
    dim, eps = flat.size, float(jnp.finfo(flat.dtype).eps)
    products = _products(loss, away, flat)
    draw = np.random.default_rng(seed)
    orbit = 0
    if space is not None:
        quotient_of(CALL, space)
        orbit = int(space.rank_at(params))
    written = dim <= dense
    vertical = _vertical(space, params, away, flat, draw, orbit if written else min(orbit, BLOCK))
    along = np.linalg.norm(products(vertical.T), axis=1).max() if vertical.size else 0.0
    if written:
        hessian = products(np.eye(dim))
        values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
        spent, exhausted, left = dim, True, 0.0
    else:
        values, vectors, spent, exhausted, left = _range(products, dim, most, eps, draw)
    order = np.argsort(-np.abs(values), kind="stable")
    values, vectors = values[order], vectors[:, order]
    top = float(np.abs(values).max(initial=0.0))
    size = float(np.linalg.norm(gradient))
    floor = max(
        SLACK * eps * np.sqrt(dim) * top,
        SLACK * float(along),
        size / max(float(np.linalg.norm(home)), np.finfo(float).tiny),
        SLACK * left,
    )
    if size and floor > 0.01 * top:
        raise LandscapeError(
            f"`{CALL}`: params is no equilibrium: its gradient of {size:.3g} leaves eigenvalues below {floor:.3g} "
            f"unknown, and the largest is {top:.3g}. Train further."
        )
    rank = int(np.sum(np.abs(values) > floor))
    sure = int(np.sum(np.abs(values) > gap * floor))
    between = (max(dim - rank, orbit) if exhausted else orbit, dim - sure)
    kernel = dim - rank
    reason = ""
    if not exhausted:
        reason = f"the rank is above most={most}"
    elif sure < rank:
        reason = f"{rank - sure} eigenvalues lie between {floor:.3g} and {gap:g} times that"
    elif kernel < orbit:
        reason = f"the orbit has {orbit} directions, and only {kernel} eigenvalues are zero"
    kind, directions = None, ()
    if written and not reason and kernel > orbit:
        beyond = _beyond(vectors[:, rank:], vertical)
        there = lambda v: np.asarray(slope(jnp.asarray(v, flat.dtype)), float)
        kind = _kind(there, home, values[:rank], vectors[:, :rank], beyond, eps, size, draw)
        directions = tuple(away(jnp.asarray(v, flat.dtype)) for v in beyond.T[:20])
    return Degeneracy(
        dim=dim,
        orbit=orbit,
        rank=rank,
        kernel=kernel,
        beyond=kernel - orbit,
        kind=kind,
        index=int(np.sum(values[:rank] < 0)),
        least=float(np.abs(values[rank - 1])) if rank else 0.0,
        floor=floor,
        between=between,
        gradient=size,
        status="undecided" if reason else "counted",
        reason=reason,
        values=values if written else values[:rank],
        directions=directions,
        products=spent,
    )


def _products(loss: Any, away: Any, flat: jax.Array) -> Products:
    """Products of the Hessian with the rows of an array, some at a time."""
    slope = jax.grad(lambda v: loss(away(v)))

    @jax.jit
    def some(rows: jax.Array) -> jax.Array:
        return jax.vmap(lambda v: jax.jvp(slope, (flat,), (v,))[1])(rows)

    def products(rows: np.ndarray) -> np.ndarray:
        padded = np.concatenate([rows, np.zeros((-len(rows) % BLOCK, rows.shape[1]))])
        parts = [some(jnp.asarray(padded[k : k + BLOCK], flat.dtype)) for k in range(0, len(padded), BLOCK)]
        return np.concatenate([np.asarray(part, float) for part in parts])[: len(rows)]

    return products


def _vertical(space: AnySpace, params: Tree, away: Any, flat: jax.Array, draw: Tree, count: int) -> np.ndarray:
    """An orthonormal basis of so many directions along the orbit, in columns."""
    if not count:
        return np.zeros((flat.size, 0))
    rows = jnp.asarray(draw.standard_normal((count, flat.size)), flat.dtype)
    project = lambda row: ravel_pytree(space.vertical(params, away(row)))[0]
    found = np.stack([np.asarray(project(row), float) for row in rows])
    return np.linalg.qr(found.T)[0]


def _range(
    products: Products, dim: int, most: int, eps: float, draw: Tree
) -> tuple[np.ndarray, np.ndarray, int, bool, float]:
    """Eigenpairs on the range of a symmetric map, which products with random vectors span.

    Also how many products that took, whether fresh vectors added nothing at the end, and what they still had.
    """
    basis, spent, exhausted, left, top = np.zeros((dim, 0)), 0, False, 0.0, 0.0
    while not exhausted and basis.shape[1] < min(most + BLOCK, dim):
        fresh = products(draw.standard_normal((BLOCK, dim)) / np.sqrt(dim)).T
        spent += BLOCK
        top = max(top, np.linalg.norm(fresh, axis=0).max())
        for _ in range(2):
            fresh = fresh - basis @ (basis.T @ fresh)
        new, sizes, _ = np.linalg.svd(fresh, full_matrices=False)
        known = sizes > SLACK * np.sqrt(dim) * eps * top
        exhausted = not known.all()
        left = 0.0 if known.all() else float(sizes[~known].max())
        basis = np.linalg.qr(np.concatenate([basis, new[:, known]], 1))[0]
    exhausted = exhausted or basis.shape[1] == dim
    inside = products(basis.T) @ basis
    values, turned = np.linalg.eigh((inside + inside.T) / 2)
    return values, basis @ turned, spent + basis.shape[1], exhausted, left


def _beyond(kernel: np.ndarray, vertical: np.ndarray) -> np.ndarray:
    """What a kernel has beyond the orbit, orthonormal, in columns."""
    if not vertical.shape[1]:
        return kernel
    turned = np.linalg.svd(vertical.T @ kernel, full_matrices=True)[2]
    return kernel @ turned[vertical.shape[1] :].T


def _kind(
    slope: Tree, home: np.ndarray, values: np.ndarray, range_of: np.ndarray, beyond: np.ndarray, eps: float,
    size: float, draw: Tree,
) -> str | None:  # fmt: skip
    """Whether there are equilibria along random directions of a kernel: a step, and corrections in the range.

    What is left of the gradient is in the kernel then, and rounding, or a power of the step. Where corrections did not
    arrive nothing is told.
    """
    top = float(np.abs(values).max(initial=0.0)) or 1.0
    norm = float(np.linalg.norm(home))
    step = 0.1 * (norm / np.sqrt(home.size) or 1.0)
    small = SLACK * eps * top * max(norm, step) * np.sqrt(home.size) + SLACK * size
    kinds = set()
    for _ in range(3):
        direction = beyond @ draw.standard_normal(beyond.shape[1])
        at = home + step * direction / np.linalg.norm(direction)
        for _ in range(60):
            at = at - range_of @ ((range_of.T @ slope(at)) / values)
        left = slope(at)
        across = float(np.linalg.norm(range_of.T @ left))
        along = float(np.linalg.norm(left - range_of @ (range_of.T @ left)))
        arrived = across <= max(small, 0.01 * along)
        kinds.add("flat" if max(along, across) <= small else "higher order" if arrived and along > 30 * small else None)
    return "higher order" if "higher order" in kinds else "flat" if kinds == {"flat"} else None

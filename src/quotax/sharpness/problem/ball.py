"""The set that is searched: a metric ball in the whole space or in the horizontal space of a quotient.

Its coordinates x are flat vectors in which the metric is the identity where the space allows that. What a point of a
quotient does there are programs of their own, of the space and of sizes alone: every loss shares them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from quotax.programs.compiling import QUICK, near
from quotax.programs.hosted import Uncompiled, Unhosted
from quotax.sharpness.problem.vectors import (
    ROWS,
    TOGETHER,
    FlatLayout,
    Vector,
    dot,
    dots,
    inner,
    joined,
    stacked,
    zeros,
)
from quotax.trees import AnyPoint, Tree

# A geodesic that leaves its domain is followed up to this share of its exit time: there everything is still finite.
SHORT_OF_EXIT = 1 - 1e-9


class BasePoint(Protocol):
    """A factored point of a quotient.

    A metric that is not Euclidean also has `whiten` and `unwhiten`, linear maps with `|unwhiten(e)| = |e|_2`, or
    `sharp(covector)`, the inverse of its matrix; a geodesic ball needs `geodesic(v)`. A geodesic whose `exit_time` has
    a derivative says so by `smooth_exit = True`: a maximum at the edge of the domain is then found exactly.
    """

    def horizontal(self, v: Tree) -> Tree:
        """The orthogonal projection onto the horizontal space."""
        ...

    def inner(self, u: Tree, v: Tree) -> jax.Array:
        """The metric's inner product."""
        ...

    def norm(self, v: Tree) -> jax.Array:
        """The metric's norm."""
        ...


class Space(Protocol):
    """What sharpness needs to know of a quotient."""

    def at(self, params: Tree) -> BasePoint:
        """Everything that depends on the point, computed once."""
        ...


def euclidean(point: AnyPoint) -> bool:
    """Whether the point's metric is the Euclidean one: by its word, else because it has nothing to raise indices."""
    said = getattr(point, "euclidean", None)
    return not hasattr(point, "sharp") if said is None else bool(said)


class Frame(Protocol):
    """The linear maps between flat coordinates x of a ball and flat displacements of the parameters.

    Each takes a vector, or a stack of them.
    """

    @property
    def euclidean(self) -> bool:
        """Whether the metric is the identity in these coordinates."""
        ...

    def horizontal(self, x: Vector) -> Vector:
        """The projection, in coordinates."""
        ...

    def away(self, x: Vector) -> Vector:
        """The displacement that coordinates stand for."""
        ...

    def coordinates(self, v: Vector) -> Vector:
        """The inverse of `away`."""
        ...

    def back(self, covector: Vector) -> Vector:
        """The horizontal metric gradient, in coordinates, that a derivative by displacements stands for."""
        ...

    def gradient(self, covector: Vector) -> Vector:
        """The same of a derivative by coordinates."""
        ...

    def lower(self, x: Vector) -> Vector:
        """The metric's matrix in coordinates times x; x itself in a `euclidean` frame."""
        ...


@dataclass(frozen=True)
class Plain:
    """All displacements, or the ball `|delta / scale|_2 <= radius`, in which entries of scale zero do not move."""

    scale: np.ndarray | None = None
    euclidean: bool = True

    def horizontal(self, x: Vector) -> Vector:
        """Entries that do not move are left out."""
        return x if self.scale is None else x * (self.scale > 0)

    def away(self, x: Vector) -> Vector:
        """Scaled."""
        return x if self.scale is None else self.scale * x

    def back(self, covector: Vector) -> Vector:
        """The chain rule."""
        return self.away(covector)

    def gradient(self, covector: Vector) -> Vector:
        """The metric is the identity."""
        return self.horizontal(covector)

    def coordinates(self, v: Vector) -> Vector:
        """In units of the scale."""
        if self.scale is None:
            return v
        return v * np.where(self.scale > 0, 1 / np.where(self.scale > 0, self.scale, 1), 0).astype(self.scale.dtype)

    def lower(self, x: Vector) -> Vector:
        """The metric is the identity."""
        return x


class Horizontal:
    """The horizontal space of a factored point; whitened where the point knows how."""

    def __init__(self, point: AnyPoint, layout: FlatLayout, keep: Callable[[Tree], Tree]) -> None:
        """`keep` says how a program's result is kept: as a vector of the host or of the device."""
        self.whitened = not euclidean(point) and hasattr(point, "unwhiten")
        self.euclidean = self.whitened or euclidean(point)
        self._flat = euclidean(point)
        raised = not self._flat and not self.whitened
        self._kind, self._layout, self._keep = (self.whitened, raised), layout, keep
        self._point, self._shared, self._rows = point, shared(point), 0
        self._hosted: dict[tuple[str, int], tuple[Callable[[Tree], Tree], bool] | None] = {}
        self._near = self._shared and near(jax.tree.leaves(point))
        self._run = runner(point, quickly=layout.size <= FEW)

    def _map(self, name: str, x: Vector) -> Vector:
        if x.ndim == 1:
            if run := self._in_numpy(name, 1):
                return self._keep(run(x[None])[0])
            return self._keep(self._run(_MAPS[name], (self._layout, *self._kind), x))
        if not self._shared or 2 * self._layout.size > TOGETHER:
            return stacked([self._map(name, row) for row in x])
        rows, run = self._together(name, len(x))
        # What a stack lacks is filled, so that one shape is traced or compiled.
        filled = joined([x, zeros(-len(x) % rows, x)])
        return joined([self._keep(run(filled[i : i + rows])) for i in range(0, len(filled), rows)])[: len(x)]

    def _together(self, name: str, count: int) -> tuple[int, Callable[[Tree], Tree]]:
        """How many rows are mapped at once, and by what: long stacks come a few times in all, and are not compiled."""
        most = TOGETHER // self._layout.size
        rows = min(count, 2 * most)
        if run := self._in_numpy(name, rows):
            return rows, run
        self._rows = max(self._rows, min(count, ROWS, most))
        return self._rows, functools.partial(_rows_of, (_MAPS[name], (self._layout, *self._kind)), self._point)

    def _in_numpy(self, name: str, rows: int) -> Callable[[Tree], Tree] | None:
        """How so many rows are mapped without a compiler; nothing where that is slower than what it saves."""
        if not self._near or (rows <= ROWS and self._layout.size > FEW):
            return None
        if (name, rows) not in self._hosted:
            what = (_MAPS[name], (self._layout, *self._kind))
            like = jax.ShapeDtypeStruct((rows, self._layout.size), self._layout.dtype)
            try:
                self._hosted[name, rows] = _IN_NUMPY.given(what, self._point, like)
            except Unhosted:
                self._hosted[name, rows] = None
        found = self._hosted[name, rows]
        return found[0] if found is not None and (found[1] or rows > ROWS) else None

    def horizontal(self, x: Vector) -> Vector:
        """The projection, in coordinates."""
        return self._map("horizontal", x)

    def away(self, x: Vector) -> Vector:
        """Unwhitened."""
        return self._map("away", x) if self.whitened else x

    def coordinates(self, v: Vector) -> Vector:
        """Whitened."""
        return self._map("coordinates", v) if self.whitened else v

    def back(self, covector: Vector) -> Vector:
        """Pulled back or raised, and projected."""
        return self.horizontal(covector if self._flat else self._map("raised", covector))

    def gradient(self, covector: Vector) -> Vector:
        """The metric is the identity in whitened coordinates; others are displacements."""
        return self.horizontal(covector) if self.whitened else self.back(covector)

    def lower(self, x: Vector) -> Vector:
        """The metric's matrix times x."""
        return x if self.euclidean else self._map("lower", x)


FEW = 2**16
"""Up to this many parameters the maps of a point take no time to run, however they were compiled."""


def _program(program: Callable[..., Tree], static: Tree, point: AnyPoint, *arguments: Tree) -> Tree:
    return program(static, point, *arguments)


_of_tree = jax.jit(_program, static_argnums=(0, 1))
_of_small_tree = jax.jit(_program, static_argnums=(0, 1), compiler_options=QUICK)


def _rows(what: tuple[Callable[..., Tree], Tree], point: AnyPoint, stack: jax.Array) -> jax.Array:
    program, static = what
    return jax.vmap(lambda row: program(static, point, row))(stack)


_IN_NUMPY = Uncompiled(_rows)
_rows_of = jax.jit(_rows, static_argnums=0, compiler_options=QUICK)


def shared(point: AnyPoint) -> bool:
    """Whether a point is a pytree of arrays, so that its programs serve all points of its structure."""
    return all(isinstance(leaf, jax.Array | np.ndarray) for leaf in jax.tree.leaves(point))


def runner(point: AnyPoint, *, quickly: bool = False) -> Callable[..., Tree]:
    """How `program(static, point, *arguments)` runs: compiled once for all points of one structure, if they have one.

    A point that is not a pytree keeps its arrays in closures: they become constants of programs of its own.
    """
    if shared(point):
        run = _of_small_tree if quickly else _of_tree
        return lambda program, static, *arguments: run(program, static, point, *arguments)
    own: dict[Hashable, Callable[..., Tree]] = {}

    def compile_once(program: Callable[..., Tree], static: Tree, *arguments: Tree) -> Tree:
        if (program, static) not in own:
            own[program, static] = jax.jit(functools.partial(program, static, point))
        return own[program, static](*arguments)

    return compile_once


# --- programs of a point: (layout, whether it whitens, whether it raises), point, flat vector -> flat vector

Static = tuple[FlatLayout, bool, bool]


def _away(static: Static, point: AnyPoint, x: jax.Array) -> jax.Array:
    flat, whitened, _ = static
    return flat.flat(point.unwhiten(flat.nested(x))) if whitened else x


def _coordinates(static: Static, point: AnyPoint, v: jax.Array) -> jax.Array:
    flat, whitened, _ = static
    return flat.flat(point.whiten(flat.nested(v))) if whitened else v


def _horizontal(static: Static, point: AnyPoint, x: jax.Array) -> jax.Array:
    flat, whitened, _ = static
    if whitened and hasattr(point, "level"):  # the projection in whitened coordinates, in fewer steps
        return flat.flat(point.level(flat.nested(x)))
    return _coordinates(static, point, flat.flat(point.horizontal(flat.nested(_away(static, point, x)))))


def _raised(static: Static, point: AnyPoint, covector: jax.Array) -> jax.Array:
    flat, _, raised = static
    if raised:
        return flat.flat(point.sharp(flat.nested(covector)))
    return jax.vjp(functools.partial(_away, static, point), covector)[1](covector)[0]


def _lower(static: Static, point: AnyPoint, x: jax.Array) -> jax.Array:
    flat = static[0]
    half = lambda u: jnp.asarray(point.inner(flat.nested(u), flat.nested(x))).astype(flat.dtype)
    return jax.grad(half)(jnp.zeros_like(x))


_MAPS = {"away": _away, "coordinates": _coordinates, "horizontal": _horizontal, "raised": _raised, "lower": _lower}


# --- geodesics


class Curves:
    """The exponential map of a ball whose displacements follow geodesics.

    A point may say up to what length none of them leaves its domain (`reach`): below it nothing is asked for its exit.
    """

    def __init__(self, frame: Horizontal, point: AnyPoint, layout: FlatLayout) -> None:
        """Of a point that has `geodesic(v)`."""
        self._run, self._frame = runner(point, quickly=layout.size <= FEW), frame
        self._point, self._layout = point, layout
        self._reach = float(getattr(point, "reach", 0.0))

    @functools.cached_property
    def _static(self) -> Tree:
        path = lambda x: self._point.geodesic(self._layout.nested(x))
        like = jax.eval_shape(path, jax.ShapeDtypeStruct((self._layout.size,), self._layout.dtype))
        return (self._layout, *self._frame._kind), bool(getattr(like, "smooth_exit", False))

    def _within(self, x: Vector) -> bool:
        return dot(x, self._frame.lower(x)) < self._reach**2

    def end(self, x: Vector) -> tuple[Tree, Tree]:
        """Where the geodesic leads, and what pulls derivatives back from there."""
        return self._run(_ended if self.stop(x) == 1 else _followed, self._static, x)

    def pulled(self, pull: Tree, covector: Vector) -> Vector:
        """The derivative by coordinates x of a loss with this derivative by the end."""
        return (_pulled_quickly if self._layout.size <= FEW else _pulled)(self._layout, pull, covector)

    def stop(self, x: Vector) -> float:
        """Up to what time the geodesic is followed: below 1 where it would leave its domain."""
        return 1.0 if self._within(x) else float(self._run(_stopped, self._static, x))

    def bent(self, x: Vector, covector: Vector) -> Vector:
        """The derivative by x of `covector . a(x) / 2`: a geodesic is `theta + x + a(x)/2` to second order."""
        return self._run(_bent, self._static, x, covector)


def _path(static: Tree, point: AnyPoint, x: jax.Array) -> Tree:
    (flat, whitened, _), _ = static
    if whitened and hasattr(point, "ray"):
        return point.ray(flat.nested(x))
    return point.geodesic(flat.nested(_away(static[0], point, x)))


def _stopped(static: Tree, point: AnyPoint, x: jax.Array) -> jax.Array:
    (flat, *_), smooth = static
    return stop_time(lambda v: jnp.asarray(_path(static, point, v).exit_time).astype(flat.dtype), x, smooth)


def _ended(static: Tree, point: AnyPoint, x: jax.Array) -> tuple[Tree, Tree]:
    return jax.vjp(lambda x: _path(static, point, x).end, x)


def _followed(static: Tree, point: AnyPoint, x: jax.Array) -> tuple[Tree, Tree]:
    # Geodesics that leave their domain are shortened: the image is the part of the ball inside the domain, on which the
    # loss is a continuous function of the velocity. The search never meets a NaN of the geometry.
    return jax.vjp(lambda x: _path(static, point, _stopped(static, point, x) * x).end, x)


def _pull(flat: FlatLayout, pull: Tree, covector: jax.Array) -> jax.Array:
    return pull(flat.nested(covector))[0]


_pulled = jax.jit(_pull, static_argnums=0)
_pulled_quickly = jax.jit(_pull, static_argnums=0, compiler_options=QUICK)


def _bent(static: Tree, point: AnyPoint, x: jax.Array, covector: jax.Array) -> jax.Array:
    flat = static[0][0]
    if not hasattr(jax.eval_shape(lambda x: _path(static, point, x), x), "taylor"):
        pulled = lambda y: jax.vjp(lambda y: _path(static, point, y).end, y)[1](flat.nested(covector))[0]
        return jax.jvp(pulled, (jnp.zeros_like(x),), (x,))[1]
    curved = jax.vjp(lambda x: _path(static, point, x).taylor(1.0), x)[1](flat.nested(covector))[0]
    straight = jax.vjp(functools.partial(_away, static[0], point), x)[1](covector)[0]
    return curved - straight


def stop_time(exit_time: Callable[[jax.Array], jax.Array], x: jax.Array, smooth: bool) -> jax.Array:
    """The time up to which the geodesic of velocity x is followed: 1, or just short of its exit.

    Exit times come without a derivative, unless the path says that its own is `smooth`. The boundary is taken to be a
    plane across the ray, so that `s(x) x . x0 = s(x0) |x0|^2`. Exit times are homogeneous of degree -1: the derivative
    along the ray is right, and moving along a ray that is cut short changes nothing.
    """
    if smooth:
        return jnp.minimum(SHORT_OF_EXIT * exit_time(x), 1.0)
    at = jax.lax.stop_gradient(x)
    limit = jax.lax.stop_gradient(jnp.minimum(SHORT_OF_EXIT * exit_time(at), 1.0))
    along = inner(at, x)
    cut = (limit < 1) & (along > 0)
    return jnp.where(cut, limit * inner(at, at) / jnp.where(cut, along, 1.0), 1.0)


# --- balls


@dataclass(frozen=True)
class Ball:
    """`{x horizontal, |x| <= radius}` in the flat coordinates of a frame."""

    frame: Frame
    radius: float

    def horizontal(self, x: Vector) -> Vector:
        """The projection."""
        return self.frame.horizontal(x)

    def inner(self, u: Vector, v: Vector) -> float:
        """The metric's inner product."""
        return dot(u, v) if self.frame.euclidean else dot(u, self.frame.lower(v))

    def inners(self, stack: Vector, v: Vector) -> np.ndarray:
        """The inner products of the rows of a stack with `v`."""
        return dots(stack, v) if self.frame.euclidean else dots(stack, self.frame.lower(v))

    def products(self, stack: Vector, others: Vector) -> np.ndarray:
        """The inner products of the rows of a stack with those of another, which are the columns."""
        if self.frame.euclidean:
            return dots(stack, others)
        return np.stack([self.inners(stack, row) for row in others], axis=1)

    def norm(self, v: Vector) -> float:
        """The metric's norm, zero where rounding makes the square negative."""
        return max(self.inner(v, v), 0.0) ** 0.5

    def unit(self, v: Vector, floor: float = 0.0) -> tuple[Vector, float]:
        """`v` over its norm, and the norm; both zero where the norm is not above `floor`."""
        size = self.norm(v)
        return (v * (1.0 / size), size) if size > floor else (v * 0.0, 0.0)

    def inside(self, x: Vector) -> Vector:
        """The point pulled back to the sphere if it is outside."""
        size = self.norm(x)
        return x * (self.radius / size) if size > self.radius else x


def broken_promises(ball: Ball, point: AnyPoint, layout: FlatLayout, one: Vector, two: Vector) -> tuple[float, float]:
    """How far the projection is from idempotent, and the metric from matching the ball's own, at a pair of vectors.

    The first is `|P h - h| / |h|` for h = P one; the second `|<back(c), h> - c(h)| / (|back(c)| |h|)` for c = two:
    without it the ascent direction would not be the gradient of the ball's own metric. `back` projects what it raises,
    which changes nothing for horizontal h; that the metric's own product says the same is seen on the pair itself.
    """
    h, _ = ball.unit(ball.horizontal(one))
    again = ball.norm(ball.horizontal(h) - h)
    raised = ball.frame.back(two)
    size = ball.norm(raised)
    left, right = ball.frame.away(raised), ball.frame.away(h)
    inner = float(runner(point)(_inner, layout, left, right))
    return again, abs(inner - dot(two, right)) / (size if size > 0 else 1.0)


def _inner(flat: FlatLayout, point: AnyPoint, u: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.asarray(point.inner(flat.nested(u), flat.nested(v))).astype(flat.dtype)

"""What every measure begins with: a request, the factored point, and the loss in the flat coordinates of a ball."""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from quotax.checks import finite_params, on_host
from quotax.errors import SharpnessError
from quotax.sharpness.problem.arguments import (
    Key,
    check_ball,
    check_batch,
    check_choice,
    check_loss,
    check_point,
    check_share,
    check_whole,
    random_bits,
)
from quotax.sharpness.problem.ball import FEW, Ball, Curves, Frame, Horizontal, Plain, Space, euclidean
from quotax.sharpness.problem.devices import check_mesh, check_whole_somewhere, replicated, restart_devices, sharded
from quotax.sharpness.problem.objective import Loss, Objective, objective
from quotax.sharpness.problem.scaling import Moving, length_of, scale_of
from quotax.sharpness.problem.vectors import FlatLayout, Vector, dot, layout, stacked
from quotax.trees import AnyPoint, Tree

NEARBY = 0.1
"""Scale of the random element that a loss is tried at: near the identity, where rounding is not amplified much."""

ROUNDED, EXPLAINED = 8.0, 30.0
"""Parameters are changed by so many of their rounding units; so many times what that does to a loss is rounding's."""

COUNTED = 4096
"""Up to this many parameters the horizontal dimension is counted when the space does not state it."""


@dataclass(frozen=True)
class Measurement:
    """What is asked for, whatever is measured and wherever: a loss, a ball, data, devices, randomness.

    Attributes:
        call: the public name of what was called, for messages.
        loss: of the parameters, or of parameters and batch.
        space: a quotient.
        ball: "linear", "geodesic" or "full"; `natural` is that of a space when this does not say.
        natural: see there.
        norm: "l2" or "linf".
        adaptive: relative to each parameter.
        mask: what moves.
        per_layer: a ball for every array.
        batch: what the loss is a mean over.
        microbatch: examples at a time.
        mesh: of devices.
        key: of everything random.
        representatives: random points of the orbit at which the measure is repeated.
        spread_scale: of the elements that lead there.
    """

    call: str
    loss: Loss
    space: Space | None = None
    ball: str | None = None
    natural: str = "linear"
    norm: str = "l2"
    adaptive: bool = False
    mask: Moving = None
    per_layer: bool = False
    batch: Tree = None
    microbatch: int | None = None
    mesh: Mesh | None = None
    key: Key = None
    representatives: int = 0
    spread_scale: float = 0.5

    @functools.cached_property
    def bits(self) -> tuple[int, ...]:
        """The key, as numbers that seed a generator."""
        return random_bits(self.call, self.key)

    def at(self, params: Tree) -> Setting:
        """Everything checked, before anything is compiled."""
        call = self.call
        params = finite_params(call, params)
        microbatch, batch = check_batch(call, self.batch, self.microbatch)
        mesh = check_mesh(call, self.mesh, batch, microbatch)
        check_whole_somewhere(call, params)
        params, batch = replicated(mesh, params), sharded(mesh, batch)
        check_loss(call, self.loss, params, batch)
        check_choice(call, "norm", self.norm, ("l2", "linf"))
        check_whole(call, "representatives", self.representatives, 0)
        check_share(call, "spread_scale", self.spread_scale)
        _ = self.bits
        if self.norm == "linf" and self.per_layer:
            raise SharpnessError(
                f"`{call}`: norm='linf' already gives every parameter its own interval; drop per_layer=."
            )
        scaled = self.adaptive or self.per_layer or self.mask is not None
        kind = check_ball(call, self.ball, self.space, self.natural, scaled or self.norm == "linf")
        point = None if kind == "full" else check_point(call, self.space, params, self.ball or "linear")
        point, steady, unsteady = oriented(point)
        if kind == "geodesic" and not hasattr(point, "geodesic"):
            kind = "linear"  # Euclidean: the same; and no geodesics were asked for otherwise
        flat = layout(params)
        how = {"adaptive": self.adaptive, "mask": self.mask, "per_layer": self.per_layer}
        scale = scale_of(call, params, flat, **how)
        length = None
        if scale is not None or self.norm == "linf":
            length = lambda params, v: length_of(call, params, v, norm=self.norm, **how)
        request = replace(self, batch=batch, microbatch=microbatch, mesh=mesh)
        return Setting(request, params, kind, point, scale, flat, length, steady, unsteady)


@dataclass(frozen=True)
class Setting:
    """A request at parameters, with the ball it is to be measured in."""

    request: Measurement
    params: Tree
    kind: str
    point: AnyPoint
    scale: np.ndarray | None
    layout: FlatLayout
    length: Callable[[Tree, Tree], float] | None
    steady: bool | None = None
    unsteady: str = ""
    """Whether the same key draws the same vectors at every representative; and why not."""
    footing: Tree = None
    ground: Tree = None
    origin: Tree = None
    """What rounding leaves of the parameters; if another representative was chosen, the way to it, from where."""
    elsewhere: float | None = None
    known: Tree = None
    """By how much the loss differs there; and the verdict on the ball, once it is known."""

    @property
    def call(self) -> str:
        """The public name of what was called."""
        return self.request.call

    @property
    def space(self) -> Tree:
        """The quotient, if there is one."""
        return self.request.space

    @property
    def given(self) -> Tree:
        """The parameters as they were given."""
        return self.params if self.ground is None else self.origin

    def home(self, v: Vector) -> Tree:
        """A displacement where the measurement is made, as a tangent vector at the parameters as they were given."""
        return self.homes([v])[0]

    def homes(self, rows: Iterable[Vector]) -> list[Tree]:
        """Several displacements."""
        trees, ground = self.layout.placed_rows(rows, self.params), self.ground
        return trees if ground is None else [ground.pull(tree) for tree in trees]

    def away(self, v: Tree) -> Vector:
        """The inverse of `home`."""
        tree = v if self.ground is None else self.ground.push(v)
        return self.problem.kept(self.layout.gathered(tree))

    @property
    def hessian(self) -> str:
        """What the second derivative along the ball's own curves is called."""
        straight = self.kind != "geodesic" or euclidean(self.point)
        return "Riemannian" if not straight or (self.point is not None and euclidean(self.point)) else "Euclidean"

    @functools.cached_property
    def problem(self) -> Problem:
        """The loss in the ball's coordinates."""
        return Problem(self)

    @functools.cached_property
    def dim(self) -> int:
        """The number of directions in the ball: horizontal ones, or parameters that move."""
        if self.scale is not None:
            return int(np.sum(self.scale > 0))
        if self.point is None:
            return self.layout.size
        stated = getattr(self.space, "fiber_dim", None)
        if stated is not None:
            return self.layout.size - int(stated)
        if self.layout.size > COUNTED:
            raise SharpnessError(
                f"`{self.call}` needs the dimension of the horizontal space, and {type(self.space).__name__} has no "
                f"`fiber_dim`; up to {COUNTED} parameters it is counted, and here are {self.layout.size}."
            )
        basis = np.eye(self.layout.size, dtype=self.layout.dtype)
        return round(sum(float(self.problem.frame.horizontal(row)[i]) for i, row in enumerate(basis)))

    @functools.cached_property
    def strayed(self) -> tuple[float, float] | None:
        """By how much a random group element changes the loss, relative, and what of that rounding explains.

        That is tried too: entries of the moved parameters are changed by some of their rounding units. Nothing for a
        space without group elements.
        """
        space: Any = self.space
        acts = callable(getattr(space, "act", None)) and callable(getattr(space, "random_element", None))
        if not acts:
            return None
        nudged = getattr(space, "nudged", None)
        flat, base = layout(self.params), self.problem.look(self.problem.origin)[0]
        if not math.isfinite(base):
            return None
        with jax.numpy_dtype_promotion("standard"):
            if nudged is None:
                moved = space.act(self.params, space.random_element(jax.random.key(21), scale=NEARBY))
            else:
                moved = nudged(self.params, NEARBY)
        there = flat.gathered(jax.tree.map(lambda own, new: new.astype(own.dtype), self.params, moved))
        noise = np.random.default_rng(21).standard_normal(flat.size).astype(flat.dtype)
        unit = ROUNDED * float(max(jnp.finfo(dtype).eps for dtype in flat.dtypes))
        trees = (flat.placed(v, self.params) for v in (there, there * (1 + unit * noise)))
        level, shaken = map(self.problem.elsewhere, trees)
        if not math.isfinite(level):
            return math.inf, 0.0
        scale = max(abs(base), abs(level), float(jnp.finfo(flat.dtype).tiny))
        explained = EXPLAINED * max(abs(shaken - level), unit * scale)
        return abs(level - base) / scale, explained / scale

    def require_coordinates(self) -> None:
        """Refuse a metric in which no standard normal vector can be drawn."""
        if self.point is not None and not euclidean(self.point) and not hasattr(self.point, "unwhiten"):
            raise SharpnessError(
                f"`{self.call}` needs `whiten` and `unwhiten` of a metric that is not Euclidean, linear maps with "
                f"|unwhiten(e)| = |e|_2; `{type(self.space).__name__}.at(params)` has none."
            )


class Problem:
    """A loss in the flat coordinates of a ball: what the host calls, one small program each."""

    def __init__(self, setting: Setting) -> None:
        """Nothing is compiled before it is called."""
        request, self.layout, self.point = setting.request, setting.layout, setting.point
        self._params, self._batch, self._mesh = setting.params, request.batch, request.mesh
        self._objective: Objective = objective(request.loss, request.microbatch, request.mesh)
        self._host = on_host(setting.params)
        self._origin = self.kept(np.zeros(self.layout.size, self.layout.dtype))
        self.frame: Frame = Plain(setting.scale)
        self._curves: Curves | None = None
        if self.point is not None:
            self.frame = horizontal = Horizontal(self.point, self.layout, self.kept)
            if setting.kind == "geodesic" and not euclidean(self.point):
                self._curves = Curves(horizontal, self.point, self.layout)

    @property
    def projected(self) -> bool:
        """Whether not all vectors are in the ball."""
        return self.point is not None

    @property
    def fused(self) -> bool:
        """Whether coordinates are displacements, so that points need not be written out to be looked at."""
        return isinstance(self.frame, Plain) and self.frame.scale is None

    @property
    def origin(self) -> Vector:
        """The centre of the ball."""
        return self._origin

    def kept(self, v: Tree) -> Vector:
        """A vector where the algebra on vectors is done."""
        return np.asarray(v, self.layout.dtype) if self._host else jnp.asarray(v, self.layout.dtype)

    def normal(self, seed: Tree, count: int | None = None) -> Vector:
        """Standard normal vectors, the same in every dtype and on every machine; one, or a stack of them."""
        shape = (self.layout.size,) if count is None else (count, self.layout.size)
        return self.kept(np.random.default_rng(seed).standard_normal(shape))

    def ball(self, radius: float) -> Ball:
        """The ball of a radius."""
        return Ball(self.frame, radius)

    def look(self, x: Vector) -> tuple[float, Vector]:
        """The loss at a point of the ball, and the gradient of `x -> loss(x)` among horizontal vectors."""
        at, program = self._batch, self._objective.value_and_gradient
        if self._curves is None:
            value, covector = program(self._params, at, self._away(x))
            return float(value), self.frame.back(self.kept(covector))
        end, pull = self._curves.end(x)
        value, covector = program(end, at, self._origin)
        pulled = self.kept(self._curves.pulled(pull, covector))
        return float(value), self.frame.gradient(pulled)

    def elsewhere(self, params: Tree) -> float:
        """The loss at other parameters, by a program that is there already."""
        program = self._objective.value if self.fused else self._objective.value_and_gradient
        found = program(replicated(self._mesh, params), self._batch, self._origin)
        return float(found if self.fused else found[0])

    def _away(self, x: Vector) -> Vector:
        return x if x is self._origin else self.frame.away(x)

    def looks(self, points: list[Vector]) -> list[tuple[float, Vector]]:
        """`look` at several points: at once where the mesh has devices for each, else one after the other."""
        count = restart_devices(self._mesh)
        if count == 1 or self._curves is not None:
            return [self.look(x) for x in points]
        rows = [self.frame.away(x) for x in points]
        rows += [rows[-1]] * (-len(rows) % count)
        values, covectors = self._objective.side_by_side(self._params, self._batch, stacked(rows))
        return [
            (float(value), self.frame.back(self.kept(covector)))
            for value, covector, _ in zip(np.asarray(values), self.kept(covectors), points, strict=False)
        ]

    def look_along(self, x: Vector, g: Vector, step: float, scale: float) -> tuple[float, Vector]:
        """`look(scale (x + step g))`, at the memory of what it returns where coordinates are displacements."""
        if not self.fused:
            return self.look(scale * (x + step * g))
        numbers = (np.asarray(number, self.layout.dtype) for number in (step, scale))
        value, gradient = self._objective.along(self._params, self._batch, x, g, *numbers)
        return float(value), gradient

    def value(self, x: Vector) -> float:
        """The loss at a point of the ball."""
        if self._curves is None:
            return float(self._objective.value(self._params, self._batch, self._away(x)))
        return float(self._objective.value(self._curves.end(x)[0], self._batch, self._origin))

    def lines(self, stack: Vector) -> Callable[..., list[float]]:
        """`along(share, count)`: the loss at a share of the first rows of a stack, which are mapped only once."""
        if self._curves is not None:
            return lambda share, count=None: [self.value(share * x) for x in stack[:count]]
        away, value = self.frame.away(stack), self._objective.value
        # All are under way before the first is waited for.
        losses = lambda share, count: [value(self._params, self._batch, share * v) for v in away[:count]]
        return lambda share, count=None: list(map(float, losses(share, count)))

    def stop(self, x: Vector) -> float:
        """The time up to which the geodesic is followed, below 1 where it would leave its domain."""
        return 1.0 if self._curves is None else self._curves.stop(x)

    def hessian_vector(self, x: Vector) -> Vector:
        """The second derivative of the loss along the ball's curves at the centre, applied to a horizontal vector.

        In whitened coordinates x the metric at the centre is the identity, so this is the generalised eigenproblem
        `H v = lambda G v` with its horizontal projections, made an ordinary symmetric one. Along geodesics
        `d^2/dt^2 loss(exp(t v)) = Hess L(v, v)`, because a geodesic has no acceleration of its own: the Christoffel
        term of the Riemannian Hessian is the second derivative of the exponential map.

        That is taken from the Taylor polynomial `theta + v + a(v)/2`, which needs no differential equation: the loss's
        second derivative on straight lines, plus that of the quadratic form `q(x) = dL . a(x)/2` with dL fixed: a
        homogeneous quadratic form has the Hessian `v -> grad q(v)`. Where geodesics bend along orbits alone and dL is
        horizontal, as that of a function on the quotient is, q is zero.
        """
        return self._curved(x, self.frame.back(self._product(self.frame.away(x))))

    def hessian_vectors(self, stack: Vector) -> Vector:
        """The same of the rows of a stack, of which maps are taken together."""
        images = self.frame.back(stacked(list(self._products(self.frame.away(stack)))))
        return images if self._bent is None else stacked(list(map(self._curved, stack, images)))

    def forms(self, stack: Vector) -> np.ndarray:
        """The products of horizontal rows of a stack with what `hessian_vector` makes of them: nothing is projected."""
        away = self.frame.away(stack)
        found = np.asarray(list(map(dot, away, self._products(away))))
        if self._bent is not None:
            found += [dot(x, self.kept(self._bent(x))) for x in stack]
        return found

    def _curved(self, x: Vector, image: Vector) -> Vector:
        return image if self._bent is None else image + self.frame.gradient(self.kept(self._bent(x)))

    def _product(self, v: Vector) -> Vector:
        return self.kept(self._objective.hessian_vector(self._params, self._batch, v))

    def _products(self, stack: Vector) -> Iterator[Vector]:
        """With the rows of a stack; of few parameters the next is under way before one is waited for."""
        ahead = 2 if self.layout.size <= FEW else 0
        under_way: deque[Tree] = deque()
        for v in stack:
            under_way.append(self._objective.hessian_vector(self._params, self._batch, v))
            if len(under_way) > ahead:
                yield self.kept(under_way.popleft())
        yield from map(self.kept, under_way)

    @functools.cached_property
    def _bent(self) -> Callable[[Vector], Vector] | None:
        """What the curves add to the second derivative; nothing where they bend along orbits, as the loss does not."""
        if self._curves is None:
            return None
        slope = self.kept(self._objective.slope(self._params, self._batch))
        known = getattr(self.point, "bends_along", None)
        if known is not None and known(self.layout.placed(slope, self._params)):
            return None
        return functools.partial(self._curves.bent, covector=slope)


def oriented(point: AnyPoint) -> tuple[AnyPoint, bool | None, str]:
    """The point with coordinates that follow the group, if it has such: a random vector is then the same on an orbit.

    Searches start from random vectors too, and so end at the same value where a search is all that is known.
    """
    found = point.oriented() if callable(getattr(point, "oriented", None)) else None
    if found is None:
        return point, None, "the metric's coordinates do not follow the group"
    return found.point, found.fixed, "" if found.fixed else found.reason

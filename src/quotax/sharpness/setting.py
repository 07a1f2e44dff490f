"""What every measure begins with: checked arguments, the factored point, and a program compiled once for each loss."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from quotax.errors import SharpnessError
from quotax.sharpness.arguments import (
    check_ball,
    check_batch,
    check_choice,
    check_loss,
    check_params,
    check_point,
)
from quotax.sharpness.ball import Ball, Space, euclidean, make_ball
from quotax.sharpness.devices import check_mesh, constrain_examples, replicated, sharded
from quotax.sharpness.objective import Loss, mean_over_chunks, value_and_gradient
from quotax.sharpness.scaling import Mask, length_of, scale_of
from quotax.sharpness.vectors import Layout, Tree, layout

COUNTED = 4096
"""Up to this many parameters the horizontal dimension is counted when the space does not state it."""


class Problem(NamedTuple):
    """A loss in the flat coordinates of a ball around the parameters; exists inside a compiled program."""

    ball: Ball
    layout: Layout
    point: Any
    value: Callable[[Tree], jax.Array]
    value_and_gradient: Callable[[Tree], tuple[jax.Array, Tree]]
    mesh: Mesh | None = None

    def rise_to(self, x: jax.Array) -> jax.Array:
        """The loss at a point of the ball, in the widest dtype."""
        return jnp.asarray(self.value(self.ball.embed(x))).astype(self.layout.dtype)

    def gradient(self, x: jax.Array) -> jax.Array:
        """The gradient of `x -> loss(embed(x))` among horizontal vectors."""
        params, pull_back = jax.vjp(self.ball.embed, x)
        return self.ball.gradient(pull_back(self.value_and_gradient(params)[1])[0])

    def hessian_vector(self, v: jax.Array) -> jax.Array:
        """The second derivative of `x -> loss(embed(x))` at the centre, applied to a horizontal vector.

        In whitened coordinates x the metric at the centre is the identity, so this is the generalised eigenproblem
        `H v = lambda G v` with its horizontal projections, made an ordinary symmetric one. With `embed` the
        exponential map, `d^2/dt^2 loss(exp(t v)) = Hess L(v, v)`, because a geodesic has no acceleration of its own:
        the Christoffel term of the Riemannian Hessian is the second derivative of `embed`.

        That is taken from the Taylor polynomial `theta + v + a(v)/2`, which needs no differential equation: the loss's
        second derivative on straight lines, plus that of the quadratic form `q(x) = dL . (theta + x + a(x)/2)` with dL
        fixed: a homogeneous quadratic form has the Hessian `v -> grad q(v)`, and the linear part's gradient is dL.
        """
        ball, origin = self.ball, jnp.zeros_like(v)
        if ball.taylor is None and ball.straight is not None:
            return jax.jvp(self.gradient, (origin,), (v,))[1]
        straight = ball.straight or ball.embed
        covector = lambda x: self.value_and_gradient(straight(x))[1]
        slope, change = jax.jvp(covector, (origin,), (v,))
        pull_back = jax.vjp(straight, origin)[1]
        image = pull_back(change)[0]
        if ball.taylor is not None:
            image = image + jax.vjp(ball.taylor, v)[1](slope)[0] - pull_back(slope)[0]
        return ball.gradient(image)


@dataclass(frozen=True)
class Setting:
    """A loss at parameters, with the ball it is to be measured in."""

    call: str
    loss: Loss
    params: Any
    space: Any
    kind: str
    batch: Any
    microbatch: int | None
    point: Any
    scale: jax.Array | None
    layout: Layout
    length: Callable[[Tree, Tree], jax.Array] | None
    mesh: Mesh | None = None
    steady: bool | None = None
    unsteady: str = ""
    """Whether the same key draws the same vectors at every representative; and why not."""
    footing: Any = None
    ground: Any = None
    origin: Any = None
    """What rounding leaves of the parameters; if another representative was chosen, the way to it, from where."""
    elsewhere: float | None = None
    known: Any = None
    """By how much the loss differs there; and the verdict on the ball, once it is known."""

    @property
    def given(self) -> Any:
        """The parameters as they were given."""
        return self.params if self.ground is None else self.origin

    def home(self, v: Tree) -> Tree:
        """A tangent vector where the measurement is made, at the parameters as they were given."""
        return v if self.ground is None else self.ground.pull(v)

    def away(self, v: Tree) -> Tree:
        """The inverse of `home`."""
        return v if self.ground is None else self.ground.push(v)

    @property
    def curved(self) -> bool:
        """Whether displacements follow geodesics."""
        return self.kind == "geodesic"

    @property
    def hessian(self) -> str:
        """What the second derivative along the ball's own curves is called."""
        straight = not self.curved or euclidean(self.point)
        return "Riemannian" if not straight or (self.point is not None and euclidean(self.point)) else "Euclidean"

    @cached_property
    def dim(self) -> int:
        """The number of directions in the ball: horizontal ones, or parameters that move."""
        if self.scale is not None:
            return int(jnp.sum(self.scale > 0))
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
        return round(float(self.run(_dimension, None)))

    def run(self, kernel: Callable[..., Any], static: Hashable, *arguments: Any) -> Any:
        """`kernel(problem, static, *arguments)`, compiled once for each loss, kernel and static argument."""
        return self.program(kernel, static)(*arguments)

    def program(self, kernel: Callable[..., Any], static: Hashable, donated: int | None = None) -> Callable[..., Any]:
        """The compiled `kernel`, to be called several times; the argument of number `donated` is used up."""
        key = (kernel, self.loss, self.microbatch, self.curved, static, self.mesh, donated)
        if all(isinstance(leaf, jax.Array | np.ndarray) for leaf in jax.tree.leaves(self.point)):
            try:
                program = _program(*key)
            except TypeError:  # a loss that cannot be hashed is compiled every time
                program = _program.__wrapped__(*key)
            return partial(program, self.params, self.batch, self.point, self.scale)
        # A point that is not a pytree keeps its arrays in closures: they become constants of a program of its own.
        program = _program.__wrapped__(*key, lambda: self.point)
        return partial(program, self.params, self.batch, None, self.scale)

    def require_coordinates(self) -> None:
        """Refuse a metric in which no standard normal vector can be drawn."""
        if self.point is not None and not euclidean(self.point) and not hasattr(self.point, "unwhiten"):
            raise SharpnessError(
                f"`{self.call}` needs `whiten` and `unwhiten` of a metric that is not Euclidean, linear maps with "
                f"|unwhiten(e)| = |e|_2; `{type(self.space).__name__}.at(params)` has none."
            )


def prepare(
    call: str,
    loss: Loss,
    params: Any,
    space: Space | None,
    batch: Any,
    microbatch: int | None,
    *,
    ball: str | None = None,
    natural: str = "linear",
    norm: str = "l2",
    adaptive: bool = False,
    mask: Mask = None,
    per_layer: bool = False,
    mesh: Any = None,
) -> Setting:
    """Everything checked, before anything is compiled; `natural` is the ball of a space when `ball` does not say."""
    params = check_params(call, params)
    microbatch, batch = check_batch(call, batch, microbatch)
    mesh = check_mesh(call, mesh, batch, microbatch)
    params, batch = replicated(mesh, params), sharded(mesh, batch)
    check_loss(call, loss, params, batch)
    check_choice(call, "norm", norm, ("l2", "linf"))
    if norm == "linf" and per_layer:
        raise SharpnessError(f"`{call}`: norm='linf' already gives every parameter its own interval; drop per_layer=.")
    kind = check_ball(call, ball, space, natural, adaptive or per_layer or mask is not None or norm == "linf")
    point = None if kind == "full" else check_point(call, space, params, ball or "linear")
    point, steady, unsteady = oriented(point)
    if kind == "geodesic" and not hasattr(point, "geodesic"):
        kind = "linear"  # Euclidean: the same; and no geodesics were asked for otherwise
    flat = layout(params)
    scale = scale_of(call, params, flat, adaptive=adaptive, mask=mask, per_layer=per_layer)
    length = None
    if scale is not None or norm == "linf":
        length = lambda params, v: length_of(call, params, v, adaptive, mask, per_layer, norm)
    return Setting(
        call, loss, params, space, kind, batch, microbatch, point, scale, flat, length, mesh, steady, unsteady
    )


def oriented(point: Any) -> tuple[Any, bool | None, str]:
    """The point with coordinates that follow the group, if it has such: a random vector is then the same on an orbit.

    Searches start from random vectors too, and so end at the same value where a search is all that is known.
    """
    found = point.oriented() if callable(getattr(point, "oriented", None)) else None
    if found is None:
        return point, None, "the metric's coordinates do not follow the group"
    return found.point, found.fixed, "" if found.fixed else found.reason


@lru_cache(maxsize=64)
def _program(
    kernel: Callable[..., Any],
    loss: Loss,
    microbatch: int | None,
    curved: bool,
    static: Hashable,
    mesh: Mesh | None,
    donated: int | None,
    constant: Callable[[], Any] | None = None,
) -> Callable[..., Any]:
    place = constrain_examples(mesh)

    def program(params: Any, batch: Any, point: Any, scale: Any, *arguments: Any) -> Any:
        point = constant() if constant else point
        flat = layout(params)
        one = jnp.ones((), flat.dtype)
        ball = make_ball(params, flat, point, one, curved=curved, scale=scale)
        if batch is None:
            value = loss
        else:
            value = lambda params: mean_over_chunks(lambda part: loss(params, part), batch, microbatch, place)
        problem = Problem(ball, flat, point, value, value_and_gradient(loss, batch, microbatch, place), mesh)
        return kernel(problem, static, *arguments)

    # What comes out is the same on all devices, so that every process can read it.
    places = None if mesh is None else NamedSharding(mesh, PartitionSpec())
    return jax.jit(program, out_shardings=places, donate_argnums=() if donated is None else 4 + donated)


def _dimension(problem: Problem, _: None) -> jax.Array:
    """The trace of the projection."""
    one = lambda i: problem.ball.horizontal(jnp.zeros(problem.layout.size, problem.layout.dtype).at[i].set(1.0))[i]
    return jnp.sum(jax.lax.map(one, jnp.arange(problem.layout.size)))

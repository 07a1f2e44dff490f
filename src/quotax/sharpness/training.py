"""Training on the quotient, as optax transformations: horizontal updates, and SAM whose ascent leaves the orbit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from quotax.errors import SharpnessError
from quotax.sharpness.problem.arguments import check_choice, check_point, check_radius, takes_points
from quotax.sharpness.problem.ball import Space, euclidean
from quotax.trees import AnyArray, AnyPoint, AnySpace, Keyword, Tree

if TYPE_CHECKING:
    import optax


def horizontal(space: Space, *, gradients: bool = False) -> optax.GradientTransformationExtraArgs:
    """Replace updates by their horizontal parts at the parameters: what is left changes the function, not its name.

    Behind an optimiser (`optax.chain(optax.adam(1e-3), qx.horizontal(space))`) updates are tangent vectors, and are
    projected. In front of one they are derivatives of the loss: with `gradients=True` they are first turned into the
    gradient of the space's metric, `P sharp(dL)`. In the Euclidean metric the two are the same.

    Example:
        >>> import jax.numpy as jnp, optax
        >>> class Rays:  # R^n by rotations: horizontal is radial
        ...     def __init__(self, p=None): self.p = p
        ...     def at(self, p): return Rays(p)
        ...     def horizontal(self, v): return self.p * (self.p @ v) / (self.p @ self.p)
        ...     inner, norm = staticmethod(jnp.dot), staticmethod(jnp.linalg.norm)
        >>> optimiser = optax.chain(optax.sgd(1.0), horizontal(Rays()))
        >>> params = jnp.array([1.0, 0.0])
        >>> updates, _ = optimiser.update(jnp.array([3.0, 4.0]), optimiser.init(params), params)
        >>> updates.tolist()
        [-3.0, -0.0]
    """
    call = "quotax.horizontal"
    _check_space(call, space)

    def update(updates: Tree, state: Tree, params: Tree | None = None, **extra: Keyword) -> tuple[Tree, Tree]:
        del extra
        point = check_point(call, space, _required(call, params))
        if gradients:
            return _gradient(point, updates), state
        return _like(updates, point.horizontal(updates)), state

    return _transformation(update)


def sam(
    space: Space | None = None, radius: float = 0.05, *, ball: str = "linear"
) -> optax.GradientTransformationExtraArgs:
    """Sharpness-aware minimisation: replace the gradient by that at the worst point a first-order model sees.

    With G the metric at the parameters and P the horizontal projection, the ascent is `radius n / |n|_G` for
    `n = P G^-1 dL`: the steepest direction of the horizontal ball. In an invariant metric the perturbed function is
    the same for every representative of an orbit. Without a space it is plain SAM. `ball="geodesic"` follows the
    geodesic with that velocity instead of the straight line.

    Put it in front of any optimiser, and give `update` the function that makes gradients, as for `optax.contrib.sam` in
    its opaque mode: `grad_fn(params)`, or `grad_fn(params, 0)`. Each update calls it once.

        optimiser = optax.chain(qx.sam(space, 0.05), optax.adam(1e-3))
        grad_fn = jax.grad(lambda params: loss(params, batch))
        updates, state = optimiser.update(grad_fn(params), state, params, grad_fn=grad_fn)

    Example:
        >>> import jax, jax.numpy as jnp, optax
        >>> optimiser = optax.chain(sam(radius=0.1), optax.sgd(1.0))
        >>> params, grad_fn = jnp.array([1.0, 0.0]), jax.grad(lambda p: p @ p)
        >>> updates, _ = optimiser.update(grad_fn(params), optimiser.init(params), params, grad_fn=grad_fn)
        >>> tuple(round(float(u), 6) for u in updates)
        (-2.2, -0.0)
    """
    call = "quotax.sam"
    if not isinstance(radius, jax.Array):  # an array may be a tracer, of a schedule
        check_radius(call, radius)
    check_choice(call, "ball", ball, ("linear", "geodesic"))
    if space is not None:
        _check_space(call, space)
    elif ball == "geodesic":
        raise SharpnessError(f"`{call}` got ball='geodesic' without a space: geodesics need a metric.")

    def update(
        updates: Tree,
        state: Tree,
        params: Tree | None = None,
        *,
        grad_fn: Callable[..., Tree] | None = None,
        **extra: Keyword,
    ) -> tuple[Tree, Tree]:
        del extra
        params = _required(call, params)
        if grad_fn is None:
            raise SharpnessError(
                f"`{call}` evaluates the gradient at a second point: call `update(grads, state, params, "
                f"grad_fn=jax.grad(loss))`, with the batch closed over."
            )
        return _calling(grad_fn)(_worst(call, space, radius, ball, params, updates)), state

    return _transformation(update)


def _worst(call: str, space: Space | None, radius: AnyArray, ball: str, params: Tree, covector: Tree) -> Tree:
    """The parameters moved by `radius` in the direction of steepest ascent; not moved where there is none."""
    if space is None:
        import optax

        point, direction, size = None, covector, optax.tree.norm(covector)
    else:
        point = check_point(call, space, params, ball)
        direction = _gradient(point, covector)
        size = point.norm(direction)
    scale = jnp.where(size > 0, radius / jnp.where(size > 0, size, 1.0), 0.0)
    step = jax.tree.map(lambda v: (scale * v).astype(v.dtype), direction)
    if point is not None and ball == "geodesic" and hasattr(point, "geodesic"):
        return _like(params, point.geodesic(step).end)
    return jax.tree.map(lambda p, s: p + s.astype(p.dtype), params, step)


def _gradient(point: AnyPoint, covector: Tree) -> Tree:
    """The horizontal gradient of the point's metric."""
    raised = covector if euclidean(point) or not hasattr(point, "sharp") else point.sharp(covector)
    return _like(covector, point.horizontal(raised))


def _like(tree: Tree, values: Tree) -> Tree:
    return jax.tree.map(lambda old, new: jnp.asarray(new).astype(jnp.asarray(old).dtype), tree, values)


def _calling(grad_fn: Callable[..., Tree]) -> Callable[[Tree], Tree]:
    """A gradient function of the parameters alone; optax's own convention adds the number of the ascent step."""
    try:
        inspect.signature(grad_fn).bind(None)
    except TypeError:
        return lambda params: grad_fn(params, 0)
    except ValueError:  # no signature to be had
        pass
    return grad_fn


def _check_space(call: str, space: AnySpace) -> None:
    if not takes_points(space):
        raise SharpnessError(
            f"`{call}` needs a quotient with `at(params)`, got {type(space).__name__}; "
            f"`quotax.quotient(...)` makes one."
        )


def _required(call: str, params: Tree | None) -> Tree:
    if params is None:
        raise SharpnessError(f"`{call}` depends on where it is: call `update(updates, state, params)`.")
    return params


def _transformation(update: Callable[..., Tree]) -> optax.GradientTransformationExtraArgs:
    """An optax transformation without state; optax is imported when one is made, not with quotax."""
    import optax

    return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)

r"""The loss on a surface through the parameters: along their orbit, and across.

With $\xi$ in the algebra and h horizontal there are three surfaces, and each says something else of one loss L that is
constant on orbits:

- *fixed*: $L(e^{t\xi}\theta + s h)$. Along t representatives of one network, at s = 0 of one loss; across, from each,
  the same step of the parameters. Where level sets close in, a Euclidean ball sees a sharper minimum: of one network.
- *moved*: $L(e^{t\xi}(\theta + s h))$. The step is moved with the representative, as an invariant metric measures it,
  and nothing depends on t.
- *linear*: $L(\theta + t\,\xi_\theta + s h)$, $\xi_\theta$ the velocity of the first at t = 0: a plane. It touches the
  orbit and leaves it, so that the loss changes along t, at second order, where its gradient is zero at fourth.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from quotax.errors import SharpnessError
from quotax.presenting import Result, shown
from quotax.presenting.along_orbits import ALONG, level_sets
from quotax.presenting.telling import Teller
from quotax.programs.threads import one_thread
from quotax.sharpness.measures.spectrum import spectrum
from quotax.sharpness.problem.arguments import Key, check_choice, check_radius, check_share, check_whole, key_of
from quotax.sharpness.problem.objective import Loss, objective
from quotax.sharpness.problem.orbit_curve import Along, check_along, mover
from quotax.sharpness.problem.setting import Measurement

CALL = "quotax.loss_slice"

FRAMES = {
    "fixed": (ALONG, "the same step across"),
    "moved": (ALONG, "a step across, moved along"),
    "linear": ("straight along its tangent", "a step across"),
}
"""What is seen along and across, in words below and beside a picture."""

SEEN = 24
"""Products with the Hessian for the direction in which the quotient is sharpest."""


@dataclass(frozen=True, repr=False)
class LossSlice(Result):
    """The loss on a surface through the parameters, along their orbit and across.

    Attributes:
        along: t, from `-stretch` to `stretch`.
        across: s, from `-radius` to `radius`, as lengths in the metric.
        losses: a row for each t, with a number for each s.
        frame: "fixed", "moved" or "linear": which surface.
        base: the loss at the parameters, in the middle.
        change_along: the largest difference from that at s = 0: along the orbit it is rounding, or the loss is no
            function on the quotient; in the plane it is what leaving the orbit costs.
        change_across: the largest difference from it at t = 0.
        element: the algebra elements by family.
        step: the horizontal vector of length one.
        status: "ok", or "not finite": the loss is NaN or infinite at some points, and the changes are of the others.
    """

    along: np.ndarray = field(repr=False)
    across: np.ndarray = field(repr=False)
    losses: np.ndarray = field(repr=False)
    frame: str
    base: float
    change_along: float
    change_across: float
    element: dict[str, Any] = field(repr=False)
    step: Any = field(repr=False)
    status: str = "ok"

    def __str__(self) -> str:
        """One readable line."""
        way = "along the tangent of the orbit" if self.frame == "linear" else "along the orbit"
        text = f"the loss {self.base:.6g} changes by {self.change_along:.3g} {way}, by {self.change_across:.3g} across"
        return text + f" ({self.frame}" + ("" if self.status == "ok" else f", {self.status}") + ")"

    def plot(self, ax: Any = None) -> Any:
        """The level sets of the loss, denser where it is low; what is left white has no number."""
        straight, labels = self.frame == "linear", FRAMES[self.frame]
        return level_sets(self.along, self.across, self.losses, ax, "slice.plot()", labels=labels, straight=straight)


@one_thread
@np.errstate(all="ignore")  # what is no number is named in the result
def loss_slice(
    loss: Loss,
    params: Any,
    radius: float,
    *,
    space: Any,
    stretch: float = 0.5,
    frame: str = "fixed",
    along: Along = None,
    across: Any = "sharpest",
    points: int = 25,
    batch: Any = None,
    microbatch: int | None = None,
    mesh: Mesh | None = None,
    key: Key = None,
    progress: Callable[[str], Any] | None = None,
) -> LossSlice:
    r"""The loss on a two-dimensional slice: along the orbit of the parameters, and across, along a horizontal vector.

    Along the orbit is by group elements, $e^{t\xi}$: a finite action, which leaves the function of a network and so its
    loss as they are. A straight line along the same vertical vector does not (`frame="linear"`). What to do across is
    then a question of its own: the same step of the parameters from every representative (`"fixed"`) meets another loss
    from each, which is why Euclidean sharpness is no function on the quotient; the step that is moved with the
    representative (`"moved"`) meets the same.

    Args:
        loss: `loss(params)`, or `loss(params, batch)` when `batch` is given: then a mean over the batch's examples.
        params: in the middle.
        radius: how far across, in the metric of the space.
        space: a quotient with a continuous family.
        stretch: how far along: the largest t. Of a random element, t is the standard deviation of the logarithm: scales
            change by factors of about `exp(t)`.
        frame: `"fixed"`, `"moved"` or `"linear"`.
        along: the algebra elements by family (those of a tangent vector v: `space.connection(params, v)`), or the name
            of a family in which a random one is drawn; by default it is drawn in all of them.
        across: a tangent vector, whose horizontal part is taken; `"sharpest"`: the direction in which the loss on the
            quotient bends most; or `"random"`.
        points: of each side, an odd number, so that the parameters are one of them.
        batch: a pytree whose leaves share their leading axis.
        microbatch: examples in memory at once.
        mesh: a `jax.sharding.Mesh` over whose devices the batch is split.
        key: of what is random: a JAX key or an integer.
        progress: called with a line of text now and then; by default standard error is told when it takes long.

    The loss is compiled once and asked for at one point after another: in memory there is never more than for one loss
    and three more copies of the parameters, every array where it lies. Parameters that `space.shard` split stay split,
    with `across=` a vector or `"random"` (`"sharpest"` keeps up to 48 vectors of the size of the parameters).

    Example:
        >>> import jax.numpy as jnp, quotax as qx
        >>> @qx.architecture(params={"a": "", "b": ""}, inputs={"x": ""})
        ... def net(p, x):
        ...     return p["a"] * p["b"] * x
        >>> scale = qx.Symmetry("scale", qx.PositiveScalar(), {"a": "g * a", "b": "inv(g) * b"})
        >>> space = qx.quotient(net.at(), scale, metric="invariant")
        >>> loss, params = lambda p: (p["a"] * p["b"] - 1) ** 2, {"a": jnp.ones(()), "b": jnp.ones(())}
        >>> found = loss_slice(loss, params, 0.3, space=space, along={"scale": jnp.ones(())}, points=5)
        >>> found.change_along < 1e-12, bool(found.losses[0, -1] > 1.3 * found.losses[2, -1])
        (True, True)
    """
    radius, stretch = check_radius(CALL, radius), check_share(CALL, "stretch", stretch)
    check_choice(CALL, "frame", frame, tuple(FRAMES))
    if check_whole(CALL, "points", points, 3) % 2 == 0:
        raise SharpnessError(
            f"`{CALL}` needs points= an odd number, so that the parameters are one of them, got {points}; try "
            f"{points + 1}."
        )
    request = Measurement(CALL, loss, batch=batch, microbatch=microbatch, mesh=mesh, key=key)
    setting = request.at(params)
    params, data = setting.params, setting.request
    xi = check_along(CALL, space, along, params, key)
    step = _across(across, loss, params, space, data)
    teller = Teller(progress)
    value = objective(loss, data.microbatch, data.mesh).displaced
    real = jnp.result_type(*jax.tree.leaves(params))
    move, plus = mover(space, xi), jax.jit(_plus)
    velocity = space.field(params, xi) if frame == "linear" else None
    places, steps = np.linspace(-stretch, stretch, points), np.linspace(-radius, radius, points)
    losses = np.empty((points, points))
    for row, t in enumerate(places):
        there = plus(params, velocity, t) if frame == "linear" else move(params, t) if frame == "fixed" else None
        for column, s in enumerate(steps):
            here, share = (move(plus(params, step, s), t), 0.0) if there is None else (there, s)
            losses[row, column] = float(value(here, data.batch, step, jnp.asarray(share, real)))
        teller(functools.partial(_told, row + 1, points))
    middle = points // 2
    base = losses[middle, middle]
    change = lambda line: float(np.max(np.abs(line - base), where=np.isfinite(line), initial=0.0))
    status = "ok" if np.all(np.isfinite(losses)) else "not finite"
    return LossSlice(
        places, steps, losses, frame, float(base), change(losses[:, middle]), change(losses[middle]), xi, step, status
    )


def _across(across: Any, loss: Loss, params: Any, space: Any, data: Measurement) -> Any:
    """The horizontal vector of length one."""
    if isinstance(across, str):
        if check_choice(CALL, "across", across, ("sharpest", "random")) == "sharpest":
            where = {"batch": data.batch, "microbatch": data.microbatch, "mesh": data.mesh, "key": data.key}
            found = spectrum(
                loss, params, 1, space=space, ball="linear", which="top", basis=SEEN, tolerance=0.01, **where
            )
            if not found.vectors or not np.all(np.isfinite(found.values)):
                raise SharpnessError(
                    f"`{CALL}`: the Hessian has no largest eigenvalue at params ({found.status}); pass across= a "
                    "tangent vector, or 'random'."
                )
            across = found.vectors[0]
        else:
            leaves, structure = jax.tree.flatten(params)
            keys = jax.random.split(jax.random.fold_in(key_of(CALL, data.key), 1), len(leaves))
            drawn = [jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
            across = jax.tree.unflatten(structure, drawn)
    elif jax.tree.structure(across) != jax.tree.structure(params):
        raise SharpnessError(
            f"`{CALL}` needs across= a tangent vector shaped like the parameters, 'sharpest' or 'random', got "
            f"{shown(across)}."
        )
    given = float(space.norm(params, across))
    horizontal = space.horizontal(params, across)
    length = float(space.norm(params, horizontal))
    if not np.isfinite(given):
        raise SharpnessError(
            f"`{CALL}`: across= has the length {given} in the metric at params, whose arrays are "
            f"{jnp.result_type(*jax.tree.leaves(params))}; see `space.at(params).footing()`, and try float32."
        )
    if not (np.isfinite(length) and length > 1e-6 * given):
        raise SharpnessError(
            f"`{CALL}`: the horizontal part of across= has length {length:.3g}, of {given:.3g}: along it nothing "
            "leaves the orbit. Pass another vector, or 'random'."
        )
    return jax.tree.map(lambda leaf: leaf / jnp.asarray(length, leaf.dtype), horizontal)


def _plus(params: Any, step: Any, share: jax.Array) -> Any:
    return jax.tree.map(lambda a, b: a + jnp.asarray(share, a.dtype) * b.astype(a.dtype), params, step)


def _told(row: int, rows: int, seconds: float) -> str:
    return f"{CALL}: {row} of {rows} rows, about {seconds * (rows - row) / row:.0f} s left"

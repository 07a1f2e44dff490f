r"""Paths between two minima: straight, through the orbit, and along a curve; the highest loss met on each.

*Segment:* $(1 - t) a + t b$. *Aligned:* straight from the representative of a that is nearest to b. *Orbit:* from a to
there along the orbit, where the loss does not change, and then straight. *Curve:* a Bezier curve with some control
points (Garipov and others, 2018) that are moved until the mean of the loss along it and its maximum are small; where
there is a space, it begins with the same walk.

The group need not be connected. Where the element that aligns is in another component (a permutation, a sign, a matrix
of negative determinant) the segment from there is one of another network with the same function, and nothing joins it
to a: the walk goes to what is nearest in its own component, and `blocked` names the families. Whether another path
joins them is then a question of the width.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from quotax.checks import finite_params
from quotax.errors import LandscapeError
from quotax.landscape.demands import quotient_of, whole
from quotax.landscape.orbit_walk import OrbitWalk, between, walk, walker
from quotax.presenting import Result
from quotax.presenting.drawing import Axes, drawn
from quotax.trees import AnySpace, Tree

CALL = "quotax.minima_paths"
ARRIVED = 1e-5
"""What is left of the way to a representative, over its size, where a walk has arrived (in float32, 1e-3)."""


@dataclass(frozen=True, eq=False, repr=False)
class LossPath(Result):
    """The loss along one path, from one minimum to the other.

    Attributes:
        highest: the highest loss met.
        height: how much that is above the higher end.
        place: when, from 0 to 1.
        times: where the loss was asked for.
        losses: there.
    """

    highest: float
    height: float
    place: float
    times: np.ndarray = field(repr=False)
    losses: np.ndarray = field(repr=False)
    _at: Callable[[float], Tree] = field(repr=False, compare=False)

    def at(self, time: float) -> Tree:
        """The parameters at a time from 0 to 1."""
        if not 0 <= time <= 1:
            raise LandscapeError(f"`LossPath.at` needs a time from 0 to 1, got {time!r}.")
        return self._at(float(time))

    def __str__(self) -> str:
        """One readable line."""
        return f"highest {self.highest:.4g} at {self.place:.3f}, {self.height:.4g} above the ends"


@dataclass(frozen=True, eq=False, repr=False)
class MinimaPaths(Result):
    """Paths between two minima, and the highest loss met on each.

    Attributes:
        segment: the straight one.
        aligned: straight from the nearest representative of the first; None without a space.
        orbit: through the orbit of the first, then straight; None without a space.
        curve: along a curve, after the same walk where there is a space; None if none was asked for.
        ends: the losses at both minima.
        blocked: families whose aligning element is in another component of the group, and why; the walk is then to
            what its own component has nearest.
        walked: the share of `orbit` and `curve` that lies in the orbit.
    """

    segment: LossPath
    aligned: LossPath | None
    orbit: LossPath | None
    curve: LossPath | None
    ends: tuple[float, float]
    blocked: Mapping[str, str]
    walked: float

    def __str__(self) -> str:
        """A line for each."""
        lines = [f"{name}: {path}" for name, path in self._paths().items()]
        return "\n".join(lines + [f"blocked: {name}: {why}" for name, why in self.blocked.items()])

    def plot(self, ax: Axes | None = None) -> Axes | None:
        """The loss along every path."""
        for name, path in self._paths().items():
            with drawn(ax, "paths.plot()") as (ax, look):
                ax.plot(path.times, path.losses, label=f"{name} {path.highest:.2g}", **look | {"marker": ""})
                ax.set_xlabel("from one minimum to the other")
                ax.set_ylabel("loss")
        return ax

    def _paths(self) -> dict[str, LossPath]:
        paths = {"segment": self.segment, "aligned": self.aligned, "orbit": self.orbit, "curve": self.curve}
        return {name: path for name, path in paths.items() if path is not None}


def minima_paths(
    loss: Callable[[Tree], Any],
    params: Tree,
    other: Tree,
    *,
    space: AnySpace | None = None,
    bends: int = 3,
    steps: int = 400,
    points: int = 101,
    rate: float = 0.01,
    seed: int = 0,
) -> MinimaPaths:
    """Paths from one set of parameters to another: straight, through the orbit, along a curve.

    Args:
        loss: `loss(params)`.
        params: one end.
        other: the other.
        space: a quotient: paths go along its orbits first.
        bends: control points of the curve between its ends; 0 asks for no curve.
        steps: of Adam, by which they are moved.
        points: of every path at which the loss is asked for.
        rate: the size of a step, over the distance of the ends per parameter.
        seed: of the places at which losses are taken, and of the first bends.

    Example:
        >>> import jax.numpy as jnp
        >>> ring = lambda p: (jnp.sum(p**2) - 1) ** 2
        >>> found = minima_paths(ring, jnp.array([1.0, 0.0]), jnp.array([-1.0, 0.0]), steps=300)
        >>> found.segment.highest, found.curve.highest < 0.05
        (1.0, True)
    """
    params, other = finite_params(CALL, params), finite_params(CALL, other)
    shapes = [jax.tree.map(np.shape, tree) for tree in (params, other)]
    if shapes[0] != shapes[1]:
        raise LandscapeError(
            f"`{CALL}` needs two sets of parameters of one network, got shapes {shapes[0]} and {shapes[1]}."
        )
    bends, steps = whole(CALL, "bends", bends, 0), whole(CALL, "steps", steps, 1)
    points = whole(CALL, "points", points, 3)
    if not rate > 0:
        raise LandscapeError(f"`{CALL}` needs a positive rate, got {rate!r}.")
    values = _values(loss)
    straight = _measured(values, functools.partial(_bezier, [params, other]), points)
    if not np.isfinite(straight.losses[[0, -1]]).all():
        raise LandscapeError(f"`{CALL}`: the loss at the ends is {straight.losses[0]} and {straight.losses[-1]}.")
    blocked, legs, aligned, orbit, curve, begin, share = {}, [], None, None, None, params, 0.0
    if space is not None:
        quotient_of(CALL, space)
        legs, blocked, nearest = _through_the_orbit(space, params, other)
        aligned = _measured(values, functools.partial(_bezier, [nearest, other]), points)
        begin = _joined(space, legs, 1.0) if legs else params
        share = 0.5 if any(leg.elements for leg, _ in legs) else 0.0
    onwards = lambda path: functools.partial(_after, space, legs, share, path)
    if space is not None:
        orbit = _measured(values, onwards(functools.partial(_bezier, [begin, other])), points)
    if bends:
        inner = _bent(loss, begin, other, bends, steps, float(rate), seed)
        curve = _measured(values, onwards(functools.partial(_bezier, [begin, *inner, other])), points)
    ends = float(straight.losses[0]), float(straight.losses[-1])
    return MinimaPaths(straight, aligned, orbit, curve, ends, blocked, share)


# --- through the orbit

Legs = list[tuple[OrbitWalk, bool]]
"""Walks, and whether each is gone backwards."""


def _through_the_orbit(space: AnySpace, params: Tree, other: Tree) -> tuple[Legs, dict[str, str], Tree]:
    """Walks from parameters to the representative that is nearest to others, which is the last.

    Straight to the others if they are on the orbit and nothing stands in between; else by way of canonical ones, which
    an orthogonal element joins: of these matrices every local minimum of the distance in a component is the least.
    """
    dtype = jnp.result_type(*jax.tree.leaves(params))
    near = ARRIVED if jnp.finfo(dtype).eps < 1e-10 else 1e-3
    step = walker(space)
    direct = walk(step, params, other, 400)
    if direct.left < near:
        return [(direct, False)], {}, direct.end
    aligned = space.alignment(params, other)
    here, there = (space.canonical(p).params for p in (params, aligned.params))
    out, home = (walk(step, p, c, 200) for p, c in ((params, here), (aligned.params, there)))
    across = walk(step, out.end, home.end, 400)
    if max(out.left, home.left, across.left) < near:
        return [(out, False), (across, False), (home, True)], {}, aligned.params
    return [(direct, False)], _components(space, aligned.element, across.left), aligned.params


def _components(space: AnySpace, element: Mapping[str, Tree], left: float) -> dict[str, str]:
    """Which families' elements are not joined to the identity."""
    found = {}
    for family in space.families:
        g = np.asarray(element[family.name]) if family.name in element else None
        if g is None:
            continue
        still = np.allclose(g, np.asarray(family.group.identity(family.sizes)), atol=1e-6)
        if not family.group.continuous:
            if not still:
                found[family.name] = f"an element of {family.group}, which is discrete"
        elif family.group.layout == "matrix" and (np.linalg.det(g) < 0).any():
            found[family.name] = f"an element of {family.group} of negative determinant"
        elif family.group.layout != "matrix" and (np.real(g) < 0).any():
            found[family.name] = f"an element of {family.group} with a negative sign"
    return found or {"the walk": f"stopped with {left:.3g} of the way left"}


def _joined(space: AnySpace, legs: Legs, time: float) -> Tree:
    """The point of walks one after another."""
    place = min(int(time * len(legs)), len(legs) - 1)
    share, (found, backwards) = time * len(legs) - place, legs[place]
    return between(space, found, 1 - share if backwards else share)


def _after(space: AnySpace, legs: Legs, share: float, path: Callable[[float], Tree], time: float) -> Tree:
    """A walk through the orbit for a share of the time, and then a path."""
    if share and time < share:
        return _joined(space, legs, time / share)
    return path((time - share) / (1 - share))


# --- curves


def _bezier(nodes: list[Tree], time: Any) -> Tree:
    degree = len(nodes) - 1
    weights = [math.comb(degree, k) * (1 - time) ** (degree - k) * time**k for k in range(degree + 1)]
    mixed = lambda *leaves: sum(jnp.asarray(w, x.dtype) * x for w, x in zip(weights, leaves, strict=True))
    return jax.tree.map(mixed, *nodes)


def _bent(loss: Any, begin: Tree, end: Tree, bends: int, steps: int, rate: float, seed: int) -> list[Tree]:
    """Control points that make the loss small along the curve: its mean and its maximum, by Adam."""
    import optax

    flat, away = ravel_pytree(begin)
    chord = ravel_pytree(end)[0] - flat
    scale = max(float(jnp.linalg.norm(chord)), 1e-12) / math.sqrt(flat.size)
    key = jax.random.key(seed)
    noise = 0.1 * scale * jax.random.normal(key, (bends, flat.size), flat.dtype)
    nodes = [away(flat + (k + 1) / (bends + 1) * chord + noise[k]) for k in range(bends)]
    schedule = optax.cosine_decay_schedule(rate * scale * 10, steps, 0.02)
    return _descend(loss, optax.adam(schedule), steps, begin, end, nodes, jax.random.fold_in(key, bends))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _descend(loss: Any, rule: Any, steps: int, begin: Tree, end: Tree, nodes: list[Tree], key: Any) -> list[Tree]:
    count = 24

    def height(nodes: list[Tree], key: Any) -> jax.Array:
        times = (jnp.arange(count) + jax.random.uniform(key, (count,))) / count
        values = jax.lax.map(jax.checkpoint(lambda t: loss(_bezier([begin, *nodes, end], t))), times)
        return values.mean() + values.max()

    def step(state: Tree, key: Any) -> tuple[Tree, None]:
        nodes, memory = state
        updates, memory = rule.update(jax.grad(height)(nodes, key), memory, nodes)
        return (jax.tree.map(jnp.add, nodes, updates), memory), None

    return jax.lax.scan(step, (nodes, rule.init(nodes)), jax.random.split(key, steps))[0][0]


# --- the loss along a path


def _values(loss: Any) -> Callable[[Iterable[Tree]], np.ndarray]:
    run = jax.jit(loss)
    return lambda at: np.array([float(run(params)) for params in at])


def _measured(values: Callable[[Iterable[Tree]], np.ndarray], path: Callable[[float], Tree], points: int) -> LossPath:
    times = np.linspace(0, 1, points)
    losses = values(path(float(t)) for t in times)
    top = lambda losses: int(np.argmax(np.where(np.isfinite(losses), losses, np.inf)))
    place = top(losses)
    highest, when, step = losses[place], times[place], times[1]
    for _ in range(3):  # the top may be sharp, and lie between
        near = np.clip(np.linspace(when - step, when + step, 11), 0, 1)
        found = values(path(float(t)) for t in near)
        if np.isfinite(highest) and not found[top(found)] <= highest:
            highest, when = found[top(found)], near[top(found)]
        step /= 5
    height = float(highest - max(losses[0], losses[-1]))
    return LossPath(float(highest), height, float(when), times, losses, path)

r"""A path along an orbit: one-parameter subgroups, one after another.

From x towards a target the next step is $e^{s \xi} x$, where $\xi$ is the algebra element whose field is nearest to the
rest of the way and s the best of some lengths. Such a path never leaves the orbit, nor the component of the group that
it began in: it arrives where the target is on both, or stops at what it comes nearest to.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quotax.trees import AnySpace, Tree

LONGEST = 0.5
"""The largest entry of an algebra element in one step."""


class OrbitWalk(NamedTuple):
    """Points of an orbit, and the algebra elements, by family, that lead from each to the next."""

    points: list[Tree]
    elements: list[dict[str, jax.Array]]
    left: float

    @property
    def end(self) -> Tree:
        """Where it stopped."""
        return self.points[-1]


Step = Callable[[Tree, Tree], tuple[Tree, dict[str, jax.Array], jax.Array]]


def walker(space: AnySpace) -> Step | None:
    """A step from parameters towards others, compiled once: where it leads, by what, and what is left."""
    families = tuple(f for f in space.families if f.group.continuous and f.dimension)
    return jax.jit(functools.partial(_step, space, families)) if families else None


def walk(step: Step | None, start: Tree, target: Tree, steps: int) -> OrbitWalk:
    """From one point of an orbit towards another."""
    points, elements = [start], []
    size = float(_distance(target, jax.tree.map(jnp.zeros_like, target)))
    left = float(_distance(start, target))
    tiny = 4 * float(jnp.finfo(jnp.result_type(*jax.tree.leaves(start))).eps) * size
    for _ in range(steps):
        if step is None or left <= tiny:
            break
        there, element, now = step(points[-1], target)
        if not float(now) < left * (1 - 1e-7):
            break
        points.append(there)
        elements.append(element)
        left = float(now)
    return OrbitWalk(points, elements, left / size if size else left)


def between(space: AnySpace, found: OrbitWalk, time: float) -> Tree:
    """The point of a walk at a time from 0 to 1, equal times for all its steps."""
    count = len(found.elements)
    if not count or time >= 1:
        return found.end
    place = min(int(time * count), count - 1)
    share = time * count - place
    return _moved(space, found.points[place], jax.tree.map(lambda x: share * x, found.elements[place]))


def _moved(space: Any, params: Tree, element: dict[str, jax.Array]) -> Tree:
    return space.act(params, space.element(element))


def _distance(params: Tree, other: Tree) -> jax.Array:
    parts = zip(jax.tree.leaves(params), jax.tree.leaves(other), strict=True)
    return jnp.sqrt(sum(jnp.sum((a - b) ** 2) for a, b in parts))


def _step(space: AnySpace, families: tuple[Tree, ...], params: Tree, target: Tree) -> tuple[Tree, Any, jax.Array]:
    dtype = jnp.result_type(*jax.tree.leaves(params))
    rest = jax.tree.map(jnp.subtract, target, params)
    algebra = lambda c: {f.name: jnp.asarray(f.group.algebra(c[f.name], f.sizes)) for f in families}
    field = lambda c: space.field(params, algebra(c))
    zero = {f.name: jnp.zeros(f.group.coordinate_shape(f.sizes), dtype) for f in families}
    back = jax.linear_transpose(field, zero)
    normal = lambda c: jax.tree.map(lambda a, b: a + 1e-12 * b, back(field(c))[0], c)
    count = sum(int(np.prod(leaf.shape)) for leaf in zero.values())
    found, _ = jax.scipy.sparse.linalg.cg(normal, back(rest)[0], tol=1e-10, maxiter=min(2 * count + 10, 200))
    xi = algebra(found)
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in xi.values()]))
    cap = jnp.minimum(1.0, LONGEST / jnp.maximum(largest, jnp.finfo(dtype).tiny))
    scales = cap * 0.5 ** jnp.arange(8, dtype=dtype)
    scaled = lambda s: jax.tree.map(lambda x: s * x, xi)
    ends = jax.vmap(lambda s: _moved(space, params, scaled(s)))(scales)
    distances = jax.vmap(lambda end: _distance(end, target))(ends)
    best = jnp.argmin(jnp.where(jnp.isfinite(distances), distances, jnp.inf))
    return jax.tree.map(lambda e: e[best], ends), scaled(scales[best]), distances[best]

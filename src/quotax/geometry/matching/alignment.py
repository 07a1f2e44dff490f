"""Alignment: the element of the compact and discrete groups that brings parameters closest to a reference.

`|g . a - r|` is minimised over the compact parts of all families together (orthogonal matrices, signs, rotations of
pairs, permutations) and over constant translations. Each step improves one cluster of families with the others fixed
and is exact for it, so the distance never grows. With one cluster the first step is the solution; with several, as
permutations of the layers of a deep network, the steps alternate from several starts.

The start that usually wins solves the families from the ends of the network inwards: the units of a layer are told
apart by the parameters whose other axes are inputs, outputs, or already matched. Copies are found exactly so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike

from quotax.geometry.families.compact import CompactPart, Touch, compact_blocks
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named, add
from quotax.geometry.matching.clusters import BlockOrder, Cluster, clusters
from quotax.geometry.matching.lower_bound import lower_bound
from quotax.trees import AnyArray, Tree

_HOLDS = (0.0, 0.1, 1.0)
"""How far a step on a quadratic objective is held back; the last cannot make it worse."""


class Match(NamedTuple):
    """The result of `match`; `elements` act one family after the other, in their order."""

    elements: dict[str, jax.Array]
    arrays: Named
    distance: jax.Array
    lower_bound: jax.Array
    """No element comes closer: a bound, up to rounding."""
    starts: jax.Array
    """The distances that the starts led to: from the ends inwards, the identity, then random ones.

    Infinite where a start was not needed, as an earlier one had reached the lower bound; where one step is the
    solution there is one start.
    """

    @property
    def gap(self) -> jax.Array:
        """How much closer a better element could at most come."""
        return jnp.maximum(self.distance - self.lower_bound, 0)


@dataclass(frozen=True, eq=False)
class Plan:
    """What a search needs to know of the families, worked out once; compared by identity, so that compiling is too."""

    families: tuple[Family, ...]

    @functools.cached_property
    def blocks(self) -> tuple[CompactPart, ...]:
        """The compact parts, in order."""
        return compact_blocks(self.families)

    @functools.cached_property
    def layout(self) -> BlockOrder:
        """The blocks that act linearly."""
        return BlockOrder(tuple(block for block in self.blocks if block.kind != "shift"))

    @functools.cached_property
    def shifts(self) -> tuple[CompactPart, ...]:
        """The constant translations."""
        return tuple(block for block in self.blocks if block.kind == "shift")

    @functools.cached_property
    def clusters(self) -> tuple[Cluster, ...]:
        """What is solved together."""
        return clusters(self.layout.blocks)

    @functools.cached_property
    def splits(self) -> Mapping[str, tuple[int, ...]]:
        """The parameters' shapes with fused axes apart."""
        return {name: shape for family in self.families for name, shape in family.splits.items()}

    def split(self, arrays: Mapping[str, AnyArray]) -> Named:
        """Fused axes taken apart."""
        return {name: jnp.asarray(a).reshape(self.splits.get(name, jnp.shape(a))) for name, a in arrays.items()}

    def identity(self, dtype: DTypeLike) -> Named:
        """The neutral element of every family."""
        return {family.name: family.group.identity(family.sizes, dtype) for family in self.families}

    def act(self, arrays: Mapping[str, AnyArray], elements: Mapping[str, jax.Array]) -> Named:
        """The families' actions, one after the other."""
        moved = dict(arrays)
        for family in self.families:
            if family.name in self._searched:
                moved = family.act(moved, elements[family.name])
        return moved

    @functools.cached_property
    def unsearched(self) -> tuple[str, ...]:
        """The families with compact or discrete elements that the search leaves at the identity."""
        return tuple(f.name for f in self.families if f.group.compact is not None and f.name not in self._searched)

    @functools.cached_property
    def _searched(self) -> frozenset[str]:
        return frozenset(block.name for block in self.blocks)

    @functools.cached_property
    def solved(self) -> bool:
        """Whether the first step of every cluster is the solution: no parameter depends on two of them."""
        blocks, owned = self.layout.blocks, set()
        for cluster, grounded, _ in self.inwards:
            inside = {name for name in grounded if set(self.layout.touching(name)) <= set(cluster.blocks)}
            owned |= {name for name in inside if cluster.exact(name)}
        return owned == {name for block in blocks for name in block.touches} and not any(b.carried for b in blocks)

    @functools.cached_property
    def inwards(self) -> tuple[tuple[Cluster, tuple[str, ...], tuple[str, ...]], ...]:
        """Clusters in an order in which each can be solved from what is known: parameters, and those known in part."""
        known: set[CompactPart] = set()
        rest = [c for c in self.clusters if c.permutation or c.signs or not self._joint(c.copies[0])]
        order = []
        while rest:
            scored = [(self._evidence(cluster, known), -i, cluster) for i, cluster in enumerate(rest)]
            (_, grounded, partly), _, cluster = max(scored, key=lambda entry: (entry[0][0], entry[1]))
            order.append((cluster, grounded, partly))
            known |= set(cluster.blocks)
            rest.remove(cluster)
        return tuple(order)

    def _joint(self, block: CompactPart) -> bool:
        return any(block in c.blocks and (c.permutation or c.signs) for c in self.clusters)

    def _evidence(
        self, cluster: Cluster, known: set[CompactPart]
    ) -> tuple[tuple[bool, float], tuple[str, ...], tuple[str, ...]]:
        """How well the cluster is determined, by which parameters, and by which only up to unknown elements."""
        grounded, partly, features = [], [], 0.0
        for name in cluster.names:
            unknown = [b for b in self.layout.touching(name) if b not in known and b not in cluster.blocks]
            if not unknown:
                grounded.append(name)
                size = functools.reduce(lambda a, b: a * b, self.splits[name], 1)
                features += size / max(self._units(cluster, name), 1) ** 2
            elif cluster.permutation and len(cluster.permutation.touches.get(name, ())) == 1:
                partly.append(name)
        return (bool(grounded), features), tuple(grounded), () if grounded else tuple(partly)

    def _units(self, cluster: Cluster, name: str) -> int:
        block = next(b for b in cluster.blocks if name in b.touches)
        touch = block.touches[name][0]
        labels = [touch.labels[touch.own]] if touch.own is not None else list(touch.batch)
        return max((self.splits[name][touch.labels.index(label)] for label in labels), default=1)


def match(
    families: Sequence[Family] | Plan,
    arrays: Mapping[str, AnyArray],
    reference: Mapping[str, AnyArray],
    *,
    starts: int = 8,
    sweeps: int = 50,
) -> Match:
    """The closest that the compact parts of the families bring `arrays` to `reference`, with the elements that do.

    Noncompact parts are not moved: bring both to their canonical representative first. Families whose fields have
    another form than the action language's terms stay at the identity. Pass `Plan(families)` to compile once for many
    calls. Works under jit and vmap; the elements count as constants in derivatives, which are those of the minimum
    (envelope theorem).
    """
    plan = families if isinstance(families, Plan) else Plan(tuple(families))
    count = 1 if plan.solved else max(starts, 1)
    arrays, reference = dict(arrays), dict(reference)
    task = _task(plan, arrays, reference)
    traced = lambda *trees: any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))
    if traced(task):
        distances, elements = _from_device(plan, task, count, sweeps)
    else:
        found = _from_host(plan, task, count, sweeps)
        if not traced(arrays, reference):
            return found
        distances, elements = found.starts, found.elements
    elements = jax.lax.stop_gradient(elements)
    moved = plan.act(arrays, elements)
    distance = _distance(moved, reference)
    bound = jax.lax.stop_gradient(jnp.minimum(task.bound, distance))  # where they meet, rounding would part them
    return Match(elements, moved, distance, bound, distances)


class Shared(NamedTuple):
    """What all starts share."""

    arrays: Named
    reference: Named
    left: Named
    right: Named
    """Both without the reach of constant translations, fused axes apart. Where the other families map that reach into
    itself, as symmetries do that together form a group, this is all that the others can make smaller."""
    bound: jax.Array
    near: jax.Array
    """A distance that is as good as the bound."""


@functools.partial(jax.jit, static_argnums=0)
def _task(plan: Plan, arrays: Named, reference: Named) -> Shared:
    dtype = jnp.result_type(*arrays.values(), *reference.values())
    fixed, goal = (
        {n: jax.lax.stop_gradient(jnp.asarray(a, dtype)) for n, a in tree.items()} for tree in (arrays, reference)
    )
    bound = lower_bound(plan.layout, plan.clusters, plan.shifts, plan.split(fixed), plan.split(goal))
    left, right = plan.split(_without_shifts(plan, fixed)), plan.split(_without_shifts(plan, goal))
    scale = sum(_distance(side, {n: jnp.zeros_like(a) for n, a in side.items()}) for side in (fixed, goal))
    return Shared(fixed, goal, left, right, bound, bound + 100 * jnp.finfo(dtype).eps * scale)


# A host compiles each of these once, and stops as soon as a start was good enough.


@functools.partial(jax.jit, static_argnums=0)
def _first_starts(plan: Plan, task: Shared) -> tuple[Named, Named]:
    """From the ends inwards, and the identity."""
    neutral = _neutral(plan, task)
    return _inwards(plan, neutral, task.left, task.right), neutral


@functools.partial(jax.jit, static_argnums=0)
def _random_start(plan: Plan, noise: Named) -> Named:
    return {block.name: block.random(noise[block.name]) for block in plan.layout.blocks}


@functools.partial(jax.jit, static_argnums=(0, 3))
def _attempt(plan: Plan, task: Shared, start: Named, sweeps: int) -> tuple[jax.Array, Named, Named]:
    """The distance that a start leads to, the elements of all families, and what they move the arrays to."""
    found = start if plan.solved else _descend(plan, start, task.left, task.right, sweeps)
    identity = plan.identity(jnp.result_type(*task.arrays.values()))
    whole = _translated(plan, identity | found, task.arrays, task.reference)
    moved = plan.act(task.arrays, whole)
    distance = _distance(moved, task.reference)
    return jnp.where(jnp.isnan(distance), jnp.inf, distance), whole, moved


def _neutral(plan: Plan, task: Shared) -> Named:
    identity = plan.identity(jnp.result_type(*task.arrays.values()))
    return {block.name: identity[block.name] for block in plan.layout.blocks}


def _noise(plan: Plan, task: Shared, normal: Callable[..., Tree]) -> Named:
    like = jax.eval_shape(lambda: _neutral(plan, task))
    return {b.name: normal(b.noise(like[b.name])).astype(task.bound.dtype) for b in plan.layout.blocks}


def _from_host(plan: Plan, task: Shared, count: int, sweeps: int) -> Match:
    # NumPy's numbers need no program.
    rng = np.random.default_rng(0)
    first, near = _first_starts(plan, task), float(task.near)
    distances, tried = np.full(count, np.inf, task.bound.dtype), []
    for index in range(count):
        start = first[index] if index < 2 else _random_start(plan, _noise(plan, task, rng.standard_normal))
        tried.append(_attempt(plan, task, start, sweeps))
        distances[index] = tried[-1][0]
        if distances[index] <= near:
            break
    distance, elements, moved = tried[int(np.argmin(distances))]
    bound = task.bound if float(task.bound) <= float(distance) else distance
    return Match(elements, moved, distance, bound, jnp.asarray(distances))


def _from_device(plan: Plan, task: Shared, count: int, sweeps: int) -> tuple[jax.Array, Named]:
    def unless(done: jax.Array, entry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, tuple[jax.Array, Named]]:
        def attempt() -> tuple[jax.Array, Named]:
            index, key = entry
            starts = [lambda: _first_starts(plan, task)[0], lambda: _neutral(plan, task)]
            draws = iter(jax.random.split(key, max(len(plan.layout.blocks), 1)))
            starts.append(lambda: _random_start(plan, _noise(plan, task, lambda s: jax.random.normal(next(draws), s))))
            return _attempt(plan, task, starts[0]() if count == 1 else jax.lax.switch(index, starts), sweeps)[:2]

        skip = lambda: (jnp.full_like(task.bound, jnp.inf), plan.identity(task.bound.dtype))
        distance, whole = jax.lax.cond(done, skip, attempt)
        return done | (distance <= task.near), (distance, whole)

    keys = jax.random.split(jax.random.key(0), count)
    _, (distances, whole) = jax.lax.scan(unless, jnp.asarray(False), (jnp.minimum(jnp.arange(count), 2), keys))
    return distances, {name: g[jnp.argmin(distances)] for name, g in whole.items()}


def _inwards(plan: Plan, elements: Named, arrays: Named, reference: Named) -> Named:
    for cluster, grounded, partly in plan.inwards:
        if grounded or cluster.permutation is None:
            # A parameter touched twice says something only about elements that are nearly right already.
            once = tuple(name for name in grounded if not cluster.curved([name]))
            elements = plan.layout.step(cluster, once or grounded, elements, arrays, reference)
        elif partly:
            elements = elements | _by_size(plan, cluster.permutation, partly, arrays, reference)
    return elements


def _by_size(plan: Plan, block: CompactPart, names: Sequence[str], arrays: Named, reference: Named) -> Named:
    """A permutation from the norms of slices over the axes that unknown elements mix."""
    total = 0.0
    for name in names:
        touch = block.touches[name][0]
        assert touch.own is not None
        mixed: set[str] = set()
        for other in plan.layout.touching(name):
            for place in other.touches[name] if other is not block else ():
                mixed |= set(place.batch) | ({place.labels[place.own]} if place.own is not None else set())
        mixed -= {touch.labels[touch.own], *touch.batch}
        axes = tuple(touch.labels.index(label) for label in mixed)
        labels = "".join(label for label in touch.labels if label not in mixed)
        reduced = Touch(labels, touch.batch, labels.index(touch.labels[touch.own]), touch.flip)
        total += reduced.pair(*(jnp.sqrt(jnp.sum(tree[name] ** 2, axes)) for tree in (reference, arrays)))
    return {block.name: block.best(jnp.asarray(total))}


def _descend(plan: Plan, elements: Named, arrays: Named, reference: Named, sweeps: int) -> Named:
    """Sweeps over the clusters until none of them helps."""
    layout = plan.layout
    names = tuple(dict.fromkeys(name for block in layout.blocks for name in block.touches))
    scale = sum(jnp.sum(arrays[n] ** 2) + jnp.sum(reference[n] ** 2) for n in names)
    eps = jnp.finfo(jnp.result_type(*arrays.values())).eps
    squares = lambda names, elements: {n: layout.square([n], elements, arrays, reference) for n in names}
    total = lambda parts: sum(parts.values(), jnp.zeros((), jnp.result_type(*arrays.values())))

    def sweep(state: tuple[Named, Named, jax.Array, jax.Array]) -> tuple[Named, Named, jax.Array, jax.Array]:
        elements, now, _, count = state
        before = total(now)
        for cluster in plan.clusters:
            for hold in _HOLDS if cluster.curved(cluster.names) else (0.0,):
                tried = layout.step(cluster, cluster.names, elements, arrays, reference, hold)
                there = squares(cluster.names, tried)
                better = total(there) < total({n: now[n] for n in there})
                elements = {n: jnp.where(better, tried[n], elements[n]) for n in elements}
                now = now | {n: jnp.where(better, there[n], now[n]) for n in there}
        return elements, now, before, count + 1

    def going(state: tuple[Named, Named, jax.Array, jax.Array]) -> jax.Array:
        _, parts, before, count = state
        now = total(parts)
        return (count < sweeps) & (now < before * (1 - 10 * eps)) & (now > eps**2 * jnp.asarray(scale))

    now = squares(names, elements)
    return jax.lax.while_loop(going, sweep, (elements, now, jnp.full_like(total(now), jnp.inf), jnp.asarray(0)))[0]


def _translated(plan: Plan, elements: Named, arrays: Named, reference: Named) -> Named:
    """The best constant translations, all other elements fixed: a least-squares problem, as they act affinely."""
    if not plan.shifts:
        return elements
    shifts = {block.name: jnp.zeros_like(elements[block.name]) for block in plan.shifts}
    still = plan.act(arrays, elements | shifts)
    aim = {name: reference[name] - still[name] for name in still}
    move = lambda t: add(plan.act(arrays, elements | t), -1, still)
    return elements | _least_squares(move, shifts, aim)


def _without_shifts(plan: Plan, arrays: Named) -> Named:
    """The part of the arrays that constant translations cannot reach."""
    if not plan.shifts:
        return arrays
    zero = {name: jnp.zeros_like(array) for name, array in arrays.items()}

    def move(t: Named) -> Named:
        moved = zero
        for block in plan.shifts:
            moved = block.family.act(moved, t[block.name])
        return moved

    neutral = plan.identity(jnp.result_type(*arrays.values()))
    shifts = {block.name: neutral[block.name] for block in plan.shifts}
    return add(arrays, -1, move(_least_squares(move, shifts, arrays)))


def _least_squares(linear: Callable[[Named], Named], zero: Named, aim: Named) -> Named:
    transpose = jax.linear_transpose(linear, zero)
    eps = float(jnp.finfo(jnp.result_type(*aim.values())).eps)
    gram = lambda t: transpose(linear(t))[0]
    return jax.scipy.sparse.linalg.cg(gram, transpose(aim)[0], tol=eps, maxiter=100)[0]


def _distance(left: Mapping[str, AnyArray], right: Mapping[str, AnyArray]) -> jax.Array:
    square = sum(jnp.sum((left[name] - right[name]) ** 2) for name in left)
    safe = jnp.where(square > 0, square, 1)  # the derivative at distance zero is taken to be zero
    return jnp.where(square > 0, jnp.sqrt(safe), 0)

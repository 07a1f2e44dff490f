r"""The compact freedom that is left at canonical representatives, taken away by one rule that moves with the orbit.

Two canonical representatives of one orbit differ by an element `k` of the compact parts of the families: orthogonal
matrices, signs, phases of pairs, permutations. Here an element `c` is found at each of them with

$$c(k \cdot \theta) = c(\theta)\, k^{-1},$$

so that `c(theta) . theta` is one point of the orbit, whatever representative it was reached from, and noise drawn there
is the same noise everywhere.

Permutations put the indices of their axis in the order of numbers that do not depend on anything else: norms of what
belongs to an index. Then the rule is to come as close as possible to a fixed random reference: with `M` the pairing of
the reference `B` with the parameters `Z` along an axis, the closest `c` is the polar factor of $B Z^T$ (signs, angles),
and it turns with `Z`. A family is solved by the parameters whose other axes nobody turns, or that were solved before:
from the ends of the network inwards. Where too few vectors lie along an axis, it is first turned to the eigenvectors of
its covariance, which does not depend on how other axes are turned, and the reference decides about their signs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from quotax.geometry.canonical.acting import Elements
from quotax.geometry.families.compact import CompactPart, compact_blocks
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.geometry.linalg.one_by_one import each, eigh
from quotax.programs.draws import fixed

UNSOLVED = "no parameter tells its orientations apart whose other axes are free or solved before"


class Turned(NamedTuple):
    """The arrays in their orientation: turned by the elements of families, then reordered along axes.

    An order comes with its inverse, in a second row.

    `margin` says how well these are determined: the least of the ratios that the elements divide by, singular values
    of pairings and gaps of eigenvalues. Rounding of the arrays is amplified by up to its inverse. It is zero where an
    element is not unique.
    """

    arrays: Named
    elements: Elements
    orders: Elements
    margin: jax.Array


@dataclass(frozen=True)
class Stage:
    """One step: a family solved by the reference, turned to the axes of its covariance, or given their signs."""

    block: CompactPart
    rule: Literal["reference", "axes", "signs"]
    witnesses: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Orientation:
    """The steps in order, and the families for which there is none, with the reason; compared by identity."""

    permutations: tuple[CompactPart, ...]
    stages: tuple[Stage, ...]
    splits: Mapping[str, tuple[int, ...]]
    rough: frozenset[str]
    loose: Mapping[str, str]

    @property
    def trivial(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.permutations or self.stages)

    @functools.partial(jax.jit, static_argnums=0)
    def __call__(self, arrays: Named) -> Turned:
        """The arrays turned; nothing here is differentiated."""
        dtype = jnp.result_type(*arrays.values())
        state = {name: self._split(name, lax.stop_gradient(array)) for name, array in arrays.items()}
        margin = jnp.ones((), dtype)
        orders: Elements = {}
        for block in self.permutations:
            orders[block.name], certain = self._order(block, state)
            margin = jnp.minimum(margin, certain)
        state = self._reordered(state, orders)
        elements: Elements = {}
        for stage in self.stages:
            block, name = stage.block, stage.block.name
            g, certain = _RULES[stage.rule](stage, state)
            state |= {target: block.act(target, g, state[target]) for target in block.touches}
            group = block.family.group
            elements[name] = group.compose(g, elements[name]) if name in elements else g
            margin = jnp.minimum(margin, certain)
        turned = {name: state[name].reshape(array.shape) for name, array in arrays.items()}
        return Turned(turned, self._before(elements, orders), orders, margin)

    def reorder(self, arrays: Named, orders: Mapping[str, jax.Array], *, back: bool = False) -> Named:
        """The arrays with the indices of the permutations' axes in this order, or from it back in their own."""
        if not orders:
            return arrays
        moved = self._reordered({name: self._split(name, array) for name, array in arrays.items()}, orders, back=back)
        return {name: moved[name].reshape(array.shape) for name, array in arrays.items()}

    def _reordered(self, state: Named, orders: Mapping[str, jax.Array], *, back: bool = False) -> Named:
        for block in self.permutations:
            order, inverse = orders[block.name]
            for name, touches in block.touches.items():
                for touch in touches:
                    assert touch.own is not None
                    way = inverse if touch.flip != back else order
                    state = {**state, name: _permuted(state[name], way, touch.own)}
        return state

    def _order(self, block: CompactPart, state: Named) -> tuple[jax.Array, jax.Array]:
        """Indices by size, and by fourth powers where no other axis of a parameter is turned."""
        scores = jnp.zeros(block.family.group.shape(block.family.sizes)[-1:], jnp.result_type(*state.values()))
        for name, touches in block.touches.items():
            array = state[name]
            for touch in touches:
                others = tuple(axis for axis in range(array.ndim) if axis != touch.own)
                scores = scores + jnp.sum(array**2, others)
                if name not in self.rough:
                    scores = scores + jnp.sum(array**4, others)
        order = jnp.argsort(scores)
        return jnp.stack([order, jnp.argsort(order)]), _decided(jnp.diff(scores[order]), jnp.max(scores))

    def _before(self, elements: Elements, orders: Elements) -> Elements:
        """Elements that act before the reordering and do what these do after it."""
        families = {stage.block.name: stage.block.family for stage in self.stages}
        for block in self.permutations:
            inverse, axis = orders[block.name][1], block.family.group.axis
            for name in elements:
                for place, label in enumerate(families[name].group.element_axes):
                    if label == axis:
                        elements = {**elements, name: _permuted(elements[name], inverse, place)}
        return elements

    def _split(self, name: str, array: jax.Array) -> jax.Array:
        return array.reshape(self.splits.get(name, array.shape))


def orientation(families: Sequence[Family]) -> Orientation:
    """The steps for these families; decided from how they act and from sizes alone."""
    found = {block.name: block for block in compact_blocks(families)}
    loose, pending, permutations = {}, [], []
    for family in families:
        block = found.get(family.name)
        if family.group.reorders:
            if block is None or family.group.each:
                loose[family.name] = "its indices cannot be put in order"
            else:
                permutations.append(block)
        elif block is not None and block.kind != "shift" and not block.carried:
            pending.append(block)
        elif family.group.compact is not None:
            loose[family.name] = "its compact part does not act on each axis by itself"
    splits = {name: tuple(shape) for block in (*permutations, *pending) for name, shape in block.family.splits.items()}
    rough = frozenset(name for block in pending if block.kind != "sign" for name in block.touches)
    stages: list[Stage] = []
    half: set[str] = set()
    while pending:
        stage = next(filter(None, (_ready(block, pending, half, splits) for block in pending)), None)
        if stage is None:
            rest = [block for block in pending if block.kind == "orthogonal" and block.name not in half]
            if not rest:
                break
            stage = Stage(rest[0], "axes", tuple(rest[0].touches))
            half.add(rest[0].name)
        else:
            pending.remove(stage.block)
        stages.append(stage)
    loose |= {block.name: UNSOLVED for block in pending}
    return Orientation(tuple(permutations), tuple(stages), splits, rough, loose)


def _ready(
    block: CompactPart, pending: Sequence[CompactPart], half: set[str], splits: Mapping[str, tuple[int, ...]]
) -> Stage | None:
    """How a family is solved by parameters that no other unsolved family turns, if it is."""
    alone = lambda name: not any(name in other.touches for other in pending if other is not block)
    witnesses = tuple(name for name, touches in block.touches.items() if len(touches) == 1 and alone(name))
    if block.kind != "orthogonal":
        return Stage(block, "reference", witnesses) if witnesses else None
    if block.name in half:
        return Stage(block, "signs", witnesses) if witnesses else None
    enough = sum(_vectors(block, name, splits[name]) for name in witnesses) >= block.directions
    return Stage(block, "reference", witnesses) if enough else None


def _vectors(block: CompactPart, name: str, shape: tuple[int, ...]) -> int:
    """How many vectors along the axis a parameter holds for one copy of the group."""
    (touch,) = block.touches[name]
    assert touch.own is not None
    own = {touch.labels[touch.own], *touch.batch}
    return math.prod(n for label, n in zip(touch.labels, shape, strict=True) if label not in own)


def _permuted(array: jax.Array, way: jax.Array, axis: int) -> jax.Array:
    """The indices of an axis in another order; a permutation needs no care for indices that are out of bounds."""
    at = (slice(None),) * axis + (way,)
    return array.at[at].get(mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False)


# --- the rules: an element of the block, and how well it is determined


def _by_reference(stage: Stage, arrays: Named) -> tuple[jax.Array, jax.Array]:
    block, m = stage.block, _pairing(stage, arrays)
    best = block.best(m)
    if block.kind == "orthogonal":
        values = each(lambda a: jnp.linalg.svd(a, compute_uv=False), block.inner(m))
        certain = _least(values[..., -1], values[..., 0])
    elif block.kind == "rotation":
        rows, (first, second) = jnp.sum(best * m, -1), block.family.group.places(m.shape[-1])
        lengths = rows[..., first] + rows[..., second]
        certain = _least(lengths, jnp.max(lengths))
    else:
        certain = _decided(jnp.abs(m), jnp.max(jnp.abs(m)))
    return best, certain


def _by_axes(stage: Stage, arrays: Named) -> tuple[jax.Array, jax.Array]:
    block = stage.block
    pairs = [touch.pair(arrays[name], arrays[name]) for name, touches in block.touches.items() for touch in touches]
    values, vectors = eigh(block.inner(jnp.broadcast_to(functools.reduce(jnp.add, pairs), _shape(block))))
    certain = _least(jnp.diff(values), values[..., -1:])
    return block.outer(jnp.swapaxes(vectors, -1, -2)), certain


def _by_signs(stage: Stage, arrays: Named) -> tuple[jax.Array, jax.Array]:
    scores = jnp.diagonal(stage.block.inner(_pairing(stage, arrays)), axis1=-2, axis2=-1)
    signs = jnp.where(scores < 0, -1, 1).astype(scores.dtype)
    certain = _decided(jnp.abs(scores), jnp.max(jnp.abs(scores)))
    return stage.block.outer(signs[..., None] * jnp.eye(scores.shape[-1], dtype=scores.dtype)), certain


_RULES = {"reference": _by_reference, "axes": _by_axes, "signs": _by_signs}


def _pairing(stage: Stage, arrays: Named) -> jax.Array:
    """`M` with `<reference, g . arrays> = <g, M>` over the witnesses."""
    total = jnp.zeros(_shape(stage.block), jnp.result_type(*(arrays[name] for name in stage.witnesses)))
    for name in stage.witnesses:
        (touch,) = stage.block.touches[name]
        array = arrays[name]
        # Any fixed numbers do, as long as they have nothing to do with the parameters.
        total = total + touch.pair(fixed(name, array.shape).astype(array.dtype), array)
    return total


def _shape(block: CompactPart) -> tuple[int, ...]:
    return tuple(block.family.group.shape(block.family.sizes))


def _least(values: jax.Array, unit: jax.Array) -> jax.Array:
    """The smallest ratio; of no values, one."""
    return jnp.min(values / jnp.where(unit > 0, unit, 1), initial=1.0)


def _decided(values: jax.Array, unit: jax.Array) -> jax.Array:
    """One where every ratio is above rounding, else zero: what is decided by it does not amplify."""
    rounding = 1e3 * float(jnp.finfo(values.dtype).eps)
    return jnp.where(_least(values, unit) > rounding, 1.0, 0.0).astype(values.dtype)

"""A lower bound for the distance to a reference under all compact and discrete elements together.

The squared distance is a sum over parameters. Each summand, or each sum over parameters that one cluster of families
alone touches, is bounded from below on its own:

- parameters that only one cluster touches are matched exactly by its joint solution;
- for the others, the singular values of a matricisation do not change when orthogonal matrices act on its two sides,
  and `|p - r| >= |sv(p) - sv(r)|` (von Neumann);
- what constant translations reach is taken out of every parameter first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from quotax.geometry.families.compact import CompactPart, Touch
from quotax.geometry.linalg.named import Named
from quotax.geometry.matching.clusters import BlockOrder, Cluster

_SIDE_LIMIT = 1024
"""Singular values are used of matricisations whose smaller side is at most this."""


def lower_bound(
    layout: BlockOrder, found: Sequence[Cluster], shifts: Sequence[CompactPart], arrays: Named, reference: Named
) -> jax.Array:
    """No elements bring `arrays` closer to `reference` than this; both with fused axes apart."""
    left, right = _centred(layout, shifts, arrays, reference)
    total = jnp.zeros((), jnp.result_type(*arrays.values()))
    rest = list(left)
    neutral = {b.name: b.family.group.identity(b.family.sizes, total.dtype) for b in layout.blocks}
    for cluster in found:
        alone = [n for n in rest if n in cluster.names and cluster.exact(n)]
        alone = [n for n in alone if set(layout.touching(n)) <= set(cluster.blocks)]
        if alone:
            elements = layout.step(cluster, alone, neutral, left, right)
            total += layout.square(alone, elements, left, right)
            rest = [n for n in rest if n not in alone]
    for name in rest:
        touches = [touch for block in layout.touching(name) for touch in block.touches[name]]
        total += _summand(touches, left[name], right[name])
    return jnp.sqrt(total)


def _centred(layout: BlockOrder, shifts: Sequence[CompactPart], arrays: Named, reference: Named) -> tuple[Named, Named]:
    """Both sides without the reach of translations; parameters are left out where other elements would mix it in.

    A shift along some axes of a parameter reaches what is constant along the others. Elements that act on the axes
    of the shift keep that space, and so do permutations of the others.
    """
    left, right = {}, {}
    for name in arrays:
        if any(name in block.carried for block in layout.blocks):
            continue
        pair, kept = (arrays[name], reference[name]), True
        for shift in shifts:
            for term in shift.family.action.terms or ():
                if term.target != name:
                    continue
                others = [label for label in term.target_labels if label not in term.element]
                axes = tuple(term.target_labels.index(label) for label in others)
                for block in layout.touching(name):
                    places = {touch.own for touch in block.touches[name]}
                    places |= {t.labels.index(c) for t in block.touches[name] if t.own is None for c in t.batch}
                    kept &= block.kind == "permutation" or not places & set(axes)
                pair = tuple(a - (jnp.mean(a, axes, keepdims=True) if axes else a) for a in pair)
        if kept:
            left[name], right[name] = pair
    return left, right


def _summand(touches: Sequence[Touch], left: jax.Array, right: jax.Array) -> jax.Array:
    if not touches:
        return jnp.sum((left - right) ** 2)
    bounds = [(jnp.linalg.norm(left) - jnp.linalg.norm(right)) ** 2]
    for rows in _matricisations(touches, left.shape):
        order = (*rows, *(axis for axis in range(left.ndim) if axis not in rows))
        size = math.prod(left.shape[axis] for axis in rows)
        if min(size, left.size // max(size, 1)) <= _SIDE_LIMIT:
            values = [jnp.linalg.svd(a.transpose(order).reshape(size, -1), compute_uv=False) for a in (left, right)]
            bounds.append(jnp.sum((values[0] - values[1]) ** 2))
    return jnp.max(jnp.stack(bounds))


def _matricisations(touches: Sequence[Touch], shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The sets of axes that can be the rows: an axis acted on by copies is on the side of the axis of the copies.

    Signs along several axes at once are a diagonal matrix on the side that holds all of them.
    """
    together = []
    for touch in touches:
        axes = {touch.labels.index(label) for label in touch.batch}
        together.append(axes | ({touch.own} if touch.own is not None else set()))
    axes = range(1, len(shape))  # the first axis is always among the rows: a matrix and its transpose are alike
    found = []
    for count in range(len(shape) - 1):
        for others in itertools.combinations(axes, count):
            rows = {0, *others}
            if all(t <= rows or not t & rows for t in together):
                found.append(tuple(sorted(rows)))
    return found

r"""How much room the fields of a point's families span: $\tfrac12 \log \det$ of the Gram matrix of all of them.

In the Euclidean metric family by family and component by component, by structure. In another metric it is the Gram
matrix $V^T M V$ of whitened fields, column by column.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quotax.errors import GeometryError
from quotax.geometry.families.component import Component, components
from quotax.geometry.families.renaming import skeleton
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.geometry.metrics.metric import Metric
from quotax.geometry.projection import determinant
from quotax.geometry.projection.determinant import LogVolume
from quotax.geometry.quotient import Based
from quotax.trees import Tree


class Volumes(NamedTuple):
    """The volume that all fields span together, and that of every family's own fields."""

    total: LogVolume
    families: Mapping[str, LogVolume]


def compact(family: Family) -> Family | None:
    """The family's elements that are orthogonal, as a family; None where only one is, or they are discrete."""
    group = family.group.isometries
    if group is None or not group.continuous or group.dimension(family.sizes) == 0:
        return None
    return family if group == family.group else replace(family, group=group)


def volumes(point: Based, *, only_compact: bool = False, euclidean: bool = False, resolution: float = 0.0) -> Volumes:
    """The volumes at a point; `only_compact` of the orthogonal elements of every family alone."""
    families = point.space.families
    if only_compact:
        families = tuple(found for family in families if (found := compact(family)) is not None)
    resolution = max([resolution, *(float(jnp.finfo(array.dtype).eps) for array in point.arrays.values())])
    metric = point.space._metric
    of = functools.partial(_euclidean if euclidean or metric.euclidean else _whitened, point, metric, resolution)
    alone = {family.name: (of((family,)) if family.dimension else determinant.NONE) for family in families}
    moving = [family for family in families if family.dimension]
    return Volumes(alone[moving[0].name] if len(moving) == 1 else of(families), alone)


def _euclidean(point: Based, _: Metric, resolution: float, families: tuple[Family, ...]) -> LogVolume:
    total = determinant.NONE
    for bare in map(skeleton, components(families)):
        found = determinant.log_volume(bare.part, bare.numbered(point.arrays), resolution)
        total = total.beside(found)
    return total


def _whitened(point: Based, metric: Metric, resolution: float, families: tuple[Family, ...]) -> LogVolume:
    part = Component(tuple(family for family in families if family.dimension))
    if part.dimension > determinant.LARGEST:
        raise GeometryError(
            f"`volume`: the {metric.name} metric has a Gram matrix of {part.dimension:,} coordinates, and at most "
            f"{determinant.LARGEST:,} are counted. Ask in the Euclidean metric, or at smaller widths."
        )
    if part.dimension == 0:
        return determinant.NONE
    wide = {name: np.asarray(array, np.float64) for name, array in point.arrays.items()}
    with jax.enable_x64(True):
        data = metric.prepare({name: jnp.asarray(array) for name, array in wide.items()})
        return determinant.of_matrix(np.asarray(_gram(part, metric, data, wide)), resolution)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _gram(part: Component, metric: Metric, data: Tree, arrays: Named) -> jax.Array:
    def column(c: jax.Array) -> jax.Array:
        moved = {name: jnp.zeros_like(array) for name, array in arrays.items()} | part.field(arrays, c)
        return part.flat(part.covelocity(arrays, metric.flat(data, arrays, moved)))

    basis = jnp.eye(part.dimension, dtype=jnp.result_type(*arrays.values()))
    return jax.lax.map(
        column, basis, batch_size=max(1, min(part.dimension, 2**22 // sum(map(jnp.size, arrays.values()))))
    )


def slope(families: tuple[Family, ...], arrays: Named) -> Named:
    """The gradient of the logarithm of the Euclidean volume; minus the mean curvature vector of the orbit."""
    total = {name: jnp.zeros_like(array) for name, array in arrays.items()}
    for part in components(families):
        if part.dimension > determinant.LARGEST:
            raise GeometryError(
                f"`volume`: the gradient needs the Gram matrix of {part.dimension:,} coordinates, and at most "
                f"{determinant.LARGEST:,} are counted."
            )
        total = {name: total[name] + value for name, value in determinant.slope(part, arrays).items()}
    return total

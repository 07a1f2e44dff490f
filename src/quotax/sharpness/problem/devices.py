"""Where the arrays of a measurement live: a batch sharded over a mesh, everything else replicated on it."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from quotax.errors import SharpnessError
from quotax.programs.processes import share_no_programs
from quotax.trees import Tree

RESTARTS = "restarts"
"""The mesh axis, if it has one of this name, over which searches that run at the same time are spread."""


def check_mesh(call: str, mesh: object, batch: Tree, microbatch: int | None) -> Mesh | None:
    """A mesh whose devices divide the examples evenly."""
    if mesh is None:
        return None
    if not isinstance(mesh, Mesh):
        raise SharpnessError(
            f"`{call}` needs mesh= a jax.sharding.Mesh, got {type(mesh).__name__}; try jax.make_mesh((8,), ('data',), "
            f"axis_types=(jax.sharding.AxisType.Auto,))."
        )
    if any(kind != AxisType.Auto for kind in mesh.axis_types):
        raise SharpnessError(
            f"`{call}` needs a mesh with Auto axes, and this one has {mesh.axis_types}: pass axis_types="
            f"(jax.sharding.AxisType.Auto,) * {len(mesh.axis_names)} to jax.make_mesh."
        )
    shards = _shards(mesh)
    sizes = {"batch=": None if batch is None else jax.tree.leaves(batch)[0].shape[0], "microbatch=": microbatch}
    for name, count in sizes.items():
        if count is not None and count % shards:
            raise SharpnessError(
                f"`{call}` needs {name} to be a multiple of the {shards} devices that share it, and it has {count} "
                f"examples; {count - count % shards} would do."
            )
    share_no_programs(mesh.devices.flat)
    return mesh


def check_whole_somewhere(call: str, params: Tree) -> None:
    """Refuse parameters of which each process has a part only."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        if not (leaf.is_fully_addressable or leaf.is_fully_replicated):
            raise SharpnessError(
                f"`{call}` keeps whole vectors in each process, and params{jax.tree_util.keystr(path)} is split over "
                f"devices in several processes ({leaf.sharding.spec}): pass the same whole arrays in each, with "
                f"mesh= for the batch. `qx.sam` and `qx.horizontal` train parameters that are split."
            )


def replicated(mesh: Mesh | None, tree: Tree) -> Tree:
    """The same arrays on every device of the mesh."""
    return tree if mesh is None else jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def sharded(mesh: Mesh | None, batch: Tree) -> Tree:
    """The batch, its leading axis split over the devices."""
    return batch if mesh is None or batch is None else jax.device_put(batch, _examples(mesh))


def constrain_examples(mesh: Mesh | None) -> Callable[[Tree], Tree]:
    """Inside a program: every chunk of a batch split over the devices again."""
    return (lambda part: part) if mesh is None else lambda part: jax.lax.with_sharding_constraint(part, _examples(mesh))


def restart_devices(mesh: Mesh | None) -> int:
    """How many searches can run at the same time, each on devices of its own."""
    return mesh.shape[RESTARTS] if mesh is not None and RESTARTS in mesh.axis_names else 1


def _examples(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(tuple(name for name in mesh.axis_names if name != RESTARTS)))


def _shards(mesh: Mesh) -> int:
    return mesh.size // restart_devices(mesh)

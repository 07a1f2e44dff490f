"""Any pytree as named arrays and back: the one place where a user's own structure meets the engine's names.

A leaf of a pytree is a parameter or it is not. Parameters have names, their paths joined by `/`; what is not one (an
integer, a function, a frozen array) stays where it is. An array that occurs twice is one parameter. None counts as a
leaf, so that a module, and the same module with None in the place of all but its parameters, have the same leaves:
both are understood wherever parameters or tangent vectors are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.errors import ParameterError
from quotax.trees import AnyArray, Tree

HOLDERS = ("value", "raw_value", "data_array")
"""Last steps of paths that say nothing: what holds an array, as the variables of Flax and named arrays do."""


def is_array(leaf: Tree) -> bool:
    """Whether a leaf is an array, of whatever kind: also one of which only the shape is known."""
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def is_floating(leaf: Tree) -> bool:
    """Whether a leaf is an array of real numbers of some precision."""
    return is_array(leaf) and bool(jnp.issubdtype(leaf.dtype, jnp.floating))


def flattened(tree: Tree) -> tuple[list[tuple[tuple[str, ...], Any]], Any]:
    """The leaves with their paths, None among them, and the structure."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda leaf: leaf is None)
    return [(tuple(_steps(path)), leaf) for path, leaf in leaves], structure


def _steps(path: Any) -> list[str]:
    steps = []
    for key in path:
        step = next((getattr(key, a) for a in ("key", "name", "idx") if hasattr(key, a)), key)
        steps.append(re.sub(r"\W+", "_", str(step)).strip("_") or "_")
    while len(steps) > 1 and steps[-1] in HOLDERS:
        steps = steps[:-1]
    return steps


def names_of_axes(tree: Tree) -> list[tuple[Any, tuple[str | None, ...]]]:
    """The arrays of a tree that say what their axes are called, each with its names; None for an axis that has none.

    An object with `named_axes` (name -> size, the last dimensions in their order) beside its `data_array` says so.
    """
    says = lambda node: (
        isinstance(getattr(node, "named_axes", None), Mapping) and is_array(getattr(node, "data_array", None))
    )
    found = []
    for node in jax.tree_util.tree_leaves(tree, is_leaf=says):
        if says(node) and tuple(node.named_axes.values()) == node.data_array.shape[-len(node.named_axes) :]:
            unnamed = (None,) * (len(node.data_array.shape) - len(node.named_axes))
            found.append((node.data_array, (*unnamed, *(str(name) for name in node.named_axes))))
    return found


def named_parameters(leaves: list[tuple[tuple[str, ...], Any]], chosen: Callable[[Any], bool]) -> list[str | None]:
    """For each leaf the name of the parameter that it is: the same name where the array is the same."""
    names: list[str | None] = []
    known: dict[int, str] = {}
    taken: set[str] = set()
    for path, leaf in leaves:
        if not chosen(leaf):
            names.append(None)
            continue
        if id(leaf) not in known:
            name = "/".join(path) or "w"
            name = name if not name[0].isdigit() else f"a{name}"
            while name in taken or any(other.startswith(f"{name}/") or name.startswith(f"{other}/") for other in taken):
                name += "_"
            known[id(leaf)] = name
            taken.add(name)
        names.append(known[id(leaf)])
    return names


@dataclass(frozen=True)
class Leaves:
    """How the parameters of a pytree lie in it.

    Attributes:
        structure: of the pytree, None being a leaf.
        paths: of all leaves.
        slots: for each leaf the name of its parameter, or None.
        rest: the leaves that are no parameters, and None for those that are.
    """

    structure: Tree
    paths: tuple[tuple[str, ...], ...]
    slots: tuple[str | None, ...]
    rest: tuple[Tree, ...]

    @classmethod
    def of(cls, tree: Tree, chosen: Callable[[Any], bool]) -> Leaves:
        """The leaves of a tree of which those that are `chosen` are parameters."""
        leaves, structure = flattened(tree)
        slots = tuple(named_parameters(leaves, chosen))
        rest = tuple(None if slot else leaf for slot, (_, leaf) in zip(slots, leaves, strict=True))
        return cls(structure, tuple(path for path, _ in leaves), slots, rest)

    def like(self, tree: Tree) -> Leaves:
        """The same parameters in another tree, whose leaves are at the same places."""
        leaves, structure = flattened(tree)
        if tuple(path for path, _ in leaves) != self.paths:
            raise ParameterError(_unlike(self.paths, [path for path, _ in leaves]))
        rest = tuple(None if slot else leaf for slot, (_, leaf) in zip(self.slots, leaves, strict=True))
        return Leaves(structure, self.paths, self.slots, rest)

    def named(self, tree: Tree) -> dict[str, Tree]:
        """The parameters of a tree by name; refused where the tree has other leaves, or None for a parameter."""
        leaves, _ = flattened(tree)
        if tuple(path for path, _ in leaves) != self.paths:
            raise ParameterError(_unlike(self.paths, [path for path, _ in leaves]))
        arrays: dict[str, Tree] = {}
        for slot, path, (_, leaf) in zip(self.slots, self.paths, leaves, strict=True):
            if slot is None:
                continue
            if leaf is None:
                raise ParameterError(f"the parameter {'/'.join(path)} is None")
            arrays.setdefault(slot, leaf)
        return arrays

    def shapes(self, tree: Tree) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters of a tree, or of all its arrays by path where it has other leaves."""
        try:
            found = self.named(tree)
        except ParameterError:
            found = {"/".join(path): leaf for path, leaf in flattened(tree)[0] if is_array(leaf)}
        return {name: tuple(array.shape) for name, array in found.items()}

    def tree(self, arrays: Mapping[str, AnyArray], like: Tree = None) -> Tree:
        """Arrays by name as a tree, in which all other leaves are those of `like`, or None."""
        others = [leaf for _, leaf in flattened(like)[0]] if like is not None else [None] * len(self.slots)
        structure = flattened(like)[1] if like is not None else self.structure
        leaves = [other if slot is None else arrays[slot] for slot, other in zip(self.slots, others, strict=True)]
        return jax.tree_util.tree_unflatten(structure, leaves)

    def whole(self, arrays: Mapping[str, AnyArray]) -> Tree:
        """Arrays by name as a tree that has everything else as well."""
        leaves = [other if slot is None else arrays[slot] for slot, other in zip(self.slots, self.rest, strict=True)]
        return jax.tree_util.tree_unflatten(self.structure, leaves)

    @property
    def constants(self) -> list[Tree]:
        """The arrays that are no parameters."""
        return [leaf for leaf in self.rest if is_array(leaf)]


def _unlike(expected: tuple[tuple[str, ...], ...], found: list[tuple[str, ...]]) -> str:
    missing = ["/".join(path) for path in expected if path not in found]
    unknown = ["/".join(path) for path in found if path not in expected]
    parts = [f"missing {', '.join(missing[:6])}"] * bool(missing) + [f"unknown {', '.join(unknown[:6])}"] * bool(
        unknown
    )
    return f"its leaves are not those of the parameters: {'; '.join(parts) or 'they are in another order'}"


def plain(leaf: Tree) -> Tree:
    """A constant leaf in float64 where it is of floating type: what a trace in float64 may be mixed with."""
    if is_floating(leaf) and isinstance(leaf, (jax.Array, np.ndarray)):
        return np.asarray(leaf, np.float64)
    return leaf

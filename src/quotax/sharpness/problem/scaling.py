"""Which parameters move and on what scale: masks, adaptive balls, one ball for every array."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from quotax.errors import SharpnessError
from quotax.kernel.polynomials import Key
from quotax.sharpness.problem.vectors import FlatLayout, Vector, dot, layout
from quotax.trees import Tree

Moving: TypeAlias = Tree
"""A tree like the parameters of zeros and ones, the names of the arrays that move, or a predicate on names."""


def names(params: Tree) -> list[str]:
    """The arrays' names, paths joined by `/`.

    >>> names({"block": {"W": 1.0, "b": 2.0}, "head": 3.0})
    ['block/W', 'block/b', 'head']
    """

    def word(key: Key) -> str:
        for attribute in ("key", "name", "idx"):
            if hasattr(key, attribute):
                return str(getattr(key, attribute))
        return str(key)

    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
    return ["/".join(word(key) for key in path) for path in paths]


def scale_of(
    call: str, params: Tree, layout: FlatLayout, *, adaptive: bool, mask: Moving, per_layer: bool
) -> np.ndarray | None:
    """The vector s of the ball `|delta / s| <= radius`, zero where nothing moves; None for the plain ball.

    `adaptive`: the size of every single parameter, as in ASAM. `per_layer` without it: the norm of the array that the
    parameter belongs to.
    """
    if mask is None and not adaptive and not per_layer:
        return None
    theta = layout.gathered(params)
    if adaptive:
        flat = np.abs(theta)
    elif per_layer:
        sizes = [np.linalg.norm(part) for part in _parts(layout, theta)]
        flat = np.repeat(np.asarray(sizes, layout.dtype), np.diff((0, *layout.ends)))
    else:
        flat = np.ones_like(theta)
    if mask is not None:
        flat = flat * _mask(call, params, layout, mask)
    if not np.any(flat > 0):
        why = "every parameter that the ball lets move is zero" if adaptive or per_layer else "mask= lets nothing move"
        raise SharpnessError(f"`{call}`: {why}, so the ball is a point.")
    return flat


def _parts(layout: FlatLayout, v: Vector) -> list[Vector]:
    """The pieces of a vector that belong to each array."""
    return [v[start:stop] for start, stop in pairwise((0, *layout.ends))]


def block_norms(layout: FlatLayout, norm: str) -> Callable[[Vector], Vector]:
    """The norm of the block that each entry belongs to: single entries for "linf", arrays for "l2"."""
    if norm == "linf":
        return abs

    def norms(v: Vector) -> Vector:
        xp = np if isinstance(v, np.ndarray) else jnp
        sizes = [xp.full(part.shape, dot(part, part) ** 0.5, layout.dtype) for part in _parts(layout, v)]
        return xp.concatenate(sizes)

    return norms


def length_of(call: str, params: Tree, v: Tree, *, adaptive: bool, mask: Moving, per_layer: bool, norm: str) -> float:
    """The smallest radius of a ball of this kind at `params` that holds the displacement `v`."""
    flat = layout(params)
    scale = scale_of(call, params, flat, adaptive=adaptive, mask=mask, per_layer=per_layer)
    x = flat.gathered(v)
    if scale is not None:
        x = np.where(scale > 0, x / np.where(scale > 0, scale, 1.0), 0.0)
    return float(np.max(block_norms(flat, norm)(x)) if per_layer or norm == "linf" else np.linalg.norm(x))


def _mask(call: str, params: Tree, layout: FlatLayout, mask: Moving) -> np.ndarray:
    known = names(params)
    if callable(mask):
        chosen = [bool(mask(name)) for name in known]
    elif _lists_names(mask):
        wanted = [mask] if isinstance(mask, str) else list(mask)
        for name in wanted:
            if not any(_below(other, name) for other in known):
                raise SharpnessError(f"`{call}`: mask= names {name!r}; the arrays are {', '.join(known)}.")
        chosen = [any(_below(name, other) for other in wanted) for name in known]
    else:
        return _tree_mask(call, params, layout, mask, known)
    return np.repeat(np.asarray(chosen, layout.dtype), np.diff((0, *layout.ends)))


def _tree_mask(call: str, params: Tree, layout: FlatLayout, mask: Moving, known: list[str]) -> np.ndarray:
    if jax.tree.structure(mask) != jax.tree.structure(params):
        raise SharpnessError(
            f"`{call}` needs mask= a tree of zeros and ones like the parameters, names of arrays, or a function of a "
            f"name; got {type(mask).__name__} with tree {jax.tree.structure(mask)}, for the arrays {', '.join(known)}."
        )
    parts = []
    for name, leaf, shape in zip(known, jax.tree.leaves(mask), layout.shapes, strict=True):
        array = np.asarray(leaf, float)
        if not np.all((array == 0) | (array == 1)):
            raise SharpnessError(f"`{call}` needs mask= zeros and ones, and mask[{name!r}] has other values.")
        try:
            parts.append(np.broadcast_to(array, shape).ravel())
        except ValueError:
            raise SharpnessError(f"`{call}`: mask[{name!r}] has shape {array.shape}, the array {shape}.") from None
    return np.concatenate(parts).astype(layout.dtype)


def _lists_names(mask: Moving) -> bool:
    if isinstance(mask, str):
        return True
    is_list = isinstance(mask, Iterable) and not isinstance(mask, dict | jax.Array | np.ndarray)
    return is_list and all(isinstance(item, str) for item in mask)


def _below(name: str, other: str) -> bool:
    """Whether `name` is the array `other`, or lies in the subtree of that name."""
    return name == other or name.startswith(f"{other}/")

"""Which parameters move and on what scale: masks, adaptive balls, one ball for every array."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.errors import SharpnessError
from quotax.sharpness.vectors import Layout, Tree, layout

Mask = Any
"""A tree like the parameters of zeros and ones, the names of the arrays that move, or a predicate on names."""


def names(params: Tree) -> list[str]:
    """The arrays' names, paths joined by `/`.

    >>> names({"block": {"W": 1.0, "b": 2.0}, "head": 3.0})
    ['block/W', 'block/b', 'head']
    """

    def word(key: Any) -> str:
        for attribute in ("key", "name", "idx"):
            if hasattr(key, attribute):
                return str(getattr(key, attribute))
        return str(key)

    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
    return ["/".join(word(key) for key in path) for path in paths]


def scale_of(
    call: str, params: Tree, layout: Layout, *, adaptive: bool, mask: Mask, per_layer: bool
) -> jax.Array | None:
    """The vector s of the ball `|delta / s| <= radius`, zero where nothing moves; None for the plain ball.

    `adaptive`: the size of every single parameter, as in ASAM. `per_layer` without it: the norm of the array that the
    parameter belongs to.
    """
    if mask is None and not adaptive and not per_layer:
        return None
    leaves = jax.tree.leaves(params)
    if adaptive:
        sizes = [jnp.abs(leaf) for leaf in leaves]
    elif per_layer:
        sizes = [jnp.full(leaf.shape, jnp.linalg.norm(jnp.ravel(leaf).astype(layout.dtype))) for leaf in leaves]
    else:
        sizes = [jnp.ones(leaf.shape, layout.dtype) for leaf in leaves]
    flat = jnp.concatenate([jnp.ravel(size).astype(layout.dtype) for size in sizes])
    if mask is not None:
        flat = flat * _mask(call, params, layout, mask)
    if not bool(jnp.any(flat > 0)):
        why = "every parameter that the ball lets move is zero" if adaptive or per_layer else "mask= lets nothing move"
        raise SharpnessError(f"`{call}`: {why}, so the ball is a point.")
    return flat


def block_norms(layout: Layout, norm: str) -> Callable[[jax.Array], jax.Array]:
    """The norm of the block that each entry belongs to: single entries for "linf", arrays for "l2"."""
    if norm == "linf":
        return jnp.abs
    bounds = (0, *layout.ends)

    def norms(v: jax.Array) -> jax.Array:
        parts = [v[start:stop] for start, stop in pairwise(bounds)]
        return jnp.concatenate([jnp.full(part.shape, jnp.linalg.norm(part)) for part in parts])

    return norms


def length_of(call: str, params: Tree, v: Tree, adaptive: bool, mask: Mask, per_layer: bool, norm: str) -> jax.Array:
    """The smallest radius of a ball of this kind at `params` that holds the displacement `v`."""
    flat = layout(params)
    scale = scale_of(call, params, flat, adaptive=adaptive, mask=mask, per_layer=per_layer)
    x = flat.flat(v)
    if scale is not None:
        x = jnp.where(scale > 0, x / jnp.where(scale > 0, scale, 1.0), 0.0)
    return jnp.max(block_norms(flat, norm)(x)) if per_layer or norm == "linf" else jnp.linalg.norm(x)


def _mask(call: str, params: Tree, layout: Layout, mask: Mask) -> jax.Array:
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
    return jnp.asarray(np.repeat(np.asarray(chosen, float), np.diff((0, *layout.ends))), layout.dtype)


def _tree_mask(call: str, params: Tree, layout: Layout, mask: Mask, known: list[str]) -> jax.Array:
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
    return jnp.asarray(np.concatenate(parts), layout.dtype)


def _lists_names(mask: Mask) -> bool:
    if isinstance(mask, str):
        return True
    is_list = isinstance(mask, Iterable) and not isinstance(mask, dict | jax.Array | np.ndarray)
    return is_list and all(isinstance(item, str) for item in mask)


def _below(name: str, other: str) -> bool:
    """Whether `name` is the array `other`, or lies in the subtree of that name."""
    return name == other or name.startswith(f"{other}/")

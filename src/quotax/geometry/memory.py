"""What was computed at the last base point, for as long as its arrays live."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

import jax
from jax.core import Tracer

from quotax.trees import AnyArray, Tree


class Memory:
    """One base point: arrays are the same when they are the same objects, as those of JAX do not change.

    It holds no array of the caller's: what was computed goes with the first of them that does.
    """

    def __init__(self) -> None:
        """Nothing yet."""
        self._arrays: dict[str, weakref.ref[jax.Array]] = {}
        self._data: Tree = None

    def recalled(self, arrays: Mapping[str, AnyArray]) -> tuple[dict[str, AnyArray], Tree]:
        """The arrays, and what was computed there, or nothing."""
        held = self._data
        same = held is not None and all(self._is(name, array) for name, array in arrays.items())
        return dict(arrays), held if same else None

    def remember(self, arrays: Mapping[str, AnyArray], data: Tree) -> None:
        """Keep what was computed, in place of what was kept before."""
        self._forget()
        leaves = (*arrays.values(), *jax.tree.leaves(data))
        if all(isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer) for leaf in leaves):
            self._arrays = {name: weakref.ref(array, self._forget) for name, array in arrays.items()}
            self._data = data

    def _is(self, name: str, array: AnyArray) -> bool:
        kept = self._arrays.get(name)
        return kept is not None and kept() is array

    def _forget(self, _: object = None) -> None:
        self._arrays, self._data = {}, None

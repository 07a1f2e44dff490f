"""Functions of trees, run in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from quotax.programs.hosted.makers import Unhosted
from quotax.programs.hosted.program import Hosted
from quotax.trees import AnyArray, Tree

_KEPT = 256
"""So many traces are kept for each function."""


class Uncompiled:
    """`function(static, *trees)` in NumPy: traced once for each `static` and the types of the arrays.

    What comes back are NumPy arrays. Raises `Unhosted`, before it computes anything, where a primitive is in no table.
    """

    def __init__(self, function: Callable[..., Tree]) -> None:
        """Nothing is traced yet."""
        self._trace = jax.jit(function, static_argnums=0).trace
        self._made: dict[Any, Any] = {}

    @np.errstate(all="ignore")  # what is no number is what JAX has there too
    def __call__(self, static: Tree, *trees: Tree) -> AnyArray:
        """What the function returns."""
        leaves = [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in jax.tree.leaves(trees)]
        program, shape = self._program(static, trees, leaves)
        return jax.tree.unflatten(shape, program(*map(np.asarray, leaves)))

    def given(self, static: Tree, first: Any, like: Tree) -> tuple[Callable[[Any], Any], bool]:
        """The function of one more array, like this one, with everything done that depends on the first tree alone.

        And whether that is brief: sooner done than a compiled program of small arrays.
        """
        known = jax.tree.leaves(first)
        program, shape = self._program(static, (first, like), [*known, like])
        with np.errstate(all="ignore"):
            rest, brief = program.given(*map(np.asarray, known))

        @np.errstate(all="ignore")
        def run(last: Any) -> AnyArray:
            return jax.tree.unflatten(shape, rest(np.asarray(last)))

        return run, brief

    def _program(self, static: Tree, trees: tuple[Any, ...], leaves: list[AnyArray]) -> tuple[Hosted, Any]:
        key = (static, jax.tree.structure(trees), tuple((leaf.shape, leaf.dtype) for leaf in leaves))
        if key not in self._made:
            if len(self._made) >= _KEPT:
                self._made.clear()
            try:
                traced = self._trace(static, *trees)
                self._made[key] = Hosted(traced.jaxpr), jax.tree.structure(traced.out_info)
            except Unhosted as error:
                self._made[key] = error
        if isinstance(self._made[key], Unhosted):
            raise self._made[key]
        return self._made[key]

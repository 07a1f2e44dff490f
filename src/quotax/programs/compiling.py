"""Programs that run a few times, so that compiling them is most of what they cost."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec

from quotax.programs.hosted import Uncompiled, Unhosted
from quotax.trees import Tree

QUICK = {"xla_backend_optimization_level": 0}
"""Compiler options: half the time to compile, two or three to run what is no matrix product."""

SMALL = 2**20
"""Arrays of so many entries in all are left to NumPy."""


def once(function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    """Run a function of a static first argument without a compiler, or compile it quickly.

    Inside of another program it is compiled as that is. `how` is for `jax.jit`.
    """
    within = jax.jit(function, static_argnums=0, **how)
    compiled = jax.jit(function, static_argnums=0, compiler_options=QUICK, **how)
    uncompiled = Uncompiled(function)

    @functools.wraps(function)
    def run(static: Any, *arguments: Any) -> Any:
        leaves = jax.tree.leaves(arguments)
        if any(isinstance(leaf, Tracer) for leaf in (*leaves, jnp.zeros(()))):
            return within(static, *arguments)
        if near(leaves):
            try:
                return jax.device_put(uncompiled(static, *arguments))
            except Unhosted:
                pass
        return compiled(static, *arguments)

    return run


_BESIDE: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


def beside(function: Callable[..., Any], what: Any, make: Callable[[Callable[[], Callable[..., Any]]], Any]) -> Any:
    """What belongs to a function (`make` of what returns it), kept as long as somebody else holds the function.

    What is made must hold the function by what returns it only. Of a function that cannot be referred to weakly it is
    made every time.
    """
    owner = function.__self__ if inspect.ismethod(function) else function
    try:
        kept = _BESIDE.setdefault(owner, {})
        alive: Any = weakref.WeakMethod(function) if inspect.ismethod(function) else weakref.ref(function)
    except TypeError:
        return make(lambda: function)
    key = (function.__func__ if inspect.ismethod(function) else None, what)
    if key not in kept:
        kept[key] = make(alive)
    return kept[key]


def near(leaves: Iterable[Any]) -> bool:
    """Whether arrays are small, and lie in the memory of the host, where computations run."""
    mine = lambda leaf: not isinstance(leaf, jax.Array) or leaf.sharding.device_set == _host()
    return all(hasattr(leaf, "dtype") and mine(leaf) for leaf in leaves) and sum(leaf.size for leaf in leaves) <= SMALL


def fetched(tree: Tree) -> Any:
    """The arrays in NumPy; of those that lie in several processes each gets the whole."""
    whole = lambda leaf: leaf if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable else _gathered(leaf)
    return jax.device_get(jax.tree.map(whole, tree))


def _gathered(array: jax.Array) -> jax.Array:
    assert isinstance(array.sharding, NamedSharding)
    return jax.jit(lambda x: x, out_shardings=NamedSharding(array.sharding.mesh, PartitionSpec()))(array)


@functools.cache
def _host() -> set[Any]:
    return {jax.devices("cpu")[0]} if jax.default_backend() == "cpu" else set()

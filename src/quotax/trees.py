"""Parameter trees: nested dicts of arrays, and the same arrays by name with paths joined by `/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias

Tree: TypeAlias = Any
"""Arrays in containers, of users or of ours: JAX states no type for what a tree holds."""

AnyArray: TypeAlias = Any
"""An array of NumPy's on the host, of JAX's inside of a program, or a tracer, in code that serves all of them."""


Dim: TypeAlias = Any
"""One size of a shape: a whole number, or a polynomial in symbols, of a class that JAX keeps to itself."""

Keyword: TypeAlias = Any
"""A keyword argument that is passed on to a call which says what it may be."""

Carry: TypeAlias = Any
"""What a loop of `jax.lax` carries from turn to turn."""

AnyPoint: TypeAlias = Any
"""A quotient's factored point, to rooms that do not import `geometry`: what more it has is asked."""

AnySpace: TypeAlias = Any
"""A quotient, to the same rooms: something that has `at(params)`."""


class Trees(Protocol):
    """How arrays by name lie in a tree of the user's."""

    def named(self, tree: Tree) -> dict[str, Tree]:
        """The arrays of a tree by name."""
        ...

    def tree(self, arrays: Mapping[str, Tree], like: Tree = None) -> Tree:
        """Arrays by name as a tree; what the tree holds besides is taken from `like`."""
        ...


class NestedDicts:
    """Trees that are nested dicts and hold nothing but the arrays."""

    def named(self, tree: Mapping[str, Tree]) -> dict[str, Tree]:
        """The arrays of a tree by name."""
        return named(tree)

    def tree(self, arrays: Mapping[str, Tree], like: Tree = None) -> dict[str, Tree]:
        """Arrays by name as nested dicts."""
        return nest(arrays)


NESTED = NestedDicts()


def nest(arrays: Mapping[str, Tree]) -> dict[str, Tree]:
    """Arrays by joined name, as nested dicts.

    >>> nest({"block/W": 1, "b": 2})
    {'block': {'W': 1}, 'b': 2}
    """
    tree: dict[str, Tree] = {}
    for name, array in arrays.items():
        *path, last = name.split("/")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[last] = array
    return tree


def named(tree: Mapping[str, Tree], prefix: str = "") -> dict[str, Tree]:
    """Nested dicts, as arrays by joined name.

    >>> named({"block": {"W": 1}, "b": 2})
    {'block/W': 1, 'b': 2}
    """
    arrays: dict[str, Tree] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            arrays |= named(value, f"{prefix}{key}/")
        else:
            arrays[f"{prefix}{key}"] = value
    return arrays


def folder(names: Iterable[str]) -> str:
    """The folder that all these arrays are in; the empty text where they have none in common.

    >>> folder(["block/att/Q", "block/mlp/W"]), folder(["W", "block/W"])
    ('block', '')
    """
    shared: list[str] = []
    for parts in zip(*(name.split("/")[:-1] for name in names), strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "/".join(shared)


def place(names: Iterable[str], width: int = 32) -> str:
    """Which arrays these are, in a few words: those that there is room for, and how many more.

    >>> place(["block/att/Q", "block/att/K"]), place(["E", "a/W1", "a/W2", "b/W1", "b/W2"], 20)
    ('block/att: Q, K', 'E, a/W1 and 3 more')
    """
    listed = list(dict.fromkeys(names))
    shared = folder(listed)
    own = [name[len(shared) + bool(shared) :] for name in listed]
    before = f"{shared}: " if shared else ""
    for count in range(len(own), 1, -1):
        text = before + ", ".join(own[:count]) + (f" and {len(own) - count} more" if count < len(own) else "")
        if len(text) <= width:
            return text
    return before + own[0] + (f" and {len(own) - 1} more" if len(own) > 1 else "")

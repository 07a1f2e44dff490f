"""Parameter trees: nested dicts of arrays, and the same arrays by name with paths joined by `/`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def nest(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by joined name, as nested dicts.

    >>> nest({"block/W": 1, "b": 2})
    {'block': {'W': 1}, 'b': 2}
    """
    tree: dict[str, Any] = {}
    for name, array in arrays.items():
        *path, last = name.split("/")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[last] = array
    return tree


def named(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts, as arrays by joined name.

    >>> named({"block": {"W": 1}, "b": 2})
    {'block/W': 1, 'b': 2}
    """
    arrays: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            arrays |= named(value, f"{prefix}{key}/")
        else:
            arrays[f"{prefix}{key}"] = value
    return arrays

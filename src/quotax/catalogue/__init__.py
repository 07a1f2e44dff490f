"""The catalogue: one file an architecture, each with the symmetries that it must have.

    qx.catalogue.names()                  # every entry: "linear", "mlp/relu", "multi_head/biases", ...
    entry = qx.catalogue.load("mlp/relu")
    entry.architecture                    # as `@qx.architecture` declared it
    entry.families, entry.orbit           # what theory says of it, and where: entry.reference

A file is an architecture, and its name is the entry's; a file with variants adds theirs behind a slash. Files are found
by looking: one that is added is listed, tested and documented, and nothing else knows it.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil

from quotax.catalogue.entry import CatalogueEntry, Fact
from quotax.errors import ArchitectureError

__all__ = ["CatalogueEntry", "Fact", "load", "names"]

_PIECES = "pieces"
"""The room of what several files are made of."""


def names() -> tuple[str, ...]:
    """Every entry by name, room by room; imports every file."""
    return tuple(f"{file}/{variant}" if variant else file for file in _files() for variant in _entries(file))


def load(name: str) -> CatalogueEntry:
    """The entry of this name; imports its file alone.

    >>> import quotax as qx
    >>> entry = qx.catalogue.load("linear")
    >>> entry.architecture, entry.orbit
    (Architecture linear(W1: h x, W2: y h; x: x), 'h**2')
    """
    file, _, variant = name.partition("/")
    if file in _files() and variant in _entries(file):
        return _entries(file)[variant]
    near = difflib.get_close_matches(name, names(), n=3, cutoff=0.0)
    raise ArchitectureError(
        f"`catalogue.load({name!r})`: no such entry; the nearest are {', '.join(map(repr, near))}, "
        "and `qx.catalogue.names()` has all."
    )


@functools.cache
def _files() -> dict[str, str]:
    """The name of every architecture's file, and its module."""
    rooms = [room.name for room in pkgutil.iter_modules(__path__) if room.ispkg and room.name != _PIECES]
    return {
        file.name: f"{__name__}.{room}.{file.name}"
        for room in rooms
        for file in pkgutil.iter_modules([f"{folder}/{room}" for folder in __path__])
    }


def _entries(file: str) -> dict[str, CatalogueEntry]:
    return importlib.import_module(_files()[file]).ENTRIES

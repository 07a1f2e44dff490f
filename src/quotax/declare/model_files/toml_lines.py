"""TOML with the lines of its keys, so that whatever is refused is refused with the file and the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from quotax.errors import ArchitectureError, QuotaxError
from quotax.trees import Tree


class Place(NamedTuple):
    """A file, and the lines of its keys: by the tables that lead there, the numbers of `[[symmetry]]` among them."""

    path: Path
    lines: Mapping[tuple[Tree, ...], int]

    @contextmanager
    def at(self, *keys: Tree) -> Generator[None]:
        """Refusals in here are those of this key, or of the nearest that has a line, and say so."""
        try:
            yield
        except QuotaxError as error:
            if str(error).startswith(f"{self.path}:"):
                raise
            raise type(error)(f"{self.path}:{self.line(*keys)}: {error}") from None

    def line(self, *keys: Tree) -> int:
        """The line of a key, or of the nearest that has one."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, 1)


def parsed(path: Path) -> tuple[dict[str, Tree], Place]:
    """The tables of a file, and the lines of its keys."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ArchitectureError(f"`load({str(path)!r})`: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise ArchitectureError(f"`load({str(path)!r})`: it is not UTF-8: {error}.") from None
    try:
        return tomllib.loads(text), Place(path, lines_of_keys(text))
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column \d+\)", str(error))
        line = found[1] if found else len(text.splitlines()) or 1
        said = str(error).replace(found[0], "") if found else str(error).replace(" (at end of document)", "")
        raise ArchitectureError(f"{path}:{line}: it is not TOML: {said}.") from None


_KEY = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')"


_PATH = rf"{_KEY}(?:\s*\.\s*{_KEY})*"


def lines_of_keys(text: str) -> dict[tuple[Tree, ...], int]:
    """The line of every table and of every key that begins a line, of a file that is TOML.

    Where a line of a longer text looks like a key too, the first of the two counts.
    """
    found: dict[tuple[Tree, ...], int] = {}
    table: tuple[Tree, ...] = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if header := re.fullmatch(rf"\s*(\[\[?)\s*({_PATH})\s*\]\]?\s*(?:#.*)?", line):
            table = _keys(header[2]) or ("",)
            if header[1] == "[[":
                counts[table[0]] = counts.get(table[0], -1) + 1
            if table[0] in counts:
                table = (table[0], counts[table[0]], *table[1:])
            keys = table
        elif key := re.match(rf"\s*({_PATH})\s*=", line):
            keys = (*table, *_keys(key[1]))
        else:
            continue
        for end in range(1, len(keys) + 1):
            found.setdefault(keys[:end], number)
    return found


def _keys(text: str) -> tuple[str, ...]:
    """The keys that a dotted path names; none where it is not one, as within a longer text."""
    keys: list[str] = []
    try:
        found: Tree = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    while isinstance(found, dict):
        ((key, found),) = found.items()
        keys.append(key)
    return tuple(keys)

"""Plain-text tables of at most 100 columns: a cell that is too long for its column goes on below."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 100
"""No line of a table is longer."""

_BETWEEN = "  "
_LEAST = 8


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, rule: bool = True, width: int = WIDTH) -> str:
    """A table, by default with a rule under its header; columns of numbers to the right.

    >>> print(table(["name", "value"], [["a", "1.5"], ["long", "10"]]))
    name  value
    ----  -----
    a       1.5
    long     10
    >>> print(table(["what", "where"], [["one", "here and there"]], rule=False, width=15))
    what  where
    one   here and
          there
    """
    columns = list(zip(header, *rows, strict=True))
    widths = _fitted([max(map(len, column)) for column in columns], width)
    numeric = [all(_is_number(cell) for cell in column[1:]) for column in columns]

    def lines(cells: Sequence[str]) -> list[str]:
        parts = [textwrap.wrap(cell, max(w, 1)) or [""] for cell, w in zip(cells, widths, strict=True)]
        found = []
        for k in range(max(map(len, parts))):
            each = zip((part[k] if k < len(part) else "" for part in parts), widths, numeric, strict=True)
            found.append(_BETWEEN.join(c.rjust(w) if n else c.ljust(w) for c, w, n in each).rstrip())
        return found

    under = [_BETWEEN.join("-" * w for w in widths)] if rule else []
    return "\n".join([*lines(header), *under, *(line for row in rows for line in lines(row))])


def wrapped(text: str, indent: str = "  ", width: int = WIDTH) -> str:
    """A line, or several when it is long, the others indented."""
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def room(header: Sequence[str], rows: Sequence[Sequence[str]], column: int, width: int = WIDTH) -> int:
    """How wide one column may be, when the others are as wide as they like."""
    others = [max(map(len, cells)) for k, cells in enumerate(zip(header, *rows, strict=True)) if k != column]
    return max(width - sum(others) - len(_BETWEEN) * len(others), _LEAST)


def _fitted(widths: list[int], width: int) -> list[int]:
    """The widths, the widest narrowed until all fit."""
    widths = list(widths)
    while sum(widths) + len(_BETWEEN) * (len(widths) - 1) > width and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _is_number(cell: str) -> bool:
    return bool(cell) and cell.lstrip("-+").replace(",", "")[:1].isdigit()

"""Plain-text tables: columns as wide as their widest cell, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a rule under its header.

    >>> print(table(["name", "value"], [["a", "1.5"], ["long", "10"]]))
    name  value
    ----  -----
    a       1.5
    long     10
    """
    columns = list(zip(header, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [all(_is_number(cell) for cell in column[1:]) for column in columns]

    def line(cells: Sequence[str]) -> str:
        padded = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(cells, widths, numeric, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def _is_number(cell: str) -> bool:
    return bool(cell) and cell.lstrip("-+").replace(",", "")[:1].isdigit()

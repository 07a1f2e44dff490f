"""The catalogue as a table: what is known of an architecture, and what is derived of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from quotax import catalogue, derive

_WIDTHS = 34, 11, 24, 9, 9


def listing(
    names: Sequence[str] = (), *, facts: bool = False, measured: bool = False, show: Callable[[str], None] = print
) -> None:
    """Show every entry, or those named (a file's name stands for all of its entries), each row as it is ready.

    With `facts` each is derived: parameters, flat directions and surplus are those of the audits at its two sizes. With
    `measured` its network of realistic size is divided by what was derived, and measured.
    """
    chosen = entries(names)
    if not (facts or measured):
        show(f"{'architecture':34}  {'orbit':36}  reference")
        for name, entry in chosen.items():
            show(f"{name:34}  {entry.orbit:36}  {entry.reference}")
        return
    show(_row("architecture", "parameters", "orbit", "flat", "surplus") + "  seconds  scope")
    for name in chosen:
        for line in _derived(name, measured):
            show(line)


def entries(names: Sequence[str] = ()) -> dict[str, catalogue.CatalogueEntry]:
    """The entries of these names, or all; a file's name stands for all of its entries."""
    return {name: catalogue.load(name) for name in _chosen(names)}


def _chosen(names: Sequence[str]) -> Iterator[str]:
    for name in names or catalogue.names():
        variants = [each for each in catalogue.names() if each.partition("/")[0] == name]
        yield from variants or [name]


def _derived(name: str, measured: bool) -> Iterator[str]:
    """A row, and a line for each family."""
    entry = catalogue.load(name)
    start = time.perf_counter()
    found = derive(entry.architecture, entry.ansatz, progress=lambda line: None)
    audits = [found.audit(**sizes) for sizes, _ in entry.flat[:2]]
    seconds = time.perf_counter() - start
    column = lambda what: "/".join(str(getattr(audit, what)) for audit in audits)
    scopes = dict.fromkeys(found.certificate(s.name).scope for s in (*found, *found.discrete))
    row = _row(name, column("parameters"), str(found.orbit_dim), column("flat"), column("surplus"))
    yield f"{row}  {seconds:7.1f}  {'; '.join(scopes)}"
    for symmetry in (*found, *found.discrete):
        yield f"    {symmetry.group!s:20}  {' '.join(symmetry.bind(entry.architecture.params).moved)}"
    for family in found.unnamed:
        yield f"    {'fields':20}  {entry.fields or f'{len(family.fields)} without a finite action'}"
    if entry.surplus:
        yield f"    {'surplus':20}  {entry.surplus}"
    if measured:
        from quotax.report.realistic import realistic

        yield f"    {'realistic':20}  {realistic(entry, found)}"


def _row(*cells: str) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()

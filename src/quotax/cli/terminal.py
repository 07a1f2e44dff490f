"""What a command shows: results on standard output, and on standard error what is being done and how long it takes."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Group, Parameter

OUTPUT = Group("Output", sort_key=100)

_SPENT = re.compile(r"(\d+) of (\d+) (\w+)")
_SILENT = 5.0
_REDRAWN = 0.1
_TICK = 0.5
"""Seconds between lines of progress in a log, and between pictures of a bar: told something, and not."""
_NAMED = 70
"""Columns for what is being done."""


def flag(what: str) -> Parameter:
    """An option without a value, and without a `--no-` twin."""
    return Parameter(help=what, negative="", group=OUTPUT, show_default=False)


@Parameter(name="*")
@dataclass(frozen=True)
class Showing:
    """How a command shows its result."""

    json: Annotated[bool, flag("The result as JSON, exactly its `to_dict()`: for machines.")] = False
    plain: Annotated[bool, flag("Text without colours, frames and moving bars: for logs.")] = False
    quiet: Annotated[bool, flag("No progress on standard error.")] = False
    debug: Annotated[bool, flag("Errors with their traceback.")] = False
    no_cache: Annotated[bool, flag("Keep no compiled programs for the next time.")] = False
    x64: Annotated[bool, flag("Compute in float64.")] = False

    def begin(self) -> None:
        """Settings of JAX, before anything is computed."""
        from quotax.cli.program_cache import keep_programs

        if not self.no_cache:
            keep_programs()
        if self.x64:
            import jax

            jax.config.update("jax_enable_x64", True)

    def result(self, result: Any) -> None:
        """A result; a dict of several is shown one after the other, and as an object of them in JSON."""
        if self.json:
            several = isinstance(result, Mapping)
            data = {name: each.to_dict() for name, each in result.items()} if several else result.to_dict()
            print(json.dumps(data, ensure_ascii=False, allow_nan=False))
            return
        for number, each in enumerate(result.values() if isinstance(result, Mapping) else [result]):
            if number:
                print()
            self._shown(each)

    @property
    def tables(self) -> bool:
        """Whether somebody looks at a terminal."""
        return not self.json and not self.plain and sys.stdout.isatty()

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table on a terminal."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*head, box=SIMPLE_HEAD)
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)

    def _shown(self, result: Any) -> None:
        if not self.tables:
            print(result)
            return
        from rich.console import Console

        Console().print(result)

    def note(self, line: str) -> None:
        """Something that the reader should know about the result, on standard error."""
        if not self.quiet:
            print(f"note: {line}", file=sys.stderr, flush=True)

    def told(self, line: str) -> None:
        """A line of progress."""
        print(f"... {line}", file=sys.stderr, flush=True)

    @contextmanager
    def doing(self, what: str, seconds: float | None = None) -> Generator[Callable[[str], None]]:
        """Say what is being done, for at most so many seconds; what is yielded is told how far it is."""
        if self.quiet:
            yield lambda line: None
            return
        limit = "" if seconds is None else f" (at most {seconds:g} s)"
        if self.plain or self.json or not sys.stderr.isatty():
            self.told(f"{what}{limit}")
            yield _Log(self.told)
            return
        from tqdm import tqdm

        form = "{desc} {bar:20} {n_fmt}/{total_fmt} {unit}, {elapsed} so far, at most {remaining} left"
        unknown = "{desc} {elapsed} so far" + limit
        with tqdm(desc=what, bar_format=unknown, leave=False, file=sys.stderr) as bar:
            drawn = 0.0

            def told(line: str) -> None:
                nonlocal drawn
                if time.monotonic() - drawn < _REDRAWN:
                    return
                drawn = time.monotonic()
                if spent := _SPENT.search(line):
                    bar.bar_format, bar.total, bar.unit, bar.n = form, int(spent[2]), spent[3], int(spent[1])
                else:
                    bar.set_description_str(f"{what}: {line}"[:_NAMED], refresh=False)
                bar.refresh()

            with _ticking(bar):
                yield told


@contextmanager
def _ticking(bar: Any) -> Generator[None]:
    """A bar whose clock goes on while nothing is told, as while something is compiled."""
    done = threading.Event()

    def tick() -> None:
        while not done.wait(_TICK):
            bar.refresh()

    clock = threading.Thread(target=tick, daemon=True)
    clock.start()
    try:
        yield
    finally:
        done.set()
        clock.join()


class _Log:
    """Lines of a log, one now and then."""

    def __init__(self, told: Callable[[str], None]) -> None:
        """The clock starts."""
        self.told, self.last = told, time.monotonic()

    def __call__(self, line: str) -> None:
        """Tell a line, if the last was long ago."""
        now = time.monotonic()
        if now - self.last >= _SILENT:
            self.last = now
            self.told(line)

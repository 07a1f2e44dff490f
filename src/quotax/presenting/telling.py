"""What something that takes long says meanwhile, and how long it may take."""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

SILENT = 2.0
"""Seconds before the first line on standard error, and between lines."""


_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)


class OutOfTime(Exception):
    """Something took longer than it may, and has no result."""


@contextmanager
def until(deadline: float) -> Generator[None]:
    """What looks `in_time` in this block ends before this time (of `time.monotonic`), or `OutOfTime` is raised.

    A block inside another one ends no later than that.
    """
    token = _DEADLINE.set(min(deadline, _DEADLINE.get()))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def in_time() -> None:
    """Raise `OutOfTime` where the deadline of the block is over: asked in loops that may be long."""
    if time.monotonic() > _DEADLINE.get():
        raise OutOfTime


class Budget:
    """So many seconds for a call, and what was left undone when they were over."""

    def __init__(self, seconds: float = math.inf) -> None:
        """The clock starts."""
        self.seconds = seconds
        self.end = time.monotonic() + seconds
        self.undone: list[str] = []

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(self.end - time.monotonic(), 0.0)

    def allows(self, what: str) -> bool:
        """Whether there is time for one thing more; otherwise it is left undone."""
        if not self.left:
            self.undone.append(what)
        return bool(self.left)

    def refuse(self, what: str, why: str) -> None:
        """Leave a thing undone for another reason than time."""
        self.undone.append(f"{what} ({why})")


class Teller:
    """Tells `progress` every line, or standard error one now and then, once it takes long."""

    def __init__(self, progress: Callable[[str], object] | None, *, loud: bool = True) -> None:
        """The clock starts; unless `loud`, standard error hears nothing."""
        self.progress, self.loud = progress, loud
        self.start = self.last = time.perf_counter()

    def __reduce__(self) -> tuple[object, ...]:
        """In another process standard error is told: whom `progress` told is not there."""
        return functools.partial(Teller, None, loud=self.loud), ()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.start

    def __call__(self, line: Callable[[float], str]) -> None:
        """Say `line(seconds)`, which is made only if somebody listens."""
        now = time.perf_counter()
        if self.progress is not None:
            self.progress(line(now - self.start))
        elif self.loud and now - self.last >= SILENT:
            self.last = now
            print(line(now - self.start), file=sys.stderr, flush=True)

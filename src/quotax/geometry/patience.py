"""How long a search may take, and what it says meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

SILENT = 2.0
"""Seconds before the first line on standard error, and between lines."""


class Patience:
    """Called after each round of a search: tells `progress`, or standard error where the search takes long."""

    def __init__(self, call: str, budget: float, progress: Callable[[str], Any] | None = None) -> None:
        """`budget` in seconds; the clock starts."""
        self.call, self.budget, self.progress = call, budget, progress
        self.start = self.last = time.perf_counter()
        self.rounds = 0

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        return time.perf_counter() - self.start >= self.budget

    def __call__(self, state: str) -> None:
        """Say where the search is."""
        self.rounds += 1
        now = time.perf_counter()
        line = f"{self.call}: {state} after {self.rounds} geodesics, {now - self.start:.1f} of {self.budget:g} s"
        if self.progress is not None:
            self.progress(line)
        elif now - self.last >= SILENT:
            self.last = now
            print(line, file=sys.stderr, flush=True)

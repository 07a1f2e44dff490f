"""What a long search shows while it runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax

SILENT = 2.0
"""Seconds before the first line on standard error, and between lines."""


class Watch:
    """Called with each state of a search: tells `progress`, or standard error once the search takes long."""

    def __init__(self, call: str, budget: int, progress: Callable[[str], Any] | None) -> None:
        """The clock starts."""
        self.call, self.budget, self.progress = call, budget, progress
        self.start = self.last = time.perf_counter()

    def __call__(self, search: Any) -> None:
        """Say where the search is."""
        now = time.perf_counter()
        line = (
            f"{self.call}: {search.best:.6g} after {search.spent} of {self.budget} gradients, {now - self.start:.1f} s"
        )
        if self.progress is not None:
            self.progress(line)
        elif now - self.last >= SILENT and jax.process_index() == 0:
            self.last = now
            print(line, file=sys.stderr, flush=True)

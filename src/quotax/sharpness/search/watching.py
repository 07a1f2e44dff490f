"""What a long search shows while it runs, and how it is interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

import jax

from quotax.presenting.telling import Teller
from quotax.trees import Tree


class Watch:
    """Called with each state of a search, which it tells: with several processes the first of them does."""

    def __init__(self, call: str, budget: int, progress: Callable[[str], object] | None) -> None:
        """The clock starts."""
        self.call, self.budget = call, budget
        self._teller = Teller(progress, loud=jax.process_index() == 0)

    def __call__(self, search: Tree) -> None:
        """Say where the search is."""
        spent = lambda: f"{search.spent} of {self.budget} gradients"
        self._teller(lambda seconds: f"{self.call}: {search.best:.6g} after {spent()}, {seconds:.1f} s")


class Interrupts:
    """Holds back the first interrupt from the keyboard: a step in the middle leaves no state to return.

    `asked` says that there was one. The second is an interrupt as usual. Where somebody else listens for interrupts, or
    outside the main thread, which gets them all, nothing changes.
    """

    def __init__(self) -> None:
        """Nobody has asked."""
        self.asked = self._listening = False

    def __enter__(self) -> Interrupts:
        """Listen."""
        ours = threading.current_thread() is threading.main_thread()
        if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._ask)
            self._listening = True
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, where: TracebackType | None) -> None:
        """Leave the listening to Python again."""
        self._stop()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._stop()

    def _stop(self) -> None:
        if self._listening:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._listening = False

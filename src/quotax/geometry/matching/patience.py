"""How long a search may take, and what it says meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from quotax.presenting.telling import Teller


class Patience:
    """Called after each round of a search, which it tells; a budget of seconds."""

    def __init__(self, call: str, budget: float, progress: Callable[[str], object] | None = None) -> None:
        """The clock starts."""
        self.call, self.budget, self._teller = call, budget, Teller(progress)
        self.rounds = 0

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        return self._teller.seconds >= self.budget

    def __call__(self, state: str) -> None:
        """Say where the search is."""
        self.rounds += 1
        where = f"{self.call}: {state} after {self.rounds} geodesics"
        self._teller(lambda seconds: f"{where}, {seconds:.1f} of {self.budget:g} s")

"""Where a model is defined: what has to be positive, or to stay between zero and one, at random points.

A variance is not drawn from a normal distribution, and the argument of a logarithm is not either. A model says nothing
of its domain, so draws are tried: anything, then positive parameters, then positive inputs too, then numbers between
zero and one. Of what was made positive, as much as possible is let go again, because a network all of whose weights
are positive is a special one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

DRAWS = 3
"""Points at which each kind of place is tried."""
RELAXED = 64
"""At most this many arrays are let go one by one."""


@dataclass(frozen=True)
class Places:
    """Which arrays are drawn positive; `unit` says that they also stay below one."""

    positive: frozenset[str] = frozenset()
    unit: bool = False

    def drawn(self, name: str, values: np.ndarray) -> np.ndarray:
        """Random values as they may be."""
        if name not in self.positive:
            return values
        return 1 / (1 + np.exp(-values)) if self.unit else np.abs(values)

    def __str__(self) -> str:
        """A clause to put after `points`; empty where anything may be drawn."""
        if not self.positive:
            return ""
        names = ", ".join(sorted(self.positive))
        return f" with {names} between 0 and 1" if self.unit else f" with {names} positive"


ANYWHERE = Places()


def defined(share: Callable[[Places], float], params: Sequence[str], inputs: Sequence[str]) -> Places | None:
    """The least restricted places at which everything is defined; None when there are none among those tried.

    `share(places)` draws a point there and says which part of the outputs is defined at it.
    """

    def reached(places: Places) -> int:
        return sum(share(places) == 1.0 for _ in range(DRAWS))

    every = (frozenset(params), frozenset((*params, *inputs)))
    kinds = (ANYWHERE, *(Places(names) for names in every), *(Places(names, unit=True) for names in every))
    counts = []
    for places in kinds:
        counts.append(reached(places))
        if counts[-1] == DRAWS:
            return _relaxed(reached, places)
    best = max(range(len(kinds)), key=lambda k: counts[k])
    return kinds[best] if counts[best] else None


def _relaxed(reached: Callable[[Places], int], places: Places) -> Places:
    """Let go of what need not be positive, one array after the other."""
    for name in sorted(places.positive)[:RELAXED]:
        wider = replace(places, positive=places.positive - {name})
        if reached(wider) == DRAWS:
            places = wider
    return places

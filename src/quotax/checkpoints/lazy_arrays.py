"""Arrays that are read or made one by one, so that a checkpoint need not be in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np


class LazyArrays(Mapping[str, np.ndarray]):
    """Arrays by name, each read or made when it is asked for, and not kept."""

    def __init__(self, makers: Mapping[str, Callable[[], np.ndarray]]) -> None:
        """A function for each array."""
        self._makers = dict(makers)

    def __getitem__(self, name: str) -> np.ndarray:
        """The array, now."""
        return self._makers[name]()

    def __contains__(self, name: object) -> bool:
        """Whether there is such an array, without making it."""
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._makers)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._makers)

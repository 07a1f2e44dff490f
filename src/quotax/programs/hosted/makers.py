"""How a row of the table is made: an equation's settings and types become the function that computes it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from quotax.programs.jaxprs import Settings
from quotax.trees import AnyArray

Arrays = Sequence[AnyArray]
Kernel = Callable[..., AnyArray]
Params = Settings
Maker = Callable[[Params, Arrays, AnyArray], Kernel]
"""From an equation's settings, what it reads and the type of its first output, to the function that computes it."""


class Unhosted(Exception):
    """A primitive that has no entry in the table, is used in a way that its entry does not know, or makes much."""


def plain(run: Kernel) -> Maker:
    """A primitive without settings that matter."""
    return lambda params, avals, out: run


def with_settings(run: Kernel) -> Maker:
    """A primitive whose settings are the first argument."""
    return lambda params, avals, out: functools.partial(run, params)


def prepared(make: Callable[[Params], Kernel]) -> Maker:
    """A primitive whose settings prepare something."""
    return lambda params, avals, out: make(params)

"""What the calls of this room demand of their arguments, before anything is compiled."""

from __future__ import annotations

import functools
from typing import Any

from quotax.checks import whole_number
from quotax.errors import LandscapeError

whole = functools.partial(whole_number, LandscapeError)
"""A whole number, at least so much."""


def quotient_of(call: str, space: Any) -> Any:
    """A quotient, or a refusal that says what was passed."""
    if not callable(getattr(space, "at", None)) or not hasattr(space, "families"):
        raise LandscapeError(
            f"`{call}` needs space= a quotient, got {type(space).__name__}; `quotax.quotient(...)` makes one."
        )
    return space

"""What the command line refuses by itself."""

from __future__ import annotations


class Misuse(Exception):
    """What was given to the command line makes no sense; the message says what to give."""

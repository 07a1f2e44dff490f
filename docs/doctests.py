"""Examples that stand in a docstring without a heading are code on the page, not quotations within quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?P=indent)\S.*|\n(?P=indent) .*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """A docstring whose examples are fenced."""
    return EXAMPLE.sub(lambda m: f"{m['indent']}```pycon\n{m[0]}\n{m['indent']}```", text)


class Doctests(griffe.Extension):
    """Every docstring, before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **context: Any) -> None:
        """Examples become fenced code."""
        del context
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

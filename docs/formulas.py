"""Formulas as MathML, which browsers show by themselves: the pages need no script and no network."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

# What pymdownx.arithmatex makes of `$...$` and `$$...$$`.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **context: Any) -> str:
    """The page with its formulas converted."""
    del context
    return FORMULA.sub(
        lambda m: convert(html.unescape(m[3]).strip(), display="inline" if m[2] == "(" else "block"), content
    )

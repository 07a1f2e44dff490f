"""`<!-- qx: names -->` on a page becomes what their docstrings say, each under the name that users write."""

from __future__ import annotations

import functools
import re
from typing import Any

import quotax

LISTED = re.compile(r"^<!-- qx:(?P<names>.*?)(?P<bare>\(without members\))? -->$", re.MULTILINE | re.DOTALL)
"""A class may name the members that are shown: `Network:init,sizes`."""

BLOCK = """::: {path}
    options:
      heading: qx.{name}
      toc_label: {name}
      show_root_heading: true
      show_root_toc_entry: true
      heading_level: 3
      filters: ["!^_"]
      line_length: 72
"""


def names(page: str) -> list[str]:
    """Every name that a page lists."""
    return [name.partition(":")[0] for listed in LISTED.finditer(page) for name in listed["names"].split()]


def on_page_markdown(markdown: str, **context: Any) -> str:
    """The page with its lists written out."""
    del context
    return LISTED.sub(lambda m: "\n".join(_block(name, bool(m["bare"])) for name in m["names"].split()), markdown)


def _block(entry: str, bare: bool) -> str:
    name, _, members = entry.partition(":")
    value = functools.reduce(getattr, name.split("."), quotax)
    block = BLOCK.format(path=f"{value.__module__}.{value.__qualname__}", name=name)
    chosen = "false" if bare else f"[{members}]" if members else ""
    return block + (f"      members: {chosen}\n" if chosen else "")

"""The page: one template, one style sheet, one script, and the report's JSON, in a single file.

Nothing is fetched: a content security policy forbids it. A number is written by its place in the report, and shown with
four digits; the place and all digits stay beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from quotax.report.page import charts
from quotax.report.page.formulas import expression, formula
from quotax.report.page.graph import COLOURS, picture


def page(report: Mapping[str, Any]) -> str:
    """The HTML of a report's `to_dict()`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("quotax.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "slug": slug}
    environment.globals |= {
        "at": lambda place: looked_up(report, place),
        "formula": formula,
        "expression": expression,
        "picture": picture,
        "charts": charts,
        "embedded": embedded,
        "colours": COLOURS,
    }
    return environment.get_template("page.html").render(report=report)


def looked_up(report: Mapping[str, Any], place: str) -> Any:
    """What stands at a place such as `models/0/parameters`."""
    step = lambda value, name: value[int(name)] if isinstance(value, Sequence) else value[name]
    return reduce(step, place.split("/"), report)


def number(value: Any) -> str:
    """A number as the page shows it.

    >>> number(4880), number(0.00123456), number("nan"), number(None), number(2.0)
    ('4,880', '0.001235', 'nan', '–', '2')
    """
    if value is None:
        return "–"
    if isinstance(value, bool) or isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}".replace("-", "−")


def slug(text: str) -> str:
    """A text as part of an id.

    >>> slug("scale d (n, head)")
    'scale-d--n--head-'
    """
    return "".join(c if c.isalnum() else "-" for c in text)


def embedded(value: Any) -> str:
    """JSON that may stand inside of a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")

"""The page: one template, one style sheet, one script, and the report's JSON, in a single file.

Nothing is fetched: a content security policy forbids it. A number is written by its place in the report, and shown with
four digits; the place and all digits stay beside it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence

from quotax.presenting import Json
from quotax.presenting.proof_picture import operation, proof_picture, said
from quotax.report.page import charts
from quotax.report.page.glosses import claimed, group_words, marks, scopes
from quotax.report.page.graph import COLOURS, picture
from quotax.report.page.mathml import expression, formula, group
from quotax.trees import AnyArray, Tree

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def page(report: Mapping[str, Json]) -> str:
    """The HTML of a report's `to_dict()`."""
    return _template().render(report=report, at=lambda place: looked_up(report, place))


@functools.cache
def _template() -> Tree:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("quotax.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "powers": powers}
    environment.globals |= {
        "formula": formula,
        "expression": expression,
        "group": group,
        "group_words": group_words,
        "claimed": claimed,
        "marks": marks,
        "scopes": scopes,
        "picture": picture,
        "proof_picture": proof_picture,
        "operation": operation,
        "said": said,
        "charts": charts,
        "embedded": embedded,
        "colours": COLOURS,
    }
    return environment.get_template("page.html")


def looked_up(report: Mapping[str, Json], place: str) -> Tree:
    """What stands at a place such as `models/0/parameters`."""
    step = lambda value, name: value[int(name)] if isinstance(value, Sequence) else value[name]
    return functools.reduce(step, place.split("/"), report)


def number(value: AnyArray) -> str:
    """A number as the page shows it.

    >>> number(4880), number(0.00123456), number("nan"), number(None), number(2.0), number(-7.491e-8)
    ('4,880', '0.001235', 'nan', '–', '2', '−7.491 × 10⁻⁸')
    """
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return powers(f"{value:.4g}").replace("-", "−")


def powers(text: str) -> str:
    """Text whose powers of ten are written as such.

    >>> powers("a gap of 6.7e+14, 1e-09")
    'a gap of 6.7 × 10¹⁴, 1 × 10⁻⁹'
    """
    raised = lambda found: f"{found[1]} × 10{str(int(found[2])).translate(_RAISED)}"
    return re.sub(r"\b(\d+(?:\.\d+)?)e([+-]\d+)\b", raised, text)


def embedded(value: AnyArray) -> str:
    """JSON that may stand inside of a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")

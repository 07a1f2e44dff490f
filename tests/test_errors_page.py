"""docs/errors.md tells the truth: each mistake on it is refused, or answered, in the words that it shows.

`python tests/test_errors_page.py` writes the words anew.
"""

import contextlib
import io
import re
import textwrap
from pathlib import Path

import jax
import pytest

import quotax as qx
from quotax import errors

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)```)?", TEXT, re.MULTILINE | re.DOTALL)
(SETUP, _), *MISTAKES = BLOCKS


@pytest.fixture(scope="module")
def names():
    namespace = {}
    with jax.enable_x64(False):
        exec(compile(SETUP, "mistake.py", "exec"), namespace)
    return namespace


def said(source, names):
    """What a block prints, or the exception that it ends with."""
    out = io.StringIO()
    with jax.enable_x64(False), contextlib.redirect_stdout(out):
        try:
            exec(compile(source, "mistake.py", "exec"), dict(names))
        except errors.QuotaxError as error:
            return f"{type(error).__name__}: {error}"
    return out.getvalue()


@pytest.mark.parametrize(("source", "shown"), MISTAKES, ids=[text.split("\n")[-2][:40] for text, _ in MISTAKES])
def test_a_mistake_is_answered_as_the_page_says(source, shown, names):
    start, _, end = " ".join(shown.split()).partition("...")
    told = " ".join(said(source, names).split())
    assert start
    assert told.startswith(start)
    assert told.endswith(end)
    assert "..." in shown or told == start


def test_every_kind_of_refusal_is_listed():
    classes = [c for c in vars(errors).values() if isinstance(c, type) and c.__module__ == errors.__name__]
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", TEXT, re.MULTILINE))
    assert set(rows) == {c.__name__ for c in classes} - {"QuotaxError"}
    for kind in classes:
        assert getattr(qx, kind.__name__) is kind
        assert kind is qx.QuotaxError or rows[kind.__name__] in {base.__name__ for base in kind.__mro__[1:]}


if __name__ == "__main__":
    space: dict = {}
    exec(compile(SETUP, "mistake.py", "exec"), space)
    for source, shown in MISTAKES:
        text = textwrap.fill(" ".join(said(source, space).split()), 95, break_long_words=False, break_on_hyphens=False)
        TEXT = TEXT.replace(f"{source}```\n\n```text\n{shown}```", f"{source}```\n\n```text\n{text}\n```")
    PAGE.write_text(TEXT, encoding="utf-8")

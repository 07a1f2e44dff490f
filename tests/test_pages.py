"""Pages that are made of lists: every public name is in the reference, every page in the navigation."""

import re
import runpy
from collections import Counter
from pathlib import Path

import quotax as qx

DOCS = Path(__file__).parents[1] / "docs"


def test_the_reference_has_every_public_name_once():
    listed = runpy.run_path(str(DOCS / "reference.py"))["names"]((DOCS / "api.md").read_text())
    assert {name for name in listed if "." not in name} == set(qx.__all__)
    assert set(Counter(listed).values()) == {1}


def test_the_navigation_has_every_page_once():
    listed = re.findall(r"(\w+\.md)", (DOCS.parent / "mkdocs.yml").read_text())
    assert sorted(listed) == sorted(path.name for path in DOCS.glob("*.md"))


def test_predictions_are_those_of_the_cost_model():
    rows = runpy.run_path(str(DOCS.parent / "tests" / "benchmarks" / "scaling.py"))["table"]()
    page = (DOCS / "scaling.md").read_text()
    assert rows
    assert all(row in page for row in rows)

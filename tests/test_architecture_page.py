"""The page on the architecture names files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
TABLE = PAGE.split("| to add | open |")[1].split("\n## ")[0]
PATHS = sorted(
    {word for word in re.findall(r"`([\w/.]+)`", TABLE) if re.search(r"/|\.py$", word) and "NAME" not in word}
)


@pytest.mark.parametrize("path", PATHS)
def test_files_to_open_exist(path):
    assert (ROOT if path.startswith("tests/") else ROOT / "src" / "quotax").joinpath(path).exists()


def test_the_table_names_files():
    assert len(PATHS) > 15

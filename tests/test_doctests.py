"""The examples of docstrings print what they show, in the precision that a user has."""

import doctest
import importlib
from pathlib import Path

import jax
import pytest

SRC = Path(__file__).parents[1] / "src"
PAGES = [path.relative_to(SRC).with_suffix("") for path in sorted(SRC.rglob("*.py")) if ">>> " in path.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_examples_print_what_they_show(page):
    module = importlib.import_module(".".join(page.parts).removesuffix(".__init__"))
    with jax.enable_x64(False):
        failed, tried = doctest.testmod(module)
    assert tried
    assert not failed

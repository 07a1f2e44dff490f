"""The rows as a module that test files and the benchmark import, and each derivation once in a session."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

import quotax as qx


def _load() -> None:
    """Tests are imported by file (`--import-mode=importlib`), so a module they share needs a name of its own."""
    spec = importlib.util.spec_from_file_location("quotax_rows", pathlib.Path(__file__).with_name("rows.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["quotax_rows"] = module
    spec.loader.exec_module(module)


if "quotax_rows" not in sys.modules:
    _load()


@pytest.fixture(scope="session")
def derived():
    """`qx.derive`, each model once in a session."""
    cache: dict[int, qx.SymmetryGroup] = {}

    def derive(model, **options):
        if id(model) not in cache:
            cache[id(model)] = qx.derive(model, progress=lambda line: None, **options)
        return cache[id(model)]

    return derive

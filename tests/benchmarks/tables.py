"""The tables of the test suite, for scripts beside this file."""

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent


def table(name):
    """A module of `tests/`, without this folder on the path: its files are called as the rooms of the tests are."""
    kept = sys.path[:]
    sys.path[:] = [str(HERE.parent), *(place for place in kept if Path(place).resolve() != HERE.resolve())]
    try:
        return importlib.import_module(name)
    finally:
        sys.path[:] = kept

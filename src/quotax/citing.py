"""Which quotax this is, and how to cite it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

ENTRY = """@software{{quotax,
  title   = {{quotax: parameter symmetries of neural networks, derived, proved and divided out}},
  author  = {{{{The quotax developers}}}},
  year    = {{2026}},
  version = {{{version}}},
  license = {{Apache-2.0}}
}}"""


def cite() -> str:
    """A BibTeX entry for the version of quotax that is running.

    >>> import quotax as qx
    >>> print(qx.cite().splitlines()[0])
    @software{quotax,
    """
    return ENTRY.format(version=version())


def version() -> str:
    """The version that is installed."""
    try:
        return installed("quotax")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0+unknown"

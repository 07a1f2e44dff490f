"""How to cite quotax."""

from __future__ import annotations

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
    from quotax import __version__

    return ENTRY.format(version=__version__)

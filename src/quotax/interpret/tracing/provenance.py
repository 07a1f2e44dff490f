"""Where in the user's file an equation was written. The one module of `interpret` that reads JAX's internals."""

from __future__ import annotations

import contextlib
import functools
import os
import sys

from jax.extend.core import JaxprEqn

_HERE = os.path.dirname(os.path.dirname(__file__))


def place(equation: JaxprEqn) -> str | None:
    """`package/module.py:line (in function)` of the innermost frame that is the user's; None if there is none.

    JAX has no public accessor for an equation's traceback, so this must never be a reason to fail.
    """
    try:
        from jax._src import source_info_util

        for frame in source_info_util.user_frames(equation.source_info.traceback):
            if not frame.file_name.startswith(_HERE):
                return f"{_as_imported(frame.file_name)}:{frame.start_line} (in `{frame.function_name}`)"
    except Exception:  # an internal that moved: the message loses its place, nothing else
        return None
    return None


@functools.lru_cache(maxsize=256)
def _as_imported(file: str) -> str:
    """A file below the folder that it is imported from, so that a certificate reads the same on every machine."""
    if not os.path.isabs(file):
        return file
    roots = [os.path.join(os.path.abspath(root), "") for root in sys.path]
    return min((file.removeprefix(r) for r in roots if file.startswith(r)), key=len, default=os.path.basename(file))


def written_at(equation: JaxprEqn) -> contextlib.AbstractContextManager[object]:
    """A context in which what is traced carries the place of this equation: rewriting keeps the user's lines."""
    try:
        from jax._src import source_info_util

        return source_info_util.user_context(equation.source_info.traceback)
    except Exception:  # as above
        return contextlib.nullcontext()

"""Linear algebra of small matrices on one thread."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with NumPy's and SciPy's linear algebra on one thread; what it was before comes back afterwards.

    A host that decides between two programs multiplies small matrices. On several threads that is no faster, and these
    go on spinning for a while when they are done, on the processors where XLA computes the next gradient: with few of
    them a search takes up to ten times as long.
    """

    @functools.wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return alone


@functools.cache
def _libraries() -> Any:
    """The libraries that are loaded; looking for them takes milliseconds."""
    import scipy.linalg.cython_lapack  # noqa: F401  JAX's own decompositions run in SciPy's library
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

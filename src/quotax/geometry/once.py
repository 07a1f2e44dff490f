"""Programs that run a few times at every point, so that compiling them is most of what they cost."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from quotax.compiling import QUICK
from quotax.geometry.vectors import traced


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of a static first argument, quickly; inside of another program it is compiled as that is."""
    within = jax.jit(function, static_argnums=0)
    alone = jax.jit(function, static_argnums=0, compiler_options=QUICK)

    @functools.wraps(function)
    def run(static: Any, *arguments: Any) -> Any:
        known = dict(enumerate(jax.tree.leaves(arguments)))
        return (within if traced(known) else alone)(static, *arguments)

    return run

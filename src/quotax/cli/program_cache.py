"""Compiled programs, kept between runs in the user's cache folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def keep_programs() -> None:
    """Keep compiled programs in the user's cache folder, unless JAX has been given another."""
    import jax

    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "quotax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def cache_folder() -> Path:
    """Where programs keep what can be made again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")

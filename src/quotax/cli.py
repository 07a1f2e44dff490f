"""The command line: `quotax demo`, `quotax list`, `quotax --version`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; results go to standard output, progress to standard error."""
    parser = argparse.ArgumentParser(
        prog="quotax",
        description="Divide a neural network's parameter space by its symmetries, and measure what is left.",
    )
    parser.add_argument("--version", action="version", version=f"quotax {_version()}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo", help="train two small networks on scikit-learn's digits, prove their symmetries, compare sharpness"
    )
    demo.add_argument("--quiet", action="store_true", help="no progress on standard error")
    demo.add_argument("--no-cache", action="store_true", help="keep no compiled programs for the next time")
    known = commands.add_parser("list", help="the catalogue of architectures, with the symmetries that each must have")
    known.add_argument("names", nargs="*", help="entries, or files with all of their entries; all when there are none")
    known.add_argument("--facts", action="store_true", help="derive each now: families, audits, scope, seconds")
    options = parser.parse_args(arguments)
    # Before NumPy and SciPy are loaded. On few cores the threads of BLAS and XLA wait for one another, and the matrices
    # of the demonstration are small: `derive` alone takes half the processor time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if options.command == "list":
        return _list(options.names, options.facts)
    from quotax.report import demonstrate

    if not options.no_cache:
        keep_programs()
    demonstrate(progress=(lambda line: None) if options.quiet else _progress)
    return 0


def _list(names: Sequence[str], facts: bool) -> int:
    from quotax.errors import QuotaxError
    from quotax.report import listing

    try:
        listing(names, facts=facts, show=lambda line: print(line, flush=True))
    except QuotaxError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


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


def _progress(line: str) -> None:
    print(f"... {line}", file=sys.stderr, flush=True)


def _version() -> str:
    from quotax import __version__

    return __version__

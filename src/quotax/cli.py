"""The command line: `quotax demo`, `quotax --version`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from quotax.report import demonstrate


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; results go to standard output, progress to standard error."""
    parser = argparse.ArgumentParser(
        prog="quotax", description="Divide a neural network's parameter space by its symmetries, and measure what is left."
    )
    parser.add_argument("--version", action="version", version=f"quotax {_version()}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo", help="train two small networks on scikit-learn's digits, prove their symmetries, compare sharpness"
    )
    demo.add_argument("--quiet", action="store_true", help="no progress on standard error")
    options = parser.parse_args(arguments)
    demonstrate(progress=(lambda line: None) if options.quiet else _progress)
    return 0


def _progress(line: str) -> None:
    print(f"... {line}", file=sys.stderr, flush=True)


def _version() -> str:
    from quotax import __version__

    return __version__

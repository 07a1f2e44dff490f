"""The commands and what they take. What a command needs is imported when it runs: `quotax --help` imports no JAX."""

from quotax.cli.commands import (  # each command belongs to `app` once it is imported
    of_networks,
    of_pages,
    of_symmetries,
)
from quotax.cli.commands.application import app

__all__ = ["app", "of_networks", "of_pages", "of_symmetries"]

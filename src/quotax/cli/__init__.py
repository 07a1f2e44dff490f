"""The command line, on the public interface alone: what it can do, `import quotax` can."""

from quotax.cli.running import main

__all__ = ["main"]

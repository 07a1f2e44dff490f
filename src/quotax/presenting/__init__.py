"""How results and waits look to people: results themselves, plain tables, axes of pictures, what is said meanwhile."""

from quotax.presenting.results import Json, Result, plain, shown

__all__ = ["Json", "Result", "plain", "shown"]

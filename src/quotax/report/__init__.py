"""What people look at: the catalogue as a table, and the demonstration."""

from quotax.report.demo import demonstrate
from quotax.report.listing import listing

__all__ = ["demonstrate", "listing"]

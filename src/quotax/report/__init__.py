"""What people look at: the catalogue as a table, and the demonstration."""

from quotax.report.demo import demonstrate
from quotax.report.listing import entries, listing

__all__ = ["demonstrate", "entries", "listing"]

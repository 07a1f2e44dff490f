"""What people look at: tables and the demonstration."""

from quotax.report.demo import demonstrate
from quotax.report.table import table

__all__ = ["demonstrate", "table"]

"""What people look at: the page about a model, the catalogue as a table, and the demonstration."""

from quotax.report.demo import demonstrate
from quotax.report.listing import entries, listing
from quotax.report.page import Report, report

__all__ = ["Report", "demonstrate", "entries", "listing", "report"]

"""The report: one page of HTML about a model, its proofs and its measures, on the public interface alone."""

from quotax.report.page.reporting import Report, report

__all__ = ["Report", "report"]

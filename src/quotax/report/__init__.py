"""What people look at: the demonstration."""

from quotax.report.demo import demonstrate

__all__ = ["demonstrate"]

"""The quotient manifold: vertical and horizontal spaces, metrics, and the geomstats objects."""

from quotax.geometry.families.compact import unusable
from quotax.geometry.families.roles import without_frame
from quotax.geometry.metrics.names import METRICS, choose, suspects
from quotax.geometry.point import Point
from quotax.geometry.space import QuotientSpace, Representative

__all__ = ["METRICS", "Point", "QuotientSpace", "Representative", "choose", "suspects", "unusable", "without_frame"]

"""The quotient manifold: vertical and horizontal spaces, metrics, and the geomstats objects."""

from quotax.geometry.space import Point, QuotientSpace

__all__ = ["Point", "QuotientSpace"]

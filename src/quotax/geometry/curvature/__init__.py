"""Curvature of the quotient, and parallel transport."""

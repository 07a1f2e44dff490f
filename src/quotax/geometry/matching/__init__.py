"""Two points of a quotient: alignment, distance and logarithm."""

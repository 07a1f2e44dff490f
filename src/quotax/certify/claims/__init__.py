"""Claims other than invariance, each made a model of its own: equivariance, metrics, measures, vector fields."""

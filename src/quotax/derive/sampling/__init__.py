"""Exact samples of a model at small sizes, and linear algebra of what they say."""

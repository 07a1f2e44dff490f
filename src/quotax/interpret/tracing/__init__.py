"""A jaxpr of a model, at sizes that are given, that stay symbols, or that keep its axes apart."""

"""Proofs and refutations of what a symmetry claims."""

from quotax.certify.claims.equivariance import certify_equivariance, probed_model
from quotax.certify.claims.function_model import FunctionModel
from quotax.certify.claims.metric_and_measure import certify_measure, certify_metric
from quotax.certify.claims.vector_field import certify_field
from quotax.certify.coverage import Coverage, coverage
from quotax.certify.ladder import certify, certify_alike, recalled
from quotax.certify.stated_widths import certify_at_widths

__all__ = [
    "Coverage",
    "FunctionModel",
    "certify",
    "certify_alike",
    "certify_at_widths",
    "certify_equivariance",
    "certify_field",
    "certify_measure",
    "certify_metric",
    "coverage",
    "probed_model",
    "recalled",
]

"""Proofs and refutations of what a symmetry claims."""

from quotax.certify.coverage import Coverage, coverage
from quotax.certify.derived import FunctionModel, certify_measure, certify_metric
from quotax.certify.equivariance import certify_equivariance, probed_model
from quotax.certify.exact import certify_at_widths
from quotax.certify.velocity import certify_field
from quotax.certify.verification import certify

__all__ = [
    "Coverage",
    "FunctionModel",
    "certify",
    "certify_at_widths",
    "certify_equivariance",
    "certify_field",
    "certify_measure",
    "certify_metric",
    "coverage",
    "probed_model",
]

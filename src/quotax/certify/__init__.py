"""Proofs and refutations of what a symmetry claims."""

from quotax.certify.exact import certify_at_widths
from quotax.certify.verification import certify

__all__ = ["certify", "certify_at_widths"]

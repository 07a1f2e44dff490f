"""Proofs and refutations of what a symmetry claims."""

from quotax.certify.exact import certify_at_widths

__all__ = ["certify_at_widths"]

"""Derive: the symmetries that nobody wrote down, from exact samples of a model's derivatives."""

from quotax.derive.audit import Audit as Audit
from quotax.derive.derivation import derive as derive
from quotax.derive.group import SymmetryGroup as SymmetryGroup
from quotax.derive.structure import Structure as Structure

__all__ = ["derive", "SymmetryGroup", "Audit", "Structure"]

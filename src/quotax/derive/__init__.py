"""Derive: the symmetries that nobody wrote down, from exact samples of a model's derivatives."""

from quotax.derive.derivation import derive as derive
from quotax.derive.derivation import load as load
from quotax.derive.found.audit import Audit as Audit
from quotax.derive.found.lie_algebra import Structure as Structure
from quotax.derive.found.symmetry_group import SymmetryGroup as SymmetryGroup
from quotax.derive.sampling.small_sizes import completed as completed

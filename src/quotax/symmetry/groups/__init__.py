"""The groups that act on parameters, one file each; what all of them say of themselves is stated in `base`."""

from quotax.symmetry.groups.base import Freedom, Group, Layout
from quotax.symmetry.groups.complex_scaling import ComplexScaling
from quotax.symmetry.groups.diagonal import Diagonal, PositiveDiagonal, PositiveScalar
from quotax.symmetry.groups.discrete import Permutation, SignFlip
from quotax.symmetry.groups.fixing_centred import FixingCentred
from quotax.symmetry.groups.fixing_ones import OFixingOnes
from quotax.symmetry.groups.general_linear import GL
from quotax.symmetry.groups.orthogonal import O
from quotax.symmetry.groups.pair_scaling import PairScaling
from quotax.symmetry.groups.translation import Translation

__all__ = [
    "GL",
    "ComplexScaling",
    "Diagonal",
    "FixingCentred",
    "Freedom",
    "Group",
    "Layout",
    "O",
    "OFixingOnes",
    "PairScaling",
    "Permutation",
    "PositiveDiagonal",
    "PositiveScalar",
    "SignFlip",
    "Translation",
]

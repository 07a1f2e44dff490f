"""Groups, actions and the small language that states them."""

from quotax.symmetry.gains import Gain, gain_of, reads, without
from quotax.symmetry.groups import (
    GL,
    ComplexScaling,
    Diagonal,
    Freedom,
    Group,
    O,
    OFixingOnes,
    Permutation,
    PositiveDiagonal,
    PositiveScalar,
    SignFlip,
    Translation,
)
from quotax.symmetry.language import ELEMENT, INVERSE, TANGENT, Entry, variable, written
from quotax.symmetry.reading import OBJECTS, Arrays, read
from quotax.symmetry.symmetry import Action, Symmetry
from quotax.symmetry.terms import Term

__all__ = [
    "ELEMENT",
    "GL",
    "INVERSE",
    "OBJECTS",
    "TANGENT",
    "Action",
    "Arrays",
    "ComplexScaling",
    "Diagonal",
    "Entry",
    "Freedom",
    "Gain",
    "Group",
    "O",
    "OFixingOnes",
    "Permutation",
    "PositiveDiagonal",
    "PositiveScalar",
    "SignFlip",
    "Symmetry",
    "Term",
    "Translation",
    "gain_of",
    "read",
    "reads",
    "variable",
    "without",
    "written",
]

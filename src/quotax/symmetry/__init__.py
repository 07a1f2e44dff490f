"""Groups, actions and the small language that states them."""

from quotax.symmetry.evaluation import transformed, velocity
from quotax.symmetry.family import Family, Programs
from quotax.symmetry.gains import Gain, gain_of, reads, without
from quotax.symmetry.groups import (
    GL,
    ComplexScaling,
    Diagonal,
    FixingCentred,
    Freedom,
    Group,
    O,
    OFixingOnes,
    PairScaling,
    Permutation,
    PositiveDiagonal,
    PositiveScalar,
    SignFlip,
    Translation,
)
from quotax.symmetry.new_entries.general_entries import ELEMENT, INVERSE, Entry, variable
from quotax.symmetry.new_entries.reading import FLOATS, OBJECTS, Arrays
from quotax.symmetry.symmetry import Action, Symmetry
from quotax.symmetry.terms import Term

__all__ = [
    "ELEMENT",
    "FLOATS",
    "GL",
    "INVERSE",
    "OBJECTS",
    "Action",
    "Arrays",
    "ComplexScaling",
    "Diagonal",
    "Entry",
    "Family",
    "FixingCentred",
    "Freedom",
    "Gain",
    "Group",
    "O",
    "OFixingOnes",
    "PairScaling",
    "Permutation",
    "PositiveDiagonal",
    "PositiveScalar",
    "Programs",
    "SignFlip",
    "Symmetry",
    "Term",
    "Translation",
    "gain_of",
    "reads",
    "transformed",
    "variable",
    "velocity",
    "without",
]

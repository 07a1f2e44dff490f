"""The laws domain: how each tensor of a model transforms when the parameters do, for every width."""

from quotax.interpret.laws.algebra import Algebra as Algebra
from quotax.interpret.laws.algebra import TooLarge as TooLarge
from quotax.interpret.laws.elements import Element as Element
from quotax.interpret.laws.lemmas import Lemmas as Lemmas
from quotax.interpret.laws.lockstep import LawMissing as LawMissing
from quotax.interpret.laws.lockstep import StructureDiffers as StructureDiffers
from quotax.interpret.laws.lockstep import read_together as read_together
from quotax.interpret.laws.reading import Laws as Laws
from quotax.interpret.laws.tensors import Constant as Constant
from quotax.interpret.laws.tensors import Tensor as Tensor

__all__ = [
    "Algebra",
    "Constant",
    "Element",
    "LawMissing",
    "Laws",
    "Lemmas",
    "StructureDiffers",
    "Tensor",
    "TooLarge",
    "read_together",
]

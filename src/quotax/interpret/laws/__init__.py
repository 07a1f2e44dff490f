"""A trace written out in index notation: what each primitive computes, for every size."""

from quotax.interpret.laws.rules import RULES
from quotax.interpret.laws.tensors import NoLaw
from quotax.interpret.laws.writing import write_sheet

__all__ = ["RULES", "NoLaw", "write_sheet"]

"""Models that exist already: plain functions, Equinox modules, Flax modules."""

from quotax.declare.brought.any_function import from_function
from quotax.declare.brought.brought_model import Brought
from quotax.declare.brought.equinox_modules import from_equinox
from quotax.declare.brought.flax_modules import from_flax

__all__ = ["Brought", "from_equinox", "from_flax", "from_function"]

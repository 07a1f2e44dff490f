"""Symmetries of data: groups that act on inputs, and the layers that respect them."""

from quotax.data_symmetry.equivariant import EquivariantMaps as EquivariantMaps
from quotax.data_symmetry.equivariant import equivariant_maps as equivariant_maps
from quotax.data_symmetry.representation import Representation as Representation

"""Symmetries of data: groups that act on inputs, and the layers that respect them."""

from quotax.data_symmetry.augmentation import AugmentationCheck as AugmentationCheck
from quotax.data_symmetry.augmentation import Augmented as Augmented
from quotax.data_symmetry.augmentation import augmented as augmented
from quotax.data_symmetry.equivariant import EquivariantMaps as EquivariantMaps
from quotax.data_symmetry.equivariant import equivariant_maps as equivariant_maps
from quotax.data_symmetry.representation import Representation as Representation

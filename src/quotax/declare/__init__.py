"""Declaring models: axes, sizes, initialisation, and the same as files."""

from quotax.declare.architecture import Architecture, architecture
from quotax.declare.axes import Mask, Positive, Tokens
from quotax.declare.brought import Brought, from_equinox, from_flax, from_function
from quotax.declare.model_files.model_file import ModelFile
from quotax.declare.network import Network

__all__ = [
    "Architecture",
    "Brought",
    "Mask",
    "ModelFile",
    "Network",
    "Positive",
    "Tokens",
    "architecture",
    "from_equinox",
    "from_flax",
    "from_function",
]

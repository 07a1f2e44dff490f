"""What a file declares, of whatever kind it is."""

from __future__ import annotations

from typing import NamedTuple

from quotax.declare.architecture import Architecture
from quotax.symmetry import Symmetry


class ModelFile(NamedTuple):
    """What a file declares: a model, the symmetries stated for it, and sizes, if it has any.

    Of a Python module the symmetries are all that stand in it, for whichever model they were stated.
    """

    architecture: Architecture
    symmetries: tuple[Symmetry, ...]
    sizes: dict[str, int]

"""The frozen records that stages hand to each other.

Stages do not import one another; what they exchange is defined here and nowhere else.
"""

from quotax.artifacts.array_specs import ArraySpec, AxisFactor, Cut
from quotax.artifacts.axis_sizes import completed, settled, sizes_text
from quotax.artifacts.certificate import Certificate, Status
from quotax.artifacts.covered_sizes import CoveredSizes, covered_text
from quotax.artifacts.held_arrays import HeldArray
from quotax.artifacts.traces import Model, OpenTrace, Trace
from quotax.artifacts.witness import Witness

__all__ = [
    "ArraySpec",
    "AxisFactor",
    "Certificate",
    "CoveredSizes",
    "Cut",
    "HeldArray",
    "Model",
    "OpenTrace",
    "Status",
    "Trace",
    "Witness",
    "completed",
    "covered_text",
    "settled",
    "sizes_text",
]

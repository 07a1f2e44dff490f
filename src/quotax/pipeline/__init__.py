"""The only place that wires stages together: declared models and symmetries in, certified geometry and numbers out."""

from quotax.pipeline.counterparts import Counterparts, counterparts
from quotax.pipeline.deriving import derive
from quotax.pipeline.dividing import quotient
from quotax.pipeline.files import load, load_symmetries, save
from quotax.pipeline.verifying import (
    coverage,
    verify,
    verify_equivariance,
    verify_field,
    verify_invariant,
    verify_metric,
)

__all__ = [
    "Counterparts",
    "counterparts",
    "coverage",
    "derive",
    "load",
    "load_symmetries",
    "quotient",
    "save",
    "verify",
    "verify_equivariance",
    "verify_field",
    "verify_invariant",
    "verify_metric",
]

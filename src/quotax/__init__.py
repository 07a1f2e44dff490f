"""quotax: divide a neural network's parameter space by its symmetries, and measure what is left."""

from importlib.metadata import PackageNotFoundError, version

from quotax.artifacts import Certificate, Witness
from quotax.declare import Architecture, Mask, Network, Tokens, architecture
from quotax.derive import Audit, SymmetryGroup
from quotax.errors import (
    ArchitectureError,
    ConvergenceError,
    DomainError,
    GeometryError,
    InvarianceError,
    MetricWarning,
    ParameterError,
    QuotaxError,
    SharpnessError,
    SymmetryError,
    UnsupportedPrimitiveError,
)
from quotax.geometry import QuotientSpace
from quotax.pipeline import (
    coverage,
    derive,
    quotient,
    verify,
    verify_equivariance,
    verify_field,
    verify_invariant,
    verify_metric,
)
from quotax.sharpness import (
    average_sharpness,
    compare,
    gradient_norm,
    horizontal,
    profile,
    sam,
    sharpness,
    spectrum,
    trace,
)
from quotax.symmetry import (
    GL,
    ComplexScaling,
    Diagonal,
    O,
    Permutation,
    PositiveDiagonal,
    PositiveScalar,
    SignFlip,
    Symmetry,
    Translation,
)

try:
    __version__ = version("quotax")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"

__all__ = [
    "GL",
    "Architecture",
    "ArchitectureError",
    "Audit",
    "Certificate",
    "ComplexScaling",
    "ConvergenceError",
    "Diagonal",
    "DomainError",
    "GeometryError",
    "InvarianceError",
    "Mask",
    "MetricWarning",
    "Network",
    "O",
    "ParameterError",
    "Permutation",
    "PositiveDiagonal",
    "PositiveScalar",
    "QuotaxError",
    "QuotientSpace",
    "SharpnessError",
    "SignFlip",
    "Symmetry",
    "SymmetryError",
    "SymmetryGroup",
    "Tokens",
    "Translation",
    "UnsupportedPrimitiveError",
    "Witness",
    "architecture",
    "average_sharpness",
    "compare",
    "coverage",
    "derive",
    "gradient_norm",
    "horizontal",
    "profile",
    "quotient",
    "sam",
    "sharpness",
    "spectrum",
    "trace",
    "verify",
    "verify_equivariance",
    "verify_field",
    "verify_invariant",
    "verify_metric",
]

"""Exceptions: every message says what was given, why it cannot be, and what to try.

Static mistakes are `ValueError` subclasses, so that callers who do not know quotax can still catch them.
"""


class QuotaxError(Exception):
    """Base of every exception that quotax raises on purpose."""


class ArchitectureError(QuotaxError, ValueError):
    """A declaration, a size or a parameter tree that does not describe a network."""

    whatever_sizes = False
    """Whether a model that cannot be traced would be refused at any other sizes too."""


class SymmetryError(QuotaxError, ValueError):
    """A group or an action that does not fit the parameters it is said to act on."""


class UnsupportedPrimitiveError(QuotaxError, ValueError):
    """A JAX primitive without a row in the primitive table."""


class ParameterError(QuotaxError, ValueError):
    """Parameter values that cannot be used: wrong shapes, NaN or infinity."""


class GeometryError(QuotaxError, ValueError):
    """A quotient that cannot be built, or a question that the metric in use cannot answer."""


class InvarianceError(GeometryError):
    """Something that only an invariant metric has: a distance, a curvature, a geodesic of the quotient."""


class MetricWarning(UserWarning):
    """A quotient whose metric is not invariant: it measures at one representative, not on the quotient."""


class SharpnessError(QuotaxError, ValueError):
    """A sharpness measurement that is asked for with arguments that make no sense."""


class FunctionSpaceError(QuotaxError, ValueError):
    """A question about a network's outputs that is asked with arguments that make no sense."""


class ComplexityError(QuotaxError, ValueError):
    """A complexity measure that is not defined for this network, or for these examples."""


class DiscretisationError(QuotaxError, ValueError):
    """A question about steps of finite size that is asked with arguments that make no sense."""


class LandscapeError(QuotaxError, ValueError):
    """A question about orbits, noise or paths that is asked with arguments that make no sense."""


class ConvergenceError(QuotaxError, ArithmeticError):
    """An iteration that did not reach its goal; the message says how far it came."""


class DomainError(QuotaxError, ArithmeticError):
    """A path that leaves the manifold; `exit_time` says when."""

    def __init__(self, message: str, exit_time: float) -> None:
        """Keep the exit time beside the message."""
        super().__init__(message)
        self.exit_time = exit_time

"""From SymPy to JAX: actions and their derivatives as compiled functions of named arrays."""

from quotax.lower.actions import LoweredAction, lower_action

__all__ = ["LoweredAction", "lower_action"]

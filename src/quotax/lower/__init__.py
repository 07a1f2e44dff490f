"""From SymPy to JAX: actions and their derivatives as compiled functions of named arrays."""

from quotax.lower.actions import lower_action as lower_action

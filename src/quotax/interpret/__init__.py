"""The primitive table and its domains: one trace of a model, many readings."""

from quotax.interpret.expressions import symbolic_outputs as symbolic_outputs
from quotax.interpret.expressions import symbols_for as symbols_for
from quotax.interpret.interpreter import evaluate as evaluate
from quotax.interpret.symbolic.domain import SYMBOLIC as SYMBOLIC
from quotax.interpret.tracing.fixed_sizes import trace as trace
from quotax.interpret.tracing.symbolic_sizes import open_trace as open_trace

__all__ = ["trace", "open_trace", "evaluate", "SYMBOLIC", "symbols_for", "symbolic_outputs"]
